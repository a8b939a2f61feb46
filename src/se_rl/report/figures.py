"""What all charts share: colours that read on light and dark, and the parts of a plotly figure as
plain data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Figure = dict[str, Any]
"""A plotly trace, layout or figure: JSON that a page's script draws."""

# Okabe-Ito hues, shifted so that each reads on white and on near-black; dashes and shapes repeat
# what colour says.
COLOURS = ("#d9730d", "#0a9a72", "#2b83c6", "#c2659a", "#a8891a", "#7d6fd0")
DASHES = ("dash", "dot", "solid", "dashdot", "longdash", "longdashdot")
GREY = "#808080"


def figure(data: Sequence[Figure], layout: Figure, *, title: str = "", summary: str = "") -> Figure:
    """A chart; `summary` says what it shows, for those who do not see it."""
    return {"title": title, "summary": summary, "data": list(data), "layout": layout}


def lines(name: str, x: Sequence[Any], y: Sequence[Any], **more: Any) -> Figure:
    """A line through points."""
    return {"type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y)} | more


def markers(name: str, x: Sequence[Any], y: Sequence[Any], **more: Any) -> Figure:
    """Points without a line."""
    return lines(name, x, y) | {"mode": "markers"} | more


def axis(title: str, **more: Any) -> Figure:
    """An axis with its title."""
    return {"title": {"text": title}} | more


def category_axis(names: Sequence[str]) -> Figure:
    """An axis with a place for each name, the first at the bottom."""
    return {
        "tickvals": list(range(len(names))),
        "ticktext": list(names),
        "range": [-0.6, len(names) - 0.4],
        "showgrid": False,
        "zeroline": False,
    }
