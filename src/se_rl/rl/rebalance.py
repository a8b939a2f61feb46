"""alpha and beta of L = alpha * L_static + beta * L_dynamic: how much each world's loss counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RATE = 0.1
"""The moving average's rate."""
FLOOR = 0.1
"""The least weight of a world."""
EVERY = 10
"""Joint updates between two moves."""


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

        A surrogate loss may be negative, so each counts by its softplus, which is positive and
        rises with the loss.
        """
        static = _softplus(static_loss)
        share = static / (static + _softplus(dynamic_loss))
        # alpha <- clip(alpha + rate * (share - alpha), floor, 1 - floor)
        alpha = self.alpha + RATE * (share - self.alpha)
        return Balance(float(np.clip(alpha, FLOOR, 1.0 - FLOOR)))


def _softplus(loss: float) -> float:
    """log(1 + exp(loss)), of losses kept to where the exponential is finite."""
    return float(np.logaddexp(0.0, np.clip(loss, -30, 30)))
