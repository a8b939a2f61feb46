"""`FinancialMetricsCalculator`: the metrics under the names that callers of a training loop use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from se_rl.environments.metrics import Metrics, price_advantage


class FinancialMetricsCalculator:
    """A face of `se_rl.environments.metrics` for arrays of finished orders."""

    def calculate_all_metrics(self, results: Mapping[str, Any]) -> dict[str, float]:
        """PA, PA_std, WR, GLR and AFI of finished orders.

        Needs `execution_prices` and `benchmark_prices`. `sides` (+1 sell, -1 buy) defaults to sells, `final_inventories`
        and `initial_inventories` to fully executed orders. `quantities` adds PA_weighted, `returns` mean_return.
        """
        columns = {
            name: np.atleast_1d(np.asarray(value, np.float64)) for name, value in results.items() if value is not None
        }
        for name in ("execution_prices", "benchmark_prices"):
            if name not in columns:
                raise ValueError(f"{name} is missing; give one price per order")
        prices, benchmark = columns["execution_prices"], columns["benchmark_prices"]
        for name in ("benchmark_prices", "sides", "quantities", "final_inventories", "initial_inventories"):
            if name in columns and len(columns[name]) != len(prices):
                raise ValueError(f"{name} has {len(columns[name])} values for {len(prices)} orders; give one per order")
        if not (np.all(np.isfinite(prices)) and np.all(benchmark > 0)):
            raise ValueError("prices must be finite and benchmark_prices positive")
        pa = price_advantage(prices, benchmark, columns.get("sides", np.ones(len(prices))))
        left = columns.get("final_inventories", np.zeros(len(prices)))
        metrics = Metrics.of(pa, np.abs(left) / columns.get("initial_inventories", np.ones(len(prices)))).as_dict()
        if "quantities" in columns:
            metrics["PA_weighted"] = float(np.average(pa, weights=columns["quantities"]))
        if "returns" in columns:
            metrics["mean_return"] = float(columns["returns"].mean())
        return metrics
