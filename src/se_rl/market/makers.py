"""Market makers: where they quote, and how many lots.

Plain Python that `make_kernel` compiles with the book; `t` is the profile's row of numbers.
"""

from __future__ import annotations

from se_rl.market.kernel import cancel, limit
from se_rl.market.layout import own_functions
from se_rl.market.participants import (
    EXTRA_LOTS,
    EXTRA_SPREAD,
    FIRST_MAKER,
    FOLLOWED,
    FORGET_DIVISOR,
    HALF_SPREAD,
    IMBALANCE_SHIFT,
    LAG_DIVISOR,
    LEANING_LEVELS,
    LEVELS,
    LONGEST_SKEW,
    LOTS,
    MAKER_STREAM,
    MAKERS,
    MAX_LEVELS,
    MEMORY,
    MESSAGES,
    PRESSURE,
    PRESSURE_LEAN,
    PRESSURE_SHIFT,
    QUOTE,
    REFERENCE,
    SEEN_SHARES,
    SKEW,
    STRESS_DEPTH,
    STRESS_SPREAD,
    STRESSED,
    VALUE,
    Array,
    Sim,
)
from se_rl.market.price_levels import (
    BUY,
    ID,
    OWNER,
    PRICE,
    QUANTITY,
    SELL,
    SHARES,
    Book,
)
from se_rl.market.profile import FIXED
from se_rl.market.trading import draw, imbalance, part


def maker_wakes(book: Book, sim: Sim, b: int, t: Array) -> None:
    """A maker brings its quotes to where value, inventory, imbalance and regime want them."""
    m = draw(sim, b, MAKER_STREAM) % t[MAKERS]
    state = sim.state
    shares = book.owners[b, FIRST_MAKER + m, SHARES]
    # memory = (memory + shares gained) * (1 - 1 / forget), in 1/FIXED lots
    memory = state[b, MEMORY + m] + (shares - state[b, SEEN_SHARES + m]) * FIXED
    memory -= part(memory, t[FORGET_DIVISOR])
    state[b, MEMORY + m] = memory
    state[b, SEEN_SHARES + m] = shares
    # reference += (value - reference) / lag
    gap = state[b, VALUE] - state[b, REFERENCE + m]
    state[b, REFERENCE + m] += part(gap * 16, t[LAG_DIVISOR])
    held = min(abs(memory) // FIXED, LONGEST_SKEW - 1)
    shift = t[SKEW + held]
    centre = state[b, REFERENCE + m] + (-shift if memory > 0 else shift)
    centre += part(imbalance(book, b) * t[IMBALANCE_SHIFT], 1024)
    centre += part(state[b, FOLLOWED] * t[PRESSURE_SHIFT], FIXED)
    half = t[HALF_SPREAD] + state[b, EXTRA_SPREAD] + (t[STRESS_SPREAD] if state[b, STRESSED] else 0)
    # floor for the bid, ceiling for the ask: rounding never narrows the quote
    bid, ask = (centre - half) // FIXED, -((-centre - half) // FIXED)
    quote(book, sim, b, m, BUY, bid, t)
    quote(book, sim, b, m, SELL, ask, t)


def quote(book: Book, sim: Sim, b: int, m: int, side: int, best_price: int, t: Array) -> None:
    """Hold lots on each of the LEVELS prices from the best one outwards.

    Only what differs is touched: an order's place in QUOTE is its price modulo the levels, so that
    a moved quote keeps the orders it shares with the old one. A new quote that meets the maker's
    own old one on the other side makes the book withdraw that one.
    """
    orders, levels = book.orders, t[LEVELS]
    deep = lots_of_a_level(sim, b, t)
    near = leaned(sim, b, deep, side, t)
    sign, owner = 1 - 2 * side, FIRST_MAKER + m
    first = QUOTE + (2 * m + side) * MAX_LEVELS
    residue = best_price % levels
    for j in range(levels):
        lots = near if j < LEANING_LEVELS else deep
        price, place = best_price - j * sign, first + residue
        residue -= sign  # the next price's, without a division for each
        if residue < 0:
            residue = levels - 1
        elif residue == levels:
            residue = 0
        slot = int(sim.state[b, place])
        if is_quote(book, b, slot, side, owner):
            same = orders[b, slot, PRICE] == price
            if same and orders[b, slot, QUANTITY] == lots:
                continue
            # a filled order's slot may serve a new one of this very quote, which has another place
            if same or (orders[b, slot, PRICE] - price) % levels == 0:
                sim.state[b, MESSAGES] += 1
                cancel(book, b, slot, 0)
        sim.state[b, MESSAGES] += 1
        sim.state[b, place] = limit(book, b, side, price, lots, owner, 1 + side)


def is_quote(book: Book, b: int, slot: int, side: int, owner: int) -> bool:
    """Whether a maker's order of this side still rests in a slot that it noted."""
    orders = book.orders
    return (
        slot >= 0
        and orders[b, slot, OWNER] == owner
        and orders[b, slot, ID] == 1 + side
        and orders[b, slot, QUANTITY] > 0
    )


def lots_of_a_level(sim: Sim, b: int, t: Array) -> int:
    """The lots that a maker shows on each level: fewer under stress."""
    lots = t[LOTS] + sim.state[b, EXTRA_LOTS]
    return max(1, lots * t[STRESS_DEPTH] // 1024) if sim.state[b, STRESSED] else lots


def leaned(sim: Sim, b: int, lots: int, side: int, t: Array) -> int:
    """The lots near the touch: more on the side where the pressure lies, fewer on the other."""
    lean = part(sim.state[b, PRESSURE] * t[PRESSURE_LEAN], FIXED)  # 1/1024
    return max(1, lots + part(lots * min(max(lean, -1024), 1024) * (1 - 2 * side), 1024))


FUNCTIONS = own_functions(globals())
