"""The table of the defaults: gains by day in, figures and a page out."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
import torch

from se_rl.records.code_hash import code_hash
from se_rl.records.settings import RISK
from se_rl.scoring.score import Contributions, Stratum, day_contributions
from se_rl.scoring.statistics import Estimate
from se_rl_benchmarks.markdown_tables import interval, signed, table

SPLIT = -1
"""The number of the fold that is the set's own split."""
COLUMNS = ("method", "trainings", "mean", "95 %", "specific", "tracking error", "score", "95 %")
HEAD = """# Defaults on real days

Made by `python benchmarks/defaults.py --split {split}`; do not edit. bps over TWAP, both sides, price
taker without costs, T=240 on the US minute sets and the whole session elsewhere. Fitted on train
days alone; trainings on history, {budget:g} work units each, {seeds} seeds. Mean: the whole gain,
day by day; specific: without what all symbols' schedules earned together; tracking error: standard
deviation of a day's whole gain; score: specific - {risk:g}/2 x its variance. 95 % by days (Student
t), and of the score by the jackknife over days and over training seeds. Old default and naive are
designs as well, trained by the same trainer. {jobs} jobs; code {code}, torch {torch}, Python
{python}.
"""
WALK = """## Walk-forward, pooled by market

The days after the train days in {blocks} blocks, fitted anew on all days before each (a session left
out between), pooled.
"""


class DayGains(TypedDict):
    """What one training or plan gained over TWAP on every day of a fold."""

    set: str
    fold: int
    method: str
    seed: int
    dates: list[int]
    specific: list[float]
    whole: list[float]


def finished(
    found: Sequence[DayGains], markets: Mapping[str, str], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """All figures: by set, and the walk forward by market."""
    sets = {}
    pooled = {}
    for name in markets:
        rows = [one for one in found if one["set"] == name and one["fold"] == SPLIT]
        if rows:
            sets[name] = figures(rows)
    for market in dict.fromkeys(markets.values()):
        rows = [one for one in found if markets[one["set"]] == market and one["fold"] != SPLIT]
        if rows:
            pooled[market] = figures(rows)
    made = {
        "code": code_hash()[:8],
        "torch": torch.__version__,
        "python": platform.python_version(),
        "risk": RISK,
    }
    return {"sets": sets, "walk_forward": pooled, "facts": {**facts, **made}}


def figures(rows: Sequence[DayGains], risk: float = RISK) -> dict[str, Any]:
    """The figures of every method, over all folds and sets given; `days` counts them."""
    found: dict[str, Any] = {}
    days = {(row["set"], date) for row in rows for date in row["dates"]}
    found["days"] = len(days)
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        found[method] = _method(*gain_matrices(own), risk=risk)
    return found


def gain_matrices(rows: Iterable[DayGains]) -> tuple[Any, Any]:
    """Specific and whole gains [seed, day] of the seeds that finished every fold."""
    by_seed: dict[int, list[DayGains]] = {}
    for row in rows:
        by_seed.setdefault(row["seed"], []).append(row)
    most = max(map(len, by_seed.values()))
    specific = []
    whole = []
    for _, folds in sorted(by_seed.items()):
        if len(folds) == most:
            folds.sort(key=lambda row: (row["set"], row["fold"]))
            specific.append(np.concatenate([row["specific"] for row in folds]))
            whole.append(np.concatenate([row["whole"] for row in folds]))
    return np.stack(specific), np.stack(whole)


def _method(specific: Any, whole: Any, *, risk: float) -> dict[str, Any]:
    """One method's figures from gains [training, day]."""
    mean = whole.mean(axis=0)  # [day]
    days = len(mean)
    gain = Estimate(float(mean.mean()), float(mean.std(ddof=1) / np.sqrt(days)), days)
    values = day_contributions(specific, whole, risk)  # [training, day]
    if len(values) > 1:
        score = Contributions((Stratum("static", "history", 1.0, values),)).estimate()
    else:  # a plan has no luck of training
        own = values[0]
        score = Estimate(float(own.mean()), float(own.std(ddof=1) / np.sqrt(days)), days)
    return {
        "mean": gain.mean,
        "ci95": list(gain.ci95),
        "specific": float(specific.mean()),
        "tracking_error": float(whole.std(axis=1, ddof=1).mean()),
        "score": score.mean,
        "score_ci95": list(score.ci95),
        "score_p": score.p_value,
        "trainings": len(values),
    }


def page(made: Mapping[str, Any]) -> str:
    """The figures as Markdown."""
    parts = [HEAD.format(**made["facts"])]
    for name, rows in made["sets"].items():
        size = f"{rows['days']} days, {made['facts']['names'][name]} names"
        parts.append(f"## {name} ({size})\n\n{methods_table(rows)}\n")
    if made["walk_forward"]:
        parts.append(WALK.format(**made["facts"]))
    for market, rows in made["walk_forward"].items():
        parts.append(f"### {market} ({rows['days']} days)\n\n{methods_table(rows)}\n")
    return "\n".join(parts)


def methods_table(rows: Mapping[str, Any]) -> str:
    """A row for every method."""
    lines = []
    for name, row in rows.items():
        if name == "days":
            continue
        lines.append(method_cells(name, row))
    return table(COLUMNS, lines)


def method_cells(name: str, row: Mapping[str, Any]) -> list[str]:
    """One method's figures in words."""
    cells = [name, str(row["trainings"]), signed(row["mean"]), interval(row["ci95"])]
    cells += [signed(row["specific"]), f"{row['tracking_error']:.1f}"]
    return [*cells, signed(row["score"]), interval(row["score_ci95"])]
