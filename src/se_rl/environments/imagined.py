"""Imagined history: market paths made from real ones, checked before anything trains on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.bar_faults import FaultKind, bar_fault
from se_rl.data.market_data import PRICE_FIELDS, MarketData, Provenance
from se_rl.modules.contracts import LIMITS

Array = npt.NDArray[np.float64]
ImagineBars = Callable[[Array], Array]
"""Bars [path, bar, 5] (open, high, low, close, volume) to new ones of the same shape."""
_WORDS: dict[FaultKind, str] = {
    "not finite": "not finite",
    "price": "not positive in a price",
    "volume": "negative in volume",
    "range": "outside low <= open, close <= high",
}


def imagined_data(data: MarketData, imagine_bars: ImagineBars) -> MarketData:
    """The same sessions with imagined bars.

    Each call gets all symbols of one date, so that they can move together. Quotes keep their
    distance from the close and their sizes; the money traded is left out, since only the old bars
    had it. Raises ValueError, in one line, where the imagined bars break the contract.
    """
    live = data.has_session
    volume = np.zeros(data.shape) if data.volume is None else data.volume
    prices = [getattr(data, name) for name in PRICE_FIELDS]
    bars = np.stack([*prices, volume], axis=-1)  # [symbol, session, bar, 5]
    made = bars.copy()
    for day in range(len(data.dates)):
        paths = bars[live[:, day], day]
        if len(paths):
            made[live[:, day], day] = _checked(imagine_bars(paths.copy()), paths)
    _check_drift(made[live], bars[live])
    changed: dict[str, Any] = {name: made[..., i] for i, name in enumerate(PRICE_FIELDS)}
    for name in ("bid", "ask"):
        quote = getattr(data, name)
        changed[name] = None if quote is None else quote * (changed["close"] / data.close)
    changed["volume"] = None if data.volume is None else made[..., 4]
    changed["amount"] = None
    origin = data.provenance
    note = "imagined from real sessions; no market ever printed these prices"
    changed["provenance"] = Provenance(
        f"imagined from {origin.name}", synthetic=True, notes=(*origin.notes, note)
    )
    return replace(data, **changed)


def _checked(made: Array, real: Array) -> Array:
    """Imagined paths of one date, refused unless they are bars."""
    result = np.asarray(made, np.float64)
    if result.shape != real.shape:
        raise ValueError(
            f"imagined bars have shape {result.shape}, expected {real.shape} = paths x bars x 5"
        )
    if fault := bar_fault(result):
        path, bar = fault.first
        raise ValueError(
            f"imagined bars are {_WORDS[fault.kind]}, first in path {path}, bar {bar}:"
            f" {result[path, bar].tolist()}"
        )
    return result


def _check_drift(made: Array, real: Array) -> None:
    """Refuse paths whose mean move differs from that of the real ones: it would pay one side."""
    new = _log_returns(made)
    old = _log_returns(real)
    drift = abs(new.mean() - old.mean())
    most = LIMITS.imagined_drift * old.std()
    if drift > most:
        raise ValueError(
            f"imagined bars drift by {1e4 * drift:.3g} bps a bar, at most {1e4 * most:.3g} "
            f"({LIMITS.imagined_drift:g} standard deviations of a bar) is allowed; "
            "keep the mean log return"
        )


def _log_returns(bars: Array) -> Array:
    """Log return of each bar [path, bar], the first one from its open."""
    return np.diff(np.log(bars[..., 3]), axis=1, prepend=np.log(bars[:, :1, 0]))
