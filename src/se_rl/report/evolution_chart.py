"""The chart of a search: every design by order of proposal, what it scores, and from
whom it came.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from se_rl.records.iterations import IterationSummary
from se_rl.report.figures import COLOURS, GREY, Figure, axis, figure, lines, markers
from se_rl.report.page_numbers import around, interval, signed
from se_rl.report.run_designs import Design, as_hover, lineage

MODULES = ("reward", "network", "imagination", "communication", "profiling", "")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "pentagon", "star")
MARKS = {"not valid": "x", "training failed": "cross", "repeat": "circle-open-dot"}
"""States of a design without a score, and the mark of each."""
BELOW = ", below the chart"
BEHIND = 1100
"""Where the legend lists the lines: after the designs."""

Places = Mapping[str, tuple[int, float]]
"""Where each design is drawn, by id: its number and its score."""


def evolution(
    designs: Sequence[Design], best: str, iterations: Sequence[IterationSummary]
) -> Figure:
    """Designs with a score at their height, parents joined to children, and at the bottom those
    without a score.
    """
    drawn = [design for design in designs if design.gain is not None]
    held = [step.score for step in iterations if math.isfinite(step.score)]
    floor, top = _reach([*(design.gain or 0.0 for design in drawn), *held])
    places = {}
    for design in reversed(drawn):
        places[design.candidate.id] = (design.number, max(design.gain or 0.0, floor))
    pad = 0.12 * (top - floor)
    traces = [_edges(drawn, places), _line_of_best(designs, best, places), *_points(drawn, floor)]
    traces += [_held_best(iterations, designs), *_failures(designs, floor - pad)]
    layout = {
        "height": 480,
        "hovermode": "closest",
        "legend": {"entrywidth": 128},
        "xaxis": axis(
            "designs in order of proposal",
            zeroline=False,
            range=[-0.8, max(len(designs), 2) - 0.2],
        ),
        "yaxis": axis("bps over the default, validation", range=[floor - 2 * pad, top + pad]),
    }
    shown = [trace for trace in traces if trace["x"]]
    return figure(shown, layout, summary=_in_words(designs, best))


def _in_words(designs: Sequence[Design], best: str) -> str:
    """The chart in words."""
    states = [design.state for design in designs if design.proposed]
    counts = []
    for state in ("scored", "waiting", *MARKS):
        if state in states:
            counts.append(f"{states.count(state)} {state}")
    told = f"{len(states)} designs proposed ({', '.join(counts) or 'none scored yet'})"
    for design in designs:
        if design.candidate.id == best and design.gain is not None and design.state != "default":
            score = f"{signed(design.gain)} bps over the default"
            return f"{told}; the best is number {design.number}, {best}, {score}."
    return f"{told}; none is held better than the default."


def _reach(gains: Sequence[float]) -> tuple[float, float]:
    """Where the chart ends: a few very bad designs must not squash the others, so they are drawn at
    the lower end.
    """
    if not gains:
        return -1.0, 1.0
    top, bottom = max(*gains, 0.0), min(*gains, 0.0)
    middle = median(gains)
    floor = bottom if top - middle < 1e-9 else max(bottom, top - 4 * (top - middle))
    return floor, top if top - floor > 1e-9 else floor + 1.0


def _points(drawn: Sequence[Design], floor: float) -> list[Figure]:
    """One trace for each module changed; the mark grows with the rung reached, and is hollow below
    the chart's end.
    """
    traces = []
    for module, colour, symbol in zip(MODULES, COLOURS, SYMBOLS, strict=True):
        own = [design for design in drawn if design.candidate.module == module]
        numbers = [design.number for design in own]
        heights, texts, marks, sizes = [], [], [], []
        for design in own:
            gain = design.gain or 0.0
            is_below = gain < floor
            score = f"{signed(design.gain)} {interval(design.ci95)} bps"
            told = f"{design.label} · {score} · rung {design.rung}{BELOW if is_below else ''}"
            heights.append(max(gain, floor))
            texts.append(as_hover(told))
            marks.append(f"{symbol}-open" if is_below else symbol)
            sizes.append(8 + 3 * min(max(design.rung, 0), 3))
        edge = {"width": 1, "color": "#ffffff"}
        marker = {"color": colour, "symbol": marks, "size": sizes, "line": edge}
        name = module or "by hand, crossover"
        trace = markers(name, numbers, heights, text=texts, marker=marker)
        traces.append(trace | {"customdata": numbers, "hoverinfo": "text"})
    return traces


def _failures(designs: Sequence[Design], level: float) -> list[Figure]:
    traces = []
    for state, symbol in MARKS.items():
        own = [design for design in designs if design.state == state]
        numbers = [design.number for design in own]
        texts = [as_hover(f"{design.label} · {state}: {design.reason}") for design in own]
        marker = {"color": GREY, "symbol": symbol, "size": 8}
        trace = markers(state, numbers, [level] * len(own), text=texts, marker=marker)
        traces.append(trace | {"customdata": numbers, "hoverinfo": "text"})
    return traces


def _edges(drawn: Sequence[Design], places: Places) -> Figure:
    """Faint lines from parents to children."""
    x: list[int | None] = []
    y: list[float | None] = []
    for design in drawn:
        child = places[design.candidate.id]
        for name in design.candidate.parents:
            if name in places:
                parent = places[name]
                x += [parent[0], child[0], None]
                y += [parent[1], child[1], None]
    line = {"color": GREY, "width": 1}
    look = {"hoverinfo": "skip", "line": line, "opacity": 0.35, "legendrank": BEHIND}
    return lines("parent to child", x, y) | look


def _line_of_best(designs: Sequence[Design], best: str, places: Places) -> Figure:
    points = [places[name] for name in lineage(designs, best) if name in places]
    line = {"color": COLOURS[2], "width": 2.5}
    look = {"hoverinfo": "skip", "line": line, "opacity": 0.7, "legendrank": BEHIND}
    return _through("line of the best", points) | look


def _held_best(iterations: Sequence[IterationSummary], designs: Sequence[Design]) -> Figure:
    """What the search held best after each iteration, with the score that it had then."""
    points: list[tuple[int, float]] = []
    texts = ["the default"]
    for step in iterations:
        if not math.isfinite(step.score):
            continue
        before = [d.number for d in designs if 0 < d.candidate.iteration <= step.iteration]
        points.append((max(before, default=0), step.score))
        score = f"{signed(step.score)} {interval(around(step.score, step.se))} bps"
        texts.append(as_hover(f"after iteration {step.iteration}: {step.best}, {score} then"))
    if points:
        points = [(0, 0.0), *points]
    line = {"color": COLOURS[0], "width": 2, "dash": "dot", "shape": "hv"}
    look = {"hoverinfo": "text", "text": texts, "line": line, "legendrank": BEHIND}
    return _through("held best, as scored then", points) | look


def _through(name: str, points: Sequence[tuple[int, float]]) -> Figure:
    x, y = zip(*points, strict=True) if points else ((), ())
    return lines(name, x, y)
