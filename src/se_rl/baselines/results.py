"""A finished table of baselines as plain data: what `--json` prints and the page draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.baselines.fitting import Fitted
from se_rl.baselines.settings import BaselinesConfig
from se_rl.config import to_dict
from se_rl.data.catalog import DataSet
from se_rl.environments.costs import FREE, Costs
from se_rl.scoring.checks import Check
from se_rl.scoring.order_scores import Panel, Score
from se_rl.scoring.statistics import day_means, spa_p_value

IN_SAMPLE = (
    "VWAP and XS ridge were fitted on days that this split contains: their rows are in-sample"
)


def results_table(
    config: BaselinesConfig,
    dataset: DataSet,
    fitted: Fitted,
    scores: Sequence[Score],
    checks: Sequence[Check],
) -> dict[str, Any]:
    """All that a reader needs to believe or reproduce the table: TWAP first, the bound last."""
    twap = scores[0]
    bound = scores[-1]
    panel = twap.panel
    data = dataset.data
    days = np.unique(panel.day)
    by_day = {score.name: day_means(score.pa(), panel.day) for score in scores}
    policies = [score.name for score in scores[1:-1]]
    columns = np.stack([by_day[name] for name in policies], axis=1)  # [day, policy]
    notes = [*data.provenance.notes, *fitted.notes]
    costs = Costs.of(config)
    if costs != FREE:
        notes.append(f"costs on history: {costs.words()}; TWAP pays them too")
    if fitted.ridge is not None and config.split in ("all", "train"):
        notes.append(IN_SAMPLE)
    return {
        "orders": len(panel.orders),
        "symbols": len(np.unique(panel.orders.row // len(panel.data.dates))),
        "days": len(days),
        "horizon": panel.orders.horizon,
        "data": _data_facts(config, dataset, panel),
        "benchmark": panel.benchmark,
        "costs": {
            "half_spread_bps": config.half_spread_bps,
            "fee_bps": config.fee_bps,
            "cap": config.max_participation,
            "fill_model": config.fill_model,
        },
        "methods": {score.name: score.row(twap, bound=bound, risk=config.risk) for score in scores},
        "spa": {
            "policies": policies,
            "over": "TWAP",
            "p_value": spa_p_value(by_day["TWAP"], columns),
        },
        "ridge_fitted_on": list(fitted.ridge.fitted_on) if fitted.ridge else [],
        "checks": [{"name": c.name, "ok": c.ok, "detail": c.detail} for c in checks],
        "notes": notes,
        "config": to_dict(config),
        "by_day": {"dates": panel.data.dates[days].tolist()}
        | {name: values.tolist() for name, values in by_day.items()},
        "paths": {score.name: _mean_path(score) for score in scores},
    }


def _data_facts(config: BaselinesConfig, dataset: DataSet, panel: Panel) -> dict[str, object]:
    """Which data and days the table rests on."""
    data = dataset.data
    days = np.unique(panel.day)
    return {
        "name": dataset.name,
        "synthetic": data.provenance.synthetic,
        "sha256": data.provenance.sha256,
        "split": config.split,
        "first_date": int(panel.data.dates[days[0]]),
        "last_date": int(panel.data.dates[days[-1]]),
        "bars_missing": float(1.0 - data.traded[data.has_session].mean()),
    }


def order_columns(scores: Sequence[Score]) -> dict[str, npt.NDArray[Any]]:
    """One row per order: symbol, day, benchmarks, and each method's prices, PA and leftover."""
    panel = scores[0].panel
    orders = panel.orders
    data = panel.data
    columns: dict[str, npt.NDArray[Any]] = {
        "symbol": np.array(data.symbols)[orders.row // len(data.dates)],
        "date": data.dates[panel.day],
        "start": orders.start,
        "side": orders.side,
        "twap": panel.benchmarks.twap,
        "arrival": panel.benchmarks.arrival,
    }
    if panel.benchmarks.vwap is not None:
        columns["vwap"] = panel.benchmarks.vwap
    for score in scores:
        columns[f"{score.name}: gross price"] = score.record.gross_price
        columns[f"{score.name}: net price"] = score.record.net_price
        columns[f"{score.name}: PA"] = score.pa()
        columns[f"{score.name}: leftover"] = score.record.leftover
    return columns


def _mean_path(score: Score) -> dict[str, list[float]]:
    """Mean inventory left after each step, per side: what the policy does, for the chart."""
    left = 1.0 - np.cumsum(score.record.forced_fills, axis=1)  # [order, step]
    side = score.panel.orders.side
    paths = {}
    for name, sign in (("buy", -1), ("sell", 1)):
        paths[name] = np.round(left[side == sign].mean(axis=0), 5).tolist()
    return paths
