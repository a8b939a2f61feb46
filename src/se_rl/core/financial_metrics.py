"""`FinancialMetricsCalculator`: the metrics of `se_rl.environments.metrics` for plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.environments.metrics import Metrics, price_advantage

Column = npt.NDArray[np.float64]

REQUIRED = ("execution_prices", "benchmark_prices")
PER_ORDER = (
    "benchmark_prices",
    "sides",
    "quantities",
    "final_inventories",
    "initial_inventories",
)


class FinancialMetricsCalculator:
    """Metrics of finished orders, given as arrays."""

    def calculate_all_metrics(self, results: Mapping[str, Any]) -> dict[str, float]:
        """PA, PA_std, WR, GLR and AFI of finished orders.

        Needs `execution_prices` and `benchmark_prices`. `sides` (+1 sell, -1 buy) defaults to
        sells, `final_inventories` and `initial_inventories` to fully executed orders. `quantities`
        adds PA_weighted, `returns` mean_return.
        """
        columns = _columns(results)
        prices = columns["execution_prices"]
        ones = np.ones(len(prices))
        pa = price_advantage(prices, columns["benchmark_prices"], columns.get("sides", ones))
        left = columns.get("final_inventories", np.zeros(len(prices)))
        leftover = np.abs(left) / columns.get("initial_inventories", ones)
        metrics = Metrics.of(pa, leftover).as_dict()
        if "quantities" in columns:
            metrics["PA_weighted"] = float(np.average(pa, weights=columns["quantities"]))
        if "returns" in columns:
            metrics["mean_return"] = float(columns["returns"].mean())
        return metrics


def _columns(results: Mapping[str, Any]) -> dict[str, Column]:
    """The results as arrays, refused where orders or prices are missing or impossible."""
    columns = {}
    for name, value in results.items():
        if value is not None:
            columns[name] = np.atleast_1d(np.asarray(value, np.float64))
    for name in REQUIRED:
        if name not in columns:
            raise ValueError(f"{name} is missing; give one price per order")
    prices = columns["execution_prices"]
    for name in PER_ORDER:
        if name in columns and len(columns[name]) != len(prices):
            raise ValueError(
                f"{name} has {len(columns[name])} values for {len(prices)} orders; "
                "give one per order"
            )
    if not (np.all(np.isfinite(prices)) and np.all(columns["benchmark_prices"] > 0)):
        raise ValueError("prices must be finite and benchmark_prices positive")
    return columns
