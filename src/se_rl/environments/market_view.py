"""What an agent sees of simulated markets: the public observation fields, computed bar by bar for all markets at once.

Names, order and units are those of `features.observation_table`; sums and extremes go on from what was known before the
window, so that an observation in the middle of a session looks the same in both worlds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from se_rl.data.features import CLIP, PUBLIC_FIELDS
from se_rl.environments.market_pool import LOOKBACK_BARS, WarmPool
from se_rl.environments.metrics import BPS
from se_rl.environments.twin import Script

Array = npt.NDArray[np.float64]

_ROW = {name: row for row, name in enumerate(PUBLIC_FIELDS)}
_SIZES = slice(_ROW["bid_size_1"], _ROW["imbalance"])
_RETURNS = slice(_ROW["return_1"], _ROW["specific_return_1"])
_SPECIFIC = slice(_ROW["specific_return_1"], _ROW["return_since_open"])
_SLOW = slice(_ROW["return_since_open"], len(PUBLIC_FIELDS))
QUIET_VOLUME = 1e-3
"""A bar without trades counts as this share of the usual volume, as in the static world."""


class MarketView:
    """The running state behind the observation of some markets, from the start of their windows on."""

    def __init__(self, script: Script, pool: WarmPool, log_mid: Array) -> None:
        horizon, n = script.value_ticks.shape
        self._script, self._bar = script, 0
        self._path = np.empty((LOOKBACK_BARS + 1 + horizon, n))
        self._path[: LOOKBACK_BARS + 1] = script.log_path
        self._path[LOOKBACK_BARS] = log_mid
        self._volume = np.empty((LOOKBACK_BARS + horizon, n))
        self._volume[:LOOKBACK_BARS] = script.volume
        self._high, self._low = (
            np.maximum(script.log_high, log_mid),
            np.minimum(script.log_low, log_mid),
        )
        self._squared = script.squared_sum.copy()
        self._usual_spread_bps = pool.usual_spread_ticks * script.tick * BPS
        self._log_usual_lots = np.log(pool.usual_best_lots + 1.0)
        self._log_usual_volatility = np.log(script.usual_volatility)
        self._table = np.zeros((len(PUBLIC_FIELDS), n))
        self._has_universe = ~np.isnan(script.universe_return[0])
        self._measure()

    def add(
        self, *, log_mid: Array, log_high: Array, log_low: Array, relative_volume: Array
    ) -> None:
        """One more bar has closed."""
        self._bar += 1
        now = LOOKBACK_BARS + self._bar
        self._path[now], self._volume[now - 1] = log_mid, relative_volume
        self._squared += np.square(log_mid - self._path[now - 1])
        np.maximum(self._high, log_high, out=self._high)
        np.minimum(self._low, log_low, out=self._low)
        self._measure()

    def fields(self, bid: Array, ask: Array, lots: npt.NDArray[np.int64]) -> Array:
        """The public fields [field, market] for these touches (currency) and displayed lots [market, side, level]."""
        table, script = self._table, self._script
        day = self.volatility * np.sqrt(script.day_bars)
        spread_bps = 2.0 * BPS * (ask - bid) / (ask + bid)
        bids, asks = lots.sum(axis=2).T
        self.imbalance = (bids - asks) / np.maximum(bids + asks, 1)
        table[_ROW["best_bid"]] = (np.log(bid) - script.log_open) / day
        table[_ROW["best_ask"]] = (np.log(ask) - script.log_open) / day
        table[_ROW["spread"]] = np.log((spread_bps + 0.01) / (self._usual_spread_bps + 0.01))
        table[_SIZES] = np.log(lots.reshape(len(lots), -1).T + 1.0) - self._log_usual_lots
        table[_ROW["imbalance"]] = self.imbalance
        self._write_returns(table[_RETURNS], table[_SPECIFIC])
        table[_SLOW] = self._slow_fields()
        return np.clip(table, -CLIP, CLIP, out=table)

    def _measure(self) -> None:
        """Volatility per bar, as a share of the price."""
        weight = self._script.squared_weight + self._bar
        self.volatility: Array = np.sqrt(np.maximum(self._squared / weight, 1e-12))

    def _write_returns(self, returns: Array, specific: Array) -> None:
        """Log returns in units of their standard deviations, and the same minus the universe's (0 where there is none)."""
        now = LOOKBACK_BARS + self._bar
        for row, bars in enumerate(self._script.return_bars):
            np.subtract(self._path[now], self._path[now - bars], out=returns[row])
            returns[row] /= self.volatility * np.sqrt(bars)
        np.clip(returns, -CLIP, CLIP, out=returns)
        np.subtract(
            returns, self._script.universe_return[self._bar], out=specific, where=self._has_universe
        )

    def _slow_fields(self) -> tuple[Array, ...]:
        """Return since the open, place in the day's range, volatility, volume of one and of five minutes, time of day."""
        script, now = self._script, LOOKBACK_BARS + self._bar
        price = self._path[now]
        since_open = (price - script.log_open) / (
            self.volatility * np.sqrt(np.maximum(script.bars_known + self._bar, 1.0))
        )
        width = self._high - self._low
        place = np.where(width > 0, 2.0 * (price - self._low) / np.maximum(width, 1e-12) - 1.0, 0.0)
        volumes = [
            np.log(self._volume[now - bars : now].mean(axis=0) + QUIET_VOLUME)
            for bars in script.return_bars[:2]
        ]
        level = np.log(self.volatility) - self._log_usual_volatility
        return since_open, place, level, *volumes, script.time_of_day[self._bar]
