"""The stop rule: a smoothed score that has stopped moving."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

CONVERGED = "converged"
"""How the reason begins that a search gives which stopped by this rule."""
WINDOW = 5
"""Outer iterations over which the smoothed score must stand still."""


@dataclass(frozen=True)
class StopRule:
    """The moving average of a score, and how many of its last changes stayed below the tolerance.

    The first score is where the average starts; `moved` gives the state after one more score.
    """

    tolerance: float = 0.1
    decay: float = 0.9
    window: int = WINDOW
    ema: float | None = None
    calm: int = 0

    def moved(self, score: float) -> StopRule:
        """After one more score, which must be finite."""
        if not math.isfinite(score):
            raise ValueError(f"score is {score}; a moving average needs finite numbers")
        if self.ema is None:
            return replace(self, ema=score)
        ema = self.decay * self.ema + (1.0 - self.decay) * score
        return replace(
            self, ema=ema, calm=self.calm + 1 if abs(ema - self.ema) < self.tolerance else 0
        )

    @property
    def reached(self) -> bool:
        """Whether each of the last `window` changes was below the tolerance."""
        return self.calm >= self.window
