"""Causal features: what is known when bar t opens, and the 32 numbers an agent observes.

Index t of every array here uses bars <= t-1 of the session, earlier sessions of the same data, and scales fitted on the
train split; never bar t, in which a decision at t is filled. A session's minutes before its first print are missing:
their price is not known yet, so every feature is 0 until the first bar has closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import MarketData

Array = npt.NDArray[np.float64]

RETURN_MINUTES = (1, 5, 15, 30, 60)
BOOK_LEVELS = 5
CLIP = 6.0
HISTORY_SESSIONS = 5
PRIOR_MINUTES = 60
PUBLIC_FIELDS: tuple[str, ...] = (
    "best_bid",
    "best_ask",
    "spread",
    *(f"bid_size_{level}" for level in range(1, BOOK_LEVELS + 1)),
    *(f"ask_size_{level}" for level in range(1, BOOK_LEVELS + 1)),
    "imbalance",
    *(f"return_{minutes}" for minutes in RETURN_MINUTES),
    *(f"specific_return_{minutes}" for minutes in RETURN_MINUTES),
    "return_since_open",
    "range_position",
    "volatility",
    "volume_1",
    "volume_5",
    "time_of_day",
)
OBSERVATION_FIELDS: tuple[str, ...] = (*PUBLIC_FIELDS, "time_left", "inventory_left")
"""The 32 observed numbers, in order, the same in every world; docs/environments.md gives their units.

They are turned for the order's side: a buyer sees the market upside down (`turned`), so that one policy can serve both
sides and a rise is good news to whoever sees one."""

_SWAPPED = {"bid": "ask", "ask": "bid"}
_NEGATED = ("best_bid", "best_ask", "imbalance", "return_since_open", "range_position")
TURNED_FIELD = np.array(
    [
        PUBLIC_FIELDS.index("_".join(_SWAPPED.get(part, part) for part in name.split("_")))
        for name in PUBLIC_FIELDS
    ]
)
TURNED_SIGN = np.array(
    [-1.0 if name in _NEGATED or "return" in name else 1.0 for name in PUBLIC_FIELDS], np.float32
)
"""A buyer's public field k is TURNED_SIGN[k] times the seller's field TURNED_FIELD[k]."""


@dataclass(frozen=True)
class FeatureScales:
    """Typical sizes per symbol and the volume profile of the session, fitted on the train split only."""

    symbols: tuple[str, ...]
    variance: Array
    day_volume: Array
    spread_bps: Array
    best_size: Array
    volume_share: Array

    @classmethod
    def fit(cls, train: MarketData) -> FeatureScales:
        """Scales of these sessions; symbols that never trade get the universe's median."""
        day_variance = np.where(
            train.has_session, np.square(_bar_returns(train)).mean(axis=2), np.nan
        )
        share = np.full(len(train.grid), 1.0 / len(train.grid))
        day_volume = np.zeros(train.shape[:2])
        if train.volume is not None:
            day_volume = train.volume.sum(axis=2)
            live = day_volume > 0
            share = (train.volume[live] / day_volume[live][:, None]).mean(axis=0)
        spread_bps, best_size = _typical_quotes(train)
        return cls(
            train.symbols,
            _symbol_means(day_variance),
            _symbol_means(np.where(train.has_session, day_volume, np.nan)),
            spread_bps,
            best_size,
            share,
        )

    def of(self, data: MarketData) -> FeatureScales:
        """The scales in the order of another data set's symbols; unknown symbols get the median of the known ones."""
        if len(self.volume_share) != len(data.grid):
            raise ValueError(
                f"scales are for {len(self.volume_share)} bars a session, the data has {len(data.grid)}"
            )
        if self.symbols == data.symbols:
            return self
        position = {symbol: i for i, symbol in enumerate(self.symbols)}
        rows = np.array([position.get(symbol, -1) for symbol in data.symbols])

        def pick(values: Array) -> Array:
            return np.where(rows >= 0, values[rows], np.median(values))

        return FeatureScales(
            data.symbols,
            pick(self.variance),
            pick(self.day_volume),
            pick(self.spread_bps),
            pick(self.best_size),
            self.volume_share,
        )


class Known:
    """The state of every session as known when bar t opens: arrays [symbol, session, bar + 1] (the last: at the close)."""

    def __init__(
        self, data: MarketData, scales: FeatureScales, *, prior_bars: float | None = None
    ) -> None:
        self.data = data
        self.scales = scales.of(data)
        prior = PRIOR_MINUTES / data.grid.bar_minutes if prior_bars is None else prior_bars
        bars = np.arange(len(data.grid) + 1)
        self.bars_known = np.maximum(bars - data.first_bar[..., None], 0)
        self.started = self.bars_known > 0
        self.log_price = np.log(np.concatenate([data.open[..., :1], data.close], axis=2))
        squared = np.square(_bar_returns(data))
        history = _history_mean(squared.mean(axis=2), data.has_session, self.scales.variance)
        total = prior * history[..., None] + _known_sum(squared)
        self.sigma = np.sqrt(np.maximum(total / (prior + self.bars_known), 1e-12))

    @cached_property
    def volume_known(self) -> Array:
        """Shares traded so far today (0 where the data has no volume)."""
        volume = self.data.volume
        return np.zeros_like(self.log_price) if volume is None else _known_sum(volume)

    @cached_property
    def expected_day_volume(self) -> Array:
        """The day's volume as the last sessions, today's trading so far and the profile suggest it."""
        today = self.volume_known[..., -1]
        history = _history_mean(today, self.data.has_session, self.scales.day_volume)
        share_known = np.concatenate([[0.0], np.cumsum(self.scales.volume_share)])
        return (0.2 * history[..., None] + self.volume_known) / (0.2 + share_known)

    def log_return(self, bars: int) -> Array:
        """Log return of the last `bars` bars, from the session's first print at the earliest."""
        return self.log_price - _lag(self.log_price, bars)

    def scaled_return(self, bars: int) -> Array:
        """The same in units of its own standard deviation."""
        return self.log_return(bars) / (self.sigma * np.sqrt(bars))

    @cached_property
    def return_since_open(self) -> Array:
        """Log return since the session's first price, in units of its standard deviation."""
        since_open = self.log_price - self.log_price[..., :1]
        return since_open / (self.sigma * np.sqrt(np.maximum(self.bars_known, 1)))

    def log_volume_ratio(self, bars: int) -> Array:
        """Log of the volume of the last `bars` bars over what the profile expects there."""
        share_known = np.concatenate([[0.0], np.cumsum(self.scales.volume_share)])
        expected = self.expected_day_volume * (share_known - _lag(share_known, bars))
        traded = self.volume_known - _lag(self.volume_known, bars)
        return np.where(
            self.started, np.log((traded + 0.001 * expected + 1.0) / (expected + 1.0)), 0.0
        )

    def range_position(self, bars: int | None = None) -> Array:
        """Where the last close lies in the log range of the last `bars` bars (None: of the day), from -1 to 1."""
        high, low = (np.log(extreme) for extreme in _known_extremes(self.data, bars))
        width = np.where(high > low, high - low, 1.0)
        return np.where(
            high > low, np.clip(2.0 * (self.log_price - low) / width - 1.0, -1.0, 1.0), 0.0
        )


def demean_over_symbols(values: Array, has_session: npt.NDArray[np.bool_]) -> Array:
    """Subtract the mean over the symbols that have a session, minute by minute (axis 0); absent sessions become 0."""
    live = has_session.reshape(has_session.shape + (1,) * (values.ndim - 2))
    count = np.maximum(live.sum(axis=0, keepdims=True), 1)
    kept = np.where(live, values, 0.0)
    return np.where(live, kept - kept.sum(axis=0, keepdims=True) / count, 0.0)


def observation_table(data: MarketData, scales: FeatureScales) -> npt.NDArray[np.float32]:
    """The public observation fields as float32 [symbol * session, bar + 1, field]: what both worlds copy from."""
    known = Known(data, scales)
    steps = {minutes: max(1, round(minutes / data.grid.bar_minutes)) for minutes in RETURN_MINUTES}
    returns = {
        minutes: np.clip(known.scaled_return(bars), -CLIP, CLIP) for minutes, bars in steps.items()
    }
    columns = _book_columns(known)
    columns |= {f"return_{minutes}": value for minutes, value in returns.items()}
    columns |= {
        f"specific_return_{minutes}": demean_over_symbols(value, data.has_session)
        for minutes, value in returns.items()
    }
    columns["return_since_open"] = known.return_since_open
    columns["range_position"] = known.range_position()
    columns["volatility"] = np.log(
        known.sigma / np.sqrt(np.maximum(known.scales.variance, 1e-12))[:, None, None]
    )
    columns["volume_1"] = (
        known.log_volume_ratio(steps[1]) if data.volume is not None else np.zeros(1)
    )
    columns["volume_5"] = (
        known.log_volume_ratio(steps[5]) if data.volume is not None else np.zeros(1)
    )
    columns["time_of_day"] = np.arange(len(data.grid) + 1) / len(data.grid)
    table = np.zeros((*known.sigma.shape, len(PUBLIC_FIELDS)), dtype=np.float32)
    for i, name in enumerate(PUBLIC_FIELDS):
        table[..., i] = np.where(
            known.started | (name == "time_of_day"), np.clip(columns[name], -CLIP, CLIP), 0.0
        )
    table[~data.has_session] = 0.0
    np.nan_to_num(
        table, copy=False
    )  # a bar may lack a quote: its book fields are 0, like those of data without any
    return table.reshape(-1, len(data.grid) + 1, len(PUBLIC_FIELDS))


def _book_columns(known: Known) -> dict[str, Array]:
    """Best prices, spread, sizes and imbalance at the last close; without quotes the price stands in, the rest is 0."""
    data, zero = known.data, np.zeros(1)
    day_sigma = known.sigma * np.sqrt(len(data.grid))
    columns: dict[str, Array] = {
        name: zero for name in PUBLIC_FIELDS if "size" in name or name in ("spread", "imbalance")
    }
    columns["best_bid"] = columns["best_ask"] = (
        known.log_price - known.log_price[..., :1]
    ) / day_sigma
    if data.bid is not None and data.ask is not None:
        bid, ask = _known_last(data.bid), _known_last(data.ask)
        columns["best_bid"] = (np.log(bid) - known.log_price[..., :1]) / day_sigma
        columns["best_ask"] = (np.log(ask) - known.log_price[..., :1]) / day_sigma
        spread_bps = 2e4 * (ask - bid) / (ask + bid)
        columns["spread"] = np.log(
            (spread_bps + 0.01) / (known.scales.spread_bps[:, None, None] + 0.01)
        )
    if data.bid_sizes is not None and data.ask_sizes is not None:
        bids, asks = _known_last(data.bid_sizes), _known_last(data.ask_sizes)
        typical = known.scales.best_size[:, None, None, None]
        for level in range(min(BOOK_LEVELS, bids.shape[-1])):
            columns[f"bid_size_{level + 1}"] = np.log(
                (bids[..., level] + 1.0) / (typical[..., 0] + 1.0)
            )
            columns[f"ask_size_{level + 1}"] = np.log(
                (asks[..., level] + 1.0) / (typical[..., 0] + 1.0)
            )
        displayed = bids.sum(axis=-1) + asks.sum(axis=-1)
        columns["imbalance"] = (bids.sum(axis=-1) - asks.sum(axis=-1)) / np.maximum(displayed, 1.0)
    return columns


def _bar_returns(data: MarketData) -> Array:
    """Log return of each bar, the first one from the session's open; absent sessions are 0."""
    log_close = np.log(np.where(data.has_session[..., None], data.close, 1.0))
    log_open = np.log(np.where(data.has_session, data.open[..., 0], 1.0))
    return np.diff(log_close, axis=2, prepend=log_open[..., None])


def _history_mean(day_values: Array, has_session: npt.NDArray[np.bool_], fallback: Array) -> Array:
    """[symbol, session]: mean over the last few sessions before this one; the train split's mean where there are none."""
    result = np.empty_like(day_values)
    for day in range(day_values.shape[1]):
        window = slice(max(0, day - HISTORY_SESSIONS), day)
        count = has_session[:, window].sum(axis=1)
        total = np.where(has_session[:, window], day_values[:, window], 0.0).sum(axis=1)
        result[:, day] = np.where(count > 0, total / np.maximum(count, 1), fallback)
    return result


def _known_sum(values: Array) -> Array:
    """Running sum of the bars before t."""
    total = np.zeros((*values.shape[:2], values.shape[2] + 1))
    np.cumsum(values, axis=2, out=total[..., 1:])
    return total


def _known_last(values: Array) -> Array:
    """The value of the bar before t; at t = 0 there is none, and bar 0 stands in, masked by `started`."""
    return np.concatenate([values[:, :, :1], values], axis=2)


def _known_extremes(data: MarketData, bars: int | None) -> tuple[Array, Array]:
    """High and low of the last `bars` bars before t (None: of the day so far)."""
    high, low = _known_last(data.high), _known_last(data.low)
    high[..., 0] = low[..., 0] = data.open[..., 0]
    if bars is None:
        return np.maximum.accumulate(high, axis=2), np.minimum.accumulate(low, axis=2)
    top, bottom = high.copy(), low.copy()
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


def _symbol_means(values: Array) -> Array:
    """Mean over sessions per symbol, ignoring absent ones; the median over symbols where a symbol has none."""
    count = np.isfinite(values).sum(axis=1)
    means = np.nansum(values, axis=1) / np.maximum(count, 1)
    return np.where(count > 0, means, np.median(means[count > 0]) if count.any() else 0.0)


def _typical_quotes(data: MarketData) -> tuple[Array, Array]:
    """Per symbol: median quoted spread in bps and median best size (0 where the data has none)."""
    count = len(data.symbols)
    spread_bps, best_size = np.zeros(count), np.zeros(count)
    if data.bid is not None and data.ask is not None:
        spread_bps = _symbol_medians(2e4 * (data.ask - data.bid) / (data.ask + data.bid))
    if data.bid_sizes is not None and data.ask_sizes is not None:
        size = (data.bid_sizes[..., 0] + data.ask_sizes[..., 0]) / 2.0
        best_size = _symbol_medians(np.where(data.has_session[..., None], size, np.nan))
    return spread_bps, best_size


def _symbol_medians(values: Array) -> Array:
    """Median of the known values of each symbol, 0 where none is known."""
    known = (row[np.isfinite(row)] for row in values.reshape(len(values), -1))
    return np.array([np.median(row) if len(row) else 0.0 for row in known])
