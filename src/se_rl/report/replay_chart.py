"""The chart of one order, minute by minute: the price, our fills, and what is left beside TWAP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from se_rl.report.figures import COLOURS, GREY, Figure, axis, figure, lines, markers
from se_rl.report.page_numbers import signed

PALE = {"showlegend": False, "opacity": 0.3, "hoverinfo": "skip"}


def replay(execution: Mapping[str, Any]) -> Figure:
    """The whole order in pale lines and again in bright ones, which the page cuts at the slider's
    minute.
    """
    minutes = execution["minutes"]
    whole = sum(execution["fills"]) or 1.0
    fills = _percent(execution["fills"], whole)
    price = [value or None for value in execution["price"]]  # no price was ever 0
    grey = {"color": GREY, "width": 1.5}
    ours = {"color": COLOURS[2], "width": 2.5}
    path = lines("price", minutes, price)
    held = lines("we still hold", minutes, _percent(execution["inventory"], whole), yaxis="y2")
    twap = lines(
        "TWAP holds",
        minutes,
        _percent(execution["twap_inventory"], whole),
        yaxis="y2",
        line=grey | {"dash": "dash"},
    )
    traces = [
        path | {"line": grey} | PALE,
        held | {"line": ours} | PALE,
        twap | PALE,
        path | {"line": grey | {"width": 2}},
        _fills(minutes, price, fills),
        held | {"line": ours},
        twap,
    ]
    layout = {
        "height": 440,
        "xaxis": axis("minute", anchor="y2", zeroline=False),
        "yaxis": axis("price", domain=[0.42, 1], zeroline=False),
        "yaxis2": axis("left, % of order", domain=[0, 0.34], range=[-4, 104]),
    }
    return figure(traces, layout, summary=_in_words(execution))


def _fills(minutes: list[int], price: list[float | None], fills: list[float]) -> Figure:
    biggest = max(fills, default=0.0) or 1.0
    marker = {
        "color": COLOURS[0],
        "symbol": "diamond",
        "size": [14 * (fill / biggest) ** 0.5 for fill in fills],  # the area is the size
    }
    hover = "minute %{x}: %{customdata:.2f} % at %{y}<extra></extra>"
    dots = markers("our fills (area: size)", minutes, price, marker=marker)
    return dots | {"customdata": fills, "hovertemplate": hover}


def _percent(values: list[float], whole: float) -> list[float]:
    return [100 * value / whole for value in values]


def _in_words(execution: Mapping[str, Any]) -> str:
    """The replay in words, with the order's price advantage where its prices are known."""
    order = f"A {execution['side']} order over {len(execution['minutes'])} minutes"
    if not execution.get("benchmark_price"):
        return f"{order}."
    paid, benchmark = execution["fill_price"], execution["benchmark_price"]
    # PA = +-(paid / benchmark - 1), in bps: a sell order gains above the benchmark
    gain_bps = (1e4 if execution["side"] == "sell" else -1e4) * (paid / benchmark - 1.0)
    return f"{order}, executed at {paid:.4f} against {benchmark:.4f}: {signed(gain_bps)} bps."
