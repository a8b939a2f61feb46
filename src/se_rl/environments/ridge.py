"""XS ridge, the bar for learned policies: a forecast of stock-specific reversion tilts TWAP.

Features and target are demeaned over all stocks of the minute, so that nothing is earned by timing
the market: on a few dozen days that would be luck. The recipe is fixed; only its weights are
fitted, on train days.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from se_rl.data.features import CLIP, FeatureScales, Known, demean_over_symbols
from se_rl.data.market_data import MarketData
from se_rl.environments.task import SELL, Orders

Array = npt.NDArray[np.float64]
MAX_MULTIPLE = 3.0


@dataclass(frozen=True)
class RidgeRecipe:
    """Lags and horizon in bars; `fast` and `slow` are the lags that enter the interactions."""

    lags: tuple[int, ...]
    fast: int
    slow: int
    range_bars: int
    prior_bars: float
    horizon: int
    penalty: float
    last_hour: int | None = None

    @classmethod
    def for_bars(cls, bar_minutes: int) -> RidgeRecipe:
        """The recipe for minute bars, for 5-minute bars, and for 15-minute bars.

        The last one also looks at yesterday.
        """
        if bar_minutes == 1:
            return cls(
                lags=(1, 2, 3, 5, 10, 15, 30, 60),
                fast=5,
                slow=30,
                range_bars=30,
                prior_bars=60,
                horizon=60,
                penalty=0.1,
            )
        if bar_minutes < 15:
            return cls(
                lags=(1, 2, 3, 6, 9, 12, 24),
                fast=2,
                slow=6,
                range_bars=6,
                prior_bars=12,
                horizon=12,
                penalty=0.03,
            )
        return cls(
            lags=(1, 2, 3, 4, 6, 8, 12),
            fast=2,
            slow=4,
            range_bars=8,
            prior_bars=8,
            horizon=4,
            penalty=0.001,
            last_hour=4,
        )


@dataclass(frozen=True, eq=False)
class XSRidge:
    """A fitted ridge: `forecast` gives z per bar, `schedule` the tilted TWAP."""

    recipe: RidgeRecipe
    weights: Array
    forecast_sd: float
    fitted_on: tuple[str, ...]
    rows: int

    @classmethod
    def fit(cls, train: Sequence[tuple[MarketData, FeatureScales]], *, shift: int = 0) -> XSRidge:
        """Least squares with penalty over all train sets together.

        `shift` moves the features in time; self-checks use it.
        """
        recipe = RidgeRecipe.for_bars(train[0][0].grid.bar_minutes)
        moments = [_moments(data, scales, recipe, shift) for data, scales in train]
        rows = sum(m[0] for m in moments)
        xx = sum(m[1] for m in moments) / rows  # [feature, feature]
        xy = sum(m[2] for m in moments) / rows  # [feature]
        rms = np.sqrt(np.maximum(np.diag(xx), 1e-30))
        # w = D^-1 (D^-1 X'X D^-1 + penalty I)^-1 D^-1 X'y with D = diag(rms)
        scaled = xx / np.outer(rms, rms) + recipe.penalty * np.eye(len(rms))
        weights = np.linalg.solve(scaled, xy / rms) / rms
        forecast_sd = float(np.sqrt(weights @ xx @ weights))
        labels = tuple(data.provenance.label for data, _ in train)
        return cls(recipe, weights, forecast_sd, labels, rows)

    def forecast(self, data: MarketData, scales: FeatureScales, *, shift: int = 0) -> Array:
        """z [symbol, session, bar]: the expected stock-specific drift after this bar.

        In units of its spread on the train days.
        """
        if self.forecast_sd == 0.0:
            return np.zeros(data.shape)
        features = ridge_features(data, scales, self.recipe, shift=shift)
        return np.tensordot(self.weights / self.forecast_sd, features, axes=1)

    def schedule(self, orders: Orders, forecast: Array, *, kappa: float = 2.0) -> Array:
        """Shares [order, step]: TWAP's slice tilted by the forecast, kept feasible step by step.

        A buy trades clip(1 + kappa z, 0, 3) slices, a sell clip(1 - kappa z, 0, 3).
        """
        z = orders.gather(forecast)  # [order, step]
        sign = np.where(orders.side == SELL, -1.0, 1.0)
        cap = min(1.0, MAX_MULTIPLE / orders.horizon)
        left = np.ones(len(orders))
        weights = np.empty_like(z)
        for step in range(orders.horizon):
            steps_left = orders.horizon - step
            multiple = np.clip(1.0 + kappa * sign * z[:, step], 0.0, MAX_MULTIPLE)
            least = np.maximum(0.0, left - cap * (steps_left - 1))
            weights[:, step] = np.clip(multiple * left / steps_left, least, np.minimum(cap, left))
            left -= weights[:, step]
        return weights


def ridge_features(
    data: MarketData, scales: FeatureScales, recipe: RidgeRecipe, *, shift: int = 0
) -> Array:
    """[feature, symbol, session, bar], demeaned over the symbols of each minute.

    They are 0 before a session's first print. One price of bar 0 counts as known at bar 0: the
    session's open, which the opening auction publishes before continuous trading starts; only the
    overnight moves use it. `shift` > 0 delays the features by that many bars, < 0 makes them leak:
    self-checks use both.
    """
    known = Known(data, scales, prior_bars=recipe.prior_bars)
    returns = {lag: known.scaled_return(lag) for lag in {*recipe.lags, recipe.fast, recipe.slow}}
    bar = np.arange(len(data.grid) + 1)
    early = bar < 0.12 * len(data.grid)
    late = bar >= 0.8 * len(data.grid)
    columns = [returns[lag] for lag in recipe.lags]
    columns += [known.return_since_open, _close_over_price(known), _close_over_vwap(known)]
    columns += [known.range_position(), known.range_position(recipe.range_bars)]
    if data.volume is not None:
        columns += [returns[lag] * known.log_volume_ratio(lag) for lag in (1, recipe.fast)]
    columns += [
        returns[recipe.fast] * early,
        returns[recipe.slow] * early,
        returns[recipe.slow] * late,
    ]
    overnight = _overnight(known, recipe)
    opened = known.started | ((data.first_bar == 0)[..., None] & (bar == 0))
    features = np.empty((len(columns) + len(overnight), *data.shape))
    for i, column in enumerate(columns + overnight):
        public = known.started if i < len(columns) else opened
        clipped = np.where(public, np.clip(column, -CLIP, CLIP), 0.0)
        features[i] = demean_over_symbols(_shifted(clipped, shift), data.has_session)
    return features


def ridge_target(data: MarketData, scales: FeatureScales, recipe: RidgeRecipe) -> Array:
    """How far the mean log price of the next bars lies above this bar's, in sigma.

    NaN in the last bar of a session.
    """
    log_price = np.log(np.where(data.has_session[..., None], data.price, 1.0))
    total = np.concatenate([np.zeros((*data.shape[:2], 1)), np.cumsum(log_price, axis=2)], axis=2)
    bar = np.arange(len(data.grid))
    end = np.minimum(bar + recipe.horizon, len(data.grid) - 1)
    ahead = (total[..., end + 1] - total[..., 1:]) / np.maximum(end - bar, 1) - log_price
    sigma = Known(data, scales, prior_bars=recipe.prior_bars).sigma[..., :-1]
    scaled = np.clip(ahead / (sigma * np.sqrt((recipe.horizon + 1) / 3.0)), -CLIP, CLIP)
    return np.where(end > bar, demean_over_symbols(scaled, data.has_session), np.nan)


def _moments(
    data: MarketData, scales: FeatureScales, recipe: RidgeRecipe, shift: int
) -> tuple[int, Array, Array]:
    """Rows, X'X and X'y of the sessions that have history behind them."""
    live = data.has_session.copy()
    live[:, 0] = False  # the first day has neither a gap nor yesterday's volume
    features = ridge_features(data, scales, recipe, shift=shift)
    rows = features[:, live, :-1].reshape(len(features), -1)
    target = ridge_target(data, scales, recipe)[live, :-1].ravel()
    return len(target), rows @ rows.T, rows @ target


def _close_over_price(known: Known) -> Array:
    gap = np.log(known.data.close / known.data.price)
    return np.concatenate([np.zeros((*gap.shape[:2], 1)), gap], axis=2) / known.sigma


def _close_over_vwap(known: Known) -> Array:
    """Log of the last close over the day's VWAP so far (without volume, the mean price so far)."""
    data = known.data
    volume = data.volume if data.volume is not None else np.ones(data.shape)
    money = np.cumsum(data.price * volume, axis=2)
    shares = np.cumsum(volume, axis=2)
    average = np.divide(money, shares, out=data.close.copy(), where=shares > 0)
    gap = np.concatenate([np.zeros((*data.shape[:2], 1)), np.log(data.close / average)], axis=2)
    return gap / (known.sigma * np.sqrt(np.maximum(known.bars_known, 1)))


def _overnight(known: Known, recipe: RidgeRecipe) -> list[Array]:
    """The gap since yesterday's close; on 15-minute bars also yesterday's return and last hour."""
    bars = len(known.data.grid)
    log_open = np.log(known.data.open[..., 0])  # [symbol, session]
    log_close = np.log(known.data.close)
    last = log_close[..., -1]
    moves = [_overnight_move(known, log_open - _yesterday(last), bars)]
    if recipe.last_hour is not None:
        before = log_close[..., -1 - recipe.last_hour]
        moves.append(_overnight_move(known, _yesterday(last - log_open), bars))
        moves.append(_overnight_move(known, _yesterday(last - before), recipe.last_hour))
    return moves


def _overnight_move(known: Known, move: Array, bars: int) -> Array:
    """A log move that took so many bars, in units of its usual size; 0 where it is unknown."""
    return np.nan_to_num(move)[..., None] / (known.sigma * np.sqrt(bars))


def _yesterday(day_values: Array) -> Array:
    return np.concatenate([np.full((day_values.shape[0], 1), np.nan), day_values[:, :-1]], axis=1)


def _shifted(known_values: Array, shift: int) -> Array:
    """Values at the opens of bars 0..T-1, moved by `shift` bars: > 0 is late, < 0 leaks."""
    bars = known_values.shape[2] - 1
    return known_values[..., np.clip(np.arange(bars) - shift, 0, bars)]
