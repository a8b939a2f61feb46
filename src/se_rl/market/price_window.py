"""The window of prices that a side keeps in rows: orders enter and leave, and the window moves.

Plain Python that `make_kernel` compiles; price_levels.py says what the arrays hold.
"""

from __future__ import annotations

from se_rl.market.layout import own_functions
from se_rl.market.price_levels import (
    BASE,
    FAR,
    FREE,
    HEAD,
    ID,
    LIVE,
    NEXT,
    OWNER,
    PRICE,
    QUANTITY,
    QUEUED,
    SIDE,
    TOUCH,
    Book,
    attach,
    detach,
    move_queue,
    nearest_beyond,
)


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


def headroom(book: Book) -> int:
    """Rows kept free for prices better than the touch when a window is placed."""
    return (book.levels.shape[2] - 1) // 4


def retreat(book: Book, b: int, side: int, row: int) -> None:
    """Row was the touch and is empty now: move the touch to the next price, and the window where it
    got too far."""
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


def recentre(book: Book, b: int, side: int, key: int) -> None:
    """Move the window so that `key` (the touch to be) has headroom before it; nothing is lost,
    queues keep order."""
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


def enter(book: Book, b: int, side: int) -> None:
    """Bring the orders that the moved window now covers in from the list beyond it, oldest
    first.
    """
    orders, beyond, base = book.orders, book.levels.shape[2] - 1, int(book.meta[b, BASE + side])
    slot = int(book.levels[b, side, beyond, HEAD])
    while slot >= 0:
        after = int(orders[b, slot, NEXT])
        row = int(orders[b, slot, PRICE]) * (2 * side - 1) - base
        if row < beyond:
            detach(book, b, side, beyond, slot)
            attach(book, b, side, row, slot)
        slot = after


FUNCTIONS = own_functions(globals())
