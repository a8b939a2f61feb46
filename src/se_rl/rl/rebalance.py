"""alpha and beta of L = alpha * L_static + beta * L_dynamic: how much each world's loss counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RATE = 0.1
"""The moving average's rate."""
FLOOR = 0.1
"""The least weight of a world."""
EVERY = 10
"""Steps of the optimiser on both worlds between two moves."""


@dataclass(frozen=True)
class Balance:
    """The weight of the static world; the dynamic one has the rest, so the sum is always 1."""

    alpha: float = 0.5

    @property
    def beta(self) -> float:
        """The weight of the dynamic world."""
        return 1.0 - self.alpha

    def moved(self, static_loss: float, dynamic_loss: float) -> Balance:
        """A step towards the worlds' shares of the loss: the one that loses more gets more weight.

        Losses are positive and have no unit: each world's squared error of the value over the size
        of what there was to foresee.
        """
        both = static_loss + dynamic_loss
        share = static_loss / both if both > 0.0 else 0.5
        # alpha <- clip(alpha + rate * (share - alpha), floor, 1 - floor)
        alpha = self.alpha + RATE * (share - self.alpha)
        return Balance(float(np.clip(alpha, FLOOR, 1.0 - FLOOR)))
