"""Is it real? Intervals by day clusters, a test over many policies, the hurdle of a selection.

All stocks of a date move together, so the date is the unit: orders are summed per day before
anything is inferred.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
EULER_GAMMA = 0.5772156649015329
MOST_DEGREES = 10**6
"""Degrees of freedom beyond which Student's t is the normal distribution."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its day-clustered standard error and the number of days behind it."""

    mean: float
    se: float
    days: int

    @property
    def ci95(self) -> tuple[float, float]:
        """Two-sided 95 % interval, Student t with days - 1 degrees of freedom; NaN for one day."""
        half = self.se * t_quantile(0.975, self.days - 1)
        return self.mean - half, self.mean + half

    @property
    def p_value(self) -> float:
        """Two-sided p of a zero mean; 1 where the standard error is 0 and so is the mean."""
        from scipy.special import stdtr

        if self.days < 2:
            return float("nan")
        if self.se == 0.0:
            return 1.0 if self.mean == 0.0 else 0.0
        return float(2.0 * stdtr(self.days - 1, -abs(self.mean / self.se)))

    @property
    def detectable(self) -> float:
        """The effect this many days can show with 80 % power at 5 %: 2.8 standard errors."""
        return 2.8 * self.se


class Component(NamedTuple):
    """One independent part of an estimate's variance, and the degrees of freedom behind it."""

    variance: float
    degrees: float


def together(components: Sequence[Component]) -> Component:
    """Independent parts of a variance as one, with Welch's degrees of freedom."""
    variance = sum(part.variance for part in components)
    # degrees = (sum of variances)^2 / sum of (variance^2 / degrees)
    doubt = sum(part.variance**2 / part.degrees for part in components)
    least = min(part.degrees for part in components)
    return Component(variance, variance**2 / doubt if doubt > 0.0 else least)


def combined(mean: float, components: Sequence[Component]) -> Estimate:
    """An estimate whose error has several independent parts."""
    whole = together(components)
    if not math.isfinite(whole.variance):
        return Estimate(mean, float("nan"), 1)
    degrees = int(min(max(whole.degrees, 1.0), MOST_DEGREES))
    return Estimate(mean, math.sqrt(whole.variance), degrees + 1)


def t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t; NaN without degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability)) if degrees > 0 else float("nan")


def day_means(values: Array, day: npt.NDArray[np.integer]) -> Array:
    """Mean of the values of each day, in order of the days that occur."""
    _, index = np.unique(day, return_inverse=True)
    return np.bincount(index, weights=values) / np.bincount(index)


def clustered_mean(values: Array, day: npt.NDArray[np.integer]) -> Estimate:
    """Mean over orders with a standard error by day clusters.

    It is the sandwich estimator of a regression on a constant.
    """
    _, index = np.unique(day, return_inverse=True)
    days = int(index.max()) + 1
    mean = float(values.mean())
    if days < 2:
        return Estimate(mean, float("nan"), days)
    residual = np.bincount(index, weights=values - mean)  # [day] sum over its orders
    # se = sqrt(G / (G - 1) * sum over days of (sum of residuals)^2) / n
    error = np.sqrt(days / (days - 1) * np.square(residual).sum()) / len(values)
    return Estimate(mean, float(error), days)


def spa_p_value(
    benchmark_by_day: Array, policies_by_day: Array, *, reps: int = 10_000, seed: int = 0
) -> float:
    """Hansen's SPA: p that NO policy (columns) beats the benchmark, corrected for the search.

    Its threshold has the logarithm of the logarithm of the days in it, which needs three of them.
    """
    if len(benchmark_by_day) < 3:
        return float("nan")
    if np.allclose(policies_by_day, benchmark_by_day[:, None]):
        return 1.0  # nothing differs: no winner, and no variance to studentise by
    from arch.bootstrap import SPA

    test = SPA(-benchmark_by_day, -policies_by_day, block_size=1, reps=reps, seed=seed)
    test.compute()
    return float(test.pvalues["consistent"])


def spa_against_nothing(columns: Sequence[Array]) -> float:
    """The chance that no column's mean is above 0, among those that are not 0 throughout: rounding
    errors have no variance to studentise by.
    """
    if not columns:
        return float("nan")
    nothing = np.zeros(len(columns[0]))
    unlike = [column for column in columns if not np.allclose(column, nothing)]
    return spa_p_value(nothing, np.stack(unlike, axis=1)) if unlike else 1.0


def selection_hurdle(se: float, tried: int) -> float:
    """What the best of `tried` worthless candidates is expected to show.

    It is se times the expected maximum of that many normals.
    """
    from scipy.special import ndtri

    if tried < 2:
        return 0.0
    # E[max of N normals] ~ (1 - g) z(1 - 1/N) + g z(1 - 1/(N e)), g Euler's constant
    likely = ndtri(1.0 - 1.0 / tried)
    lucky = ndtri(1.0 - 1.0 / (tried * np.e))
    top = (1.0 - EULER_GAMMA) * likely + EULER_GAMMA * lucky
    return float(se * top)
