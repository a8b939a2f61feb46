"""Typical sizes per symbol, fitted on the train split only: what features are measured against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import MarketData

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FeatureScales:
    """Typical sizes per symbol and the volume profile of the session.

    Per symbol: `variance` of a bar's log return, `day_volume` in shares, the median quoted
    `spread_bps` and `best_size` (0 where the data has no quotes). Per bar: `volume_share`.
    """

    symbols: tuple[str, ...]
    variance: Array
    day_volume: Array
    spread_bps: Array
    best_size: Array
    volume_share: Array

    @classmethod
    def fit(cls, train: MarketData) -> FeatureScales:
        """Scales of these sessions; symbols that never trade get the universe's median."""
        squared = np.square(bar_returns(train))
        day_variance = np.where(train.has_session, squared.mean(axis=2), np.nan)
        share = np.full(len(train.grid), 1.0 / len(train.grid))
        day_volume = np.zeros(train.shape[:2])
        if train.volume is not None:
            day_volume = train.volume.sum(axis=2)
            live = day_volume > 0
            share = (train.volume[live] / day_volume[live][:, None]).mean(axis=0)
        return cls(
            symbols=train.symbols,
            variance=_symbol_means(day_variance),
            day_volume=_symbol_means(np.where(train.has_session, day_volume, np.nan)),
            spread_bps=_typical_spread_bps(train),
            best_size=_typical_best_size(train),
            volume_share=share,
        )

    def window_volume(
        self, symbol: npt.NDArray[np.integer], start: npt.NDArray[np.integer], horizon: int
    ) -> Array:
        """Shares that usually trade in these symbols in `horizon` bars from bar `start` on."""
        before = np.concatenate([[0.0], np.cumsum(self.volume_share)])
        return self.day_volume[symbol] * (before[start + horizon] - before[start])

    def of(self, data: MarketData) -> FeatureScales:
        """The scales in the order of another data set's symbols.

        Symbols that were not fitted get the median of those that were.
        """
        if len(self.volume_share) != len(data.grid):
            raise ValueError(
                f"scales are for {len(self.volume_share)} bars a session, "
                f"the data has {len(data.grid)}"
            )
        if self.symbols == data.symbols:
            return self
        position = {symbol: i for i, symbol in enumerate(self.symbols)}
        rows = np.array([position.get(symbol, -1) for symbol in data.symbols])

        def pick(values: Array) -> Array:
            return np.where(rows >= 0, values[rows], np.median(values))

        return FeatureScales(
            symbols=data.symbols,
            variance=pick(self.variance),
            day_volume=pick(self.day_volume),
            spread_bps=pick(self.spread_bps),
            best_size=pick(self.best_size),
            volume_share=self.volume_share,
        )


def bar_returns(data: MarketData) -> Array:
    """Log return of each bar, the first one from the session's open; absent sessions are 0."""
    log_close = np.log(np.where(data.has_session[..., None], data.close, 1.0))
    log_open = np.log(np.where(data.has_session, data.open[..., 0], 1.0))
    return np.diff(log_close, axis=2, prepend=log_open[..., None])


def _symbol_means(values: Array) -> Array:
    """Mean over sessions per symbol; the median over symbols where a symbol has no session."""
    count = np.isfinite(values).sum(axis=1)
    means = np.nansum(values, axis=1) / np.maximum(count, 1)
    return np.where(count > 0, means, np.median(means[count > 0]) if count.any() else 0.0)


def _typical_spread_bps(data: MarketData) -> Array:
    """Median quoted spread of each symbol; 0 where the data has no quotes."""
    if data.bid is None or data.ask is None:
        return np.zeros(len(data.symbols))
    # spread in bps of the mid = 1e4 (ask - bid) / ((ask + bid) / 2)
    return _symbol_medians(2e4 * (data.ask - data.bid) / (data.ask + data.bid))


def _typical_best_size(data: MarketData) -> Array:
    """Median size at the touch of each symbol; 0 where the data has no sizes."""
    if data.bid_sizes is None or data.ask_sizes is None:
        return np.zeros(len(data.symbols))
    size = (data.bid_sizes[..., 0] + data.ask_sizes[..., 0]) / 2.0
    return _symbol_medians(np.where(data.has_session[..., None], size, np.nan))


def _symbol_medians(values: Array) -> Array:
    """Median of the known values of each symbol, 0 where none is known."""
    medians = np.zeros(len(values))
    for symbol, row in enumerate(values.reshape(len(values), -1)):
        known = row[np.isfinite(row)]
        if len(known):
            medians[symbol] = np.median(known)
    return medians
