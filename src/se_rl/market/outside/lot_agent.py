"""Whoever sells in the lot markets: what orders do, and what can be seen.

Plain Python that `make_kernel` compiles with the book and the traders.
"""

from __future__ import annotations

from typing import Any

from se_rl.market.layout import own_functions
from se_rl.market.outside.lot_numbers import (
    AGENT,
    FIRST_ASK,
    FIRST_BEST,
    FIRST_BID,
    FIRST_MID,
    HIGHEST_OFFER,
    LAST_MID,
    LEVELS,
    LIMIT_FLOW,
    LOT_NUMBERS,
    MARKET_FLOW,
    OWN_SHARES,
    SEEN_LEVELS,
    LotState,
)
from se_rl.market.outside.lot_traders import (
    beyond_best,
    deliver,
    volume_at,
)
from se_rl.market.price_levels import (
    BASE,
    BUY,
    CANCEL,
    HEAD,
    LIMIT,
    MARKET,
    NEXT,
    OWNER,
    PRICE,
    QUANTITY,
    SELL,
    SHARES,
    Book,
    best,
)

MEAN_LEVELS = (3.95, 10.76, 16.28, 18.87, 19.59)
"""Lots that are usual at each distance: the unit of observed ones."""


def best_bid(book: Book, b: int) -> int:
    """The best bid; next to the best ask where there is none."""
    return best(book, b, BUY, best(book, b, SELL, FIRST_ASK) - 1)


def best_ask(book: Book, b: int) -> int:
    """The best ask; next to the best bid where there is none."""
    return best(book, b, SELL, best(book, b, BUY, FIRST_BID) + 1)


def own_volume(book: Book, b: int, price: int) -> int:
    """The agent's lots on offer at a price."""
    if volume_at(book, b, SELL, price) == 0:
        return 0
    total = 0
    row = min(price - book.meta[b, BASE + SELL], book.levels.shape[2] - 1)
    slot = int(book.levels[b, SELL, row, HEAD])
    while slot >= 0:
        if book.orders[b, slot, OWNER] == AGENT and book.orders[b, slot, PRICE] == price:
            total += int(book.orders[b, slot, QUANTITY])
        slot = int(book.orders[b, slot, NEXT])
    return total


def withdrawals(book: Book, lots: LotState, b: int, price: int, messages: Any, count: int) -> int:
    """Append messages that take back all offers at a price and above; how many there are now."""
    while price <= lots.counts[b, HIGHEST_OFFER] and count < messages.shape[0]:
        present = own_volume(book, b, price)
        if present > 0:
            count = write_message(messages, count, CANCEL, price, present)
        price += 1
    return count


def write_message(messages: Any, count: int, kind: int, price: int, quantity: int) -> int:
    """Append one message; how many there are now."""
    messages[count, 0] = kind
    messages[count, 1] = price
    messages[count, 2] = quantity
    return count + 1


def rebalance(
    book: Book, lots: LotState, b: int, shares: Any, remaining: int, messages: Any
) -> int:
    """Write the messages that spread what is left by shares; how many they are.

    Shares [market, bid + 1, ..., bid + 5, inactive] become lots in that order, rounded half to
    even, and what is not given out stays inactive. A level that has too many lots loses its
    youngest, one that has too few gets more at the back, and others keep their places.
    """
    bid = best_bid(book, b)
    at_market = min(round(shares[0] * remaining), remaining)
    count = withdrawals(book, lots, b, bid + LEVELS + 1, messages, 0)
    left = remaining - at_market
    for level in range(1, LEVELS + 1):
        wanted = min(round(shares[level] * remaining), left)
        left -= wanted
        surplus = own_volume(book, b, bid + level) - wanted
        if surplus > 0:
            count = write_message(messages, count, CANCEL, bid + level, surplus)
    if at_market > 0:
        count = write_message(messages, count, MARKET, 0, at_market)
    left = remaining - at_market
    for level in range(1, LEVELS + 1):
        wanted = min(round(shares[level] * remaining), left)
        left -= wanted
        missing = wanted - own_volume(book, b, bid + level)
        if missing > 0:
            count = write_message(messages, count, LIMIT, bid + level, missing)
    return count


def liquidation(book: Book, lots: LotState, b: int, remaining: int, messages: Any) -> int:
    """Write the messages that take all offers back and sell what is left at market."""
    count = withdrawals(book, lots, b, best_bid(book, b) + 1, messages, 0)
    return write_message(messages, count, MARKET, 0, remaining)


def send(book: Book, lots: LotState, b: int, messages: Any, count: int) -> None:
    """Deliver the agent's messages."""
    for m in range(count):
        kind, price = messages[m, 0], messages[m, 1]
        if kind == LIMIT:
            lots.counts[b, HIGHEST_OFFER] = max(lots.counts[b, HIGHEST_OFFER], price)
        deliver(book, lots, b, kind, SELL, price, messages[m, 2], AGENT)


def signed_share(flow: Any, b: int, first: int) -> float:
    """Buys less sells of a flow over both, 0 where there were none."""
    bought, sold = flow[b, first + BUY], flow[b, first + SELL]
    return (bought - sold) / (bought + sold) if bought + sold > 0 else 0.0


def look(book: Book, lots: LotState, b: int, time: float, order: int, out: Any) -> None:
    """Write what the agent sees."""
    counts = lots.counts
    bid, ask = best_bid(book, b), best_ask(book, b)
    if time == 0.0:
        counts[b, FIRST_BEST] = bid
        counts[b, FIRST_MID] = bid + ask
    remaining = order + book.owners[b, AGENT, SHARES]
    bids, asks = 0, 0
    for k in range(SEEN_LEVELS):
        lots_bid = volume_at(book, b, BUY, beyond_best(book, b, BUY, k + 1))
        lots_ask = volume_at(book, b, SELL, beyond_best(book, b, SELL, k + 1))
        bids += lots_bid
        asks += lots_ask
        out[b, OWN_SHARES + SEEN_LEVELS + 2 + k] = lots_bid / MEAN_LEVELS[k]
        out[b, OWN_SHARES + 2 * SEEN_LEVELS + 2 + k] = lots_ask / MEAN_LEVELS[k]
    out[b, 0] = time / 150.0
    out[b, 1] = remaining / order
    out[b, 2] = (bid - counts[b, FIRST_BEST]) / 10.0
    out[b, 3] = (bid + ask - counts[b, FIRST_MID]) / 20.0
    out[b, 4] = (ask - bid) / 10.0
    out[b, 5] = (bids - asks) / max(bids + asks, 1)
    out[b, 6] = signed_share(counts, b, MARKET_FLOW)
    out[b, 7] = signed_share(counts, b, LIMIT_FLOW)
    out[b, 8] = (bid + ask - counts[b, LAST_MID]) / 20.0
    counts[b, LAST_MID] = bid + ask
    look_at_lots(book, lots, b, remaining, order, out)


def look_at_lots(book: Book, lots: LotState, b: int, remaining: int, order: int, out: Any) -> None:
    """Where the agent's lots stand: shares by level, and each lot's level and lots ahead of it.

    Lots on offer come first, from the best price on, then those outside, then those sold.
    """
    ask = best_ask(book, b)
    place = LOT_NUMBERS
    near = 0
    for level in range(SEEN_LEVELS):
        own = own_volume(book, b, ask + level)
        near += own
        out[b, OWN_SHARES + level] = own / max(remaining, 1)
        if own > 0:
            place = look_at_queue(book, b, ask + level, (level + 1) / 6.0, place, out)
    far = 0
    for price in range(ask + SEEN_LEVELS, lots.counts[b, HIGHEST_OFFER] + 1):
        far += own_volume(book, b, price)
    out[b, OWN_SHARES + SEEN_LEVELS] = far / max(remaining, 1)
    out[b, OWN_SHARES + SEEN_LEVELS + 1] = (remaining - near - far) / max(remaining, 1)
    for _ in range(remaining - near):
        out[b, place] = 1.0
        out[b, place + 1] = 1.0
        place += 2
    for _ in range(order - remaining):
        out[b, place] = -5.0 / 6.0
        out[b, place + 1] = -1.0
        place += 2


def look_at_queue(book: Book, b: int, price: int, level: float, place: int, out: Any) -> int:
    """The agent's lots in one queue; the next free place of `out`."""
    row = min(price - book.meta[b, BASE + SELL], book.levels.shape[2] - 1)
    slot = int(book.levels[b, SELL, row, HEAD])
    ahead_of_it = 0
    while slot >= 0:
        if book.orders[b, slot, PRICE] == price:
            quantity = int(book.orders[b, slot, QUANTITY])
            if book.orders[b, slot, OWNER] == AGENT:
                for lot in range(quantity):
                    out[b, place] = level
                    out[b, place + 1] = (ahead_of_it + lot) / 40.0
                    place += 2
            ahead_of_it += quantity
        slot = int(book.orders[b, slot, NEXT])
    return place


def look_at_places(book: Book, b: int, out: Any) -> None:
    """For each level above the bid: own lots, then lots ahead of the first of them.

    Where the agent has none, the whole queue would be ahead of it.
    """
    bid = best_bid(book, b)
    for level in range(LEVELS):
        price = bid + 1 + level
        out[b, level] = 0
        out[b, LEVELS + level] = volume_at(book, b, SELL, price)
        if out[b, LEVELS + level] == 0:
            continue
        out[b, level] = own_volume(book, b, price)
        if out[b, level] > 0:
            out[b, LEVELS + level] = lots_ahead(book, b, price)


def lots_ahead(book: Book, b: int, price: int) -> int:
    """Others' lots in front of the agent's first one at a price."""
    row = min(price - book.meta[b, BASE + SELL], book.levels.shape[2] - 1)
    slot = int(book.levels[b, SELL, row, HEAD])
    ahead = 0
    while slot >= 0:
        if book.orders[b, slot, PRICE] == price:
            if book.orders[b, slot, OWNER] == AGENT:
                break
            ahead += int(book.orders[b, slot, QUANTITY])
        slot = int(book.orders[b, slot, NEXT])
    return ahead


FUNCTIONS = own_functions(globals())
