"""The stop rule: a smoothed score that has stopped moving."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

CONVERGED = "converged"
"""How the reason begins that a search gives which stopped by this rule."""
WINDOW = 5
"""Outer iterations over which the smoothed score must stand still."""
PATIENCE = 10
"""Outer iterations that a search goes on for after its last improvement, at least."""


@dataclass(frozen=True)
class StopRule:
    """The moving average of a score, and how many of its last changes stayed below the tolerance.

    The first score is where the average starts; `moved` gives the state after one more score.
    With `patience`, so many scores must also have passed since the last improvement.
    """

    tolerance: float = 0.1
    decay: float = 0.9
    window: int = WINDOW
    patience: int = 0
    ema: float | None = None
    calm: int = 0
    waited: int = 0

    def moved(self, score: float, *, improved: bool = False) -> StopRule:
        """After one more score, which must be finite."""
        if not math.isfinite(score):
            raise ValueError(f"score is {score}; a moving average needs finite numbers")
        waited = 0 if improved else self.waited + 1
        if self.ema is None:
            return replace(self, ema=score, waited=waited)
        ema = self.decay * self.ema + (1.0 - self.decay) * score
        still = abs(ema - self.ema) < self.tolerance
        return replace(self, ema=ema, calm=self.calm + 1 if still else 0, waited=waited)

    @property
    def reached(self) -> bool:
        """Whether the last `window` changes were small, and the last improvement is long ago."""
        return self.calm >= self.window and self.waited >= self.patience
