"""How the modules of a scenario fared in a run: how often each was designed, and what those earned
that have a purpose of their own. Numbers are in basis points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from se_rl.records.gains import UNKNOWN, Bounds


@dataclass(frozen=True)
class ModuleUse:
    """The proposals for one module: how many there were, could be trained, were scored and raced.

    `best_gain` is the most that one of them gained over its parent, `best` that design.
    """

    proposed: int = 0
    valid: int = 0
    scored: int = 0
    raced: int = 0
    best: str = ""
    best_gain: float = math.nan


@dataclass(frozen=True)
class ModuleCredit:
    """What a design's module earned at a rung: the design less the same one without it.

    `against` says what takes the module's place, on the same orders and training seeds: a protocol
    is held against silence, a designed market against the usual ones.
    """

    candidate: str
    module: str
    rung: int
    against: str
    credit: float = math.nan
    se: float = math.nan
    ci95: Bounds = UNKNOWN
    seeds: int = 0
