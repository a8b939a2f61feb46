"""Three markets with a price-time book in which somebody sells: many at once (arXiv 2507.06345).

From the description of Cheridito and Weiss. The book is the one of `se_rl.market.kernel`.
"""

from __future__ import annotations

from types import SimpleNamespace

import numba as nb
import numpy as np
import numpy.typing as npt

from se_rl.market import price_levels as at
from se_rl.market.book import MESSAGE_FIELDS, Books
from se_rl.market.compiling import make_kernel
from se_rl.market.outside import draws, lot_agent, lot_traders
from se_rl.market.outside.draws import streams_of
from se_rl.market.outside.lot_numbers import (
    AGENT,
    DIRECTION,
    FIRST_ASK,
    FIRST_BEST,
    FIRST_BID,
    INITIAL,
    LAST_MID,
    LEVELS,
    LIMIT_FLOW,
    LOT_NUMBERS,
    MARKET_FLOW,
    OWNERS,
    START_LEVELS,
    START_TIME,
    LotState,
    LotTables,
)

Array = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Observation = npt.NDArray[np.float32]

PRICE_ROWS = 128
ORDER_SLOTS = 512
"""Orders that a book can hold; about 200 rest in it."""
MOST_MESSAGES = 256
"""More than an agent can send at once."""
_NOTHING = np.zeros((0, 0))
_NO_OFFERS = np.zeros((0, 2), np.int64)

KERNEL = make_kernel(
    nb.njit(nogil=True, error_model="numpy"),
    *draws.FUNCTIONS,
    *lot_traders.FUNCTIONS,
    *lot_agent.FUNCTIONS,
)
_run_until, _look, _send = KERNEL.run_until, KERNEL.look, KERNEL.send
_look_at_places = KERNEL.look_at_places
_rebalance, _liquidation, _write_message = (
    KERNEL.rebalance,
    KERNEL.liquidation,
    KERNEL.write_message,
)
SPREAD, OFFER, LIQUIDATE = range(3)
"""What agents can do."""


def _make_callers(source_hash: int) -> SimpleNamespace:
    @nb.njit(nogil=True, cache=True)
    def run(book, lots, tables, order, time, out):  # type: ignore[no-untyped-def]
        _ = source_hash
        for b in range(book.meta.shape[0]):
            _run_until(book, lots, tables, b, time, order)
            _look(book, lots, b, time, order, out)

    @nb.njit(nogil=True, cache=True)
    def places(book, out):  # type: ignore[no-untyped-def]
        _ = source_hash
        for b in range(book.meta.shape[0]):
            _look_at_places(book, b, out)

    @nb.njit(nogil=True, cache=True)
    def act(book, lots, order, what, shares, offers):  # type: ignore[no-untyped-def]
        _ = source_hash
        messages = np.zeros((MOST_MESSAGES, 3), np.int64)
        for b in range(book.meta.shape[0]):
            remaining = order + book.owners[b, AGENT, at.SHARES]
            if remaining == 0:
                continue
            if what == SPREAD:
                count = _rebalance(book, lots, b, shares[b], remaining, messages)
            elif what == LIQUIDATE:
                count = _liquidation(book, lots, b, remaining, messages)
            else:
                count = _write_message(messages, 0, at.LIMIT, offers[b, 0], offers[b, 1])
            _send(book, lots, b, messages, count)

    return SimpleNamespace(run=run, places=places, act=act)


_CALL = _make_callers(KERNEL.source_hash)


class LotMarkets:
    """`n` markets of a kind, in each of which somebody sells `order` lots."""

    def __init__(self, n: int, kind: str, *, order: int) -> None:
        self.tables = LotTables.of(kind)
        self.order = order
        self.books = Books(n, levels=PRICE_ROWS, orders=ORDER_SLOTS, log=0, owners=OWNERS, ids=1)
        self.lots = LotState.empty(n)
        self._opening = opening_messages()
        self.seen = np.zeros((n, LOT_NUMBERS + 2 * order), np.float32)
        self.flows = np.zeros((n, 4), np.int64)
        """Lots bought and sold at market in the last run, then lots of bids and offers in it."""

    def reset(self, seeds: npt.ArrayLike) -> Observation:
        """Start every market anew from its seed, and run it to time 0; what the agents see."""
        self.books.reset()
        self.lots.streams[:] = streams_of(seeds)
        counts = self.lots.counts
        counts[:] = 0
        counts[:, LAST_MID] = FIRST_BID + FIRST_ASK
        counts[:, LIMIT_FLOW : LIMIT_FLOW + 2] = START_LEVELS.sum()
        # the direction is a bit of the stream's first state, which no later draw shows
        counts[:, DIRECTION] = self.lots.streams >> np.uint64(63)
        self.lots.next_noise[:] = START_TIME
        self.lots.next_strategic[:] = START_TIME if self.tables.strategic else np.inf
        self.books.apply(self._opening)
        return self.run(0.0)

    def run(self, time: float) -> Observation:
        """All events before a time; what the agents see then, in an array that is reused."""
        _CALL.run(self.books.book, self.lots, self.tables, self.order, time, self.seen)
        window = self.lots.counts[:, MARKET_FLOW : LIMIT_FLOW + 2]
        self.flows = window.copy()
        window[:] = 0
        return self.seen

    def places(self) -> Int:
        """Own lots on the five levels above the bid, then lots ahead of the first one on each."""
        out = np.empty((len(self.seen), 2 * LEVELS), np.int64)
        _CALL.places(self.books.book, out)
        return out

    def spread(self, shares: Array) -> None:
        """Spread what is left by shares [n, market | bid + 1 ... bid + 5 | inactive]."""
        self._act(SPREAD, np.ascontiguousarray(shares, np.float64), _NO_OFFERS)

    def offer(self, prices: Int, quantities: Int) -> None:
        """Put lots on offer and leave all others where they are; a quantity of 0 is none.

        Nobody may offer more than is left inactive.
        """
        self._act(OFFER, _NOTHING, np.stack([prices, quantities], axis=1).astype(np.int64))

    def liquidate(self) -> None:
        """Take all offers back and sell what is left at market."""
        self._act(LIQUIDATE, _NOTHING, _NO_OFFERS)

    def _act(self, what: int, shares: Array, offers: Int) -> None:
        _CALL.act(self.books.book, self.lots, self.order, what, shares, offers)

    @property
    def remaining(self) -> Int:
        """Lots that are not sold."""
        return self.order + self.books.book.owners[:, AGENT, at.SHARES]

    @property
    def gained(self) -> Int:
        """Cash received, less the first bid for every lot sold, in ticks x lots."""
        sold = self.order - self.remaining
        cash = self.books.book.owners[:, AGENT, at.CASH]
        return cash - sold * self.lots.counts[:, FIRST_BEST]

    @property
    def broken(self) -> npt.NDArray[np.bool_]:
        """Markets whose books were too small for their orders."""
        return self.books.total(at.REJECTED) > 0


def opening_messages() -> Int:
    """The first book as messages: one order on each level of both sides."""
    level = np.arange(len(START_LEVELS))
    messages = np.zeros((2, len(level), len(MESSAGE_FIELDS)), np.int64)
    for side, prices in ((at.BUY, FIRST_BID - level), (at.SELL, FIRST_ASK + level)):
        messages[side, :, MESSAGE_FIELDS.index("kind")] = at.LIMIT
        messages[side, :, MESSAGE_FIELDS.index("side")] = side
        messages[side, :, MESSAGE_FIELDS.index("price")] = prices
        messages[side, :, MESSAGE_FIELDS.index("quantity")] = START_LEVELS
        messages[side, :, MESSAGE_FIELDS.index("owner")] = INITIAL
    return messages.reshape(-1, len(MESSAGE_FIELDS))
