"""What to change next: a Thompson bandit whose arms are combinations, additive in their factors.

Separate arms for every (module, operator, model) could not be learnt from a few hundred trials; a sum of one effect per
factor can. The posterior is that of a linear regression with a normal prior, so it has a closed form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

Arm = Mapping[str, str]


class AdditiveBandit:
    """Normal effects per level of each factor and a common mean; old observations fade by `decay` with every new one."""

    def __init__(
        self,
        factors: Mapping[str, Sequence[str]],
        *,
        prior_sd: float = 0.5,
        noise_sd: float = 1.0,
        decay: float = 0.95,
    ) -> None:
        self.factors = {name: tuple(levels) for name, levels in factors.items()}
        places = [(name, level) for name, levels in self.factors.items() for level in levels]
        self._place = {place: i + 1 for i, place in enumerate(places)}
        self._prior = np.eye(len(places) + 1) / prior_sd**2
        self._gram, self._sums = np.zeros_like(self._prior), np.zeros(len(self._prior))
        self._noise, self._decay = noise_sd, decay

    def choose(
        self, rng: np.random.Generator, *, allowed: Sequence[Arm] | None = None
    ) -> dict[str, str]:
        """The arm that is best under one draw of the effects, among the allowed ones (None: all)."""
        arms = [dict(arm) for arm in allowed] if allowed is not None else self.arms()
        mean, covariance = self.posterior()
        effects = rng.multivariate_normal(mean, covariance, method="cholesky")
        return max(arms, key=lambda arm: float(self._row(arm) @ effects))

    def observe(self, arm: Arm, reward: float) -> None:
        """Learn from one trial."""
        row = self._row(arm)
        self._gram = self._decay * self._gram + np.outer(row, row) / self._noise**2
        self._sums = self._decay * self._sums + row * reward / self._noise**2

    def posterior(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Mean and covariance of the common mean and the effects."""
        covariance = np.linalg.inv(self._prior + self._gram)
        covariance = (covariance + covariance.T) / 2.0
        return covariance @ self._sums, covariance

    def expected(self, arm: Arm) -> float:
        """Posterior mean of an arm."""
        return float(self._row(arm) @ self.posterior()[0])

    def arms(self) -> list[dict[str, str]]:
        """Every combination."""
        return [
            dict(zip(self.factors, levels, strict=True))
            for levels in product(*self.factors.values())
        ]

    def _row(self, arm: Arm) -> npt.NDArray[np.float64]:
        row = np.zeros(len(self._prior))
        row[0] = 1.0
        for name in self.factors:
            row[self._place[name, arm[name]]] = 1.0
        return row
