"""Runs side by side as one HTML page: what may be said of them, every run, groups, and their days."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from se_rl.report.figures import (
    COLOURS,
    DASHES,
    Figure,
    axis,
    category_axis,
    figure,
    lines,
    markers,
)
from se_rl.report.numbers import p_value
from se_rl.report.page import finite, render
from se_rl.report.page_numbers import excludes_zero, interval, minus, plain, signed
from se_rl.report.run_designs import as_hover
from se_rl.scoring.compared_runs import ComparedRun
from se_rl.scoring.comparison import Comparison

MOST_RUNS = 24
"""Runs that have lines of their own in a chart."""


def comparison_page(comparison: Comparison) -> str:
    """The whole page as text."""
    drawn = [*_forest(comparison.runs), *_days(comparison.runs), *_learning(comparison.runs)]
    page = render(
        "compare.jinja",
        filters={
            "signed": signed,
            "plain": plain,
            "interval": interval,
            "minus": minus,
            "p": p_value,
        },
        tests={"off_zero": excludes_zero},
        c=comparison,
        by=", ".join(comparison.by),
        drawn=finite(drawn),
    )
    return page.encode(errors="replace").decode()  # half a surrogate pair cannot be written


def _forest(runs: Sequence[ComparedRun]) -> list[Figure]:
    """Every run's score over the default with its interval, on the sealed days."""
    shown = [run for run in runs if math.isfinite(run.score_over_default.mean)]
    if not shown:
        return []
    texts, upper, lower = [], [], []
    for run in shown:
        gain = run.score_over_default
        low, high = gain.ci95
        texts.append(as_hover(f"{run.name}: {signed(gain.mean)} {interval(gain.ci95)} bps"))
        upper.append(high - gain.mean if math.isfinite(high) else 0.0)
        lower.append(gain.mean - low if math.isfinite(low) else 0.0)
    bars = {"type": "data", "array": upper, "arrayminus": lower, "symmetric": False, "width": 0}
    points = markers(
        "score over the default, 95 %",
        [run.score_over_default.mean for run in shown],
        list(range(len(shown))),
        text=texts,
        hoverinfo="text",
        marker={"color": COLOURS[2], "size": 9},
        error_x=bars | {"color": COLOURS[2]},
    )
    layout = {
        "height": 110 + 34 * len(shown),
        "xaxis": axis("bps over the default"),
        "yaxis": category_axis([as_hover(f"{run.name} ({run.group})") for run in shown]),
    }
    best = max(shown, key=lambda run: run.score_over_default.mean)
    gain = best.score_over_default
    summary = f"{best.name} is highest: {signed(gain.mean)} {interval(gain.ci95)} bps."
    return [figure([points], layout, title="Score over the default", summary=summary)]


def _days(runs: Sequence[ComparedRun]) -> list[Figure]:
    """What each run's design scores over the default, added up day by day."""
    traces = []
    for place, run in enumerate(runs[:MOST_RUNS]):
        if run.gain_by_day:
            total = [round(value, 4) for value in accumulate(run.gain_by_day)]
            days = list(range(1, len(total) + 1))
            traces.append(lines(as_hover(run.name), days, total, line=_look(place)))
    if not traces:
        return []
    layout = {"height": 340, "xaxis": axis("test day"), "yaxis": axis("sum of the days, bps")}
    ends = ", ".join(f"{run.name} {signed(sum(run.gain_by_day), 1)}" for run in runs[:6])
    title = "Score over the default, added up over the test days"
    return [figure(traces, layout, title=title, summary=f"At the end: {ends} bps.")]


def _learning(runs: Sequence[ComparedRun]) -> list[Figure]:
    """What each run's best design scores on validation as its trainings get longer."""
    traces = []
    for place, run in enumerate(runs[:MOST_RUNS]):
        curve = run.learning
        if len(curve.work) > 1:
            gains = [best - base for best, base in zip(curve.best, curve.default, strict=True)]
            trace = lines(as_hover(run.name), curve.work, gains, line=_look(place))
            traces.append(trace | {"mode": "lines+markers"})
    if not traces:
        return []
    y = axis("bps over the default, validation")
    layout = {"height": 340, "xaxis": axis("work units"), "yaxis": y}
    summary = "The best design less the default after trainings of the same length."
    return [figure(traces, layout, title="Learning speed", summary=summary)]


def _look(place: int) -> Figure:
    return {
        "color": COLOURS[place % len(COLOURS)],
        "dash": DASHES[(2 + place // len(COLOURS)) % len(DASHES)],
        "width": 2,
    }
