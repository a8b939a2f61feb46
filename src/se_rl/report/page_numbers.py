"""Numbers as a page shows them: true minus signs, a sign on differences, a dash for what is
undefined.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date

from se_rl.report.numbers import DASH, number

SAME_BPS = 0.005  # prints as 0.00
NORMAL_95 = 1.96
"""Standard errors from a normal mean to the ends of its 95 % interval."""


def plain(value: float | None, decimals: int = 2, *, scale: float = 1.0) -> str:
    """A figure with a true minus; a dash where it is undefined."""
    return number(None if value is None else scale * value, decimals).replace("-", "−")


def signed(value: float | None, decimals: int = 2) -> str:
    """A difference: its sign always shown, except on zero."""
    text = plain(value, decimals)
    return f"+{text}" if value is not None and value > 0 and float(text) != 0 else text


def interval(bounds: Sequence[float | None]) -> str:
    """[low, high] with signs; a dash where the days are too few for one."""
    low, high = (signed(bound) for bound in bounds)
    return DASH if DASH in (low, high) else f"[{low}, {high}]"


def around(mean: float, se: float | None) -> tuple[float, float]:
    """The 95 % interval of a mean of which only the standard error is stored; NaN without one."""
    half = math.nan if se is None else NORMAL_95 * se
    return mean - half, mean + half


def known_bounds(bounds: Sequence[float | None]) -> tuple[float, float]:
    """The bounds of an interval; JSON has no NaN, so an unknown bound stands there as null."""
    low, high = bounds
    return math.nan if low is None else low, math.nan if high is None else high


def excludes_zero(bounds: Sequence[float | None]) -> bool:
    """Whether an interval lies on one side of 0, by more than rounding."""
    low, high = known_bounds(bounds)
    return low > SAME_BPS or high < -SAME_BPS


def iso_date(day: int) -> str:
    """20250228 as 2025-02-28."""
    return date(day // 10_000, day // 100 % 100, day % 100).isoformat()


def minus(text: str) -> str:
    """A sentence with true minus signs."""
    return re.sub(r"(?<![\w.])-(?=\d)", "−", text)
