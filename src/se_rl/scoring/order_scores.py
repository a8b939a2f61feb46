"""Scores: execution records of several policies on the same orders, paired with TWAP.

Every order is scored as buy and as sell, every comparison is on the same orders, and every PA is
split into a common part (what all symbols' schedules earned together: market timing) and a specific
part (the rest).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import MarketData
from se_rl.environments.metrics import BPS, Metrics, price_advantage
from se_rl.environments.task import SELL, ExecutionRecord, Orders, WindowBenchmarks
from se_rl.records.settings import RISK
from se_rl.scoring.score import ScoreRule, contributions, tracking_error
from se_rl.scoring.statistics import Estimate, clustered_mean, combined

Array = npt.NDArray[np.float64]
TableRow = dict[str, Any]
"""One method of a results table, as JSON."""


def twap_weights(orders: Orders) -> Array:
    """The schedule that all are compared with: each bar of the window equally [order, step]."""
    return np.full((len(orders), orders.horizon), 1.0 / orders.horizon)


@dataclass(frozen=True, eq=False)
class Panel:
    """The orders that all policies share: their benchmarks, days and bar prices."""

    data: MarketData
    orders: Orders
    benchmarks: WindowBenchmarks
    benchmark: str
    day: npt.NDArray[np.int64]
    price: Array

    @classmethod
    def of(cls, data: MarketData, orders: Orders, *, benchmark: str = "vwap") -> Panel:
        """Prepare a panel.

        `benchmark` (vwap, twap or arrival) is what the primary PA is measured against.
        """
        benchmarks = WindowBenchmarks.of(data, orders)
        benchmarks.named(benchmark)
        return cls(
            data,
            orders,
            benchmarks,
            benchmark,
            orders.row % len(data.dates),
            orders.gather(data.price),
        )

    @property
    def full_bars(self) -> npt.NDArray[np.bool_]:
        """Orders whose window has a print in every bar: no stale price can fake a gain there."""
        return np.asarray(self.orders.gather(self.data.traded.astype(np.float64)).all(axis=1))


@dataclass(frozen=True, eq=False)
class Score:
    """One policy on a panel: PA per order, net and gross, against every benchmark."""

    name: str
    panel: Panel
    record: ExecutionRecord

    def pa(self, benchmark: str | None = None, *, gross: bool = False) -> Array:
        """PA per order in bps against the panel's benchmark or another one."""
        price = self.record.gross_price if gross else self.record.net_price
        return price_advantage(
            price,
            self.panel.benchmarks.named(benchmark or self.panel.benchmark),
            self.panel.orders.side,
        )

    def common_pa(self) -> Array:
        """The part of the gross PA that the mean schedule of all symbols would have earned.

        The mean is over the orders of the same day, window and side.
        """
        orders = self.panel.orders
        key = (self.panel.day * (orders.start.max() + 1) + orders.start) * 2 + (orders.side == SELL)
        _, group = np.unique(key, return_inverse=True)
        count = np.bincount(group).astype(np.float64)
        fills = self.record.forced_fills
        sums = [np.bincount(group, weights=fills[:, step]) for step in range(fills.shape[1])]
        mean_fills = np.stack(sums, axis=1) / count[:, None]  # [group, step]
        average = np.einsum("ot,ot->o", mean_fills[group], self.panel.price)  # [order]
        return price_advantage(
            average, self.panel.benchmarks.named(self.panel.benchmark), orders.side
        )

    def specific_pa(self) -> Array:
        """The rest of the PA: what the choice of moments for this very symbol earned, net of
        costs."""
        return self.pa() - self.common_pa()

    def over(self, reference: Score) -> dict[str, Array]:
        """The gain over another policy per order as a score of history reads it."""
        return {
            "static": self.specific_pa() - reference.specific_pa(),
            "static_total": self.pa() - reference.pa(),
            "static_day": self.panel.day.astype(np.float64),
        }

    def estimate(
        self, values: Array | None = None, *, where: npt.NDArray[np.bool_] | None = None
    ) -> Estimate:
        """Mean with day-clustered error, of PA unless other values per order are given."""
        kept = self.pa() if values is None else values
        if where is None:
            return clustered_mean(kept, self.panel.day)
        return clustered_mean(kept[where], self.panel.day[where])

    def row(self, reference: Score, *, bound: Score | None = None, risk: float = RISK) -> TableRow:
        """The row of a results table: metrics, both sides apart, and paired differences to TWAP.

        `score` is gain less risk on these days, `tracking_error` the whole gain's deviation by day.
        """
        pa = self.pa()
        side = self.panel.orders.side
        gained = self.over(reference)
        difference = gained["static_total"]
        specific = gained["static"]
        common = self.common_pa() - reference.common_pa()
        row: TableRow = self._summary(np.ones(len(pa), np.bool_))
        row["PA_gross"] = float(self.pa(gross=True).mean())
        row["by_side"] = {
            name: self._summary(side == sign) for name, sign in (("buy", -1), ("sell", 1))
        }
        row["over_TWAP"] = _estimate_row(self.estimate(difference))
        row["over_TWAP_common"] = _estimate_row(self.estimate(common))
        row["over_TWAP_specific"] = _estimate_row(self.estimate(specific))
        found = contributions([gained], ScoreRule({"static": 1.0, "dynamic": 0.0}, risk))
        row["score"] = _estimate_row(combined(found.score, [found.order_error()]))
        row["tracking_error"] = tracking_error([difference], gained["static_day"])
        full = self.panel.full_bars
        if full.any():
            row["over_TWAP_full_bars"] = _estimate_row(self.estimate(difference, where=full)) | {
                "orders": int(full.sum())
            }
        if bound is not None:
            most = bound.pa().mean() - reference.pa().mean()
            row["capture"] = float(difference.mean() / most) if most > 0 else float("nan")
        return row

    def _summary(self, where: npt.NDArray[np.bool_]) -> TableRow:
        summary: TableRow = dict(
            Metrics.of(self.pa()[where], self.record.leftover[where]).as_dict()
        )
        for benchmark in ("twap", "arrival"):
            summary[f"PA_vs_{benchmark}"] = float(self.pa(benchmark)[where].mean())
        if self.panel.benchmarks.vwap is not None:
            summary["PA_vs_vwap"] = float(self.pa("vwap")[where].mean())
        summary["ci95"] = list(self.estimate(where=where).ci95)
        return summary


def _estimate_row(estimate: Estimate) -> TableRow:
    return {
        "mean": estimate.mean,
        "se": estimate.se,
        "ci95": list(estimate.ci95),
        "detectable": estimate.detectable,
    }


def log_price_advantage(score: Score) -> Array:
    """PA of the fills on log prices: exact under mirroring, which the mirror check needs."""
    log_price = np.log(score.panel.price)
    gain = np.einsum("ot,ot->o", score.record.forced_fills, log_price) - log_price.mean(axis=1)
    return BPS * score.panel.orders.side * gain
