"""Markets: thousands of simulated exchanges stepped together, on CPU threads.

Each market is a book with its participants; a bar is a fixed number of events. Executing agents hand in one wish per bar
(nothing, take, post) and get back what was filled. Same seed, same market, to the last bit: whatever the number of
threads, the markets beside it, or the device (`gpu.py` runs the same source).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import DataError
from se_rl.market import participants, price_levels
from se_rl.market.book import CPU_JIT, Books
from se_rl.market.kernel import make_kernel
from se_rl.market.participants import FIRST_AGENT, FUNCTIONS, STATE_FIELDS, STREAMS, Sim
from se_rl.market.profile import FIXED, MAX_MAKERS, MarketProfile, event_rates, numbers

Int = npt.NDArray[np.int64]

START_TICKS = 10_000
"""The price at which every market starts; only differences to it mean something."""
FAMILY = 32
"""Consecutive seeds that share a clock: the threads of a GPU's warp."""
BAR_FIELDS = (
    "open",
    "high",
    "low",
    "close",
    "volume",
    "cash",
    "signed_volume",
    "bid",
    "ask",
    "news",
    "messages",
)
"""What `run` records per bar: mids are twice the price in ticks, cash is ticks x lots, news in 1/FIXED ticks."""

KERNEL = make_kernel(CPU_JIT, *FUNCTIONS)
_run_bar, _best, _fixed_widths = KERNEL.run_bar, KERNEL.best, KERNEL.fixed_widths


@CPU_JIT
def _bars(book, sim, wishes, answers, drift, events, record, b):  # type: ignore[no-untyped-def]
    """All bars of one market: the wishes and answers of bar k are wishes[k] and answers[k]."""
    if not _fixed_widths(book):  # never: it tells the compiler the widths
        return
    for k in range(events.shape[0]):
        _run_bar(book, sim, wishes[k], answers[k], drift[k], events[k], b)
        if record.shape[0] > 0:
            state = sim.state
            record[k, b, 0] = state[b, participants.BAR_OPEN]
            record[k, b, 1] = state[b, participants.BAR_HIGH]
            record[k, b, 2] = state[b, participants.BAR_LOW]
            record[k, b, 3] = state[b, participants.LAST_MID]
            record[k, b, 4] = state[b, participants.TRADED]
            record[k, b, 5] = state[b, participants.TRADED_CASH]
            record[k, b, 6] = state[b, participants.SIGNED_VOLUME]
            record[k, b, 7] = _best(book, b, price_levels.BUY, 0)
            record[k, b, 8] = _best(book, b, price_levels.SELL, 0)
            record[k, b, 9] = state[b, participants.NEWS]
            record[k, b, 10] = state[b, participants.MESSAGES]


def _make_callers(source_hash: int) -> SimpleNamespace:
    @nb.njit(nogil=True, cache=True)
    def serial(book, sim, wishes, answers, drift, events, record):  # type: ignore[no-untyped-def]
        _ = source_hash
        for b in range(book.meta.shape[0]):
            _bars(book, sim, wishes, answers, drift, events, record, b)

    @nb.njit(nogil=True, cache=True, parallel=True)
    def parallel(book, sim, wishes, answers, drift, events, record):  # type: ignore[no-untyped-def]
        _ = source_hash
        for b in nb.prange(book.meta.shape[0]):
            _bars(book, sim, wishes, answers, drift, events, record, np.int64(b))

    return SimpleNamespace(serial=serial, parallel=parallel)


_CALL = _make_callers(KERNEL.source_hash)


class Markets:
    """`n` markets with `agents` executing agents each. `profile` is one for all or one per market."""

    def __init__(
        self,
        n: int,
        profile: MarketProfile | Sequence[MarketProfile] | None = None,
        *,
        agents: int = 1,
        seeds: npt.ArrayLike | None = None,
        levels: int = 128,
        orders: int = 256,
        log: int = 0,
        warm_up_bars: int = 20,
        parallel: bool = True,
    ) -> None:
        chosen = (
            [profile or MarketProfile()] if not isinstance(profile, Sequence) else list(profile)
        )
        if len(chosen) not in (1, n):
            raise DataError(
                f"{len(chosen)} profiles for {n} markets; give one for all, or one each"
            )
        self.n, self.agents, self.profiles, self.warm_up_bars = n, agents, chosen, warm_up_bars
        self.books = Books(
            n,
            levels=levels,
            orders=orders,
            log=log,
            owners=FIRST_AGENT + agents + 1,
            ids=0,
            collar=round(chosen[0].collar),
            prevent_self_trade=True,
        )
        rows = np.arange(n) % len(chosen)
        self.books.total(price_levels.COLLAR)[:] = [round(chosen[row].collar) for row in rows]
        self.sim = Sim(
            state=np.zeros((n, STATE_FIELDS + agents), np.int64),
            numbers=np.stack([numbers(p, pool=orders) for p in chosen]),
        )
        self.events_per_bar = np.array(
            [round(p.units_per_minute * sum(event_rates(p, orders).values())) for p in chosen],
            np.int64,
        )[rows]
        self._rows, self._run = rows, _CALL.parallel if parallel else _CALL.serial
        self.reset(np.arange(n) if seeds is None else seeds)

    def reset(self, seeds: npt.ArrayLike) -> None:
        """Start every market anew from its seed: an empty book, then `warm_up_bars` bars in which it fills."""
        self.seeds = np.broadcast_to(np.asarray(seeds, np.int64), (self.n,)).copy()
        self.books.reset()
        state = self.sim.state
        state[:] = 0
        for field in (participants.VALUE, participants.TREND):
            state[:, field] = START_TICKS * FIXED
        state[:, participants.REFERENCE : participants.REFERENCE + MAX_MAKERS] = START_TICKS * FIXED
        state[:, participants.LAST_MID] = 2 * START_TICKS
        state[:, participants.PROFILE] = self._rows
        state[:, participants.STREAM : participants.STREAM + STREAMS] = stream_seeds(self.seeds)
        state[:, participants.QUOTE :] = -1
        if self.warm_up_bars:
            self.run(self.warm_up_bars, record=False)
        state[:, participants.BROKEN] = 0
        self.books.book.owners[:] = 0
        state[:, participants.SEEN_SHARES : participants.SEEN_SHARES + MAX_MAKERS] = 0

    def step(
        self, wishes: Int | None = None, *, drift: Int | None = None, events: Int | None = None
    ) -> Int:
        """One bar. `wishes` [n, agents, 4] are kind, side, price in ticks and lots; the answers [n, agents, 4] are lots
        filled, of these passively, cash in ticks x lots, lots still resting."""
        each = None if wishes is None else wishes[None]
        return self.run(
            1,
            each,
            drift=None if drift is None else drift[None],
            events=None if events is None else events[None],
            record=False,
        )[1][0]

    def run(
        self,
        bars: int,
        wishes: Int | None = None,
        *,
        drift: Int | None = None,
        events: Int | None = None,
        record: bool = True,
    ) -> tuple[dict[str, Int], Int]:
        """Many bars at once, with wishes [bars, n, agents, 4] known in advance; the bars [bars, n] and the answers.

        `drift` [bars, n] moves the public value (1/FIXED ticks over the bar), `events` [bars, n] replaces the number of
        events: that is how a market becomes the twin of a session.
        """
        shape = (bars, self.n, self.agents, 4)
        asked = (
            np.zeros(shape, np.int64) if wishes is None else np.ascontiguousarray(wishes, np.int64)
        )
        if asked.shape != shape:
            raise DataError(
                f"wishes have shape {asked.shape}, expected {shape} = bars x markets x agents x 4"
            )
        moves = (
            np.zeros((bars, self.n), np.int64)
            if drift is None
            else np.ascontiguousarray(drift, np.int64)
        )
        counts = np.tile(self.events_per_bar, (bars, 1)) if events is None else events
        answers = np.zeros(shape, np.int64)
        kept = np.zeros((bars if record else 0, self.n, len(BAR_FIELDS)), np.int64)
        self._run(
            self.books.book,
            self.sim,
            asked,
            answers,
            moves,
            np.ascontiguousarray(counts, np.int64),
            kept,
        )
        return {name: kept[..., i] for i, name in enumerate(BAR_FIELDS)}, answers

    def copy_state(self) -> list[npt.NDArray[Any]]:
        """Everything that changes, copied: `restore_state` brings the markets back to this moment."""
        return [array.copy() for array in self._arrays()]

    def restore_state(self, saved: list[npt.NDArray[Any]]) -> None:
        """Back to a saved moment."""
        for array, old in zip(self._arrays(), saved, strict=True):
            array[:] = old

    @property
    def mid_ticks(self) -> npt.NDArray[np.float64]:
        """The midpoint of each market in ticks (the last one known where a side is empty)."""
        return self.sim.state[:, participants.LAST_MID] / 2.0

    @property
    def broken(self) -> npt.NDArray[np.bool_]:
        """Markets in which a side of the book was empty at the end of a bar: their outcome is void, never free."""
        return self.sim.state[:, participants.BROKEN] > 0

    def _arrays(self) -> list[npt.NDArray[Any]]:
        return [*self.books.book, self.sim.state]


def stream_seeds(seeds: Int) -> Int:
    """Start values of each market's streams: a hash of seed and stream, never 0, in [1, 2**32).

    The clock, which says who acts when, is shared by the family of seeds with the same seed // FAMILY: neighbours on a
    GPU then do the same kind of thing at the same time, worth a factor of three. What they do is drawn by each alone.
    Seeds that are FAMILY apart have clocks of their own.
    """
    owner = np.repeat(seeds.astype(np.uint64)[:, None], STREAMS, axis=1)
    owner[:, participants.CLOCK] //= np.uint64(FAMILY)
    x: npt.NDArray[Any] = owner * np.uint64(STREAMS) + np.arange(1, STREAMS + 1, dtype=np.uint64)
    x = x * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ np.right_shift(x, np.uint64(shift))) * np.uint64(factor)
    x = x ^ np.right_shift(x, np.uint64(31))
    return np.maximum(x & np.uint64(0xFFFFFFFF), np.uint64(1)).astype(np.int64)
