"""What an outer iteration brought: the record behind the event `iteration`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class IterationSummary:
    """An outer iteration in numbers and one sentence; `best` leads after it, with `score` ± `se`
    bps over the default.

    `ema` is the smoothed score of the stopping rule, `distinct` the share of designs that behave
    differently.
    """

    iteration: int = 0
    of: int = 0
    best: str = ""
    score: float = math.nan
    se: float = math.nan
    ema: float = math.nan
    proposed: int = 0
    valid: int = 0
    repeated: int = 0
    failed: int = 0
    mean_gain: float = math.nan
    distinct: float = math.nan
    modules: Mapping[str, int] = field(default_factory=dict)
    adapter: str = ""
    learnt: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
