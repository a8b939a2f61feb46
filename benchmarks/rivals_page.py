"""The table of the rivals: gains by day, book or episode in, figures and a page out."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NotRequired

import numpy as np
import torch

from se_rl.records.code_hash import code_hash
from se_rl.records.settings import RISK
from se_rl.report.numbers import p_value
from se_rl.scoring.statistics import spa_against_nothing
from se_rl_benchmarks.defaults_page import DayGains, figures, gain_matrices
from se_rl_benchmarks.markdown_tables import interval, number, signed, table

HEAD = """# Rivals

Made by `python benchmarks/rivals.py --split {split}`, the champions' rows with `--champions FILE --without
reward`; do not edit. [What each one is](../rivals.md).
Every figure is a gain over TWAP on the same orders. A learned row has up to {seeds} training seeds, whose
mean it is; all trainings of a set have the same work units; CPU is what one took, in seconds. 95 % by
days, books or episodes, of scores also by training seeds; by seed: the lowest and the highest score of a
training. SPA: the chance of such a best mean if nobody in the table beat TWAP, corrected for their
number. {jobs} jobs, made by {made_by}.

First the scores of all sets, ± half of the 95 % interval, the best of each set in bold; then every set by
itself.
"""


class RivalGains(DayGains):
    """What one training or plan gained, the training's CPU seconds, its budget, the split, the code
    and libraries that made it, and on history how many names the set had.

    In others' markets also the mean return and the share of orders that were not finished; `reason`
    says why there are no gains.
    """

    seconds: float
    budget: float
    split: str
    made_by: NotRequired[str]
    names: NotRequired[int]
    reason: NotRequired[str]
    returned: NotRequired[float]
    unfinished: NotRequired[float]


@dataclass(frozen=True)
class SetGroup:
    """Sets that are alike: their names, what a gain is counted by and in, and the price of risk.

    `cannot` says by set why a method has no row, `notes` what a row of a set is.
    """

    title: str
    words: str
    names: tuple[str, ...]
    by: str
    risk: float = 0.0
    decimals: int = 2
    cannot: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


def finished(
    found: Sequence[RivalGains], groups: Sequence[SetGroup], *, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """All figures by set."""
    sets = {}
    for group in groups:
        for name in group.names:
            rows = [row for row in found if row["set"] == name]
            if any(not row.get("reason") for row in rows):
                sets[name] = _set_figures(rows, risk=group.risk)
                sets[name]["cannot"] |= group.cannot.get(name, {})
    makers = Counter(row.get("made_by", "unknown code") for row in found)
    made_by = "; ".join(f"{maker} ({count})" for maker, count in makers.most_common())
    return {"sets": sets, "facts": {**facts, "made_by": made_by, "risk": RISK}}


def maker() -> str:
    """The code and libraries of this process."""
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    return f"code {code_hash()[:8]}, {versions}"


def _set_figures(rows: Sequence[RivalGains], *, risk: float) -> dict[str, Any]:
    """Every method's figures on one set, with its costs, and the test over all of them."""
    whole = [row for row in rows if not row.get("reason")]
    methods = figures(whole, risk)
    days = methods.pop("days")
    columns = []
    for method, row in methods.items():
        own = sorted((one for one in whole if one["method"] == method), key=lambda one: one["seed"])
        row["cpu_seconds"] = float(np.mean([one["seconds"] for one in own]))
        row["budget"] = own[0]["budget"]
        row["by_seed"] = [figures([one], risk)[method]["score"] for one in own]
        if "returned" in own[0]:
            row["returned"] = float(np.mean([one["returned"] for one in own]))
            row["unfinished"] = float(np.mean([one["unfinished"] for one in own]))
        columns.append(gain_matrices(own)[1].mean(axis=0))
    failed = {row["method"]: row.get("reason", "") for row in rows if row.get("reason")}
    return {
        "days": days,
        "names": max((row.get("names", 0) for row in rows), default=0),
        "methods": methods,
        "spa_p": spa_against_nothing(columns),
        "cannot": failed,
    }


def page(made: Mapping[str, Any], groups: Sequence[SetGroup]) -> str:
    """The figures as Markdown: an overview of each group of sets, then the sets one by one."""
    parts = [HEAD.format(**made["facts"])]
    shown = []
    for group in groups:
        names = [name for name in group.names if name in made["sets"]]
        if names:
            shown.append((group, names))
    for group, names in shown:
        sets = {name: made["sets"][name] for name in names}
        parts.append(f"## {group.title}\n\n{group.words}\n\n{_overview(sets, group)}\n")
    for group, names in shown:
        for name in names:
            parts.append(_set_table(name, made["sets"][name], group))
    return "\n".join(parts)


def _overview(sets: Mapping[str, Any], group: SetGroup) -> str:
    """Scores of all methods on all sets of a group."""
    fullest = sorted(sets.values(), key=lambda found: -len(found["methods"]))
    methods = dict.fromkeys(name for found in fullest for name in found["methods"])
    lines = []
    for method in methods:
        cells = [method]
        seconds = []
        for found in sets.values():
            row = found["methods"].get(method)
            best = max(one["score"] for one in found["methods"].values())
            cells.append(_short(row, group.decimals, bold=bool(row) and row["score"] == best))
            if row and row["cpu_seconds"]:
                seconds.append(row["cpu_seconds"])
        lines.append([*cells, number(float(np.mean(seconds)), 0) if seconds else "-"])
    lines.append(["SPA p", *(p_value(found["spa_p"]) for found in sets.values()), ""])
    return table(("method", *sets, "CPU s"), lines)


def _short(row: Mapping[str, Any] | None, decimals: int, *, bold: bool) -> str:
    """A score and half of its interval."""
    if row is None:
        return "-"
    low, high = row["score_ci95"]
    score = signed(row["score"], decimals)
    return f"{f'**{score}**' if bold else score} ± {number((high - low) / 2, decimals)}"


def _set_table(name: str, found: Mapping[str, Any], group: SetGroup) -> str:
    """One set: a row for every method, and why others have none.

    Without a price of risk the score is the mean, and one of them is shown.
    """
    outside = any("returned" in row for row in found["methods"].values())
    head = ["method", "trainings"]
    head += ["mean", "95 %", "specific", "tracking error", "score"] if group.risk else ["mean"]
    head += ["95 %", "by seed", *(["return", "unfinished"] if outside else []), "CPU s"]
    lines = []
    for method, row in found["methods"].items():
        cells = [method, str(row["trainings"])]
        if group.risk:
            cells += [signed(row["mean"]), interval(row["ci95"]), signed(row["specific"])]
            cells.append(number(row["tracking_error"], 1))
        cells += [signed(row["score"], group.decimals), interval(row["score_ci95"], group.decimals)]
        cells.append(_by_seed(row["by_seed"], group.decimals))
        if outside:
            cells += [number(row["returned"], group.decimals), f"{100 * row['unfinished']:.1f} %"]
        lines.append([*cells, number(row["cpu_seconds"], 1) if row["cpu_seconds"] else "-"])
    for method, why in found["cannot"].items():
        if method not in found["methods"]:
            lines.append([method, "0", why, *[""] * (len(head) - 3)])
    note = f"\n{group.notes[name]}\n" if name in group.notes else ""
    sizes = f"{found['days']} {group.by}"
    if found["names"]:
        sizes += f" of {found['names']} names"
    title = f"## {name} ({sizes}, SPA p {p_value(found['spa_p'])})"
    return f"{title}\n{note}\n{table(head, lines)}\n"


def _by_seed(scores: Sequence[float], decimals: int) -> str:
    """The lowest and the highest score of a training."""
    if len(scores) < 2:
        return ""
    return f"{signed(min(scores), decimals)} to {signed(max(scores), decimals)}"
