"""The order book: price-time priority in integer ticks and integer quantities, one source for
Python, CPU and GPU.

These functions and those of price_levels.py are plain Python; `make_kernel(jit)` compiles them all.
They neither allocate nor raise, and touch book `b` only, so that a book's result depends on its own
messages alone.
"""

from __future__ import annotations

from se_rl.market.layout import own_functions
from se_rl.market.price_levels import (
    BASE,
    CANCEL,
    CASH,
    COLLAR,
    DROPPED,
    FAR,
    FREE,
    HEAD,
    ID,
    IOC,
    LIMIT,
    LOG_PRICE,
    LOG_QUANTITY,
    LOGGED,
    MAKER_ID,
    MAKER_OWNER,
    MAKER_SLOT,
    MARKET,
    MAX_PRICE,
    MAX_QUANTITY,
    NOTIONAL,
    OWNER,
    PRICE,
    QUANTITY,
    REJECTED,
    SELF_CANCELLED,
    SELF_TRADE,
    SHARES,
    SIDE,
    TAKER_ID,
    TAKER_OWNER,
    TAKER_SIDE,
    TOUCH,
    TRADES,
    UNKNOWN,
    VOLUME,
    Book,
    reduce,
)
from se_rl.market.price_window import rest, unlink


def limit(book: Book, b: int, side: int, price: int, quantity: int, owner: int, ident: int) -> int:
    """Trade what crosses, rest what is left; the slot where it rests, or -1."""
    meta = book.meta
    if not acceptable(book, b, price, quantity):
        return -1
    key, theirs = price * (2 * side - 1), TOUCH + 1 - side
    if meta[b, theirs] <= -key:
        quantity = match(
            book, b, side, min(-key, meta[b, theirs] + meta[b, COLLAR]), quantity, owner, ident
        )
        if quantity == 0:
            return -1
        if meta[b, theirs] <= -key:  # the collar stopped it: resting here would cross the book
            meta[b, DROPPED] += quantity
            return -1
    if meta[b, FREE] < 0:
        meta[b, REJECTED] += 1
        return -1
    return rest(book, b, side, price, quantity, owner, ident)


def take(book: Book, b: int, side: int, price: int, quantity: int, owner: int, ident: int) -> int:
    """Immediate or cancel: trade up to the price, drop the rest; the quantity that was filled."""
    if not acceptable(book, b, price, quantity):
        return 0
    return sweep(book, b, side, price * (1 - 2 * side), quantity, owner, ident)


def market(book: Book, b: int, side: int, quantity: int, owner: int, ident: int) -> int:
    """Trade at any price within the collar, drop the rest; the quantity that was filled."""
    if not acceptable(book, b, 0, quantity):
        return 0
    return sweep(book, b, side, FAR - 1, quantity, owner, ident)


def cancel(book: Book, b: int, slot: int, quantity: int) -> int:
    """Take back this much of an order, all of it if quantity is 0 or more than is left; the
    quantity taken back."""
    resting = int(book.orders[b, slot, QUANTITY])
    if resting == 0:
        book.meta[b, UNKNOWN] += 1
        return 0
    if quantity <= 0 or quantity >= resting:
        unlink(book, b, slot)
        return resting
    reduce(book, b, slot, quantity)
    return quantity


def replace(book: Book, b: int, slot: int, price: int, quantity: int) -> int:
    """New price and quantity left; less at the same price keeps its place, else it queues anew (and
    may trade).

    The slot where it now rests, or -1; refused numbers leave the order as it was.
    """
    orders = book.orders
    resting = int(orders[b, slot, QUANTITY])
    if resting == 0:
        book.meta[b, UNKNOWN] += 1
        return -1
    if not acceptable(book, b, price, quantity):
        return slot
    if price == orders[b, slot, PRICE] and quantity <= resting:
        if quantity < resting:
            reduce(book, b, slot, resting - quantity)
        return slot
    side, owner, ident = (
        int(orders[b, slot, SIDE]),
        int(orders[b, slot, OWNER]),
        int(orders[b, slot, ID]),
    )
    unlink(book, b, slot)
    return limit(book, b, side, price, quantity, owner, ident)


def handle(
    book: Book,
    b: int,
    slot: int,
    kind: int,
    side: int,
    price: int,
    quantity: int,
    owner: int,
    ident: int,
) -> int:
    """One message of any kind; `slot` matters to CANCEL and REPLACE only. The slot where its order
    rests, or -1."""
    if kind == LIMIT:
        return limit(book, b, side, price, quantity, owner, ident)
    if kind == CANCEL:
        cancel(book, b, slot, quantity)
        return slot if book.orders[b, slot, QUANTITY] > 0 else -1
    if kind == MARKET:
        market(book, b, side, quantity, owner, ident)
        return -1
    if kind == IOC:
        take(book, b, side, price, quantity, owner, ident)
        return -1
    return replace(book, b, slot, price, quantity)


def acceptable(book: Book, b: int, price: int, quantity: int) -> bool:
    """The numbers are within the book's bounds; if not, the order is counted as rejected."""
    bound = book.meta[b, MAX_PRICE]
    if 0 < quantity <= book.meta[b, MAX_QUANTITY] and -bound <= price <= bound:
        return True
    book.meta[b, REJECTED] += 1
    return False


def sweep(
    book: Book, b: int, side: int, limit_key: int, quantity: int, owner: int, ident: int
) -> int:
    """Match up to the key and the collar, count what is left as dropped; the quantity that was
    filled."""
    meta, theirs = book.meta, TOUCH + 1 - side
    left = match(
        book, b, side, min(limit_key, meta[b, theirs] + meta[b, COLLAR]), quantity, owner, ident
    )
    meta[b, DROPPED] += left
    return quantity - left


def match(
    book: Book, b: int, side: int, limit_key: int, quantity: int, owner: int, ident: int
) -> int:
    """Fill against the other side up to the key (in that side's keys), first come first served; the
    quantity left."""
    meta, orders, other = book.meta, book.orders, 1 - side
    while quantity > 0 and meta[b, TOUCH + other] <= limit_key:
        row = meta[b, TOUCH + other] - meta[b, BASE + other]
        slot = int(book.levels[b, other, row, HEAD])
        resting = int(orders[b, slot, QUANTITY])
        if meta[b, SELF_TRADE] and orders[b, slot, OWNER] == owner:
            meta[b, SELF_CANCELLED] += resting
            unlink(book, b, slot)
            continue
        size = min(resting, quantity)
        record(book, b, slot, size, side, owner, ident)
        quantity -= size
        if size == resting:
            unlink(book, b, slot)
        else:
            reduce(book, b, slot, size)
    return quantity


def record(book: Book, b: int, slot: int, size: int, side: int, owner: int, ident: int) -> None:
    """Book one fill: totals, both owners' cash and shares, and the log while it has space."""
    meta, orders, log, owners = book.meta, book.orders, book.log, book.owners
    price, maker = int(orders[b, slot, PRICE]), int(orders[b, slot, OWNER])
    cash, shares = (
        price * size * (1 - 2 * side),
        size * (1 - 2 * side),
    )  # what a buying taker pays and gets
    meta[b, TRADES] += 1
    meta[b, VOLUME] += size
    meta[b, NOTIONAL] += price * size
    last = owners.shape[1] - 1
    owners[b, min(owner, last), CASH] -= cash
    owners[b, min(owner, last), SHARES] += shares
    owners[b, min(maker, last), CASH] += cash
    owners[b, min(maker, last), SHARES] -= shares
    n = meta[b, LOGGED]
    meta[b, LOGGED] = n + 1
    if n >= log.shape[1]:
        return
    log[b, n, LOG_PRICE] = price
    log[b, n, LOG_QUANTITY] = size
    log[b, n, MAKER_SLOT] = slot
    log[b, n, MAKER_OWNER] = maker
    log[b, n, MAKER_ID] = orders[b, slot, ID]
    log[b, n, TAKER_OWNER] = owner
    log[b, n, TAKER_ID] = ident
    log[b, n, TAKER_SIDE] = side


FUNCTIONS = own_functions(globals())
