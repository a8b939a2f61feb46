"""The table of the rivals: gains by day or by book in, figures and a page out."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from se_rl.records.code_hash import code_hash
from se_rl.records.settings import RISK
from se_rl.scoring.statistics import spa_against_nothing
from se_rl_benchmarks.defaults_page import COLUMNS, DayGains, figures, gain_matrices, method_cells
from se_rl_benchmarks.markdown_tables import number, table

HEAD = """# Rivals

Made by `python benchmarks/rivals.py --split {split}`; do not edit. bps over TWAP, both sides.
[What each one is](../rivals.md). Trainings have {budget:g} work units, up to {seeds} seeds; CPU is what one
took, in seconds. On history: price taker without costs, fitted and trained on train days; T=240 on minute bars
and the whole session elsewhere; score: specific gain - {risk:g}/2 x the variance of a day's whole gain. In
simulated markets: limit orders of 40 steps, against TWAP by market orders in the same market; score: the mean.
95 % by days or books, of the score also by training seeds. SPA: the chance of such a best row if nobody
here beat TWAP, corrected for their number. {jobs} jobs; code {code}, torch {torch}, Python {python}.
"""


class RivalGains(DayGains):
    """What one training or plan gained, the training's CPU seconds, its budget, and the split."""

    seconds: float
    budget: float
    split: str


def finished(
    found: Sequence[RivalGains], *, cells: Sequence[str], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """All figures by set."""
    sets = {}
    for name in dict.fromkeys(row["set"] for row in found):
        rows = [row for row in found if row["set"] == name]
        sets[name] = _set_figures(rows, risk=0.0 if name in cells else RISK)
    made = {
        "code": code_hash()[:8],
        "torch": torch.__version__,
        "python": platform.python_version(),
        "risk": RISK,
    }
    return {"sets": sets, "cells": list(cells), "facts": {**facts, **made}}


def _set_figures(rows: Sequence[RivalGains], *, risk: float) -> dict[str, Any]:
    """Every method's figures on one set, with its costs, and the test over all of them."""
    methods = figures(rows, risk)
    days = methods.pop("days")
    columns = []
    for method, row in methods.items():
        own = [one for one in rows if one["method"] == method]
        row["cpu_seconds"] = float(np.mean([one["seconds"] for one in own]))
        row["by_seed"] = [float(np.mean(one["whole"])) for one in own]
        columns.append(gain_matrices(own)[1].mean(axis=0))
    return {"days": days, "methods": methods, "spa_p": spa_against_nothing(columns)}


def page(made: Mapping[str, Any]) -> str:
    """The figures as Markdown."""
    parts = [HEAD.format(**made["facts"])]
    for name, found in made["sets"].items():
        size = f"{found['days']} {'books' if name in made['cells'] else 'days'}"
        lines = []
        for method, row in found["methods"].items():
            seconds = row["cpu_seconds"]
            lines.append([*method_cells(method, row), number(seconds, 1) if seconds else "-"])
        title = f"## {name} ({size}, SPA p {number(found['spa_p'])})"
        parts.append(f"{title}\n\n{table((*COLUMNS, 'CPU s'), lines)}\n")
    return "\n".join(parts)
