"""Warmed-up markets of several kinds, made once per profile and copied row by row.

So an episode need not wait for an empty book to fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from se_rl.data.features import RETURN_MINUTES
from se_rl.data.market_data import DataError
from se_rl.market.family import MarketKind
from se_rl.market.participants import EXTRA_LOTS, EXTRA_SPREAD, PROFILE, STREAM, STREAMS
from se_rl.market.profile import FIXED, MarketProfile
from se_rl.market.simulation import Markets, stream_seeds

Array = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

POOL_MARKETS = 128
LOOKBACK_BARS = max(RETURN_MINUTES)
"""Bars of the past that an observation reaches back."""
MEASURED_BARS = 120
MOST_LOTS = 50
PARALLEL_MARKETS = 256
"""Fewer markets are not worth waking other threads for: that can cost milliseconds a bar."""


@dataclass(frozen=True, eq=False)
class Usual:
    """What is usual, and what is fixed, in each kind of market, or in each market of a batch.

    Usual are ticks and lots per bar, measured with the profile's own news on.
    """

    volatility_ticks: Array
    volume_lots: Array
    spread_ticks: Array
    best_lots: Array
    collar: Array
    maker_half_spread: Array
    maker_lots: Array

    def of(self, kind: Int) -> Usual:
        """The same for markets of these kinds."""
        return Usual(*[getattr(self, field.name)[kind] for field in fields(self)])


class WarmPool:
    """States of markets in full swing, of several kinds, and what is usual in each.

    A twin's profile runs without news of its own: the session's moves take their place.
    """

    def __init__(self, kinds: Sequence[MarketKind], *, agents: int = 1) -> None:
        self.kinds = tuple(kinds)
        self.agents = agents
        self.usual = _usual_of(kinds, agents)
        warm = [_full_swing(_running_profile(kind), agents) for kind in kinds]
        counts = [len(each.states[0]) for each in warm]
        self._counts = np.array(counts)
        self._first = np.cumsum([0, *counts[:-1]])
        self.numbers = np.concatenate([each.numbers for each in warm])
        self._events = np.array([each.events_per_bar for each in warm])
        self.states = [
            np.concatenate(parts) for parts in zip(*[w.states for w in warm], strict=True)
        ]
        self.states[-1][:, PROFILE] = np.repeat(np.arange(len(warm)), counts)
        self.mid_ticks = np.concatenate([each.mid_ticks for each in warm], axis=1)
        self.volume_lots = np.concatenate([each.volume_lots for each in warm], axis=1)

    def markets(self, n: int) -> Markets:
        """`n` markets to copy states into."""
        profile = self.kinds[0].profile
        markets = Markets(n, profile, agents=self.agents, warm_up_bars=0, parallel=_threaded())
        markets.sim = markets.sim._replace(numbers=self.numbers)
        return markets

    def start(self, markets: Markets, seeds: Int, kind: Int) -> Int:
        """Put each market into a state of its kind that its seed picks, with fresh random streams.

        Returns the pool's row of each market. What a seed picks does not depend on other kinds.
        """
        rows = self._first[kind] + stream_seeds(~seeds)[:, 0] % self._counts[kind]
        self._load(markets, rows)
        markets.sim.state[:, STREAM : STREAM + STREAMS] = stream_seeds(seeds)
        markets.seeds = seeds
        markets.events_per_bar = self._events[kind]
        return rows

    def _load(self, markets: Markets, rows: Int) -> None:
        """Copy these rows of the states."""
        for array, states in zip(_arrays(markets), self.states, strict=True):
            np.take(states, rows, axis=0, out=array, mode="clip")


def widen(markets: Markets, usual: Usual, *, spread_ticks: Array, best_lots: Array) -> None:
    """Bring the makers' half-spread and lots to a symbol's usual spread and best size.

    NaN leaves the profile's own. The book follows within the makers' next re-quotes; a quote is
    never narrower than a tick, nor larger than MOST_LOTS a level, nor smaller than half of the
    profile's own: a market that lives by its depth would run empty.
    """
    copies = markets.n // len(spread_ticks)
    extra = np.nan_to_num((spread_ticks - usual.spread_ticks) / 2.0)
    half = np.maximum(extra, -usual.maker_half_spread)
    own = np.rint(usual.maker_lots)
    missing = np.nan_to_num(best_lots - usual.best_lots)
    lots = np.clip(missing, -np.floor(own / 2.0), np.maximum(0, MOST_LOTS - own))
    markets.sim.state[:, EXTRA_SPREAD] = np.tile(np.rint(half * FIXED).astype(np.int64), copies)
    markets.sim.state[:, EXTRA_LOTS] = np.tile(np.rint(lots).astype(np.int64), copies)


def trade_bar(
    markets: Markets, wishes: Int, *, drift: Int, events: Int
) -> tuple[dict[str, Int], Int]:
    """One bar of `Markets.run` with wishes [market, agent, wish].

    It runs on no more threads than the markets are worth.
    """
    if not _threaded():
        return markets.run(1, wishes[None], drift=drift, events=events)
    threads = nb.get_num_threads()
    nb.set_num_threads(1 if markets.n < PARALLEL_MARKETS else threads)
    try:
        return markets.run(1, wishes[None], drift=drift, events=events)
    finally:
        nb.set_num_threads(threads)


def _threaded() -> bool:
    """Whether numba may use threads; where not, its threading layer is never started."""
    return int(nb.config.NUMBA_NUM_THREADS) > 1  # type: ignore[attr-defined]


def _arrays(markets: Markets) -> list[npt.NDArray[Any]]:
    """Everything that changes in the markets, in the order of `copy_state`."""
    return [*markets.books.book, markets.sim.state]


@dataclass(frozen=True, eq=False)
class _FullSwing:
    """Markets of one profile after many bars, those alone that never broke, and their last bars."""

    states: list[npt.NDArray[Any]]
    numbers: Int  # [1, number]
    events_per_bar: int
    mid_ticks: Array  # [bar, market]
    volume_lots: Int  # [bar, market]
    typical: tuple[float, float, float, float]  # the first four numbers of `Usual`


@lru_cache(maxsize=16)
def _full_swing(profile: MarketProfile, agents: int) -> _FullSwing:
    """Run markets until they are in full swing; once for all worlds of a process."""
    markets = Markets(POOL_MARKETS, profile, agents=agents, parallel=_threaded())
    bars = markets.run(MEASURED_BARS)[0]
    whole = ~markets.broken
    if not whole.any():
        raise DataError(
            f"all {POOL_MARKETS} markets of the profile broke while warming up "
            "(a side of the book was empty); "
            "raise its maker_levels, maker_wake_rate or noise_limit_rate"
        )
    typical = (
        float(np.diff(bars["close"][:, whole] / 2.0, axis=0).std()),
        float(bars["volume"][:, whole].mean()),
        float((bars["ask"] - bars["bid"])[:, whole].mean()),
        float(np.median(markets.books.depth(1)[whole, :, 0, 1])),
    )
    return _FullSwing(
        states=[np.ascontiguousarray(array[whole]) for array in _arrays(markets)],
        numbers=markets.sim.numbers,
        events_per_bar=int(markets.events_per_bar[0]),
        mid_ticks=bars["close"][-LOOKBACK_BARS - 1 :, whole] / 2.0,
        volume_lots=bars["volume"][-LOOKBACK_BARS:, whole].copy(),
        typical=typical,
    )


def _usual_of(kinds: Sequence[MarketKind], agents: int) -> Usual:
    """What is usual in each kind; refused where a market never trades or never moves."""
    rows = []
    for kind in kinds:
        profile = kind.profile
        typical = _full_swing(profile, agents).typical
        if min(typical[:2]) <= 0:
            raise DataError(
                f"a {kind.name} market never trades or never moves; "
                "raise its rates or news_volatility"
            )
        rows.append((*typical, profile.collar, profile.maker_half_spread, profile.maker_lots))
    return Usual(*np.array(rows).T)


def _running_profile(kind: MarketKind) -> MarketProfile:
    return replace(kind.profile, news_volatility=0.0) if kind.twin else kind.profile
