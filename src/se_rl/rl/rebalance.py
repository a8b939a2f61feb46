"""alpha and beta of L = alpha * L_static + beta * L_dynamic (SPEC 6): how much each world's loss counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RATE, FLOOR, EVERY = 0.1, 0.1, 10
"""The moving average's rate, the least weight of a world, and the inner iterations between two moves."""


@dataclass(frozen=True)
class Balance:
    """The weight of the static world; the dynamic one has the rest, so that the sum is 1 always."""

    alpha: float = 0.5

    @property
    def beta(self) -> float:
        """The weight of the dynamic world."""
        return 1.0 - self.alpha

    def moved(self, static_loss: float, dynamic_loss: float) -> Balance:
        """A step towards the worlds' shares of the loss: the world that still loses more gets more weight.

        A surrogate loss may be negative, so each counts by its softplus, which is positive and rises with the loss.
        """
        static, dynamic = (
            float(np.logaddexp(0.0, np.clip(loss, -30, 30))) for loss in (static_loss, dynamic_loss)
        )
        share = static / (static + dynamic)
        return Balance(float(np.clip(self.alpha + RATE * (share - self.alpha), FLOOR, 1.0 - FLOOR)))
