"""Books: preallocated order books, and the CPU callers that run messages through the kernel.

A message is a row of six integers, in the order of `MESSAGE_FIELDS`: kind (LIMIT, IOC, MARKET,
CANCEL, REPLACE), side (BUY 0, SELL 1), price in ticks, quantity, owner (>= 0) and id. CANCEL and
REPLACE name their order by its id and ignore side and owner; MARKET ignores the price. An id names
the latest order that used it, and 0 <= id < ids.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import numba as nb
import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import DataError
from se_rl.market import price_levels as at
from se_rl.market.compiling import make_kernel

Array = npt.NDArray[Any]

MESSAGE_FIELDS = ("kind", "side", "price", "quantity", "owner", "id")
CPU_JIT = nb.njit(  # type: ignore[call-overload]
    nogil=True, forceinline=True, _nrt=False, error_model="numpy"
)
"""How the kernel is compiled for CPUs: inlined, without reference counting; four times faster."""

CPU = make_kernel(CPU_JIT)
"""The kernel for CPU callers, those of other modules too."""


_fixed_widths, _handle, _depth, _ahead = CPU.fixed_widths, CPU.handle, CPU.depth, CPU.ahead


@CPU_JIT
def _replay_one(book, slots, messages, b):  # type: ignore[no-untyped-def]
    if not _fixed_widths(book) or messages.shape[2] != 6:
        return
    stream = min(b, messages.shape[0] - 1)  # one stream may serve all books
    for m in range(messages.shape[1]):
        kind, ident, slot = messages[stream, m, 0], messages[stream, m, 5], -1
        if kind >= at.CANCEL:
            slot = slots[b, ident]
            if (
                slot < 0
                or book.orders[b, slot, at.ID] != ident
                or book.orders[b, slot, at.QUANTITY] == 0
            ):
                book.meta[b, at.UNKNOWN] += 1
                continue
        side = messages[stream, m, 1] & 1  # & 1: the compiler sees that it is no -1
        price = messages[stream, m, 2]
        slot = _handle(
            book, b, slot, kind, side, price, messages[stream, m, 3], messages[stream, m, 4], ident
        )
        if kind == at.LIMIT or kind == at.REPLACE:
            slots[b, ident] = slot


def _make_callers(source_hash: int) -> SimpleNamespace:
    """What Python calls. The hash is their one closure variable: numba's cache key holds those, but
    no globals."""

    @nb.njit(nogil=True, cache=True)
    def replay(book, slots, messages):  # type: ignore[no-untyped-def]
        _ = source_hash
        for b in range(book.meta.shape[0]):
            _replay_one(book, slots, messages, b)

    @nb.njit(nogil=True, cache=True, parallel=True)
    def replay_parallel(book, slots, messages):  # type: ignore[no-untyped-def]
        _ = source_hash
        for b in nb.prange(book.meta.shape[0]):
            _replay_one(
                book, slots, messages, np.int64(b)
            )  # prange counts in uint64, which mixes badly

    @nb.njit(nogil=True, cache=True)
    def one(book, b, slot, kind, side, price, quantity, owner, ident):  # type: ignore[no-untyped-def]
        _ = source_hash
        return _handle(book, b, slot, kind, side, price, quantity, owner, ident)

    @nb.njit(nogil=True, cache=True)
    def depths(book, out):  # type: ignore[no-untyped-def]
        _ = source_hash
        for b in range(out.shape[0]):
            _depth(book, b, at.BUY, out)
            _depth(book, b, at.SELL, out)

    @nb.njit(nogil=True, cache=True)
    def ahead(book, b, slot):  # type: ignore[no-untyped-def]
        _ = source_hash
        return _ahead(book, b, slot)

    return SimpleNamespace(
        replay=replay, replay_parallel=replay_parallel, one=one, depths=depths, ahead=ahead
    )


_CALL = _make_callers(CPU.source_hash)


@nb.njit(nogil=True, cache=True)
def _misfit(stream, ids):  # type: ignore[no-untyped-def]
    """Some message has a field that no array can take; without branches, so that it costs little
    beside the replay."""
    signs = 0
    for s in range(stream.shape[0]):
        for m in range(stream.shape[1]):
            kind, side, ident = stream[s, m, 0], stream[s, m, 1], stream[s, m, 5]
            signs |= kind | (at.REPLACE - kind) | side | (1 - side) | ident | (ids - 1 - ident)
            signs |= stream[s, m, 3] | stream[s, m, 4]
    return signs < 0


class Books:
    """`n` independent order books in preallocated arrays (`book`, and `slots[n, ids]` from message
    id to order slot).

    `levels` are the price rows per side, `orders` the most that can rest in a book, `log` the
    trades kept between two `clear_log()` (0: none), `owners` the accounts. `collar` bounds how far
    a taker may trade from the touch it found; `prevent_self_trade` cancels an owner's resting order
    instead of trading with it. `dtype` int64 allows larger numbers.
    """

    def __init__(
        self,
        n: int,
        *,
        levels: int = 128,
        orders: int = 256,
        log: int = 64,
        owners: int = 8,
        ids: int = 1024,
        collar: int | None = None,
        prevent_self_trade: bool = False,
        dtype: type[np.signedinteger[Any]] = np.int32,
    ) -> None:
        _refuse_small(
            n=(n, 1),
            levels=(levels, 2),
            orders=(orders, 1),
            log=(log, 0),
            owners=(owners, 1),
            ids=(ids, 0),
        )
        if collar is not None and collar < 0:
            raise DataError(f"collar is {collar} ticks; use 0 or more, or None for no collar")
        self.book = at.Book(
            meta=np.zeros((n, at.META_FIELDS), np.int64),
            levels=np.zeros((n, 2, levels, at.LEVEL_WIDTH), dtype),
            orders=np.zeros((n, orders, at.ORDER_WIDTH), dtype),
            log=np.zeros((n, log, at.LOG_WIDTH), dtype),
            owners=np.zeros((n, owners, 2), np.int64),
        )
        self.slots = np.zeros((n, ids), np.int32)
        largest = int(np.iinfo(dtype).max)
        self.book.meta[:, at.COLLAR] = at.NO_COLLAR if collar is None else collar
        self.book.meta[:, at.SELF_TRADE] = prevent_self_trade
        self.book.meta[:, at.MAX_PRICE] = largest // 8
        self.book.meta[:, at.MAX_QUANTITY] = (
            largest // orders
        )  # so that no level's sum can overflow
        self.reset()

    def reset(self) -> None:
        """Empty every book, account, total and log; the rules stay."""
        meta, orders = self.book.meta, self.book.orders
        meta[:, : at.COLLAR] = 0
        meta[:, at.TOUCH : at.TOUCH + 2] = at.FAR
        self.book.levels[..., at.QUEUED] = 0
        self.book.owners[:] = 0
        orders[..., at.QUANTITY] = 0
        orders[..., at.NEXT] = np.arange(1, orders.shape[1] + 1)
        orders[:, -1, at.NEXT] = -1
        self.slots[:] = -1

    def apply(self, messages: Array, *, parallel: bool = False) -> None:
        """Run messages [m, 6] through every book, or [n, m, 6] each through its own; equal results
        for any threads."""
        run = _CALL.replay_parallel if parallel else _CALL.replay
        run(
            self.book, self.slots, self._checked(messages[None] if messages.ndim == 2 else messages)
        )

    def submit(
        self,
        b: int,
        kind: int,
        *,
        side: int = at.BUY,
        price: int = 0,
        quantity: int = 0,
        owner: int = 0,
        id: int = 0,
        slot: int = -1,
    ) -> int:
        """One message for book b, unchecked; CANCEL and REPLACE name their order by its slot, and
        `slots` is not used.

        The slot where the order rests now, or -1.
        """
        return int(_CALL.one(self.book, b, slot, kind, side, price, quantity, owner, id))

    def best(self, side: int, *, otherwise: int = 0) -> Array:
        """Each book's best price on a side, `otherwise` where it is empty."""
        key = self.book.meta[:, at.TOUCH + side]
        return np.where(key == at.FAR, otherwise, key * (2 * side - 1))

    def depth(self, n: int) -> Array:
        """(price, quantity) of the n best levels as int64[books, side, n, 2], zeros where there are
        fewer."""
        out = np.zeros((len(self.book.meta), 2, n, 2), np.int64)
        _CALL.depths(self.book, out)
        return out

    def ahead(self, b: int, slot: int) -> int:
        """The quantity that stands before the order in this slot."""
        return int(_CALL.ahead(self.book, b, slot))

    def total(self, field: int) -> Array:
        """One of the kernel's counters for every book (TRADES, VOLUME, NOTIONAL, REJECTED, DROPPED,
        ...), as a view."""
        return self.book.meta[:, field]

    def trades(self, b: int = 0) -> Array:
        """The logged trades of a book, oldest first, as a view; total(LOGGED) says how many there
        were."""
        return self.book.log[b, : self.book.meta[b, at.LOGGED]]

    def clear_log(self) -> None:
        """Forget the logged trades."""
        self.book.meta[:, at.LOGGED] = 0

    def grow(self, orders: int, *, log: int = 0) -> None:
        """Space for more resting orders (and logged trades) per book; slots, queues and the log stay
        as they are."""
        meta, old, n = self.book.meta, self.book.orders, self.book.orders.shape[1]
        if orders <= n:
            raise DataError(f"orders is {orders}, the books have {n}; a pool can only grow")
        new = np.zeros((len(old), orders, at.ORDER_WIDTH), old.dtype)
        new[:, :n] = old
        new[:, n:, at.NEXT] = np.arange(n + 1, orders + 1)
        new[:, -1, at.NEXT] = meta[:, at.FREE]
        meta[:, at.FREE] = n
        queued = self.book.levels[..., at.QUEUED].sum(axis=(1, 2), dtype=np.int64)
        meta[:, at.MAX_QUANTITY] = (np.iinfo(old.dtype).max - queued) // orders
        missing = max(0, log - self.book.log.shape[1])
        more = np.zeros((len(old), missing, at.LOG_WIDTH), old.dtype)
        self.book = self.book._replace(
            orders=new, log=np.concatenate([self.book.log, more], axis=1)
        )

    def _checked(self, stream: Array) -> Array:
        n, dtype = len(self.slots), self.book.orders.dtype
        if (
            stream.ndim != 3
            or stream.shape[2] != len(MESSAGE_FIELDS)
            or stream.shape[0] not in (1, n)
        ):
            raise DataError(
                f"messages have shape {stream.shape}; give [m, 6] for all books or [{n}, m, 6]"
            )
        if stream.dtype.kind != "i":
            raise DataError(
                f"messages have type {stream.dtype}; "
                "give signed integers (ticks and whole quantities)"
            )
        cast = np.ascontiguousarray(stream, dtype)
        if _misfit(cast, self.slots.shape[1]) or (
            stream.dtype != dtype and not np.array_equal(cast, stream)
        ):
            self._refuse(stream)
        return cast

    def _refuse(self, stream: Array) -> NoReturn:
        low, high = np.iinfo(self.book.orders.dtype).min, np.iinfo(self.book.orders.dtype).max
        bounds = [
            (0, at.REPLACE),
            (0, 1),
            (low, high),
            (0, high),
            (0, high),
            (0, self.slots.shape[1] - 1),
        ]
        least, most = np.array(bounds).T
        book, m, field = np.argwhere((stream < least) | (stream > most))[0]
        raise DataError(
            f"message {m} has {MESSAGE_FIELDS[field]} {stream[book, m, field]}; "
            f"it must lie in {least[field]} to {most[field]}"
        )


def _refuse_small(**given: tuple[int, int]) -> None:
    for name, (value, least) in given.items():
        if value < least:
            raise DataError(f"{name} is {value}; it must be at least {least}")
