"""The traders of the lot markets: noise, tactical and strategic ones, and the clock that calls them.

Plain Python that `make_kernel` compiles with the book. A wait is drawn at the rate from before the
event that it follows, as the paper's simulator does.
"""

from __future__ import annotations

from se_rl.market.kernel import cancel, market
from se_rl.market.layout import own_functions
from se_rl.market.outside.draws import choice, exponential, uniform
from se_rl.market.outside.lot_numbers import (
    AGENT,
    DEEPEST,
    DIRECTION,
    FIRST_BID,
    LIMIT_FLOW,
    LONE_LOTS,
    MARKET_FLOW,
    NOISE,
    PENDING_PRICE,
    REACH,
    REFILL_WAIT,
    STRATEGIC,
    STRATEGIC_LIMIT,
    STRATEGIC_MARKET,
    STRATEGIC_WAIT,
    LotState,
    LotTables,
)
from se_rl.market.price_levels import (
    BASE,
    BUY,
    CANCEL,
    FAR,
    FREE,
    LIMIT,
    MARKET,
    OWNER,
    PREV,
    PRICE,
    QUANTITY,
    QUEUED,
    REJECTED,
    SELL,
    SHARES,
    TAIL,
    TOUCH,
    Book,
    best,
    queued_beyond,
)
from se_rl.market.price_window import rest


def volume_at(book: Book, b: int, side: int, price: int) -> int:
    """Lots of all owners at a price."""
    key = price * (2 * side - 1)
    row = key - book.meta[b, BASE + side]
    if row < 0:
        return 0
    if row < book.levels.shape[2] - 1:
        return int(book.levels[b, side, row, QUEUED])
    return queued_beyond(book, b, side, key)


def beyond_best(book: Book, b: int, side: int, distance: int) -> int:
    """The price at a distance from the other side's best."""
    if side == BUY:
        return best(book, b, SELL, 0) - distance
    return best(book, b, BUY, 0) + distance


def deliver(
    book: Book, lots: LotState, b: int, kind: int, side: int, price: int, quantity: int, owner: int
) -> None:
    """One message; limit and market orders are counted in the flow, and no limit order crosses."""
    if quantity == 0:
        return
    if kind == LIMIT:
        lots.counts[b, LIMIT_FLOW + side] += quantity
        if book.meta[b, FREE] < 0:
            book.meta[b, REJECTED] += 1
        else:
            rest(book, b, side, price, quantity, owner, 0)
    elif kind == MARKET:
        lots.counts[b, MARKET_FLOW + side] += quantity
        market(book, b, side, quantity, owner, 0)
    else:
        cancel_youngest(book, b, side, price, quantity, owner)


def cancel_youngest(book: Book, b: int, side: int, price: int, quantity: int, owner: int) -> int:
    """Take back so many of an owner's lots at a price, its youngest orders first.

    What is left of an order keeps its place; returns the lots taken back.
    """
    if volume_at(book, b, side, price) == 0:
        return 0
    row = min(price * (2 * side - 1) - book.meta[b, BASE + side], book.levels.shape[2] - 1)
    slot = int(book.levels[b, side, row, TAIL])
    left = quantity
    while slot >= 0 and left > 0:
        before = int(book.orders[b, slot, PREV])
        if book.orders[b, slot, OWNER] == owner and book.orders[b, slot, PRICE] == price:
            left -= cancel(book, b, slot, min(left, int(book.orders[b, slot, QUANTITY])))
        slot = before
    return quantity - left


def cancel_rate(book: Book, tables: LotTables, b: int, side: int) -> float:
    """Cancels a second on a side: each lot within reach has a rate of its own."""
    total = 0.0
    for k in range(REACH):
        price = beyond_best(book, b, side, k + 1)
        total += tables.cancels[k] * volume_at(book, b, side, price)
    return total


def cancel_distance(book: Book, tables: LotTables, b: int, side: int, at: float) -> int:
    """The distance at which the cumulative rate of cancels reaches `at`."""
    for k in range(REACH):
        price = beyond_best(book, b, side, k + 1)
        at -= tables.cancels[k] * volume_at(book, b, side, price)
        if at <= 0.0:
            return k + 1
    return REACH


def weighted_imbalance(book: Book, tables: LotTables, b: int) -> float:
    """(B - A) / (B + A), where nearer lots weigh more."""
    spread = best(book, b, SELL, 0) - best(book, b, BUY, 0)
    bids, asks = 0.0, 0.0
    for distance in range(spread, DEEPEST + 1):
        weight = tables.decay[distance - spread]
        bids += weight * volume_at(book, b, BUY, beyond_best(book, b, BUY, distance))
        asks += weight * volume_at(book, b, SELL, beyond_best(book, b, SELL, distance))
    return (bids - asks) / (bids + asks) if bids + asks > 0.0 else 0.0


def refill_message(book: Book, b: int) -> tuple[int, int, int, int, float]:
    """An order on an empty side, one tick from the other's best and as large."""
    if book.meta[b, TOUCH + BUY] != FAR:
        bid = best(book, b, BUY, 0)
        return LIMIT, SELL, bid + 1, volume_at(book, b, BUY, bid), REFILL_WAIT
    if book.meta[b, TOUCH + SELL] != FAR:
        ask = best(book, b, SELL, 0)
        return LIMIT, BUY, ask - 1, volume_at(book, b, SELL, ask), REFILL_WAIT
    return LIMIT, BUY, FIRST_BID, LONE_LOTS, REFILL_WAIT


def noise_message(
    book: Book, lots: LotState, tables: LotTables, b: int
) -> tuple[int, int, int, int, float]:
    """What the noise or tactical traders do next: kind, side, price, lots; seconds to the one
    after it.
    """
    if book.meta[b, TOUCH + BUY] == FAR or book.meta[b, TOUCH + SELL] == FAR:
        return refill_message(book, b)
    rises, falls = 1.0, 1.0
    if tables.bend > 0.0:
        pressure = tables.bend * weighted_imbalance(book, tables, b)
        rises += max(pressure, 0.0)
        falls += max(-pressure, 0.0)
    bid_cancels = falls * cancel_rate(book, tables, b, BUY)
    ask_cancels = rises * cancel_rate(book, tables, b, SELL)
    limits = tables.limit_rate * (rises + falls)
    markets = tables.market_rate * (rises + falls)
    total = limits + markets + bid_cancels + ask_cancels
    wait = exponential(lots.streams, b, total)
    size = 1 + choice(lots.streams, b, tables.sizes)
    at = uniform(lots.streams, b) * total
    if at <= limits:
        side = BUY if at <= tables.limit_rate * rises else SELL
        price = beyond_best(book, b, side, 1 + choice(lots.streams, b, tables.limits))
        return LIMIT, side, price, size, wait
    at -= limits
    if at <= markets:
        side = BUY if at <= tables.market_rate * rises else SELL
        return MARKET, side, 0, size, wait
    at -= markets
    side = BUY if at <= bid_cancels else SELL
    at = at / falls if side == BUY else (at - bid_cancels) / rises
    distance = cancel_distance(book, tables, b, side, at)
    return CANCEL, side, beyond_best(book, b, side, distance), size, wait


def strategic_message(book: Book, lots: LotState, b: int) -> tuple[int, int, int, int, float]:
    """The hidden trader's market order, then its limit order at the price read before both."""
    side = int(lots.counts[b, DIRECTION])
    if lots.counts[b, PENDING_PRICE] == 0:
        lots.counts[b, PENDING_PRICE] = beyond_best(book, b, side, 1)
        return MARKET, side, 0, STRATEGIC_MARKET, 0.0
    price = int(lots.counts[b, PENDING_PRICE])
    lots.counts[b, PENDING_PRICE] = 0
    return LIMIT, side, price, STRATEGIC_LIMIT, STRATEGIC_WAIT


def run_until(
    book: Book, lots: LotState, tables: LotTables, b: int, time: float, sold_out: int
) -> None:
    """All events before a time, at most until the agent has sold so many lots.

    There is one place that delivers, since every further one would be compiled anew.
    """
    while book.owners[b, AGENT, SHARES] > -sold_out:
        if min(lots.next_noise[b], lots.next_strategic[b]) >= time:
            return
        if lots.next_noise[b] <= lots.next_strategic[b]:
            owner = NOISE
            kind, side, price, quantity, wait = noise_message(book, lots, tables, b)
            lots.next_noise[b] += wait
        else:
            owner = STRATEGIC
            kind, side, price, quantity, wait = strategic_message(book, lots, b)
            lots.next_strategic[b] += wait
        deliver(book, lots, b, kind, side, price, quantity, owner)


FUNCTIONS = own_functions(globals())
