"""Numbers as people read them in a terminal: fixed decimals, a sign on differences, a dash for what
is undefined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

DASH = "–"


def number(value: float | None, decimals: int = 2, *, suffix: str = "") -> str:
    """A figure with fixed decimals; an undefined one is a dash, and -0.00 is 0.00."""
    if value is None or not math.isfinite(value):
        return DASH
    text = f"{value:.{decimals}f}"
    return (text.lstrip("-") if float(text) == 0 else text) + suffix


def money(usd: float) -> str:
    """Dollars to the cent; less than a dollar to two significant digits."""
    if not 0.0 < usd < 1.0:
        return f"{usd:,.2f}"
    return f"{usd:.{max(2, 1 - math.floor(math.log10(usd)))}f}"


def signed(value: Any, decimals: int = 2) -> str:
    """A difference with its sign; a dash where there is none."""
    text = number(value, decimals) if isinstance(value, int | float) else DASH
    return text if text[0] in ("-", DASH) or float(text) == 0 else f"+{text}"


def with_error(score: Any, se: Any) -> str:
    """A score with its standard error, where it has one: `+0.41 ± 0.20`."""
    has_error = isinstance(se, int | float) and math.isfinite(se)
    return signed(score) + (f" ± {number(se)}" if has_error else "")


def interval(bounds: Sequence[float], decimals: int = 2) -> str:
    """[low, high]; a dash where the days are too few for one."""
    if not all(math.isfinite(bound) for bound in bounds):
        return DASH
    return f"[{number(bounds[0], decimals)}, {number(bounds[1], decimals)}]"


def p_value(p: float | None) -> str:
    """A p to three places, never a bare zero."""
    return "< 0.001" if p is not None and p < 0.001 else number(p, 3)


def about(seconds: float) -> str:
    """A time that nobody knows exactly."""
    if seconds < 55:
        return f"about {10 * math.ceil(seconds / 10)} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
