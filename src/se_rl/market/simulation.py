"""Markets: thousands of simulated exchanges stepped together, on CPU threads.

Each market is a book with its participants; a bar is a fixed number of events. Executing agents
hand in one wish per bar (nothing, take, post) and get back what was filled. Same seed, same market,
to the last bit: whatever the number of threads, the markets beside it, or the device (`gpu.py` runs
the same source).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import DataError
from se_rl.market import participants as at
from se_rl.market import price_levels
from se_rl.market.bar import FUNCTIONS, look_ahead
from se_rl.market.book import CPU_JIT, Books
from se_rl.market.compiling import make_kernel
from se_rl.market.fetching import fetch_ahead
from se_rl.market.participants import MAX_MAKERS, STREAMS, Sim, event_rates, numbers
from se_rl.market.profile import FIXED, MarketProfile

Int = npt.NDArray[np.int64]

START_TICKS = 10_000
"""The price at which every market starts; only differences to it mean something."""
FAMILY = 32
"""Consecutive seeds that share a clock: the threads of a GPU's warp."""
SEEDS_APART = 6
"""Streams that are seeded from one number: a market with more of them keeps these six."""
BAR_COLUMNS = {
    "open": at.BAR_OPEN,
    "high": at.BAR_HIGH,
    "low": at.BAR_LOW,
    "close": at.LAST_MID,
    "volume": at.TRADED,
    "cash": at.TRADED_CASH,
    "signed_volume": at.SIGNED_VOLUME,
    "bid": at.BAR_BID,
    "ask": at.BAR_ASK,
    "news": at.NEWS,
    "messages": at.MESSAGES,
}
"""What `run` records per bar, and the column of the state it stands in.

Mids (open to close) are twice the price in ticks, cash is ticks x lots, news in 1/FIXED ticks.
"""
_RECORDED = tuple(BAR_COLUMNS.values())

KERNEL = make_kernel(CPU_JIT, *FUNCTIONS, ready={look_ahead: fetch_ahead})
_run_bar, _fixed_widths = KERNEL.run_bar, KERNEL.fixed_widths


@CPU_JIT
def _bars(book, sim, wishes, answers, drift, events, record, b):  # type: ignore[no-untyped-def]
    """All bars of one market: the wishes and answers of bar k are wishes[k] and answers[k]."""
    if not _fixed_widths(book):  # never: it tells the compiler the widths
        return
    for k in range(events.shape[0]):
        _run_bar(book, sim, wishes[k], answers[k], drift[k], events[k], b)
        if record.shape[0] > 0:
            for i in range(len(_RECORDED)):
                record[k, b, i] = sim.state[b, _RECORDED[i]]


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
    """`n` markets with `agents` executing agents each. `profile` is one for all or one per
    market.
    """

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
        chosen = list(profile) if isinstance(profile, Sequence) else [profile or MarketProfile()]
        if len(chosen) not in (1, n):
            raise DataError(
                f"{len(chosen)} profiles for {n} markets; give one for all, or one each"
            )
        self.n = n
        self.agents = agents
        self.profiles = chosen
        self.warm_up_bars = warm_up_bars
        self.books = Books(
            n,
            levels=levels,
            orders=orders,
            log=log,
            owners=at.FIRST_AGENT + agents + 1,
            ids=0,
            collar=round(chosen[0].collar),
            prevent_self_trade=True,
        )
        self._rows = np.arange(n) % len(chosen)
        self._run = _CALL.parallel if parallel else _CALL.serial
        collars = [round(each.collar) for each in chosen]
        self.books.total(price_levels.COLLAR)[:] = np.array(collars)[self._rows]
        self.sim = Sim(
            state=np.zeros((n, at.STATE_FIELDS + agents), np.int64),
            numbers=np.stack([numbers(each, pool=orders) for each in chosen]),
        )
        self.events_per_bar = np.array([_events_per_bar(each, orders) for each in chosen])[
            self._rows
        ]
        self.reset(np.arange(n) if seeds is None else seeds)

    def reset(self, seeds: npt.ArrayLike) -> None:
        """Start every market anew from its seed: an empty book, which fills in `warm_up_bars`."""
        self.seeds = np.broadcast_to(np.asarray(seeds, np.int64), (self.n,)).copy()
        self.books.reset()
        state = self.sim.state
        state[:] = 0
        state[:, at.VALUE] = START_TICKS * FIXED
        state[:, at.TREND] = START_TICKS * FIXED
        state[:, at.REFERENCE : at.REFERENCE + MAX_MAKERS] = START_TICKS * FIXED
        state[:, at.LAST_MID] = 2 * START_TICKS
        state[:, at.PROFILE] = self._rows
        state[:, at.STREAM : at.STREAM + STREAMS] = stream_seeds(self.seeds)
        state[:, at.QUOTE : at.QUOTE + at.QUOTES] = -1
        state[:, at.AGENT_SLOT :] = -1
        if self.warm_up_bars:
            self.run(self.warm_up_bars, record=False)
        state[:, at.BROKEN] = 0
        self.books.book.owners[:] = 0
        state[:, at.SEEN_SHARES : at.SEEN_SHARES + MAX_MAKERS] = 0

    def step(
        self, wishes: Int | None = None, *, drift: Int | None = None, events: Int | None = None
    ) -> Int:
        """One bar: from wishes [n, agents, WISH_FIELDS] to answers [n, agents, ANSWER_FIELDS].

        A wish is kind, side, price in ticks and lots; an answer is lots filled, of these
        passively, cash in ticks x lots, and lots still resting.
        """
        answers = self.run(
            1,
            None if wishes is None else wishes[None],
            drift=None if drift is None else drift[None],
            events=None if events is None else events[None],
            record=False,
        )[1]
        return answers[0]

    def run(
        self,
        bars: int,
        wishes: Int | None = None,
        *,
        drift: Int | None = None,
        events: Int | None = None,
        record: bool = True,
    ) -> tuple[dict[str, Int], Int]:
        """Many bars at once, with wishes [bars, n, agents, WISH_FIELDS] known in advance.

        Returns the bars [bars, n] by name and the answers. `drift` [bars, n] moves the public
        value (1/FIXED ticks over the bar), `events` [bars, n] replaces the number of events: that
        is how a market becomes the twin of a session.
        """
        asked = self._asked(bars, wishes)
        if drift is None:
            drift = np.zeros((bars, self.n), np.int64)
        if events is None:
            events = np.tile(self.events_per_bar, (bars, 1))
        answers = np.zeros((bars, self.n, self.agents, at.ANSWER_FIELDS), np.int64)
        kept = np.zeros((bars if record else 0, self.n, len(BAR_COLUMNS)), np.int64)
        self._run(
            self.books.book,
            self.sim,
            asked,
            answers,
            np.ascontiguousarray(drift, np.int64),
            np.ascontiguousarray(events, np.int64),
            kept,
        )
        return {name: kept[..., i] for i, name in enumerate(BAR_COLUMNS)}, answers

    def _asked(self, bars: int, wishes: Int | None) -> Int:
        """The wishes in the kernel's shape; none at all are zeros."""
        shape = (bars, self.n, self.agents, at.WISH_FIELDS)
        if wishes is None:
            return np.zeros(shape, np.int64)
        asked = np.ascontiguousarray(wishes, np.int64)
        if asked.shape != shape:
            raise DataError(
                f"wishes have shape {asked.shape}, expected {shape} = "
                f"bars x markets x agents x {at.WISH_FIELDS}"
            )
        return asked

    def copy_state(self) -> list[npt.NDArray[Any]]:
        """Everything that changes, copied.

        `restore_state` brings the markets back to this moment.
        """
        return [array.copy() for array in self._arrays()]

    def restore_state(self, saved: list[npt.NDArray[Any]]) -> None:
        """Back to a saved moment."""
        for array, old in zip(self._arrays(), saved, strict=True):
            array[:] = old

    @property
    def mid_ticks(self) -> npt.NDArray[np.float64]:
        """The midpoint of each market in ticks (the last one known where a side is empty)."""
        return self.sim.state[:, at.LAST_MID] / 2.0

    @property
    def broken(self) -> npt.NDArray[np.bool_]:
        """Markets in which a side of the book was empty at the end of a bar: their outcome is void,
        never free."""
        return self.sim.state[:, at.BROKEN] > 0

    def _arrays(self) -> list[npt.NDArray[Any]]:
        return [*self.books.book, self.sim.state]


def _events_per_bar(profile: MarketProfile, orders: int) -> int:
    """Events in a bar of one minute, in a book of `orders` slots."""
    return round(profile.units_per_minute * sum(event_rates(profile, orders).values()))


def stream_seeds(seeds: Int) -> Int:
    """Start values of each market's streams: a hash of seed and stream, in [1, LAST_STATE].

    The clock, which says who acts when, is shared by the family of seeds with the same
    seed // FAMILY: neighbours on a GPU then do the same kind of thing at the same time, worth a
    factor of three. What they do is drawn by each alone. Seeds that are FAMILY apart have clocks of
    their own. Streams come in groups of SEEDS_APART: a further group leaves those before it alone.
    """
    stream = np.arange(STREAMS, dtype=np.uint64)
    owner = np.repeat(seeds.astype(np.uint64)[:, None], STREAMS, axis=1)  # [market, stream]
    owner[:, at.CLOCK] //= np.uint64(FAMILY)
    owner += (stream // np.uint64(SEEDS_APART)) << np.uint64(48)
    x: npt.NDArray[Any] = owner * np.uint64(SEEDS_APART)
    x = x + stream % np.uint64(SEEDS_APART) + np.uint64(1)
    x = x * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ np.right_shift(x, np.uint64(shift))) * np.uint64(factor)
    x = x ^ np.right_shift(x, np.uint64(31))
    return np.maximum(x & np.uint64(at.LAST_STATE), np.uint64(1)).astype(np.int64)
