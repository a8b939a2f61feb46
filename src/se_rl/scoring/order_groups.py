"""Orders in groups: gains by symbol, time of day and side, and what is left of them step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.calendar import SessionGrid
from se_rl.records.order_details import QUANTILES, InventoryBand, OrderGroup
from se_rl.scoring.statistics import clustered_mean

Array = npt.NDArray[np.float64]
Columns = Mapping[str, npt.NDArray[Any]]
"""One entry per order in every column, as `baselines.results.order_columns` makes them."""
MOST_TIMES = 8
"""First bars that are told apart; where there are more, orders are put together by the hour."""
MOST_STEPS = 48
"""Steps of an order after which its inventory is kept."""


def order_groups(
    columns: Columns, method: str, *, twap: str, grid: SessionGrid
) -> dict[str, tuple[OrderGroup, ...]]:
    """One method's orders by side, by the time at which they begin, and by symbol."""
    keys = {
        "side": np.where(columns["side"] > 0, "sell", "buy"),
        "time of day": _times(columns["start"], grid),
        "symbol": columns["symbol"].astype(str),
    }
    own, base = columns[f"{method}: PA"], columns[f"{twap}: PA"]
    found = {}
    for by, key in keys.items():
        groups = []
        for name in np.unique(key):
            rows = (key == name) & np.isfinite(own) & np.isfinite(base)
            if rows.any():
                gain = own[rows] - base[rows]
                groups.append(_group(str(name), own[rows], gain, day=columns["date"][rows]))
        found[by] = tuple(groups)
    return found


def _times(start: npt.NDArray[np.integer], grid: SessionGrid) -> npt.NDArray[np.str_]:
    """The clock at which each order begins, to the hour where there are many first bars."""
    minute = np.asarray(grid.minutes)[start]
    if len(np.unique(minute)) > MOST_TIMES:
        minute = minute // 60 * 60
    return np.array([f"{one // 60:02d}:{one % 60:02d}" for one in minute])


def _group(name: str, own: Array, gain: Array, *, day: npt.NDArray[np.integer]) -> OrderGroup:
    estimate = clustered_mean(gain, day)
    spread = np.percentile(own, QUANTILES)
    low, high = estimate.ci95
    return OrderGroup(
        name,
        orders=len(own),
        PA=_rounded(spread),
        over_TWAP=round(estimate.mean, 4),
        ci95=(round(low, 4), round(high, 4)),
    )


def inventory_band(fills: Sequence[Array]) -> InventoryBand:
    """What is left of orders over their steps; `fills` are shares [order, step] of each training."""
    left = 1.0 - np.cumsum(np.concatenate(fills), axis=1)  # [order, step]
    horizon = left.shape[1]
    steps = np.unique(np.linspace(0, horizon - 1, min(horizon, MOST_STEPS)).astype(np.int64))
    bands = np.percentile(left[:, steps], QUANTILES, axis=0)  # [percentile, step]
    return InventoryBand(
        tuple(int(step) + 1 for step in steps), tuple(_rounded(band) for band in bands)
    )


def _rounded(values: Array) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values)
