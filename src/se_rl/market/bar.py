"""One bar of a market: the executing agents' orders, then the participants' events.

Plain Python that `make_kernel` compiles with the book and traders.py.
"""

from __future__ import annotations

from se_rl.market import makers, traders, trading
from se_rl.market.kernel import cancel, limit, replace
from se_rl.market.layout import own_functions
from se_rl.market.participants import (
    AGENT_SLOT,
    ANSWERED,
    BAR_ASK,
    BAR_BID,
    BAR_HIGH,
    BAR_LOW,
    BAR_OPEN,
    BROKEN,
    FIRST_AGENT,
    KIND,
    LAST_MID,
    MESSAGES,
    NEWS,
    NO_ORDER,
    PASSIVE,
    POST,
    RESTING,
    SIGNED_VOLUME,
    SPENT,
    TAKE,
    TRADED,
    TRADED_CASH,
    VALUE,
    WISH_LOTS,
    WISH_PRICE,
    WISH_SIDE,
    Array,
    Sim,
)
from se_rl.market.price_levels import (
    BUY,
    CASH,
    FAR,
    NOTIONAL,
    OWNER,
    PRICE,
    QUANTITY,
    SELL,
    SHARES,
    SIDE,
    TOUCH,
    VOLUME,
    Book,
    best,
    mid_x2,
)
from se_rl.market.traders import act
from se_rl.market.trading import market_order


def run_bar(
    book: Book, sim: Sim, wishes: Array, answers: Array, drift: Array, events: Array, b: int
) -> None:
    """One bar of market b: the agents' orders, then `events[b]` events.

    Over the events the public value drifts by `drift[b]`.
    """
    agents = wishes.shape[1]
    open_bar(book, sim, b)
    volume, notional = book.meta[b, VOLUME], book.meta[b, NOTIONAL]
    for a in range(agents):
        open_answer(book, answers, b, a)
    for a in range(agents):
        agent_orders(book, sim, wishes, answers, b, a)
    watch_mid(book, sim, b)
    n, owed = events[b], 0
    # after e events the value has drifted by drift * e // n, without a division for each
    least, more = drift[b] // max(n, 1), drift[b] % max(n, 1)
    for e in range(n):
        look_ahead(book, sim, b, e)
        moved, owed = least, owed + more
        if owed >= n:
            moved, owed = moved + 1, owed - n
        sim.state[b, VALUE] += moved
        sim.state[b, NEWS] += moved
        act(book, sim, b)
        watch_mid(book, sim, b)
    for a in range(agents):
        close_answer(book, sim, answers, b, a)
    if book.meta[b, TOUCH + BUY] == FAR or book.meta[b, TOUCH + SELL] == FAR:
        sim.state[b, BROKEN] = 1
    sim.state[b, BAR_BID] = best(book, b, BUY, 0)
    sim.state[b, BAR_ASK] = best(book, b, SELL, 0)
    sim.state[b, TRADED] = book.meta[b, VOLUME] - volume
    sim.state[b, TRADED_CASH] = book.meta[b, NOTIONAL] - notional


def look_ahead(book: Book, sim: Sim, b: int, event: int) -> None:
    """Before each event; nothing, unless a device fetches the next market here (fetching.py)."""


def open_bar(book: Book, sim: Sim, b: int) -> None:
    """Start the bar's counters."""
    state = sim.state
    middle = mid_x2(book, b, state[b, LAST_MID])
    state[b, LAST_MID] = middle
    state[b, BAR_OPEN] = middle
    state[b, BAR_HIGH] = middle
    state[b, BAR_LOW] = middle
    state[b, SIGNED_VOLUME] = 0
    state[b, MESSAGES] = 0


def watch_mid(book: Book, sim: Sim, b: int) -> None:
    """Keep the bar's range of the mid."""
    middle = mid_x2(book, b, sim.state[b, LAST_MID])
    sim.state[b, LAST_MID] = middle
    sim.state[b, BAR_HIGH] = max(sim.state[b, BAR_HIGH], middle)
    sim.state[b, BAR_LOW] = min(sim.state[b, BAR_LOW], middle)


def open_answer(book: Book, answers: Array, b: int, a: int) -> None:
    """Keep the agent's account at the bar's start in its answer; `close_answer` takes it out."""
    answers[b, a, ANSWERED] = book.owners[b, FIRST_AGENT + a, SHARES]
    answers[b, a, SPENT] = book.owners[b, FIRST_AGENT + a, CASH]
    answers[b, a, PASSIVE] = abs(book.owners[b, FIRST_AGENT + a, SHARES])


def agent_orders(book: Book, sim: Sim, wishes: Array, answers: Array, b: int, a: int) -> None:
    """Bring one agent's order to its wish: withdraw, take, or post.

    A limit order that stays at its price keeps its place in the queue.
    """
    owner, slot = FIRST_AGENT + a, int(sim.state[b, AGENT_SLOT + a])
    resting = (
        slot >= 0 and book.orders[b, slot, OWNER] == owner and book.orders[b, slot, QUANTITY] > 0
    )
    kind = wishes[b, a, KIND]
    side, price = int(wishes[b, a, WISH_SIDE]), int(wishes[b, a, WISH_PRICE])
    # a neighbour's order of this bar may have filled our resting one: the wish counts from the
    # bar's start
    filled = abs(book.owners[b, owner, SHARES] - answers[b, a, ANSWERED])
    lots = int(wishes[b, a, WISH_LOTS]) - filled
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
    # what was filled at once; subtracted at the bar's end
    answers[b, a, PASSIVE] = abs(book.owners[b, owner, SHARES])


def close_answer(book: Book, sim: Sim, answers: Array, b: int, a: int) -> None:
    """Turn the account kept in the answer into what the agent got in the bar."""
    owner, slot = FIRST_AGENT + a, int(sim.state[b, AGENT_SLOT + a])
    held = book.owners[b, owner, SHARES]
    answers[b, a, PASSIVE] = abs(held) - answers[b, a, PASSIVE]
    answers[b, a, ANSWERED] = abs(held - answers[b, a, ANSWERED])
    answers[b, a, SPENT] = abs(book.owners[b, owner, CASH] - answers[b, a, SPENT])
    alive = slot >= 0 and book.orders[b, slot, OWNER] == owner
    answers[b, a, RESTING] = book.orders[b, slot, QUANTITY] if alive else 0


FUNCTIONS = (*trading.FUNCTIONS, *makers.FUNCTIONS, *traders.FUNCTIONS, *own_functions(globals()))
"""What a market adds to the book's kernel."""
