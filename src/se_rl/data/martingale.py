"""A martingale twin of real bars: the same volatility, volume and spreads, and nothing to predict.

Every bar's move from the last close is reflected or kept by a fair coin, one coin for all symbols of
a bar, so that sizes, clustering and correlations stay while the expected next move is 0 whatever
the past. A policy that gains on such days sees something it must not see.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import Array, MarketData

Signs = npt.NDArray[np.float64]


def martingale_twin(data: MarketData, rng: np.random.Generator) -> MarketData:
    """The same sessions with the sign of every bar's moves drawn anew."""
    sessions, bars = len(data.dates), len(data.grid)
    signs = rng.choice([-1.0, 1.0], (sessions, bars))
    before = _previous_close(data)
    moves = np.log(data.close) - before  # [symbol, session, bar]
    path = _path(before, signs * np.nan_to_num(moves), data.has_session)
    reflect = _Reflection(before, path, signs)
    top = reflect(data.high)
    bottom = reflect(data.low)
    changed: dict[str, Array] = {
        "open": reflect(data.open),
        "high": np.maximum(top, bottom),
        "low": np.minimum(top, bottom),
        "close": reflect(data.close),
    }
    if data.amount is not None and data.volume is not None:
        changed["amount"] = data.volume * reflect(data.price)
    changed |= _quotes(data, reflect, signs)
    return replace(data, **_owned(data, changed))  # type: ignore[arg-type]


class _Reflection:
    """Prices to prices: the distance from the last close, turned by the bar's sign, on the new path."""

    def __init__(self, before: Array, path: Array, signs: Signs) -> None:
        self._before = before
        self._path = path
        self._signs = signs

    def __call__(self, price: Array) -> Array:
        turned: Array = np.exp(self._path + self._signs * (np.log(price) - self._before))
        return turned


def _previous_close(data: MarketData) -> Array:
    """[symbol, session, bar]: the log of the last close before each bar; the first open where there is none."""
    before = np.empty(data.shape)
    before[..., 1:] = np.log(data.close[..., :-1])
    last = np.full(len(data.symbols), np.nan)
    for day in range(len(data.dates)):
        live = data.has_session[:, day]
        opening = np.log(data.open[:, day, 0])
        before[:, day, 0] = np.where(np.isfinite(last), last, opening)
        last = np.where(live, np.log(data.close[:, day, -1]), last)
    return before


def _path(before: Array, moves: Array, live: npt.NDArray[np.bool_]) -> Array:
    """The log of the twin's last close before each bar: the real first price and the turned moves since."""
    path = np.empty_like(before)
    now = np.full(len(before), np.nan)
    for day in range(before.shape[1]):
        now = np.where(np.isfinite(now), now, before[:, day, 0])
        walked = now[:, None] + np.cumsum(moves[:, day], axis=1)
        path[:, day, 0] = now
        path[:, day, 1:] = walked[:, :-1]
        now = np.where(live[:, day], walked[:, -1], now)
    return path


def _quotes(data: MarketData, reflect: _Reflection, signs: Signs) -> dict[str, Array]:
    """Quotes around the turned mid, as wide as they were; the sizes of a reflected bar change sides."""
    if data.bid is None or data.ask is None:
        return {}
    half = 0.5 * (np.log(data.ask) - np.log(data.bid))
    mid = np.log(reflect(np.sqrt(data.bid * data.ask)))
    quotes: dict[str, Array] = {"bid": np.exp(mid - half), "ask": np.exp(mid + half)}
    if data.bid_sizes is not None and data.ask_sizes is not None:
        kept = signs[None, :, :, None] > 0.0
        quotes["bid_sizes"] = np.where(kept, data.bid_sizes, data.ask_sizes)
        quotes["ask_sizes"] = np.where(kept, data.ask_sizes, data.bid_sizes)
    return quotes


def _owned(data: MarketData, changed: dict[str, Array]) -> dict[str, Array]:
    """Days on which a symbol has no session stay as they were (NaN prices)."""
    dead = ~data.has_session
    for field in fields(data):
        if field.name in changed:
            changed[field.name][dead] = getattr(data, field.name)[dead]
    return changed
