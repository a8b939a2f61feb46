"""Warmed-up markets, made once per profile and copied row by row.

So an episode need not wait for an empty book to fill.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from se_rl.data.features import RETURN_MINUTES
from se_rl.data.market_data import DataError
from se_rl.market.participants import EXTRA_LOTS, EXTRA_SPREAD, STREAM, STREAMS
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


class WarmPool:
    """States of markets in full swing under one profile, and what is usual there.

    Usual are ticks and lots per bar, measured with the news on. `quiet` then turns the profile's
    own news off, for markets whose value follows a session: the session's moves take their place.
    """

    def __init__(self, profile: MarketProfile, *, agents: int = 1, quiet: bool = False) -> None:
        self.profile = replace(profile, news_volatility=0.0) if quiet else profile
        self.agents = agents
        markets, bars, whole = _in_full_swing(profile, agents)
        self.volatility_ticks = float(np.diff(bars["close"][:, whole] / 2.0, axis=0).std())
        self.usual_volume_lots = float(bars["volume"][:, whole].mean())
        self.usual_spread_ticks = float((bars["ask"] - bars["bid"])[:, whole].mean())
        self.usual_best_lots = float(np.median(markets.books.depth(1)[whole, :, 0, 1]))
        if self.volatility_ticks <= 0 or self.usual_volume_lots <= 0:
            raise DataError(
                "the profile's market never trades or never moves; "
                "raise its rates or news_volatility"
            )
        if quiet:
            markets, bars, whole = _in_full_swing(self.profile, agents)
        self._states = [np.ascontiguousarray(array[whole]) for array in markets.copy_state()]
        self.mid_ticks: Array = bars["close"][-LOOKBACK_BARS - 1 :, whole] / 2.0
        self.volume_lots: Int = bars["volume"][-LOOKBACK_BARS:, whole]

    def markets(self, n: int) -> Markets:
        """`n` markets to copy states into."""
        return Markets(n, self.profile, agents=self.agents, warm_up_bars=0, parallel=_threaded())

    def start(self, markets: Markets, seeds: Int) -> Int:
        """Put each market into a state that its seed picks, with fresh random streams.

        Returns the pool's row of each market.
        """
        rows = stream_seeds(~seeds)[:, 0] % len(self._states[0])
        for array, states in zip(_arrays(markets), self._states, strict=True):
            np.take(states, rows, axis=0, out=array, mode="clip")
        markets.sim.state[:, STREAM : STREAM + STREAMS] = stream_seeds(seeds)
        markets.seeds = seeds
        return rows

    def widen(self, markets: Markets, *, spread_ticks: Array, best_lots: Array) -> None:
        """Bring the makers' half-spread and lots to a symbol's usual spread and best size.

        NaN leaves the profile's own. The book follows within the makers' next re-quotes; a quote is
        never narrower than a tick, nor larger than MOST_LOTS a level.
        """
        copies = markets.n // len(spread_ticks)
        extra = np.nan_to_num((spread_ticks - self.usual_spread_ticks) / 2.0)
        half = np.maximum(extra, -self.profile.maker_half_spread)
        own = round(self.profile.maker_lots)
        missing = np.nan_to_num(best_lots - self.usual_best_lots)
        lots = np.clip(missing, 1 - own, max(0, MOST_LOTS - own))
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


def _in_full_swing(
    profile: MarketProfile, agents: int
) -> tuple[Markets, dict[str, Int], npt.NDArray[np.bool_]]:
    """Markets after many bars, these bars, and which of the markets never broke."""
    markets = Markets(POOL_MARKETS, profile, agents=agents, parallel=_threaded())
    bars = markets.run(MEASURED_BARS)[0]
    whole = ~markets.broken
    if not whole.any():
        raise DataError(
            f"all {POOL_MARKETS} markets of the profile broke while warming up "
            "(a side of the book was empty); "
            "raise its maker_levels, maker_wake_rate or noise_limit_rate"
        )
    return markets, bars, whole
