"""The charts of days and of learning: what was gained day by day, and how every design learned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from se_rl.bounded_reading import plain_json
from se_rl.records.entries import Evaluation
from se_rl.records.results import BOUND, OURS, STRONG, TWAP, RunResults
from se_rl.records.training_rows import longest_training
from se_rl.report.evolution_chart import MODULES
from se_rl.report.figures import COLOURS, DASHES, GREY, Figure, axis, figure, lines
from se_rl.report.page_numbers import iso_date, signed
from se_rl.report.run_designs import Design, RunRecord, as_hover

DAYS = axis("", type="category", nticks=5)
"""An axis of trading days, without gaps for weekends."""
Curve = Sequence[tuple[float, float]]
"""Work units, and the gain less risk over TWAP on held-back train orders, bps."""


def day_gains(results: RunResults) -> list[Figure]:
    """Gains over TWAP summed from day to day for every method, and those of single days for ours."""
    by_day = results.by_day
    dates = [iso_date(int(day)) for day in by_day.get("dates", ())]
    if not dates or TWAP not in by_day:
        return []
    twap = by_day[TWAP]
    gains = {}
    for name, values in by_day.items():
        if name not in ("dates", TWAP) and BOUND not in name:
            gains[name] = [own - base for own, base in zip(values, twap, strict=True)]
    ranked = sorted(gains, key=lambda name: (name != OURS, name != STRONG, -sum(gains[name])))
    ours = ranked[0]
    return [_summed(dates, gains, ranked[: len(COLOURS)]), _single(dates, gains[ours], ours)]


def _summed(
    dates: Sequence[str], gains: Mapping[str, Sequence[float]], names: Sequence[str]
) -> Figure:
    traces = []
    for place, name in enumerate(names):
        total = [round(value, 3) for value in accumulate(gains[name])]
        look = {"color": COLOURS[2 - place], "dash": DASHES[2 - place], "width": 2}
        traces.append(lines(as_hover(name), dates, total, line=look))
    layout = {"height": 320, "xaxis": DAYS, "yaxis": axis("sum of the days' gains, bps")}
    ends = ", ".join(f"{name} {signed(sum(gains[name]), 1)}" for name in names[:3])
    summary = f"Gain over TWAP added up over {len(dates)} days: {ends} bps."
    return figure(traces, layout, title="Cumulative gain over TWAP", summary=summary)


def _single(dates: Sequence[str], gains: Sequence[float], name: str) -> Figure:
    marker = {"color": [COLOURS[1] if gain > 0 else COLOURS[0] for gain in gains]}
    bars: Figure = {
        "type": "bar",
        "name": as_hover(name),
        "x": list(dates),
        "y": [round(gain, 3) for gain in gains],
        "marker": marker,
        "hovertemplate": "%{x}: %{y:+.2f} bps<extra></extra>",
    }
    layout = {"height": 320, "xaxis": DAYS, "yaxis": axis("bps over TWAP")}
    won = sum(gain > 0 for gain in gains)
    worst = min(range(len(gains)), key=lambda place: gains[place])
    summary = (
        f"{name} is ahead of TWAP on {won} of {len(gains)} days; its worst is {dates[worst]}, "
        f"{signed(gains[worst])} bps."
    )
    return figure([bars], layout, title="Gain over TWAP, day by day", summary=summary)


def all_curves(run: RunRecord) -> list[Figure]:
    """The learning curves of all designs over each other: gain less risk on train orders that no
    training learns from, at a few points of each design's longest training; of the default and the
    best design one training of every length.
    """
    curves: dict[int, Sequence[Curve]] = {}
    for design in run.designs:
        judged = _judged(run, design)
        if judged:
            is_marked = design.state == "default" or design.candidate.id == run.best
            curves[design.number] = judged if is_marked else judged[-1:]
    if len(curves) < 2:
        return []
    known = {design.number: design for design in run.designs}
    traces = []
    for module, colour in zip(MODULES, COLOURS, strict=True):
        own = [known[number] for number in curves if known[number].candidate.module == module]
        drawn = [d for d in own if d.state != "default" and d.candidate.id != run.best]
        if drawn:
            look = {"color": colour, "width": 1.2}
            named = module or "several modules"
            traces.append(_joined(named, drawn, curves) | {"line": look, "opacity": 0.65})
    for name, dash in (("the default", "dash"), ("best design", "solid")):
        drawn = [known[n] for n in curves if _is_named(known[n], name, run.best)]
        if drawn:
            look = {"color": GREY if dash == "dash" else COLOURS[2], "dash": dash, "width": 3}
            traces.append(_joined(name, drawn[:1], curves) | {"line": look})
    layout = {
        "height": 380,
        "hovermode": "closest",
        "xaxis": axis("work units"),
        "yaxis": axis("gain less risk over TWAP, bps"),
    }
    ends = {number: own[-1][-1][1] for number, own in curves.items()}
    top = max(ends, key=lambda number: ends[number])
    summary = (
        f"{len(curves)} designs, judged on train orders that they do not learn from; "
        f"{known[top].candidate.id} ends highest, at {signed(ends[top])} bps."
    )
    return [figure(traces, layout, title="Learning curves of all designs", summary=summary)]


def _is_named(design: Design, name: str, best: str) -> bool:
    if name == "the default":
        return design.state == "default"
    return design.candidate.id == best and design.state == "scored"


def _joined(name: str, designs: Sequence[Design], curves: Mapping[int, Sequence[Curve]]) -> Figure:
    """The curves of several designs as one line with gaps."""
    x: list[float | None] = []
    y: list[float | None] = []
    texts: list[str] = []
    numbers: list[int] = []
    for design in designs:
        for curve in curves[design.number]:
            for work, value in curve:
                x.append(round(work, 2))
                y.append(round(value, 3))
                texts.append(as_hover(f"{design.label}: {signed(value)} bps after {work:.1f}"))
            x.append(None)
            y.append(None)
            texts.append("")
            numbers += [design.number] * (len(curve) + 1)
    trace = lines(name, x, y, text=texts, mode="lines+markers", marker={"size": 5})
    return trace | {"customdata": numbers, "hoverinfo": "text"}


def _judged(run: RunRecord, design: Design) -> list[Curve]:
    """Where a design's trainings were judged and what they earned there, one curve for each rung,
    the longest training last.
    """
    if design.state not in ("scored", "default"):
        return []
    found: dict[int, Curve] = {}
    for evaluation in run.evaluations.get(design.candidate.id, []):
        if evaluation.ok and evaluation.rung not in found:
            points: list[tuple[float, float]] = []
            for row in _rows(run, evaluation):
                value = row.get("held_back")
                if isinstance(value, int | float) and math.isfinite(value):
                    points.append((float(row["work"]), float(value)))
            found[evaluation.rung] = points
    return [found[rung] for rung in sorted(found) if found[rung]]


def training_rows(run: RunRecord, name: str) -> Sequence[Mapping[str, Any]]:
    """The rows of a design's longest training; none where it has none that ended well."""
    longest = longest_training(run.evaluations.get(name, []))
    return [] if longest is None else _rows(run, longest)


def _rows(run: RunRecord, evaluation: Evaluation) -> Sequence[Mapping[str, Any]]:
    return plain_json(run.text(evaluation.curve) or "[]")
