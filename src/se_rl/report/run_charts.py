"""The charts of a run's page, as plain plotly figures; each says in `summary` what it shows, for those who do not see it."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from se_rl.records.entries import Event
from se_rl.report.baselines_page import COLOURS, DASHES, GREY, interval, plain, signed
from se_rl.report.run_designs import Design, lineage

MODULES = ("reward", "network", "imagination", "communication", "profiling", "")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "pentagon", "star")
MARKS = {"not valid": "x", "training failed": "cross", "repeat": "circle-open-dot"}
"""States of a design without a score, and the mark of each."""
HOVER_CHARACTERS, BELOW = 160, ", below the chart"
REWARDS = ("reward_static", "reward_dynamic")

Figure = dict[str, Any]


def evolution(designs: Sequence[Design], best: str, iterations: Sequence[Event]) -> Figure:
    """Every design by order of proposal: what it gained, from whom it came, and at the bottom those without a score."""
    drawn = [design for design in designs if design.gain is not None]
    floor, top = _reach([design.gain for design in drawn if design.gain is not None])
    places = {
        design.candidate.id: (design.number, max(design.gain or 0.0, floor))
        for design in reversed(drawn)
    }
    pad = 0.12 * (top - floor)
    traces = [_edges(drawn, places), _line_of_best(designs, best, places), *_points(drawn, floor)]
    traces += [_running_best(iterations, designs, places), *_failures(designs, floor - pad)]
    layout = {
        "height": 480,
        "hovermode": "closest",
        "legend": {"entrywidth": 128},
        "xaxis": {
            "title": {"text": "designs in order of proposal"},
            "zeroline": False,
            "range": [-0.8, max(len(designs), 2) - 0.2],
        },
        "yaxis": {
            "title": {"text": "bps over the default, validation"},
            "range": [floor - 2 * pad, top + pad],
        },
    }
    shown = [trace for trace in traces if trace["x"]]
    return {"title": "", "summary": _told(designs, best), "data": shown, "layout": layout}


def training(rows: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """How one training went: the weights of the two worlds, and each world's mean reward, over work."""
    if not rows:
        return []
    series = {
        name: [(row["work"], row.get(name)) for row in rows] for name in ("alpha", "beta", *REWARDS)
    }
    last = rows[-1]
    weights = f"Ends at alpha {plain(last.get('alpha'))} (history) and beta {plain(last.get('beta'))} (simulated market)."
    rewards = [
        f"{name.removeprefix('reward_')} from {seen[0]:.3g} to {seen[-1]:.3g}"
        for name in REWARDS
        if (seen := [y for _, y in series[name] if y is not None])
    ]
    shares = _curves(
        "Weights of the two worlds",
        weights,
        [(n, series[n]) for n in ("alpha", "beta")],
        y="share of the loss",
    )
    shares["layout"]["yaxis"]["range"] = [0, 1]
    told = f"Mean reward of an order: {', '.join(rewards) or 'none'}."
    named = [(name.removeprefix("reward_"), series[name]) for name in REWARDS]
    return [shares, _curves("Reward in training", told, named, y="as the design counts it")]


def learning(curves: Mapping[str, Sequence[float]]) -> list[Figure]:
    """What the best design and the default score as training goes on."""
    if not curves.get("work"):
        return []
    pairs = [
        (name, list(zip(curves["work"], curves[name], strict=True)))
        for name in ("best", "default")
        if name in curves
    ]
    ends = ", ".join(f"{name} {signed(points[-1][1])}" for name, points in pairs)
    return [
        _curves(
            "Learning speed",
            f"After the longest training: {ends} bps.",
            pairs,
            y="bps over TWAP, validation",
        )
    ]


def impact(dynamic: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Figure]:
    """What each method saves in the simulated market, at each size of the order."""
    if not dynamic:
        return []
    methods = list(dict.fromkeys(name for rows in dynamic.values() for name in rows))[::-1]
    traces, offsets = [], [0.15 - 0.3 * place for place in range(len(dynamic))]
    for place, ((size, rows), offset) in enumerate(zip(dynamic.items(), offsets, strict=True)):
        held = [(level, rows[name]) for level, name in enumerate(methods) if name in rows]
        trace: Figure = {
            "type": "scatter",
            "mode": "markers",
            "name": f"order {size}",
            "hoverinfo": "text",
        }
        trace |= {
            "x": [row["saved_bps"] for _, row in held],
            "y": [level + offset for level, _ in held],
        }
        trace["text"] = [
            f"{size}: {signed(row['saved_bps'])} {interval(row['saved_ci95'])}" for _, row in held
        ]
        trace["marker"] = {"color": COLOURS[place], "symbol": SYMBOLS[place], "size": 9}
        trace["error_x"] = _bars([row["saved_ci95"] for _, row in held], trace["x"], COLOURS[place])
        traces.append(trace)
    ticks = {
        "tickvals": list(range(len(methods))),
        "ticktext": [html.escape(name) for name in methods],
    }
    layout = {
        "height": 90 + 44 * len(methods),
        "xaxis": {"title": {"text": "bps saved against TWAP"}},
        "yaxis": ticks
        | {"range": [-0.6, len(methods) - 0.4], "showgrid": False, "zeroline": False},
    }
    said = (
        "Orders of the size they were trained for (x1) and of twice that (x2), with 95 % intervals."
    )
    return [
        {
            "title": "Cost saved in the simulated market",
            "summary": said,
            "data": traces,
            "layout": layout,
        }
    ]


def progress(iterations: Sequence[Event]) -> list[Figure]:
    """The designer by outer iteration: how much of what it writes is valid and new, and what it gains over the parent."""
    if not iterations:
        return []
    rows = [event.payload for event in iterations]
    steps = [row["iteration"] for row in rows]
    valid = [_percent(row.get("valid"), row.get("proposed")) for row in rows]
    distinct = [None if row.get("distinct") is None else 100 * row["distinct"] for row in rows]
    gains = [row.get("mean_gain") for row in rows]
    whole = {"dtick": max(1, len(steps) // 8), "title": {"text": "outer iteration"}}
    shares = _curves(
        "Valid and distinct designs",
        f"Valid: {plain(valid[0], 0)} % at first, {plain(valid[-1], 0)} % at last.",
        [
            ("valid", list(zip(steps, valid, strict=True))),
            ("distinct", list(zip(steps, distinct, strict=True))),
        ],
        y="% of those proposed",
        markers=True,
    )
    shares["layout"]["xaxis"] = whole
    shares["layout"]["yaxis"]["range"] = [0, 105]
    bars: Figure = {
        "type": "bar",
        "x": steps,
        "y": gains,
        "name": "mean gain",
        "marker": {"color": COLOURS[2]},
    }
    bars["hovertemplate"] = "iteration %{x}: %{y:+.2f} bps<extra></extra>"
    layout = {
        "height": 300,
        "xaxis": whole,
        "yaxis": {"title": {"text": "bps over the parent"}},
        "bargap": 0.6,
    }
    said = (
        f"Mean gain over the parent: {signed(gains[0])} bps at first, {signed(gains[-1])} at last."
    )
    return [
        shares,
        {"title": "Gain over the parent", "summary": said, "data": [bars], "layout": layout},
    ]


def replay(execution: Mapping[str, Any]) -> Figure:
    """One order, minute by minute; the page cuts the bright lines and the fills at the slider's minute."""
    minutes, whole = execution["minutes"], sum(execution["fills"]) or 1.0
    fills = [100 * fill / whole for fill in execution["fills"]]
    held, twap = (
        [100 * left / whole for left in execution[name]] for name in ("inventory", "twap_inventory")
    )
    biggest = max(fills, default=0.0) or 1.0
    price: Figure = {"type": "scatter", "mode": "lines", "name": "price", "x": minutes}
    price["y"] = [value or None for value in execution["price"]]  # no price was ever 0
    pale = {"showlegend": False, "opacity": 0.3, "hoverinfo": "skip"}
    grey, ours = {"color": GREY, "width": 1.5}, {"color": COLOURS[2], "width": 2.5}
    dots: Figure = {
        "type": "scatter",
        "mode": "markers",
        "name": "our fills (area: size)",
        "x": minutes,
        "y": price["y"],
    }
    dots["marker"] = {
        "color": COLOURS[0],
        "symbol": "diamond",
        "size": [14 * (fill / biggest) ** 0.5 for fill in fills],
    }
    dots |= {
        "customdata": fills,
        "hovertemplate": "minute %{x}: %{customdata:.2f} % at %{y}<extra></extra>",
    }
    left: Figure = {
        "type": "scatter",
        "mode": "lines",
        "name": "we still hold",
        "x": minutes,
        "y": held,
        "yaxis": "y2",
    }
    even: Figure = left | {"name": "TWAP holds", "y": twap, "line": grey | {"dash": "dash"}}
    layout = {
        "height": 440,
        "xaxis": {"title": {"text": "minute"}, "anchor": "y2", "zeroline": False},
        "yaxis": {"title": {"text": "price"}, "domain": [0.42, 1], "zeroline": False},
        "yaxis2": {"title": {"text": "left, % of order"}, "domain": [0, 0.34], "range": [-4, 104]},
    }
    traces = [price | {"line": grey} | pale, left | {"line": ours} | pale, even | pale]
    traces += [price | {"line": grey | {"width": 2}}, dots, left | {"line": ours}, even]
    return {"title": "", "summary": _replayed(execution), "data": traces, "layout": layout}


def _replayed(execution: Mapping[str, Any]) -> str:
    """The replay in words, with the order's price advantage where its prices are told."""
    order = f"A {execution['side']} order over {len(execution['minutes'])} minutes"
    if not execution.get("benchmark_price"):
        return f"{order}."
    paid, benchmark = execution["fill_price"], execution["benchmark_price"]
    gain_bps = (1e4 if execution["side"] == "sell" else -1e4) * (paid / benchmark - 1.0)
    return f"{order}, executed at {paid:.4f} against {benchmark:.4f}: {signed(gain_bps)} bps."


def _told(designs: Sequence[Design], best: str) -> str:
    """The evolution chart in words."""
    states = [design.state for design in designs if design.proposed]
    counts = {state: states.count(state) for state in ("scored", "waiting", *MARKS)}
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    chosen = next(
        (design for design in designs if design.candidate.id == best and design.gain is not None),
        None,
    )
    if chosen is None or chosen.state == "default":
        return f"{len(states)} designs proposed ({told or 'none scored yet'}); none is held better than the default."
    place = (
        f"the best is number {chosen.number}, {best}, {signed(chosen.gain)} bps over the default"
    )
    return f"{len(states)} designs proposed ({told}); {place}."


def _reach(gains: Sequence[float]) -> tuple[float, float]:
    """Where the chart ends: a few very bad designs must not squash the others, so they are drawn at the lower end."""
    if not gains:
        return -1.0, 1.0
    top, bottom = max(*gains, 0.0), min(*gains, 0.0)
    middle = median(gains)
    floor = bottom if top - middle < 1e-9 else max(bottom, top - 4 * (top - middle))
    return floor, top if top - floor > 1e-9 else floor + 1.0


def _hover(text: str) -> str:
    """Text that plotly shows as it stands: no tags, no templates, not endless."""
    line = " ".join(text.split())
    return html.escape(
        line if len(line) <= HOVER_CHARACTERS else line[: HOVER_CHARACTERS - 1] + "…"
    )


def _points(drawn: Sequence[Design], floor: float) -> list[Figure]:
    """One trace for each module changed; the mark grows with the rung reached, and is hollow below the chart's end."""
    traces = []
    for module, colour, symbol in zip(MODULES, COLOURS, SYMBOLS, strict=True):
        own = [design for design in drawn if design.candidate.module == module]
        gains = [design.gain or 0.0 for design in own]
        trace: Figure = {
            "type": "scatter",
            "mode": "markers",
            "name": module or "by hand, crossover",
        }
        trace |= {"x": [design.number for design in own], "y": [max(gain, floor) for gain in gains]}
        low = [gain < floor for gain in gains]
        trace["text"] = [
            _hover(
                f"{design.label} · {signed(design.gain)} ± {plain(design.se)} bps · rung {design.rung}{BELOW * below}"
            )
            for design, below in zip(own, low, strict=True)
        ]
        marks = [f"{symbol}-open" if below else symbol for below in low]
        sizes = [8 + 3 * min(max(design.rung, 0), 3) for design in own]
        trace["marker"] = {
            "color": colour,
            "symbol": marks,
            "size": sizes,
            "line": {"width": 1, "color": "#ffffff"},
        }
        traces.append(trace | {"customdata": trace["x"], "hoverinfo": "text"})
    return traces


def _failures(designs: Sequence[Design], level: float) -> list[Figure]:
    traces = []
    for state, symbol in MARKS.items():
        own = [design for design in designs if design.state == state]
        trace: Figure = {"type": "scatter", "mode": "markers", "name": state, "hoverinfo": "text"}
        trace |= {"x": [design.number for design in own], "y": [level] * len(own)}
        trace["text"] = [_hover(f"{design.label} · {state}: {design.reason}") for design in own]
        trace["marker"] = {"color": GREY, "symbol": symbol, "size": 8}
        traces.append(trace | {"customdata": trace["x"]})
    return traces


def _edges(drawn: Sequence[Design], places: Mapping[str, tuple[int, float]]) -> Figure:
    """Faint lines from parents to children."""
    trace: Figure = {
        "type": "scatter",
        "mode": "lines",
        "name": "parent to child",
        "x": [],
        "y": [],
        "hoverinfo": "skip",
    }
    for design in drawn:
        for parent in design.candidate.parents:
            if parent in places and design.candidate.id in places:
                ends = (places[parent], places[design.candidate.id])
                trace["x"] += [ends[0][0], ends[1][0], None]
                trace["y"] += [ends[0][1], ends[1][1], None]
    return trace | {"line": {"color": GREY, "width": 1}, "opacity": 0.35, "legendrank": 1100}


def _line_of_best(
    designs: Sequence[Design], best: str, places: Mapping[str, tuple[int, float]]
) -> Figure:
    points = [places[name] for name in lineage(designs, best) if name in places]
    trace: Figure = {
        "type": "scatter",
        "mode": "lines",
        "name": "line of the best",
        "hoverinfo": "skip",
    }
    trace |= {"x": [x for x, _ in points], "y": [y for _, y in points]}
    return trace | {"line": {"color": COLOURS[2], "width": 2.5}, "opacity": 0.7, "legendrank": 1100}


def _running_best(
    iterations: Sequence[Event], designs: Sequence[Design], places: Mapping[str, tuple[int, float]]
) -> Figure:
    """What the search held best after each iteration, as the scores stand now."""
    trace: Figure = {"type": "scatter", "mode": "lines", "name": "held best", "hoverinfo": "skip"}
    ends = {event.payload["iteration"]: event.payload.get("best", "") for event in iterations}
    counts = {
        step: max((d.number for d in designs if 0 < d.candidate.iteration <= step), default=0)
        for step in ends
    }
    points = [(counts[step], places[best][1]) for step, best in ends.items() if best in places]
    points = [(0, 0.0), *points] if points else []
    trace |= {"x": [x for x, _ in points], "y": [y for _, y in points]}
    return trace | {
        "line": {"color": COLOURS[0], "width": 2, "dash": "dot", "shape": "hv"},
        "legendrank": 1100,
    }


def _percent(part: float | None, whole: float | None) -> float | None:
    return 100 * part / whole if part is not None and whole else None


def _bars(
    bounds: Sequence[Sequence[float | None]], centres: Sequence[float | None], colour: str
) -> Figure:
    """Interval bars around points; an unknown bound has none."""
    pairs = list(zip(bounds, centres, strict=True))
    upper = [0.0 if high is None or x is None else high - x for (_, high), x in pairs]
    lower = [0.0 if low is None or x is None else x - low for (low, _), x in pairs]
    return {
        "type": "data",
        "array": upper,
        "arrayminus": lower,
        "symmetric": False,
        "color": colour,
        "width": 0,
    }


def _curves(
    title: str,
    summary: str,
    series: Sequence[tuple[str, Sequence[tuple[Any, Any]]]],
    *,
    y: str,
    markers: bool = False,
) -> Figure:
    """Lines over work; a series without any value is left out."""
    traces = []
    for place, (name, points) in enumerate(series):
        if all(value is None for _, value in points):
            continue
        trace: Figure = {
            "type": "scatter",
            "mode": "lines+markers" if markers else "lines",
            "name": name,
        }
        trace |= {"x": [x for x, _ in points], "y": [value for _, value in points]}
        traces.append(
            trace
            | {"line": {"color": COLOURS[2 - 2 * place], "dash": DASHES[2 - 2 * place], "width": 2}}
        )
    layout = {
        "height": 300,
        "xaxis": {"title": {"text": "work units"}},
        "yaxis": {"title": {"text": y}},
    }
    return {"title": title, "summary": summary, "data": traces, "layout": layout}
