"""The charts of the table of baselines: differences to TWAP with intervals, day by day, and what
each method still holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from se_rl.records.results import BOUND, TWAP
from se_rl.report.figures import (
    COLOURS,
    DASHES,
    GREY,
    Figure,
    axis,
    category_axis,
    figure,
    lines,
    markers,
)
from se_rl.report.page_numbers import SAME_BPS, interval, iso_date, known_bounds, signed

Table = Mapping[str, Any]
"""What `run_baselines` returns, or the same read back from JSON."""
PARTS = (
    ("total", "over_TWAP", {"symbol": "diamond", "size": 11, "color": "#2b83c6"}),
    ("specific", "over_TWAP_specific", {"symbol": "circle", "size": 7, "color": "#0a9a72"}),
    ("common", "over_TWAP_common", {"symbol": "square", "size": 7, "color": "#d9730d"}),
)
OFFSETS = (0.24, 0.0, -0.24)
"""How far above or below its method each part is drawn."""


def policies(table: Table) -> list[str]:
    """What could really be traded, apart from TWAP itself."""
    return [name for name in table["methods"] if name not in (TWAP, BOUND)]


def is_twap(table: Table, name: str) -> bool:
    """Whether a method's paired difference to TWAP prints as zero on every day."""
    return all(abs(value) < SAME_BPS for value in _over_twap(table, name))


def forest(table: Table) -> Figure:
    """Paired differences to TWAP with their intervals, best on top; the bound would dwarf them and
    is left out.
    """
    methods = table["methods"]
    names = sorted(policies(table), key=lambda name: methods[name]["over_TWAP"]["mean"])
    traces = []
    for offset, (label, key, marker) in zip(OFFSETS, PARTS, strict=True):
        gains = [methods[name][key] for name in names]
        texts = [f"{label} {signed(g['mean'])} {interval(g['ci95'])}" for g in gains]
        error = {"type": "data", "color": marker["color"], "thickness": 2, "width": 0}
        trace = markers(
            label,
            [gain["mean"] for gain in gains],
            [place + offset for place in range(len(names))],
            marker=marker,
            hoverinfo="text",
            text=texts,
            error_x=error | {"array": [_half_width(gain["ci95"]) for gain in gains]},
        )
        traces.append(trace)
    layout = {
        "height": 100 + 66 * len(names),
        "xaxis": axis("bps over TWAP"),
        "yaxis": category_axis(names),
    }
    return figure(traces, layout)


def daily(table: Table) -> list[Figure]:
    """One chart per method that differs from TWAP, all on one scale: the difference by day and its
    running mean.
    """
    days = [iso_date(day) for day in table["by_day"]["dates"]]
    series = {}
    for name in policies(table):
        if not is_twap(table, name):
            series[name] = _over_twap(table, name)
    largest = max((max(map(abs, values)) for values in series.values()), default=1.0)
    reach = 1.1 * largest
    layout = {
        "height": 250,
        "xaxis": {
            "type": "category",
            "nticks": 4,
            "showgrid": False,
            "tickangle": 0,
            "range": [-0.6, len(days) - 0.4],
        },
        "yaxis": axis("bps over TWAP", range=[-reach, reach]),
    }
    charts = []
    for name, values in series.items():
        colour = _line(table, name)["color"]
        traces = _bars_and_mean(days, values, colour=colour)
        charts.append(figure(traces, layout, title=name))
    return charts


def inventory(table: Table) -> list[Figure]:
    """Mean share of the order still held after each bar, less TWAP's; one chart per side."""
    layout = {
        "height": 320,
        "xaxis": axis("bars since the order began"),
        "yaxis": axis("held less TWAP, % of order"),
    }
    hover = "bar %{x}: %{customdata:.1%} left, %{y:+.1f} points to TWAP"
    charts = []
    for side in ("buy", "sell"):
        twap = [1.0, *table["paths"][TWAP][side]]
        traces = []
        for name, paths in table["paths"].items():
            if name == BOUND:
                continue
            held = [1.0, *paths[side]]
            later = [100 * (left - even) for left, even in zip(held, twap, strict=True)]
            look = {"customdata": held, "hovertemplate": hover, "line": _line(table, name)}
            traces.append(lines(name, range(len(held)), later) | look)
        charts.append(figure(traces, layout, title=f"{side} orders"))
    return charts


def _over_twap(table: Table, name: str) -> list[float]:
    days = table["by_day"]
    return [value - twap for value, twap in zip(days[name], days[TWAP], strict=True)]


def _half_width(bounds: list[float | None]) -> float:
    low, high = known_bounds(bounds)
    return 0.0 if math.isnan(high - low) else (high - low) / 2


def _bars_and_mean(days: list[str], values: list[float], *, colour: str) -> list[Figure]:
    """A bar for each day, and the mean up to it."""
    running = [total / count for count, total in enumerate(accumulate(values), start=1)]
    hover = {"hovertemplate": "%{x}: %{y:+.2f} bps"}
    bars = {"type": "bar", "name": "day", "x": days, "y": values} | hover
    mean = lines("running mean", days, running) | hover | {"mode": "lines+markers"}
    return [
        bars | {"marker": {"color": colour, "opacity": 0.45}},
        mean | {"line": {"color": colour, "width": 2.5}, "marker": {"size": 4, "color": colour}},
    ]


def _line(table: Table, name: str) -> Figure:
    """Line of a method, the same in every chart."""
    if name == TWAP:
        return {"color": GREY, "dash": "solid", "width": 1.5}
    place = policies(table).index(name) % len(COLOURS)
    return {"color": COLOURS[place], "dash": DASHES[place], "width": 2}
