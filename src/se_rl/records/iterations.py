"""What an outer iteration brought: the record behind the event `iteration`, and that of its enhancement step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from se_rl.records.entries import Instruction


@dataclass(frozen=True)
class InstructionCredit:
    """What an instruction's designs gained on average, in bps, over how many uses."""

    id: str
    credit: float = math.nan
    uses: int = 0


@dataclass(frozen=True)
class EnhancementStep:
    """Step 4 of Algorithm 1: the instructions that were credited and added, and the step on the weights.

    `learned` holds the measures of that step (`moved`, `reason`, `kl`, ...); it is empty where weights do not learn.
    """

    credits: tuple[InstructionCredit, ...] = ()
    instructions: tuple[Instruction, ...] = ()
    learned: Mapping[str, Any] = field(default_factory=dict)

    @property
    def moved(self) -> bool:
        """Whether the weights moved."""
        return bool(self.learned.get("moved"))


@dataclass(frozen=True)
class IterationSummary:
    """An outer iteration in numbers and one sentence; `best` leads after it, with `score` ± `se` bps over the default.

    `ema` is the smoothed score of the stopping rule, `distinct` the share of designs that behave differently.
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
