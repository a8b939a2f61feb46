"""What simulated markets are told from outside: the script of a free market, or of a twin.

In the twin of a real session the public value follows the session's closes, each bar's move during
that bar and never before, and the pace of events follows the session's volume against its profile.
The size of a tick comes from the volatility known at the window's start, so that nothing in the
book gives away how wild the rest of the day will be.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from se_rl.data.features import CLIP, PRIOR_MINUTES, RETURN_MINUTES, FeatureScales, Known
from se_rl.data.market_data import MarketData
from se_rl.environments.fills import flat
from se_rl.environments.market_pool import LOOKBACK_BARS
from se_rl.environments.task import Orders, arrival_price, check_window

if TYPE_CHECKING:
    from se_rl.environments.dynamic_core import DynamicCore

Array = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

FREE_PRICE = 100.0
FREE_VOLATILITY = 10e-4
ACTIVITY_RANGE = (0.25, 4.0)
SLOWEST_MINUTE = 1e-5
"""A tick is at least what a minute volatility of 0.1 bps gives, in flat sessions too."""


@dataclass(frozen=True, eq=False)
class Script:
    """The plan of some markets' windows and what was known before them.

    The plan: `value_ticks` is the public value at each bar's end above the anchor, `activity` the
    pace of events. The past, newest last: prices, and volume against the usual one. `spread` (in
    ticks) and `best_lots` are the symbol's usual ones in the data that scales were fitted on, NaN
    where it has no quotes.
    """

    reference: Array  # [market]: the price at the anchor
    tick: Array  # [market]: one tick as a share of the reference
    value_ticks: Array  # [step, market]
    activity: Array  # [step, market]
    log_path: Array  # [past bar, market]
    volume: Array  # [past bar, market]
    log_open: Array  # [market]: of the session, as are high and low so far
    log_high: Array
    log_low: Array
    squared_sum: Array  # [market]: of the squared returns known, and its weight in bars
    squared_weight: Array
    usual_volatility: Array  # [market]
    bars_known: Array  # [market]
    universe_return: Array  # [step + 1, return, market], NaN where there is no universe
    time_of_day: Array  # [step + 1, market]
    spread: Array  # [market]
    best_lots: Array  # [market]
    return_bars: Int  # [return, market]

    def replaced(self, which: Int, other: Script) -> Script:
        """The same markets, where those of `which` follow another script."""
        joined = []
        for field in fields(self):
            values = getattr(self, field.name).copy()
            values[..., which] = getattr(other, field.name)
            joined.append(values)
        return Script(*joined)


def free_script(
    mid_ticks: Array, relative_volume: Array, *, horizon: int, volatility_ticks: Array
) -> Script:
    """Markets with news of their own, at 100.0 when the order arrives.

    Their past is the pool's, [bar, market].
    """
    n = mid_ticks.shape[1]
    tick = FREE_VOLATILITY / volatility_ticks
    path = np.log(FREE_PRICE * (1.0 + (mid_ticks - mid_ticks[-1]) * tick))
    clock = (LOOKBACK_BARS + np.arange(horizon + 1)) / (LOOKBACK_BARS + horizon)
    return Script(
        reference=np.full(n, FREE_PRICE),
        tick=tick,
        value_ticks=np.zeros((horizon, n)),
        activity=np.ones((horizon, n)),
        log_path=path,
        volume=relative_volume,
        log_open=path[0],
        log_high=path.max(axis=0),
        log_low=path.min(axis=0),
        squared_sum=np.full(n, PRIOR_MINUTES * FREE_VOLATILITY**2),
        squared_weight=np.full(n, float(PRIOR_MINUTES)),
        usual_volatility=np.full(n, FREE_VOLATILITY),
        bars_known=np.full(n, float(LOOKBACK_BARS)),
        universe_return=np.full((horizon + 1, len(RETURN_MINUTES), n), np.nan),
        time_of_day=np.repeat(clock[:, None], n, axis=1),
        spread=np.full(n, np.nan),
        best_lots=np.full(n, np.nan),
        return_bars=np.tile(np.array(RETURN_MINUTES)[:, None], n),
    )


class SessionTwin:
    """The sessions of a data set as scripts for simulated markets."""

    def __init__(self, data: MarketData, scales: FeatureScales | None = None) -> None:
        self.data = data
        known = Known(data, scales or FeatureScales.fit(data))
        scales = known.scales
        self._prior = PRIOR_MINUTES / data.grid.bar_minutes
        self._return_bars = tuple(map(known.bars_of, RETURN_MINUTES))
        self._log_price = flat(known.log_price)
        self._sigma = flat(known.sigma)
        self._close = flat(data.close)
        self._bars_known = flat(known.bars_known.astype(np.float64))
        opening = data.open[..., :1]
        high = np.log(np.concatenate([opening, data.high], axis=2))
        low = np.log(np.concatenate([opening, data.low], axis=2))
        self._high = flat(np.maximum.accumulate(high, axis=2))
        self._low = flat(np.minimum.accumulate(low, axis=2))
        self._usual_volatility = np.sqrt(np.maximum(scales.variance, 1e-12))
        self._spread = np.where(scales.spread_bps > 0, scales.spread_bps * 1e-4, np.nan)
        bar_volume = scales.day_volume / len(data.grid)
        sized = (scales.best_size > 0) & (bar_volume > 0)
        share = scales.best_size / np.where(sized, bar_volume, 1.0)
        self._best_share = np.where(sized, share, np.nan)
        self.activity: Array = flat(_activity(known))
        self._universe = _universe_returns(known, self._return_bars)

    def script(
        self, orders: Orders, *, volatility_ticks: Array, usual_volume_lots: Array
    ) -> Script:
        """The script of one market per order, over the order's window."""
        check_window(self.data, horizon=orders.horizon, start=int(orders.start.max()))
        row, start = orders.row, orders.start
        bars = len(self.data.grid)
        symbol = row // len(self.data.dates)
        past = start - np.arange(LOOKBACK_BARS, -1, -1)[:, None]
        known = np.maximum(past, 0)
        window = orders.bars().T
        sigma = self._sigma[row, start]
        reference = arrival_price(self.data, orders)
        tick = np.maximum(sigma, SLOWEST_MINUTE) / volatility_ticks
        after = np.concatenate([window, window[-1:] + 1])
        weight = self._prior + self._bars_known[row, start]
        return Script(
            reference=reference,
            tick=tick,
            value_ticks=(self._close[row, window] / reference - 1.0) / tick,
            activity=np.clip(self.activity[row, window], *ACTIVITY_RANGE),
            log_path=self._log_price[row, known],
            volume=np.where(past[:-1] >= 0, self.activity[row, known[:-1]], 1.0),
            log_open=self._log_price[row, 0],
            log_high=self._high[row, start],
            log_low=self._low[row, start],
            squared_sum=np.square(sigma) * weight,
            squared_weight=weight,
            usual_volatility=self._usual_volatility[symbol],
            bars_known=self._bars_known[row, start],
            universe_return=np.moveaxis(self._universe[row % len(self.data.dates), after], 2, 1),
            time_of_day=after / bars,
            spread=self._spread[symbol] / tick,
            best_lots=self._best_share[symbol] * usual_volume_lots,
            return_bars=np.tile(np.array(self._return_bars)[:, None], len(orders)),
        )


def _activity(known: Known) -> Array:
    """Each bar's volume over what the session so far and the profile let one expect.

    1 where the data has no volume.
    """
    data = known.data
    if data.volume is None:
        return np.ones(data.shape)
    expected = known.expected_day_volume[..., :-1] * known.scales.volume_share
    return np.divide(data.volume, expected, out=np.ones(data.shape), where=expected > 0)


def _universe_returns(known: Known, return_bars: tuple[int, ...]) -> Array:
    """[session, bar + 1, return]: the symbols' mean scaled return of each minute.

    NaN where fewer than two symbols trade.
    """
    live = known.data.has_session[..., None]
    count = live.sum(axis=0)
    means = []
    for bars in return_bars:
        total = np.where(live, np.clip(known.scaled_return(bars), -CLIP, CLIP), 0.0).sum(axis=0)
        means.append(np.where(count > 1, total / np.maximum(count, 1), np.nan))
    return np.stack(means, axis=2)


@dataclass(frozen=True)
class TwinError:
    """How far twins without any order of ours are from their sessions."""

    rms_bps: float
    volume_correlation: float
    broken: int


def twin_error(core: DynamicCore, orders: Orders, *, seeds: Int | None = None) -> TwinError:
    """How far the twins of the windows of `orders` are from their sessions.

    RMS gap of the mids to the closes at the bars' ends, correlation of volume with the session's
    relative volume, and how many twins broke.
    """
    if core.twin is None:
        raise ValueError("a free market has no session to be compared with; give the core data")
    core.reset(orders, seeds=seeds)
    bars = core.books.run_without_orders()
    whole = ~core.markets.broken[: len(orders)]
    closes = orders.gather(core.twin.data.close).T
    mids = core.price(bars["close"][:, : len(orders)] / 2.0)
    gap_bps = 1e4 * (mids / closes - 1.0)[:, whole]
    wanted = core.twin.activity[orders.row, orders.bars().T]
    volume = bars["volume"][:, : len(orders)]
    correlation = np.corrcoef(volume[:, whole].ravel(), wanted[:, whole].ravel())[0, 1]
    return TwinError(
        rms_bps=float(np.sqrt(np.mean(np.square(gap_bps)))),
        volume_correlation=float(correlation),
        broken=int((~whole).sum()),
    )
