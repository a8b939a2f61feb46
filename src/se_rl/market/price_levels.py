"""The state of the books and their price levels: orders queue by price, the touch is always known.

One row per book in every array (`Book`), all integers, all preallocated:

- `meta[B, META_FIELDS]` int64: touch, counters, totals and rules, the fields TOUCH to MAX_QUANTITY
  below.
- `levels[B, 2, L, 4]`: per side a window of L - 1 neighbouring prices and, as row L - 1, the list
  of all orders beyond it. A row is a queue: HEAD and TAIL slot (valid while QUEUED > 0), QUEUED
  quantity.
- `orders[B, N, 8]`: PRICE, QUANTITY left (0: the slot is free), NEXT and PREV slot (-1: none),
  SIDE, OWNER, ID.
- `log[B, C, 8]`: the first C trades since the caller last set meta LOGGED to 0; C = 0 turns the log
  off.
- `owners[B, O, 2]` int64: CASH (ticks x quantity) and SHARES of each owner; the last row also takes
  all owners >= O.

levels, orders and log are int32 (or int64 where prices or quantities need it). A price's key is
`price` for asks and `-price` for bids, so that on both sides a smaller key is better; the window
covers the keys BASE to BASE + L - 2 and the list beyond it only worse ones. All orders of one price
stand in one queue, in order of arrival, so that moving whole queues keeps time priority exact: no
price is ever clipped and no order lost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from se_rl.market.layout import Layout, own_functions

Array = npt.NDArray[np.signedinteger[Any]]

BUY, SELL = 0, 1
CASH, SHARES = 0, 1
LIMIT, IOC, MARKET, CANCEL, REPLACE = range(5)
"""Message kinds. IOC and MARKET never rest; CANCEL's quantity 0 is the whole order; REPLACE gives
the new price and quantity."""
FAR = 2**62
"""The key of an empty side's touch."""
NO_COLLAR = 2**61  # more than two prices can differ by, and FAR + NO_COLLAR still fits

_meta = Layout()
TOUCH = _meta.take(2)  # the best key of each side
BASE = _meta.take(2)  # the first key of each side's window
FREE = _meta.take()  # the first free order slot, -1 where none is
LIVE = _meta.take()  # orders in the book
LOGGED = _meta.take()
TRADES = _meta.take()
VOLUME = _meta.take()
NOTIONAL = _meta.take()  # ticks x quantity
REJECTED = _meta.take()  # orders refused: pool full, bad number
DROPPED = _meta.take()  # quantity of takers that found no partner
SELF_CANCELLED = _meta.take()  # own quantity cancelled instead of traded with
UNKNOWN = _meta.take()  # cancels of no order
COLLAR = _meta.take()  # the rules begin here: a reset leaves them alone
SELF_TRADE = _meta.take()
MAX_PRICE = _meta.take()
MAX_QUANTITY = _meta.take()
META_FIELDS = _meta.width

_level = Layout()
HEAD = _level.take()
TAIL = _level.take()
QUEUED = _level.take()
LEVEL_WIDTH = 4  # the array is a power of two wide, so that an access is a shift

_order = Layout()
PRICE = _order.take()
QUANTITY = _order.take()
NEXT = _order.take()
PREV = _order.take()
SIDE = _order.take()
OWNER = _order.take()
ID = _order.take()
ORDER_WIDTH = 8

_trade = Layout()
LOG_PRICE = _trade.take()
LOG_QUANTITY = _trade.take()
MAKER_SLOT = _trade.take()
MAKER_OWNER = _trade.take()
MAKER_ID = _trade.take()
TAKER_OWNER = _trade.take()
TAKER_ID = _trade.take()
TAKER_SIDE = _trade.take()
LOG_WIDTH = 8


class Book(NamedTuple):
    """The arrays of B books; the module's docstring gives their fields."""

    meta: Array
    levels: Array
    orders: Array
    log: Array
    owners: Array


def fixed_widths(book: Book) -> bool:
    """Always true. A caller that starts with `if not fixed_widths(book): return` tells the compiler
    these widths, which turns multiplications in every array access into shifts: 10 % of the speed.
    """
    return (
        book.levels.shape[1] == 2
        and book.levels.shape[3] == LEVEL_WIDTH
        and book.orders.shape[2] == ORDER_WIDTH
        and book.meta.shape[1] == META_FIELDS
        and book.log.shape[2] == LOG_WIDTH
        and book.owners.shape[2] == 2
    )


def best(book: Book, b: int, side: int, otherwise: int) -> int:
    """The side's best price, or `otherwise` where it is empty."""
    key = int(book.meta[b, TOUCH + side])
    return otherwise if key == FAR else key * (2 * side - 1)


def mid_x2(book: Book, b: int, otherwise: int) -> int:
    """Twice the midpoint (best bid + best ask, an integer), or `otherwise` where a side is
    empty.
    """
    ask, minus_bid = book.meta[b, TOUCH + SELL], book.meta[b, TOUCH + BUY]
    return otherwise if ask == FAR or minus_bid == FAR else int(ask - minus_bid)


def depth(book: Book, b: int, side: int, out: Array) -> int:
    """Write (price, quantity) of the best levels into out[b, side, n, 2], zeros where there are
    fewer; their number."""
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


FUNCTIONS = own_functions(globals())
