"""Gains with their errors, and a score with the parts it is made of, in basis points.

A number that is undefined (an interval of a single day, say) is NaN here and null in a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

Bounds = tuple[float, float]
UNKNOWN: Bounds = (math.nan, math.nan)


@dataclass(frozen=True)
class Gain:
    """A mean difference on the same orders, with its standard error and 95 % interval."""

    mean: float = math.nan
    se: float = math.nan
    ci95: Bounds = UNKNOWN
    detectable: float | None = None
    orders: int | None = None

    @property
    def has_interval(self) -> bool:
        """Whether there were enough days for an interval."""
        return math.isfinite(self.ci95[0]) and math.isfinite(self.ci95[1])


NO_GAIN = Gain(0.0, 0.0, (0.0, 0.0))
"""What a design gains over itself."""


@dataclass(frozen=True)
class ScoreSummary:
    """A score, gain less risk, and its parts: over TWAP, or over the default on the same orders.

    `history` is `specific` less `risk_cost`; `whole` and `tracking_error` are the mean and the
    standard deviation of the whole gain over TWAP by day. `simulated` is the mean of `cells`. In a
    difference every part is one.
    """

    score: Gain = field(default_factory=Gain)
    history: Gain = field(default_factory=Gain)
    specific: Gain = field(default_factory=Gain)
    whole: Gain = field(default_factory=Gain)
    risk_cost: float = math.nan
    tracking_error: float = math.nan
    simulated: Gain = field(default_factory=Gain)
    cells: Mapping[str, Gain] = field(default_factory=dict)


NO_SCORE_GAIN = ScoreSummary(
    score=NO_GAIN,
    history=NO_GAIN,
    specific=NO_GAIN,
    whole=NO_GAIN,
    risk_cost=0.0,
    tracking_error=0.0,
    simulated=NO_GAIN,
)
"""What a design scores over itself."""
