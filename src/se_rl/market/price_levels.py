"""The state of the books, and the ladder: orders queue by price, and the touch is always known.

One row per book in every array (`Book`), all integers, all preallocated:

- `meta[B, META_FIELDS]` int64: touch, counters, totals and rules, the fields TOUCH to MAX_QUANTITY below.
- `levels[B, 2, L, 4]`: per side a window of L - 1 neighbouring prices and, as row L - 1, the list of all orders beyond
  it. A row is a queue: HEAD and TAIL slot (valid while QUEUED > 0), QUEUED quantity.
- `orders[B, N, 8]`: PRICE, QUANTITY left (0: the slot is free), NEXT and PREV slot (-1: none), SIDE, OWNER, ID.
- `log[B, C, 8]`: the first C trades since the caller last set meta LOGGED to 0; C = 0 turns the log off.
- `owners[B, O, 2]` int64: CASH (ticks x quantity) and SHARES of each owner; the last row also takes all owners >= O.

levels, orders and log are int32 (or int64 where prices or quantities need it). A price's key is `price` for asks and
`-price` for bids, so that on both sides a smaller key is better; the window covers the keys BASE to BASE + L - 2 and the
list beyond it only worse ones. All orders of one price stand in one queue, in order of arrival, so that moving whole
queues keeps time priority exact: no price is ever clipped and no order lost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.signedinteger[Any]]

BUY, SELL = 0, 1
LIMIT, IOC, MARKET, CANCEL, REPLACE = range(5)
"""Message kinds. IOC and MARKET never rest; CANCEL's quantity 0 is the whole; REPLACE gives the new price and quantity."""

TOUCH, BASE, FREE, LIVE, LOGGED = 0, 2, 4, 5, 6  # TOUCH and BASE have one entry per side
TRADES, VOLUME, NOTIONAL = 7, 8, 9  # notional in ticks x quantity
REJECTED, DROPPED, SELF_CANCELLED, UNKNOWN = 10, 11, 12, 13
"""Orders refused (pool full, bad number); quantity of unfilled takers; own quantity cancelled; cancels of no order."""
COLLAR, SELF_TRADE, MAX_PRICE, MAX_QUANTITY = 14, 15, 16, 17
META_FIELDS = 18
HEAD, TAIL, QUEUED = 0, 1, 2
PRICE, QUANTITY, NEXT, PREV, SIDE, OWNER, ID = range(7)
LOG_PRICE, LOG_QUANTITY, MAKER_SLOT, MAKER_OWNER, MAKER_ID, TAKER_OWNER, TAKER_ID, TAKER_SIDE = (
    range(8)
)
CASH, SHARES = 0, 1
FAR = 2**62
"""The key of an empty side's touch."""
NO_COLLAR = 2**61  # more than two prices can differ by, and FAR + NO_COLLAR still fits


class Book(NamedTuple):
    """The arrays of B books; the module's docstring gives their fields."""

    meta: Array
    levels: Array
    orders: Array
    log: Array
    owners: Array


def fixed_widths(book: Book) -> bool:
    """Always true. A caller that starts with `if not fixed_widths(book): return` tells the compiler these widths, which
    turns multiplications in every array access into shifts: 10 % of the book's speed.
    """
    widths = book.levels.shape[1] == 2 and book.levels.shape[3] == 4 and book.orders.shape[2] == 8
    return (
        widths
        and book.meta.shape[1] == META_FIELDS
        and book.log.shape[2] == 8
        and book.owners.shape[2] == 2
    )


def best(book: Book, b: int, side: int, otherwise: int) -> int:
    """The side's best price, or `otherwise` where it is empty."""
    key = int(book.meta[b, TOUCH + side])
    return otherwise if key == FAR else key * (2 * side - 1)


def mid_x2(book: Book, b: int, otherwise: int) -> int:
    """Twice the midpoint (best bid + best ask, an integer), or `otherwise` where a side is empty."""
    ask, minus_bid = book.meta[b, TOUCH + SELL], book.meta[b, TOUCH + BUY]
    return otherwise if ask == FAR or minus_bid == FAR else int(ask - minus_bid)


def depth(book: Book, b: int, side: int, out: Array) -> int:
    """Write (price, quantity) of the best levels into out[b, side, n, 2], zeros where there are fewer; their number."""
    levels, wanted, beyond = book.levels, out.shape[2], book.levels.shape[2] - 1
    base, key, found = int(book.meta[b, BASE + side]), int(book.meta[b, TOUCH + side]), 0
    while found < wanted and key < base + beyond:
        if levels[b, side, key - base, QUEUED] > 0:
            out[b, side, found, 0] = key * (2 * side - 1)
            out[b, side, found, 1] = levels[b, side, key - base, QUEUED]
            found += 1
        key += 1
    key = base + beyond - 1
    while found < wanted and levels[b, side, beyond, QUEUED] > 0:
        key = nearest_beyond(book, b, side, key)
        if key == FAR:
            break
        out[b, side, found, 0] = key * (2 * side - 1)
        out[b, side, found, 1] = queued_beyond(book, b, side, key)
        found += 1
    for empty in range(found, wanted):
        out[b, side, empty, 0] = out[b, side, empty, 1] = 0
    return found


def ahead(book: Book, b: int, slot: int) -> int:
    """The quantity that stands before this order at its price."""
    orders, total = book.orders, 0
    before = int(orders[b, slot, PREV])
    while before >= 0:
        if orders[b, before, PRICE] == orders[b, slot, PRICE]:
            total += int(orders[b, before, QUANTITY])
        before = int(orders[b, before, PREV])
    return total


def rest(book: Book, b: int, side: int, price: int, quantity: int, owner: int, ident: int) -> int:
    """Put an order that does not cross into a free slot at the end of its queue; the slot."""
    meta, orders, key = book.meta, book.orders, price * (2 * side - 1)
    slot = int(meta[b, FREE])
    meta[b, FREE] = orders[b, slot, NEXT]
    meta[b, LIVE] += 1
    if key < meta[b, TOUCH + side]:
        if meta[b, TOUCH + side] == FAR:
            meta[b, BASE + side] = key - headroom(book)
        elif key < meta[b, BASE + side]:
            recentre(book, b, side, key)
        meta[b, TOUCH + side] = key
    orders[b, slot, PRICE] = price
    orders[b, slot, QUANTITY] = quantity
    orders[b, slot, SIDE] = side
    orders[b, slot, OWNER] = owner
    orders[b, slot, ID] = ident
    attach(book, b, side, min(key - meta[b, BASE + side], book.levels.shape[2] - 1), slot)
    return slot


def unlink(book: Book, b: int, slot: int) -> None:
    """Remove an order; if it was the last at the best price, find the next best."""
    meta, orders = book.meta, book.orders
    side = int(orders[b, slot, SIDE])
    key = int(orders[b, slot, PRICE]) * (2 * side - 1)
    row = min(key - meta[b, BASE + side], book.levels.shape[2] - 1)
    detach(book, b, side, row, slot)
    orders[b, slot, QUANTITY] = 0
    orders[b, slot, NEXT] = meta[b, FREE]
    meta[b, FREE] = slot
    meta[b, LIVE] -= 1
    if key == meta[b, TOUCH + side] and book.levels[b, side, row, QUEUED] == 0:
        retreat(book, b, side, row)


def reduce(book: Book, b: int, slot: int, quantity: int) -> None:
    """Make an order smaller where it stands."""
    orders, side = book.orders, int(book.orders[b, slot, SIDE])
    key = int(orders[b, slot, PRICE]) * (2 * side - 1)
    orders[b, slot, QUANTITY] -= quantity
    book.levels[
        b, side, min(key - book.meta[b, BASE + side], book.levels.shape[2] - 1), QUEUED
    ] -= quantity


def attach(book: Book, b: int, side: int, row: int, slot: int) -> None:
    """Append an order to a row's queue."""
    levels, orders = book.levels, book.orders
    orders[b, slot, NEXT] = -1
    if levels[b, side, row, QUEUED] == 0:
        levels[b, side, row, HEAD] = slot
        orders[b, slot, PREV] = -1
    else:
        last = levels[b, side, row, TAIL]
        orders[b, last, NEXT] = slot
        orders[b, slot, PREV] = last
    levels[b, side, row, TAIL] = slot
    levels[b, side, row, QUEUED] += orders[b, slot, QUANTITY]


def detach(book: Book, b: int, side: int, row: int, slot: int) -> None:
    """Take an order out of a row's queue."""
    levels, orders = book.levels, book.orders
    before, after = orders[b, slot, PREV], orders[b, slot, NEXT]
    if before >= 0:
        orders[b, before, NEXT] = after
    else:
        levels[b, side, row, HEAD] = after
    if after >= 0:
        orders[b, after, PREV] = before
    else:
        levels[b, side, row, TAIL] = before
    levels[b, side, row, QUEUED] -= orders[b, slot, QUANTITY]


def headroom(book: Book) -> int:
    """Rows kept free for prices better than the touch when a window is placed."""
    return (book.levels.shape[2] - 1) // 4


def retreat(book: Book, b: int, side: int, row: int) -> None:
    """Row was the touch and is empty now: move the touch to the next price, and the window where it got too far."""
    levels, beyond = book.levels, book.levels.shape[2] - 1
    while row < beyond and levels[b, side, row, QUEUED] == 0:
        row += 1
    key = int(book.meta[b, BASE + side]) + row
    if levels[b, side, beyond, QUEUED] > 0:
        if row == beyond:
            key = nearest_beyond(book, b, side, key - 1)
        if row > beyond // 2:
            recentre(book, b, side, key)
    elif row == beyond:
        key = FAR
    book.meta[b, TOUCH + side] = key


def nearest_beyond(book: Book, b: int, side: int, after_key: int) -> int:
    """The smallest key above after_key among the orders beyond the window, or FAR."""
    orders, beyond, nearest = book.orders, book.levels.shape[2] - 1, FAR
    slot = int(book.levels[b, side, beyond, HEAD])
    while slot >= 0:
        key = int(orders[b, slot, PRICE]) * (2 * side - 1)
        if after_key < key < nearest:
            nearest = key
        slot = int(orders[b, slot, NEXT])
    return nearest


def queued_beyond(book: Book, b: int, side: int, key: int) -> int:
    """The quantity at one key beyond the window."""
    orders, total = book.orders, 0
    slot = int(book.levels[b, side, book.levels.shape[2] - 1, HEAD])
    while slot >= 0:
        if orders[b, slot, PRICE] == key * (2 * side - 1):
            total += int(orders[b, slot, QUANTITY])
        slot = int(orders[b, slot, NEXT])
    return total


def recentre(book: Book, b: int, side: int, key: int) -> None:
    """Move the window so that `key` (the touch to be) has headroom before it; nothing is lost, queues keep order."""
    meta, levels, beyond = book.meta, book.levels, book.levels.shape[2] - 1
    base = key - headroom(book)
    shift = int(meta[b, BASE + side]) - base
    meta[b, BASE + side] = base
    for step in range(beyond):
        row = step if shift < 0 else beyond - 1 - step
        if levels[b, side, row, QUEUED] == 0:
            continue
        move_queue(book, b, side, row, min(row + shift, beyond))
    if shift < 0 and levels[b, side, beyond, QUEUED] > 0:
        enter(book, b, side)


def move_queue(book: Book, b: int, side: int, row: int, to: int) -> None:
    """Append a row's whole queue to another row and empty it."""
    levels, orders = book.levels, book.orders
    head = levels[b, side, row, HEAD]
    if levels[b, side, to, QUEUED] == 0:
        levels[b, side, to, HEAD] = head
    else:
        last = levels[b, side, to, TAIL]
        orders[b, last, NEXT] = head
        orders[b, head, PREV] = last
    levels[b, side, to, TAIL] = levels[b, side, row, TAIL]
    levels[b, side, to, QUEUED] += levels[b, side, row, QUEUED]
    levels[b, side, row, QUEUED] = 0


def enter(book: Book, b: int, side: int) -> None:
    """Bring the orders that the moved window now covers in from the list beyond it, oldest first."""
    orders, beyond, base = book.orders, book.levels.shape[2] - 1, int(book.meta[b, BASE + side])
    slot = int(book.levels[b, side, beyond, HEAD])
    while slot >= 0:
        after = int(orders[b, slot, NEXT])
        row = int(orders[b, slot, PRICE]) * (2 * side - 1) - base
        if row < beyond:
            detach(book, b, side, beyond, slot)
            attach(book, b, side, row, slot)
        slot = after


FUNCTIONS = (
    *(
        fixed_widths,
        best,
        mid_x2,
        depth,
        ahead,
        rest,
        unlink,
        reduce,
        attach,
        detach,
        headroom,
        retreat,
    ),
    *(nearest_beyond, queued_beyond, recentre, move_queue, enter),
)
