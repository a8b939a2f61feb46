"""The realism card as one HTML page: what the simulated market gets right, and the curves behind it.

The page asks the network for nothing: styles and plotly.js are inlined, and its content policy forbids the rest.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from se_rl.report.baselines_page import COLOURS, DASHES, GREY, plain, signed
from se_rl.report.page import render

FLOOR, GOAL = 8, 11
"""Facts of twelve that a usable market passes, and those that a good one does."""

Card = dict[str, Any]
Figure = dict[str, Any]


class CardVerdict(NamedTuple):
    """What the card says in words; `state` (shown, open or worse) picks the colour."""

    state: str
    headline: str
    meaning: str


def card_page(card: Card) -> str:
    """The whole page as text, from what `realism_card` returned (or the same read back from JSON)."""
    return render(
        "card.jinja",
        filters={"plain": plain, "signed": signed, "band": band},
        c=card,
        verdict=read_card(card),
        charts={
            "impact": [_impact(card), _path(card)],
            "memory": [_volatility(card), _signs(card)],
            "grid": _grid(card),
        },
    )


def read_card(card: Card) -> CardVerdict:
    """How far the market may be trusted, in words."""
    passed, of = card["passed"], len(card["facts"])
    missed = [fact["name"] for fact in card["facts"] if not fact["ok"]]
    failed = [test["name"] for test in card["tests"] if not test["ok"]]
    state = "worse" if passed < FLOOR else "shown" if passed >= GOAL and not failed else "open"
    parts = [
        f"Outside its band: {', '.join(missed)}." if missed else "Every fact lies in its band."
    ]
    parts.append(
        f"Tests failed: {'; '.join(failed)}." if failed else "Every test of honesty passed."
    )
    parts.append(
        "The makers' concave inventory skew puts the law of impact in: a usable market, no explanation."
    )
    return CardVerdict(state, f"{passed} of {of} facts of real markets", " ".join(parts))


def band(part: dict[str, Any]) -> str:
    """A band in words: `0.4 to 0.7`."""
    return f"{part['low']:g} to {part['high']:g}".replace("-", "−")


def _line(place: int, **more: Any) -> Figure:
    return {
        "color": COLOURS[place % len(COLOURS)],
        "dash": DASHES[place % len(DASHES)],
        "width": 2,
    } | more


def _axes(x: str, y: str, *, log: bool = True, height: int = 330) -> Figure:
    kind = {"type": "log", "dtick": "D2"} if log else {}
    return {
        "height": height,
        "xaxis": {"title": {"text": x}} | kind,
        "yaxis": {"title": {"text": y}} | kind,
    }


def _points(
    name: str, x: list[float], y: list[float | None], *, se: list[float | None] | None = None
) -> Figure:
    """Markers with 2-SE bars; a logarithmic axis leaves out what is not positive."""
    marker = {"color": COLOURS[2], "size": 8}
    figure: Figure = {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": x,
        "y": y,
        "marker": marker,
    }
    if se is not None:
        reach = [2 * (error or 0.0) for error in se]
        figure["error_y"] = {"type": "data", "array": reach, "color": COLOURS[2], "thickness": 1.5}
    return figure


def _impact(card: Card) -> Figure:
    """Peak impact by size in units of daily volatility, with the fitted law."""
    curves, sd = card["curves"], card["scales"]["daily_sd_ticks"]
    shares, fit = [100 * share for share in curves["shares"]], curves["fit"]
    scaled = [
        [None if v is None else v / sd for v in curves[key]]
        for key in ("impact_ticks", "impact_se")
    ]
    ends = [fit["from"], fit["to"]]
    law: Figure = {
        "type": "scatter",
        "mode": "lines",
        "name": f"fit, exponent {fit['exponent']:.2f}",
    }
    law |= {
        "x": [100 * q for q in ends],
        "y": [fit["level"] * q ** fit["exponent"] / sd for q in ends],
    }
    square: Figure = {"type": "scatter", "mode": "lines", "name": "0.7 times the square root"}
    square |= {"x": shares, "y": [0.7 * math.sqrt(q / 100) for q in shares]}
    traces = [
        _points("meta-orders, 2 SE", shares, scaled[0], se=scaled[1]),
        law | {"line": _line(0, dash="solid")},
        square | {"line": {"color": GREY, "dash": "dot", "width": 1.5}},
    ]
    layout = _axes("order, % of daily volume", "impact / daily volatility")
    return {"title": "Impact by size", "data": traces, "layout": layout}


def _path(card: Card) -> Figure:
    """Impact while an order is worked and afterwards, relative to its peak, for the four largest sizes."""
    curves = card["curves"]
    end, traces = curves["order_bars"], []
    sizes = list(zip(curves["shares"], curves["path_ticks"], strict=True))[-4:]
    for place, (share, path) in enumerate(sizes):
        peak = path[end - 1]
        if not peak:
            continue
        trace: Figure = {
            "type": "scatter",
            "mode": "lines",
            "name": f"{share:.1%}",
            "line": _line(place),
        }
        steps = [(bar + 1) / end for bar in range(len(path))]
        traces.append(trace | {"x": steps, "y": [None if v is None else v / peak for v in path]})
    root: Figure = {"type": "scatter", "mode": "lines", "name": "square root"}
    grid = [k / 20 for k in range(21)]
    root |= {
        "x": grid,
        "y": [math.sqrt(k) for k in grid],
        "line": {"color": GREY, "dash": "dot", "width": 1.5},
    }
    layout = _axes("time since the order began, in order lengths", "impact / peak", log=False)
    return {
        "title": "Impact while working, and its decay",
        "data": [*traces, root],
        "layout": layout,
    }


def _volatility(card: Card) -> Figure:
    curves = card["curves"]
    trace = _points("simulated", curves["abs_lags"], curves["abs_acf"])
    return {
        "title": "Memory of volatility",
        "data": [trace],
        "layout": _axes("lag, minutes", "autocorrelation of |r|"),
    }


def _signs(card: Card) -> Figure:
    curves = card["curves"]
    trace = _points(
        "simulated, 2 SE", curves["sign_lags"], curves["sign_acf"], se=curves["sign_se"]
    )
    return {
        "title": "Memory of signs",
        "data": [trace],
        "layout": _axes("lag, trades", "autocorrelation of trade signs"),
    }


def _grid(card: Card) -> list[Figure]:
    """Cost of constant policies against TWAP, one heat map per size of parent."""
    charts = []
    for participation in dict.fromkeys(row["participation"] for row in card["grid"]):
        rows = [row for row in card["grid"] if row["participation"] == participation]
        offsets = [str(offset) for offset in dict.fromkeys(row["offset"] for row in rows)]
        multiples = [f"{multiple:g}" for multiple in dict.fromkeys(row["multiple"] for row in rows)]
        cells = {(f"{row['multiple']:g}", str(row["offset"])): row["cost_vs_twap"] for row in rows}
        values = [
            [None if (v := cells[m, o]) is None else 100 * v for o in offsets] for m in multiples
        ]
        texts = [[signed(v, 0) + (" %" if v is not None else "") for v in line] for line in values]
        heat: Figure = {"type": "heatmap", "x": offsets, "y": multiples, "z": values, "text": texts}
        heat |= {
            "texttemplate": "%{text}",
            "hovertemplate": "%{y} slices, %{x}: %{text}<extra></extra>",
        }
        heat |= {"zmid": 0, "zmin": -60, "zmax": 60, "showscale": False, "xgap": 2, "ygap": 2}
        heat["colorscale"] = [[0, "#0a9a72"], [0.5, "#e9ecef"], [1, "#d9730d"]]
        heat["textfont"] = {"color": "#1b1f24"}
        layout = _axes(
            "limit price, ticks behind the own touch", "TWAP slices a bar", log=False, height=300
        )
        for axis in ("xaxis", "yaxis"):
            layout[axis] |= {"type": "category", "showgrid": False}
        title = f"Parent of {participation:.0%} of the volume: cost against TWAP"
        charts.append({"title": title, "data": [heat], "layout": layout})
    return charts
