"""What to change next: a Thompson bandit over combinations of factors, additive in their effects.

A value for every (module, operator, model) could not be learnt from a few hundred trials; a sum of
one effect per factor can. The posterior is that of a linear regression with a normal prior, so it
has a closed form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

StepChoice = Mapping[str, str]
"""A level for each factor: the module to change, the operator, the version of the model."""


class AdditiveBandit:
    """Normal effects per level of each factor and a common mean.

    Old observations fade by `decay` with every new one.
    """

    def __init__(
        self,
        factors: Mapping[str, Sequence[str]],
        *,
        prior_sd: float = 0.5,
        noise_sd: float = 1.0,
        decay: float = 0.95,
    ) -> None:
        self.factors = {name: tuple(levels) for name, levels in factors.items()}
        self._column: dict[tuple[str, str], int] = {}  # column 0 is the common mean
        for name, levels in self.factors.items():
            for level in levels:
                self._column[name, level] = len(self._column) + 1
        self._prior = np.eye(len(self._column) + 1) / prior_sd**2  # [effect, effect]
        self._gram = np.zeros_like(self._prior)
        self._sums = np.zeros(len(self._prior))
        self._noise = noise_sd
        self._decay = decay

    def choose(
        self, rng: np.random.Generator, *, allowed: Sequence[StepChoice] | None = None
    ) -> dict[str, str]:
        """The best choice under one draw of the effects, among the allowed ones (None: all)."""
        choices = self.choices() if allowed is None else [dict(one) for one in allowed]
        mean, covariance = self.posterior()
        effects = rng.multivariate_normal(mean, covariance, method="cholesky")
        return max(choices, key=lambda one: float(self._row(one) @ effects))

    def observe(self, choice: StepChoice, reward: float) -> None:
        """Learn from one trial."""
        row = self._row(choice)
        # X'X / s^2 and X'y / s^2, older trials discounted
        self._gram = self._decay * self._gram + np.outer(row, row) / self._noise**2
        self._sums = self._decay * self._sums + row * reward / self._noise**2

    def posterior(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Mean and covariance of the common mean and the effects."""
        # covariance = (I / prior^2 + X'X / s^2)^-1,  mean = covariance X'y / s^2
        covariance = np.linalg.inv(self._prior + self._gram)
        covariance = (covariance + covariance.T) / 2.0
        return covariance @ self._sums, covariance

    def expected(self, choice: StepChoice) -> float:
        """Posterior mean of a choice."""
        return float(self._row(choice) @ self.posterior()[0])

    def choices(self) -> list[dict[str, str]]:
        """Every combination."""
        found = []
        for levels in product(*self.factors.values()):
            found.append(dict(zip(self.factors, levels, strict=True)))
        return found

    def _row(self, choice: StepChoice) -> npt.NDArray[np.float64]:
        row = np.zeros(len(self._prior))
        row[0] = 1.0
        for name in self.factors:
            row[self._column[name, choice[name]]] = 1.0
        return row
