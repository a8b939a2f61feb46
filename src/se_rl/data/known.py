"""What is known of every session when bar t opens.

Index t of every array here uses bars <= t-1 of the session, earlier sessions of the same data, and
scales fitted on the train split; never bar t, in which a decision at t is filled. The minutes of a
session before its first print are missing: their price is not known yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from se_rl.data.feature_scales import FeatureScales, bar_returns
from se_rl.data.market_data import MarketData

Array = npt.NDArray[np.float64]

CLIP = 6.0
"""Observed numbers are kept to [-CLIP, CLIP]."""
HISTORY_SESSIONS = 5
LOOK_BACK = HISTORY_SESSIONS + 1
"""Sessions before a day that what is known on it may depend on."""
PRIOR_MINUTES = 60


@dataclass(frozen=True, eq=False)
class SessionsBefore:
    """What the last few sessions before one say of it: means per symbol, train's where none is.

    `variance` is that of a bar's log return, `volume` that of a day.
    """

    variance: Array
    volume: Array

    @classmethod
    def after(cls, data: MarketData, scales: FeatureScales) -> SessionsBefore:
        """What the sessions of some data say of the session that follows them."""
        scales = scales.of(data)
        present = data.has_session
        variance = np.square(bar_returns(data)).mean(axis=2)
        volume = (
            np.zeros(data.shape[:2]) if data.volume is None else _known_sum(data.volume)[..., -1]
        )
        return cls(
            _recent_mean(variance, present, scales.variance),
            _recent_mean(volume, present, scales.day_volume),
        )


class Known:
    """The state of every session as known when bar t opens: arrays [symbol, session, bar + 1].

    The last entry of a session is what is known at its close. Data of one session may come with
    what the sessions `before` it said, instead of those sessions.
    """

    def __init__(
        self,
        data: MarketData,
        scales: FeatureScales,
        *,
        prior_bars: float | None = None,
        before: SessionsBefore | None = None,
    ) -> None:
        self.data = data
        self.scales = scales.of(data)
        prior = PRIOR_MINUTES / data.grid.bar_minutes if prior_bars is None else prior_bars
        bars = np.arange(len(data.grid) + 1)
        self.bars_known = np.maximum(bars - data.first_bar[..., None], 0)
        self.started = self.bars_known > 0
        self.log_price = np.log(np.concatenate([data.open[..., :1], data.close], axis=2))
        squared = np.square(bar_returns(data))
        self._before = before
        if before is None:
            history = _history_mean(squared.mean(axis=2), data.has_session, self.scales.variance)
        else:
            history = before.variance[:, None]
        # sigma_t^2 = (prior * history + sum of squared returns so far) / (prior + bars so far)
        total = prior * history[..., None] + _known_sum(squared)
        self.sigma = np.sqrt(np.maximum(total / (prior + self.bars_known), 1e-12))
        self._clipped_returns: dict[int, Array] = {}

    def bars_of(self, minutes: int) -> int:
        """How many bars cover so many minutes, one at least."""
        return max(1, round(minutes / self.data.grid.bar_minutes))

    @cached_property
    def log_open(self) -> Array:
        """Log of the session's first price, [symbol, session, 1]."""
        return self.log_price[..., :1]

    @cached_property
    def displayed_sizes(self) -> tuple[Array, Array] | None:
        """Bid and ask sizes [..., level] at the last close; None where the data has none."""
        if self.data.bid_sizes is None or self.data.ask_sizes is None:
            return None
        return known_last(self.data.bid_sizes), known_last(self.data.ask_sizes)

    @cached_property
    def volume_known(self) -> Array:
        """Shares traded so far today (0 where the data has no volume)."""
        volume = self.data.volume
        return np.zeros_like(self.log_price) if volume is None else _known_sum(volume)

    @cached_property
    def expected_day_volume(self) -> Array:
        """The day's volume as the last sessions, today's trading and the profile suggest it."""
        if self._before is None:
            today = self.volume_known[..., -1]
            history = _history_mean(today, self.data.has_session, self.scales.day_volume)
        else:
            history = self._before.volume[:, None]
        return (0.2 * history[..., None] + self.volume_known) / (0.2 + self._share_known)

    @cached_property
    def _share_known(self) -> Array:
        """[bar + 1]: the share of the day's volume that the profile expects before each bar."""
        return np.concatenate([[0.0], np.cumsum(self.scales.volume_share)])

    def log_return(self, bars: int) -> Array:
        """Log return of the last `bars` bars, from the session's first print at the earliest."""
        return self.log_price - _lag(self.log_price, bars)

    def scaled_return(self, bars: int) -> Array:
        """The same in units of its own standard deviation."""
        return self.log_return(bars) / (self.sigma * np.sqrt(bars))

    def clipped_return(self, minutes: int) -> Array:
        """The scaled return of the last minutes, kept to the range that is observed."""
        if minutes not in self._clipped_returns:
            scaled = self.scaled_return(self.bars_of(minutes))
            self._clipped_returns[minutes] = np.clip(scaled, -CLIP, CLIP)
        return self._clipped_returns[minutes]

    def specific_return(self, minutes: int) -> Array:
        """The clipped return less the mean of all symbols in that bar."""
        return demean_over_symbols(self.clipped_return(minutes), self.data.has_session)

    @cached_property
    def return_since_open(self) -> Array:
        """Log return since the session's first price, in units of its standard deviation."""
        since_open = self.log_price - self.log_open
        return since_open / (self.sigma * np.sqrt(np.maximum(self.bars_known, 1)))

    def log_volume_ratio(self, bars: int) -> Array:
        """Log of the volume of the last `bars` bars over what the profile expects there."""
        expected = self.expected_day_volume * (self._share_known - _lag(self._share_known, bars))
        traded = self.volume_known - _lag(self.volume_known, bars)
        ratio = (traded + 0.001 * expected + 1.0) / (expected + 1.0)
        return np.where(self.started, np.log(ratio), 0.0)

    def range_position(self, bars: int | None = None) -> Array:
        """Where the last close lies in the log range of the last `bars` bars, from -1 to 1.

        None means the range of the day so far.
        """
        top, bottom = _known_extremes(self.data, bars)
        high = np.log(top)
        low = np.log(bottom)
        width = np.where(high > low, high - low, 1.0)
        place = np.clip(2.0 * (self.log_price - low) / width - 1.0, -1.0, 1.0)
        return np.where(high > low, place, 0.0)


def with_history(data: MarketData, dates: npt.NDArray[np.integer]) -> MarketData:
    """The days from the first to the last of these and the few before them that features look back
    to: what is known on the dates is the same as with all of the data."""
    first, last = np.searchsorted(data.dates, (dates[0], dates[-1]))
    return data.select(dates=data.dates[max(0, first - LOOK_BACK) : last + 1])


def demean_over_symbols(values: Array, has_session: npt.NDArray[np.bool_]) -> Array:
    """Subtract the mean over the symbols that have a session, bar by bar (axis 0).

    Absent sessions become 0.
    """
    live = has_session.reshape(has_session.shape + (1,) * (values.ndim - 2))
    count = np.maximum(live.sum(axis=0, keepdims=True), 1)
    kept = np.where(live, values, 0.0)
    return np.where(live, kept - kept.sum(axis=0, keepdims=True) / count, 0.0)


def known_last(values: Array) -> Array:
    """[symbol, session, bar + 1, ...]: the value of the bar before t, that of bar 0 at t = 0."""
    return np.concatenate([values[:, :, :1], values], axis=2)


def _history_mean(day_values: Array, has_session: npt.NDArray[np.bool_], fallback: Array) -> Array:
    """[symbol, session]: mean over the last few sessions before this one.

    Where there are none, the train split's mean stands in.
    """
    result = np.empty_like(day_values)
    for day in range(day_values.shape[1]):
        result[:, day] = _recent_mean(day_values[:, :day], has_session[:, :day], fallback)
    return result


def _recent_mean(day_values: Array, has_session: npt.NDArray[np.bool_], fallback: Array) -> Array:
    """[symbol]: mean over the last few of these sessions, `fallback` where there are none."""
    present = has_session[:, -HISTORY_SESSIONS:]
    count = present.sum(axis=1)
    total = np.where(present, day_values[:, -HISTORY_SESSIONS:], 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), fallback)


def _known_sum(values: Array) -> Array:
    """Running sum of the bars before t."""
    total = np.zeros((*values.shape[:2], values.shape[2] + 1))
    np.cumsum(values, axis=2, out=total[..., 1:])
    return total


def _known_extremes(data: MarketData, bars: int | None) -> tuple[Array, Array]:
    """High and low of the last `bars` bars before t (None: of the day so far)."""
    high = known_last(data.high)
    low = known_last(data.low)
    high[..., 0] = low[..., 0] = data.open[..., 0]
    if bars is None:
        return np.maximum.accumulate(high, axis=2), np.minimum.accumulate(low, axis=2)
    top = high.copy()
    bottom = low.copy()
    reach = 1
    while reach < bars:  # doubling windows: log2(bars) passes instead of bars
        shift = min(reach, bars - reach)
        top = np.maximum(top, _lag(top, shift))
        bottom = np.minimum(bottom, _lag(bottom, shift))
        reach += shift
    return top, bottom


def _lag(values: Array, bars: int) -> Array:
    """Values `bars` earlier along the last axis; the first value before the session's start."""
    bars = min(bars, values.shape[-1])
    first = np.broadcast_to(values[..., :1], (*values.shape[:-1], bars))
    return np.concatenate([first, values[..., : values.shape[-1] - bars]], axis=-1)
