"""Who trades in the simulated market: noise, makers, informed and momentum traders, hidden parents, and the news.

Plain Python that `make_kernel` compiles with the book. Each participant draws from a stream of its own, a fixed number of
draws per event and whatever the book looks like: with the same seed but without the agents' orders everybody draws the
same, which makes own impact a difference of two runs. Everything is in integers (values in 1/FIXED ticks), so that a
market is the same to the last bit on every device.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from se_rl.market.kernel import cancel, limit, market, replace
from se_rl.market.price_levels import (
    BASE,
    BUY,
    CASH,
    FAR,
    ID,
    NOTIONAL,
    OWNER,
    PRICE,
    QUANTITY,
    QUEUED,
    SELL,
    SHARES,
    SIDE,
    TOUCH,
    VOLUME,
    Book,
    mid_x2,
)
from se_rl.market.profile import (
    CALM_BELOW,
    CANCEL_BELOW,
    DRAWS,
    FAT_TAIL,
    FIXED,
    FORGET_DIVISOR,
    HALF_SPREAD,
    IMBALANCE_SHIFT,
    IMBALANCE_TILT,
    INFORMED_BELOW,
    INFORMED_NOISE,
    INFORMED_THRESHOLD,
    LAG_DIVISOR,
    LEARN_DIVISOR,
    LENGTHS,
    LEVELS,
    LIMIT_BELOW,
    LIMIT_TICKS,
    LONGEST_SKEW,
    LOTS,
    MAKER_BELOW,
    MAKERS,
    MARKET_BELOW,
    MAX_LEVELS,
    MAX_MAKERS,
    MOMENTUM_BELOW,
    MOMENTUM_DIVISOR,
    MOMENTUM_THRESHOLD,
    NEWS_STEP,
    NORMAL,
    NORMALS,
    PARENT_BELOW,
    PARENTS,
    SIZES,
    SKEW,
    STRESS_BELOW,
    STRESS_SPREAD,
    STRESS_VOLATILITY,
    VOL_DIVISOR,
    VOL_STEP,
    VOLATILITIES,
    VOLATILITY,
)

Array = npt.NDArray[Any]

NOISE, FIRST_MAKER, INFORMED, MOMENTUM, FIRST_AGENT = 0, 1, 4, 5, 6
"""Owner accounts in the book; makers take 1 to 3, executing agents 6 and up."""
CLOCK, NOISE_STREAM, MAKER_STREAM, INFORMED_STREAM, MOMENTUM_STREAM, NEWS_STREAM, STREAMS = range(7)
VALUE, NEWS, TREND, LOG_VOLATILITY, STRESSED, PROFILE, BROKEN = range(7)
SIGNED_VOLUME, MESSAGES, TRADED, TRADED_CASH, BAR_OPEN, BAR_HIGH, BAR_LOW, LAST_MID = range(7, 15)
REFERENCE, MEMORY, SEEN_SHARES, STREAM, EXTRA_SPREAD, EXTRA_LOTS, PARENT = (
    15,
    18,
    21,
    24,
    31,
    32,
    33,
)
QUOTE = PARENT + 2 * PARENTS
AGENT_SLOT = STATE_FIELDS = QUOTE + MAX_MAKERS * 2 * MAX_LEVELS
"""Fields of `state`: the public value, the sum of news and the slow mean of the mid (1/FIXED ticks), log volatility
(1/FIXED), the regime, the profile's row, whether a side of the book was empty at a bar's end; of the last bar the signed
and whole volume, messages, cash traded and mids (twice, in ticks); per maker its reference (1/FIXED ticks), decaying
inventory (1/FIXED lots), and the shares it had when it last woke; the random streams; what a twin adds to the makers'
half-spread (1/FIXED ticks) and to their lots a level; the hidden parents (slices left,
side); the slots of the makers' orders by maker, side and price modulo levels; the slots of the agents' orders."""
ANSWERED, PASSIVE, SPENT, RESTING = 0, 1, 2, 3
"""Fields of `answers` [book, agent]: lots filled in the bar, of these passively, cash in ticks x lots, lots still resting."""
NO_ORDER, TAKE, POST = 0, 1, 2
"""Kinds of wishes [book, agent]: nothing (a resting order is withdrawn), a market order, a limit order."""
KIND, WISH_SIDE, WISH_PRICE, WISH_LOTS = 0, 1, 2, 3


class Sim(NamedTuple):
    """B markets beside their books: few arrays, because every array argument costs compile and call time."""

    state: Array  # [B, STATE_FIELDS + agents] int64; the last entries are the slots of the agents' resting orders
    numbers: Array  # [profiles, NUMBERS] int64: parameters and tables, laid out in profile.py


def draw(sim: Sim, b: int, stream: int) -> int:
    """The next draw of a stream, in [0, 2**31)."""
    x = sim.state[b, STREAM + stream]
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    x ^= (x << 5) & 0xFFFFFFFF
    sim.state[b, STREAM + stream] = x
    return x >> 1


def part(whole: int, divisor: int) -> int:
    """Division that rounds towards zero: floor division would push every value a little downwards."""
    return whole // divisor if whole >= 0 else -(-whole // divisor)


def act(book: Book, sim: Sim, b: int) -> None:
    """One event: who acts is drawn from the clock's stream."""
    r = draw(sim, b, CLOCK)
    t = sim.numbers[sim.state[b, PROFILE]]
    if r < t[MARKET_BELOW]:
        noise_market(book, sim, b, t)
    elif r < t[LIMIT_BELOW]:
        noise_limit(book, sim, b, t)
    elif r < t[CANCEL_BELOW]:
        noise_cancel(book, sim, b)
    elif r < t[MAKER_BELOW]:
        maker_wakes(book, sim, b, t)
    elif r < t[INFORMED_BELOW]:
        informed_looks(book, sim, b, t)
    elif r < t[MOMENTUM_BELOW]:
        momentum_looks(book, sim, b, t)
    else:
        news_arrives(book, sim, b, t)


def noise_market(book: Book, sim: Sim, b: int, t: Array) -> None:
    """A market order: a slice of a hidden parent order, or a loose one whose sign leans to the heavier side of the book."""
    which, sign_draw = draw(sim, b, NOISE_STREAM), draw(sim, b, NOISE_STREAM)
    size_draw, fresh = draw(sim, b, NOISE_STREAM), draw(sim, b, NOISE_STREAM)
    size = t[SIZES + size_draw % DRAWS]
    if which < t[PARENT_BELOW]:
        k = PARENT + 2 * (which % PARENTS)
        if sim.state[b, k] <= 0:
            sim.state[b, k] = t[LENGTHS + fresh % DRAWS]
            sim.state[b, k + 1] = sign_draw & 1
        sim.state[b, k] -= 1
        side = int(sim.state[b, k + 1])
    else:
        lean = part(
            imbalance(book, b) * t[IMBALANCE_TILT], 1024
        )  # 1024 = a one-sided book, followed fully
        side = BUY if (sign_draw & 2047) < 1024 + lean else SELL
    sim.state[b, MESSAGES] += 1
    market_order(book, sim, b, side, size, NOISE)


def market_order(book: Book, sim: Sim, b: int, side: int, size: int, owner: int) -> int:
    """Send a market order and count its signed volume."""
    filled = market(book, b, side, size, owner, 0)
    sim.state[b, SIGNED_VOLUME] += filled * (1 - 2 * side)
    return filled


def noise_limit(book: Book, sim: Sim, b: int, t: Array) -> None:
    """A limit order somewhere within reach of the opposite best."""
    where, side_draw = draw(sim, b, NOISE_STREAM), draw(sim, b, NOISE_STREAM)
    size_draw = draw(sim, b, NOISE_STREAM)
    side = side_draw & 1
    opposite = book.meta[b, TOUCH + 1 - side]
    sim.state[b, MESSAGES] += 1
    distance = 1 + where % t[LIMIT_TICKS]
    anchor = sim.state[b, VALUE] // FIXED if opposite == FAR else opposite * (1 - 2 * side)
    price = anchor - distance * (1 - 2 * side)
    size = t[SIZES + size_draw % DRAWS]
    limit(book, b, side, price, size, NOISE, 0)


def noise_cancel(book: Book, sim: Sim, b: int) -> None:
    """Look at one order slot and withdraw the order there if it is a noise trader's."""
    slot = draw(sim, b, NOISE_STREAM) % book.orders.shape[1]
    if book.orders[b, slot, QUANTITY] > 0 and book.orders[b, slot, OWNER] == NOISE:
        sim.state[b, MESSAGES] += 1
        cancel(book, b, slot, 0)


def maker_wakes(book: Book, sim: Sim, b: int, t: Array) -> None:
    """A maker brings its quotes to where value, inventory, imbalance and regime want them."""
    m = draw(sim, b, MAKER_STREAM) % t[MAKERS]
    state = sim.state
    shares = book.owners[b, FIRST_MAKER + m, SHARES]
    memory = state[b, MEMORY + m] + (shares - state[b, SEEN_SHARES + m]) * FIXED
    memory -= part(memory, t[FORGET_DIVISOR])
    state[b, MEMORY + m], state[b, SEEN_SHARES + m] = memory, shares
    state[b, REFERENCE + m] += part(
        (state[b, VALUE] - state[b, REFERENCE + m]) * 16, t[LAG_DIVISOR]
    )
    held = min(abs(memory) // FIXED, LONGEST_SKEW - 1)
    shift = t[SKEW + held]
    centre = state[b, REFERENCE + m] + (-shift if memory > 0 else shift)
    centre += part(imbalance(book, b) * t[IMBALANCE_SHIFT], 1024)
    half = t[HALF_SPREAD] + state[b, EXTRA_SPREAD] + (t[STRESS_SPREAD] if state[b, STRESSED] else 0)
    # floor for the bid, ceiling for the ask: rounding never narrows the quote
    bid, ask = (centre - half) // FIXED, -((-centre - half) // FIXED)
    quote(book, sim, b, m, BUY, bid, t)
    quote(book, sim, b, m, SELL, ask, t)


def quote(book: Book, sim: Sim, b: int, m: int, side: int, best_price: int, t: Array) -> None:
    """Hold exactly the same lots on each of the LEVELS prices from the best one outwards; touch only what differs.

    An order's place in `quotes` is its price modulo the levels, so that a moved quote keeps the orders it shares with the
    old one. A new quote that meets the maker's own old one on the other side makes the book withdraw that one.
    """
    orders, levels, lots = book.orders, t[LEVELS], t[LOTS] + sim.state[b, EXTRA_LOTS]
    sign, owner = 1 - 2 * side, FIRST_MAKER + m
    for j in range(levels):
        price = best_price - j * sign
        place = QUOTE + (2 * m + side) * MAX_LEVELS + price % levels
        slot = int(sim.state[b, place])
        mine = slot >= 0 and orders[b, slot, OWNER] == owner and orders[b, slot, ID] == 1 + side
        # a filled order's slot may serve a new one of this very quote: that one belongs to another place
        if (
            mine
            and orders[b, slot, QUANTITY] > 0
            and orders[b, slot, PRICE] % levels == price % levels
        ):
            if orders[b, slot, PRICE] == price and orders[b, slot, QUANTITY] == lots:
                continue
            sim.state[b, MESSAGES] += 1
            cancel(book, b, slot, 0)
        sim.state[b, MESSAGES] += 1
        sim.state[b, place] = limit(book, b, side, price, lots, owner, 1 + side)


def informed_looks(book: Book, sim: Sim, b: int, t: Array) -> None:
    """An informed trader compares the value, seen with an error, with the touch."""
    error, size_draw = draw(sim, b, INFORMED_STREAM), draw(sim, b, INFORMED_STREAM)
    seen = sim.state[b, VALUE] + part(t[INFORMED_NOISE] * t[NORMAL + error % NORMALS], 4096)
    size = t[SIZES + size_draw % DRAWS]
    ask, minus_bid = book.meta[b, TOUCH + SELL], book.meta[b, TOUCH + BUY]
    if ask != FAR and seen - ask * FIXED > t[INFORMED_THRESHOLD]:
        sim.state[b, MESSAGES] += 1
        market_order(book, sim, b, BUY, size, INFORMED)
    elif minus_bid != FAR and -minus_bid * FIXED - seen > t[INFORMED_THRESHOLD]:
        sim.state[b, MESSAGES] += 1
        market_order(book, sim, b, SELL, size, INFORMED)


def momentum_looks(book: Book, sim: Sim, b: int, t: Array) -> None:
    """A momentum trader goes with the mid where it has left its slow mean."""
    size_draw = draw(sim, b, MOMENTUM_STREAM)
    size = t[SIZES + size_draw % DRAWS]
    gap = mid_x2(book, b, sim.state[b, LAST_MID]) * FIXED // 2 - sim.state[b, TREND]
    if abs(gap) > t[MOMENTUM_THRESHOLD]:
        sim.state[b, MESSAGES] += 1
        market_order(book, sim, b, BUY if gap > 0 else SELL, size, MOMENTUM)


def news_arrives(book: Book, sim: Sim, b: int, t: Array) -> None:
    """The public value moves by news, learns from the mid, and volatility and regime move on."""
    state = sim.state
    size_draw, vol_draw = draw(sim, b, NEWS_STREAM), draw(sim, b, NEWS_STREAM)
    regime = draw(sim, b, NEWS_STREAM)
    log_volatility = state[b, LOG_VOLATILITY]
    log_volatility -= part(log_volatility, t[VOL_DIVISOR])
    log_volatility += part(t[VOL_STEP] * t[NORMAL + vol_draw % NORMALS], 4096)
    state[b, LOG_VOLATILITY] = log_volatility
    entry = min(max(log_volatility // (FIXED // 64) + VOLATILITIES // 2, 0), VOLATILITIES - 1)
    step = t[NEWS_STEP] * t[VOLATILITY + entry] // 4096
    if state[b, STRESSED]:
        step = step * t[STRESS_VOLATILITY] // 4096
        state[b, STRESSED] = 0 if regime < t[CALM_BELOW] else 1
    else:
        state[b, STRESSED] = 1 if regime < t[STRESS_BELOW] else 0
    move = part(step * t[FAT_TAIL + size_draw % NORMALS], 4096)
    middle = mid_x2(book, b, state[b, LAST_MID]) * FIXED // 2
    state[b, NEWS] += move
    state[b, VALUE] += move + part(middle - state[b, VALUE], t[LEARN_DIVISOR])
    state[b, TREND] += part(middle - state[b, TREND], t[MOMENTUM_DIVISOR])


def imbalance(book: Book, b: int) -> int:
    """(bids - asks) / (bids + asks) of the three best prices of each side, in 1/1024."""
    bids, asks = near_touch(book, b, BUY), near_touch(book, b, SELL)
    return 0 if bids + asks == 0 else part((bids - asks) * 1024, bids + asks)


def near_touch(book: Book, b: int, side: int) -> int:
    """Quantity at the touch and the two prices behind it."""
    key = book.meta[b, TOUCH + side]
    if key == FAR:
        return 0
    row, total = key - book.meta[b, BASE + side], 0
    for j in range(3):
        if row + j < book.levels.shape[2] - 1:
            total += int(book.levels[b, side, row + j, QUEUED])
    return total


def open_bar(book: Book, sim: Sim, b: int) -> None:
    """Start the bar's counters."""
    state = sim.state
    middle = mid_x2(book, b, state[b, LAST_MID])
    state[b, LAST_MID] = state[b, BAR_OPEN] = state[b, BAR_HIGH] = state[b, BAR_LOW] = middle
    state[b, SIGNED_VOLUME] = state[b, MESSAGES] = 0


def watch_mid(book: Book, sim: Sim, b: int) -> None:
    """Keep the bar's range of the mid."""
    middle = mid_x2(book, b, sim.state[b, LAST_MID])
    sim.state[b, LAST_MID] = middle
    sim.state[b, BAR_HIGH] = max(sim.state[b, BAR_HIGH], middle)
    sim.state[b, BAR_LOW] = min(sim.state[b, BAR_LOW], middle)


def agent_orders(book: Book, sim: Sim, wishes: Array, answers: Array, b: int, a: int) -> None:
    """Bring one agent's order in the book to its wish: withdraw, take, or post (the same price keeps its place)."""
    owner, slot = FIRST_AGENT + a, int(sim.state[b, AGENT_SLOT + a])
    resting = (
        slot >= 0 and book.orders[b, slot, OWNER] == owner and book.orders[b, slot, QUANTITY] > 0
    )
    kind, side, price = (
        wishes[b, a, KIND],
        int(wishes[b, a, WISH_SIDE]),
        int(wishes[b, a, WISH_PRICE]),
    )
    # a neighbour's order of this bar may have filled our resting one already: the wish counts from the bar's start
    lots = int(wishes[b, a, WISH_LOTS]) - abs(
        book.owners[b, owner, SHARES] - answers[b, a, ANSWERED]
    )
    if resting:
        same = (
            kind == POST
            and lots > 0
            and book.orders[b, slot, PRICE] == price
            and book.orders[b, slot, SIDE] == side
        )
        if same and lots <= book.orders[b, slot, QUANTITY]:
            sim.state[b, AGENT_SLOT + a] = replace(book, b, slot, price, lots)
            return
        cancel(book, b, slot, 0)
        sim.state[b, MESSAGES] += 1
    sim.state[b, AGENT_SLOT + a] = -1
    if kind == NO_ORDER or lots <= 0:
        return
    sim.state[b, MESSAGES] += 1
    if kind == TAKE:
        market_order(book, sim, b, side, lots, owner)
    else:
        before = book.owners[b, owner, SHARES]
        sim.state[b, AGENT_SLOT + a] = limit(book, b, side, price, lots, owner, 3 + a)
        sim.state[b, SIGNED_VOLUME] += book.owners[b, owner, SHARES] - before
    answers[b, a, PASSIVE] = abs(
        book.owners[b, owner, SHARES]
    )  # what was filled at once; subtracted at the bar's end


def run_bar(
    book: Book, sim: Sim, wishes: Array, answers: Array, drift: Array, events: Array, b: int
) -> None:
    """One bar of market b: the agents' orders, then `events[b]` events while the value drifts by `drift[b]`."""
    agents = wishes.shape[1]
    open_bar(book, sim, b)
    volume, notional = book.meta[b, VOLUME], book.meta[b, NOTIONAL]
    for a in range(agents):
        answers[b, a, ANSWERED] = book.owners[b, FIRST_AGENT + a, SHARES]
        answers[b, a, SPENT] = book.owners[b, FIRST_AGENT + a, CASH]
        answers[b, a, PASSIVE] = abs(book.owners[b, FIRST_AGENT + a, SHARES])
    for a in range(agents):
        agent_orders(book, sim, wishes, answers, b, a)
    watch_mid(book, sim, b)
    n, given = events[b], 0
    for e in range(n):
        due = drift[b] * (e + 1) // n
        sim.state[b, VALUE] += due - given
        sim.state[b, NEWS] += due - given
        given = due
        act(book, sim, b)
        watch_mid(book, sim, b)
    for a in range(agents):
        owner, slot = FIRST_AGENT + a, int(sim.state[b, AGENT_SLOT + a])
        held = book.owners[b, owner, SHARES]
        answers[b, a, PASSIVE] = abs(held) - answers[b, a, PASSIVE]
        answers[b, a, ANSWERED] = abs(held - answers[b, a, ANSWERED])
        answers[b, a, SPENT] = abs(book.owners[b, owner, CASH] - answers[b, a, SPENT])
        alive = slot >= 0 and book.orders[b, slot, OWNER] == owner
        answers[b, a, RESTING] = book.orders[b, slot, QUANTITY] if alive else 0
    if book.meta[b, TOUCH + BUY] == FAR or book.meta[b, TOUCH + SELL] == FAR:
        sim.state[b, BROKEN] = 1
    sim.state[b, TRADED] = book.meta[b, VOLUME] - volume
    sim.state[b, TRADED_CASH] = book.meta[b, NOTIONAL] - notional


FUNCTIONS = (
    *(
        draw,
        part,
        act,
        noise_market,
        market_order,
        noise_limit,
        noise_cancel,
        maker_wakes,
        quote,
        informed_looks,
    ),
    *(
        momentum_looks,
        news_arrives,
        imbalance,
        near_touch,
        open_bar,
        watch_mid,
        agent_orders,
        run_bar,
    ),
)
