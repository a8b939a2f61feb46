"""Tables and figures in Markdown, for the scripts that write docs/results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

Row = Sequence[str]


def table(head: Row, rows: Iterable[Row], *, align: str = "---") -> str:
    """One table; every column is aligned alike."""
    lines = [line(head), "|" + f"{align}|" * len(head)]
    lines += map(line, rows)
    return "\n".join(lines)


def line(cells: Row) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |"


def number(value: float | None, decimals: int = 2) -> str:
    """A figure, or a dash; nothing is below 0 that is 0 when rounded."""
    return "-" if value is None or not math.isfinite(value) else f"{value:z.{decimals}f}"


def signed(value: float | None, decimals: int = 2) -> str:
    """A figure with its sign, or a dash."""
    return "-" if value is None or not math.isfinite(value) else f"{value:+z.{decimals}f}"


def interval(bounds: Sequence[float | None], decimals: int = 2) -> str:
    """[low, high]."""
    return f"[{number(bounds[0], decimals)}, {number(bounds[1], decimals)}]"
