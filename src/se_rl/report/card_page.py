"""The realism card as one HTML page: what the simulated market gets right, and the curves behind
it.

The page asks the network for nothing: styles and plotly.js are inlined, and its content policy
forbids the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from se_rl.report.figures import COLOURS, DASHES, GREY, Figure, axis, figure, lines, markers
from se_rl.report.page import render
from se_rl.report.page_numbers import plain, signed

FLOOR = 8
GOAL = 11
"""Facts of twelve that a usable market passes, and those that a good one does."""
REFERENCE = {"color": GREY, "dash": "dot", "width": 1.5}
HEAT = [[0, "#0a9a72"], [0.5, "#e9ecef"], [1, "#d9730d"]]

Card = Mapping[str, Any]
"""What `realism_card` returns, or the same read back from JSON."""


@dataclass(frozen=True)
class CardVerdict:
    """What the card says in words; `state` (shown, open or worse) picks the colour."""

    state: str
    headline: str
    meaning: str


def card_page(card: Card) -> str:
    """The whole page as text, from what `realism_card` returned (or the same read
    back from JSON).
    """
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
    passed = card["passed"]
    missed = [fact["name"] for fact in card["facts"] if not fact["ok"]]
    failed = [test["name"] for test in card["tests"] if not test["ok"]]
    state = "open"
    if passed < FLOOR:
        state = "worse"
    elif passed >= GOAL and not failed:
        state = "shown"
    facts = f"Outside its band: {', '.join(missed)}." if missed else "Every fact lies in its band."
    tests = f"Tests failed: {'; '.join(failed)}." if failed else "Every test passed."
    caution = (
        "The makers' concave inventory skew puts the law of impact in: "
        "a usable market, no explanation."
    )
    headline = f"{passed} of {len(card['facts'])} facts of real markets"
    return CardVerdict(state, headline, f"{facts} {tests} {caution}")


def band(part: Mapping[str, Any]) -> str:
    """A band in words: `0.4 to 0.7`."""
    return f"{part['low']:g} to {part['high']:g}".replace("-", "−")


def _line(place: int, **more: Any) -> Figure:
    place %= len(COLOURS)
    return {"color": COLOURS[place], "dash": DASHES[place], "width": 2} | more


def _axes(x: str, y: str, *, log: bool = True, height: int = 330) -> Figure:
    kind = {"type": "log", "dtick": "D2"} if log else {}
    return {"height": height, "xaxis": axis(x, **kind), "yaxis": axis(y, **kind)}


def _points(
    name: str,
    x: Sequence[float],
    y: Sequence[float | None],
    *,
    se: Sequence[float | None] | None = None,
) -> Figure:
    """Markers with 2-SE bars; a logarithmic axis leaves out what is not positive."""
    trace = markers(name, x, y, marker={"color": COLOURS[2], "size": 8})
    if se is not None:
        reach = [2 * (error or 0.0) for error in se]
        trace["error_y"] = {"type": "data", "array": reach, "color": COLOURS[2], "thickness": 1.5}
    return trace


def _scaled(values: Sequence[float | None], unit: float) -> list[float | None]:
    return [None if value is None else value / unit for value in values]


def _impact(card: Card) -> Figure:
    """Peak impact by size in units of daily volatility, with the fitted law."""
    curves, sd = card["curves"], card["scales"]["daily_sd_ticks"]
    shares = [100 * share for share in curves["shares"]]
    fit = curves["fit"]
    ends = [fit["from"], fit["to"]]
    # impact = level * size ^ exponent
    law = [fit["level"] * size ** fit["exponent"] / sd for size in ends]
    root = [0.7 * math.sqrt(share / 100) for share in shares]
    impact, error = _scaled(curves["impact_ticks"], sd), _scaled(curves["impact_se"], sd)
    traces = [
        _points("meta-orders, 2 SE", shares, impact, se=error),
        lines(
            f"fit, exponent {fit['exponent']:.2f}",
            [100 * size for size in ends],
            law,
            line=_line(0, dash="solid"),
        ),
        lines("0.7 times the square root", shares, root, line=REFERENCE),
    ]
    layout = _axes("order, % of daily volume", "impact / daily volatility")
    return figure(traces, layout, title="Impact by size")


def _path(card: Card) -> Figure:
    """Impact while an order is worked and afterwards, relative to its peak, for the four largest
    sizes.
    """
    curves = card["curves"]
    end = curves["order_bars"]
    sizes = list(zip(curves["shares"], curves["path_ticks"], strict=True))[-4:]
    traces = []
    for place, (share, path) in enumerate(sizes):
        peak = path[end - 1]
        if peak:
            steps = [(bar + 1) / end for bar in range(len(path))]
            traces.append(lines(f"{share:.1%}", steps, _scaled(path, peak), line=_line(place)))
    grid = [step / 20 for step in range(21)]
    traces.append(lines("square root", grid, [math.sqrt(step) for step in grid], line=REFERENCE))
    layout = _axes("time since the order began, in order lengths", "impact / peak", log=False)
    return figure(traces, layout, title="Impact while working, and its decay")


def _volatility(card: Card) -> Figure:
    curves = card["curves"]
    trace = _points("simulated", curves["abs_lags"], curves["abs_acf"])
    layout = _axes("lag, minutes", "autocorrelation of |r|")
    return figure([trace], layout, title="Memory of volatility")


def _signs(card: Card) -> Figure:
    curves = card["curves"]
    lags, memory = curves["sign_lags"], curves["sign_acf"]
    trace = _points("simulated, 2 SE", lags, memory, se=curves["sign_se"])
    layout = _axes("lag, trades", "autocorrelation of trade signs")
    return figure([trace], layout, title="Memory of signs")


def _grid(card: Card) -> list[Figure]:
    """Cost of constant policies against TWAP, one heat map per size of parent."""
    by_size: dict[float, list[Mapping[str, Any]]] = {}
    for row in card["grid"]:
        by_size.setdefault(row["participation"], []).append(row)
    charts = []
    for participation, rows in by_size.items():
        layout = _axes(
            "limit price, ticks behind the own touch", "TWAP slices a bar", log=False, height=300
        )
        for name in ("xaxis", "yaxis"):
            layout[name] |= {"type": "category", "showgrid": False}
        title = f"Parent of {participation:.0%} of the volume: cost against TWAP"
        charts.append(figure([_heat_map(rows)], layout, title=title))
    return charts


def _heat_map(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Cost against TWAP in %, by slices a bar (rows) and limit price (columns)."""
    cells: dict[str, dict[str, float | None]] = {}
    for row in rows:
        cost = row["cost_vs_twap"]
        line = cells.setdefault(f"{row['multiple']:g}", {})
        line[str(row["offset"])] = None if cost is None else 100 * cost
    values = [list(line.values()) for line in cells.values()]
    texts = [[_percent(value) for value in line] for line in values]
    return {
        "type": "heatmap",
        "x": list(next(iter(cells.values()))),
        "y": list(cells),
        "z": values,
        "text": texts,
        "texttemplate": "%{text}",
        "hovertemplate": "%{y} slices, %{x}: %{text}<extra></extra>",
        "zmid": 0,
        "zmin": -60,
        "zmax": 60,
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "colorscale": HEAT,
        "textfont": {"color": "#1b1f24"},
    }


def _percent(value: float | None) -> str:
    return signed(value, 0) + ("" if value is None else " %")
