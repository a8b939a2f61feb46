"""The score of a design: gain less risk, in bps over TWAP. The one place where it is computed.

history    mean over days of s_d - risk / 2 * variance over days of g_d
simulated  mean over cells of the mean over the cell's episodes
score      share * history + (1 - share) * simulated

s_d is the mean over a day's orders of the specific part of the gain over TWAP, g_d that of the
whole gain. A design's score is the mean of its trainings' scores.

Every score is written as a weighted sum of means of contributions, one per day or episode: the
pseudo-values of the jackknife. Errors, paired differences, intervals and tests all start from them
and so speak of the same number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from se_rl.records.settings import RunConfig
from se_rl.scoring.statistics import Component, Estimate, combined, together

Array = npt.NDArray[np.float64]
Scores = Mapping[str, Array]
"""Gain over TWAP per pair of orders, in bps, of one training.

On history `static` (the specific part) and `static_total` (the whole) with `static_day`; in
simulated markets `dynamic` with `dynamic_cell`, the number of each episode's cell.
"""
SEED_SD = 0.15
"""What the scores of two single trainings are taken to differ by before anything is known, bps.

Trainings of the default vary less (`benchmarks/aa_test.py`); other designs may vary more.
"""


@dataclass(frozen=True)
class ScoreRule:
    """What goes into a score: the weight of each world, and the price of risk per bps."""

    weights: Mapping[str, float]
    risk: float

    @classmethod
    def of(cls, config: RunConfig) -> ScoreRule:
        """The rule of a run."""
        return cls(config.weights, config.risk)

    def on_history(self, *, risk: float | None = None) -> ScoreRule:
        """The rule for history alone, perhaps at another price of risk."""
        return ScoreRule({"static": 1.0, "dynamic": 0.0}, self.risk if risk is None else risk)


@dataclass(frozen=True, eq=False)
class Stratum:
    """Units that are drawn independently: the days of history, or the episodes of one cell.

    `values` holds what each unit contributes, [training, unit]: their mean is the stratum's part of
    the score. A unit that is void in one training is NaN in all.
    """

    world: str
    name: str
    weight: float
    values: Array

    @property
    def known(self) -> Array:
        """The contributions of units that are not void."""
        return self.values[:, np.isfinite(self.values).all(axis=0)]

    @property
    def by_training(self) -> Array:
        """The stratum's mean in each training; NaN where all of it is void."""
        known = self.known
        if not known.shape[1]:
            return np.full(len(known), np.nan)
        return np.asarray(known.mean(axis=1))

    @property
    def units(self) -> int:
        """How many units are not void."""
        return self.known.shape[1]


@dataclass(frozen=True, eq=False)
class Contributions:
    """What every day and episode contributes to the score of some trainings, or to a difference."""

    strata: tuple[Stratum, ...]

    @property
    def by_training(self) -> Array:
        """The score of each training."""
        return np.asarray(sum(stratum.weight * stratum.by_training for stratum in self.strata))

    @property
    def score(self) -> float:
        """The mean of the trainings' scores; NaN where a cell is void altogether."""
        return float(np.mean(self.by_training))

    def less(self, other: Contributions) -> Contributions:
        """The difference to other trainings, one by one, on the same days and episodes."""
        pairs = zip(self.strata, other.strata, strict=True)
        return Contributions(tuple(replace(a, values=a.values - b.values) for a, b in pairs))

    def part(self, trainings: slice) -> Contributions:
        """Some of the trainings."""
        strata = [replace(stratum, values=stratum.values[trainings]) for stratum in self.strata]
        return Contributions(tuple(strata))

    def by_world(self) -> dict[str, Contributions]:
        """Each world's strata alone, with weights that sum to 1."""
        found: dict[str, list[Stratum]] = {}
        for stratum in self.strata:
            found.setdefault(stratum.world, []).append(stratum)
        worlds = {}
        for world, strata in found.items():
            even = [replace(stratum, weight=1.0 / len(strata)) for stratum in strata]
            worlds[world] = Contributions(tuple(even))
        return worlds

    def cells(self) -> dict[str, Contributions]:
        """Each cell of simulated orders alone."""
        found = {}
        for stratum in self.strata:
            if stratum.world == "dynamic":
                found[stratum.name] = Contributions((replace(stratum, weight=1.0),))
        return found

    def order_error(self) -> Component:
        """The jackknife's variance of the score from days and episodes."""
        return together(self._stratum_errors())

    def shared_order_error(self) -> Component:
        """The part of it that all trainings share; the rest shows in what they differ by.

        With one training nothing can be told apart, and it is the whole.
        """
        error = self.order_error()
        shared = error.variance - self._noise_of_one() / len(self.by_training)
        return Component(float(np.maximum(0.0, shared)), error.degrees)  # keeps NaN

    def seed_error(self) -> Component:
        """The variance of the score from what its trainings differ by; one has the usual."""
        scores = self.by_training
        n = len(scores)
        if n < 2:
            return Component(SEED_SD**2, np.inf)
        return Component(float(np.var(scores, ddof=1)) / n, n - 1)

    def estimate(self) -> Estimate:
        """The score with the errors of days, episodes and training seeds together."""
        return combined(self.score, [self.shared_order_error(), self.seed_error()])

    @property
    def se(self) -> float:
        """The standard error of the score, from the same errors."""
        return float(np.sqrt(self.shared_order_error().variance + self.seed_error().variance))

    def _stratum_errors(self) -> list[Component]:
        """A cell with a single episode is taken to vary as the others do."""
        cells = [
            stratum.known.mean(axis=0) for stratum in self.strata if stratum.world == "dynamic"
        ]
        usual = _usual_variance(cells)
        found = []
        for stratum in self.strata:
            mean = stratum.known.mean(axis=0)  # [unit]
            n = len(mean)
            spread = float(np.var(mean, ddof=1)) if n > 1 else usual
            # variance of a mean of pseudo-values: w^2 var / n
            variance = stratum.weight**2 * spread / n if n else float("nan")
            found.append(Component(variance, max(1, n - 1)))
        return found

    def _noise_of_one(self) -> float:
        """The variance of one training's score from its own luck on these orders."""
        trainings = len(self.strata[0].values)
        if trainings < 2:
            return 0.0
        total = 0.0
        for stratum in self.strata:
            own = stratum.known - stratum.known.mean(axis=0)  # [training, unit]
            if stratum.units > 1:
                squares = float(np.var(own, axis=1, ddof=1).sum()) / (trainings - 1)
                total += stratum.weight**2 * squares / stratum.units
        return total

    def spread_over(self, units: int) -> Array:
        """The score as the mean of so many equal units, for tests that know one kind of unit.

        Days stay days where there are so many; the others' deviations are dealt out to the units.
        """
        score = np.full(units, self.score)
        for stratum in self.strata:
            mean = stratum.values.mean(axis=0)
            place = np.arange(len(mean)) % units
            known = np.isfinite(mean)
            apart = mean[known] - mean[known].mean()
            # each unit: score + units / n * its share of the deviations, which sum to 0
            share = np.bincount(place[known], weights=apart, minlength=units)
            score += stratum.weight * units / known.sum() * share
        return score


def contributions(
    trainings: Sequence[Scores], rule: ScoreRule, *, cells: Sequence[str] = ()
) -> Contributions:
    """What days and episodes contribute to the scores of trainings, over TWAP.

    An order that is void in one of them counts in none. `cells` are the cells' names.
    """
    strata: list[Stratum] = []
    first = trainings[0]
    if rule.weights["static"] and "static" in first:
        strata.append(_history(trainings, rule))
    if rule.weights["dynamic"] and "dynamic" in first:
        strata += _simulated(trainings, rule.weights["dynamic"], cells)
    return Contributions(tuple(strata))


def difference(
    own: Sequence[Scores], other: Sequence[Scores], rule: ScoreRule, *, cells: Sequence[str] = ()
) -> Contributions:
    """The same of one design's trainings less another's of the same seeds, order by order."""
    both = contributions([*own, *other], rule, cells=cells)
    n = len(own)
    return both.part(slice(0, n)).less(both.part(slice(n, 2 * n)))


def day_contributions(specific: Array, whole: Array, risk: float) -> Array:
    """What each day adds to gain less risk: the jackknife's pseudo-values, [..., day].

    Their mean is mean(specific) - risk / 2 * var(whole) exactly.
    """
    days = specific.shape[-1]
    if days < 2:
        return np.full_like(specific, np.nan)
    apart = np.square(whole - whole.mean(axis=-1, keepdims=True))
    variance = apart.sum(axis=-1, keepdims=True) / (days - 1)
    # n var - (n - 1) var without day d = (n (g_d - mean)^2 - var) / (n - 2)
    penalty = (days * apart - variance) / (days - 2) if days > 2 else variance
    return specific - risk / 2.0 * penalty


def day_rows(values: Sequence[Array], day: Array) -> Array:
    """The means of each day's orders, [training, day]; NaN where all of them are void.

    An order that is void in one training counts in none.
    """
    stacked = np.stack(values)  # [training, order]
    known = np.isfinite(stacked).all(axis=0)
    days, index = np.unique(day, return_inverse=True)
    count = np.bincount(index[known], minlength=len(days)).astype(np.float64)
    count[count == 0.0] = np.nan
    sums = [np.bincount(index[known], row[known], minlength=len(days)) for row in stacked]
    return np.stack(sums) / count


def tracking_error(whole: Sequence[Array], day: Array) -> float:
    """The standard deviation of the whole gain by day, the mean over trainings."""
    by_day = day_rows(whole, day)
    known = by_day[:, np.isfinite(by_day).all(axis=0)]
    return float(known.std(axis=1, ddof=1).mean()) if known.shape[1] > 1 else float("nan")


def _history(trainings: Sequence[Scores], rule: ScoreRule) -> Stratum:
    n = len(trainings)
    values = [one["static"] for one in trainings] + [one["static_total"] for one in trainings]
    by_day = day_rows(values, trainings[0]["static_day"])  # [specific and whole, day]
    known = np.isfinite(by_day).all(axis=0)
    found = np.full((n, by_day.shape[1]), np.nan)
    found[:, known] = day_contributions(by_day[:n, known], by_day[n:, known], rule.risk)
    return Stratum("static", "history", rule.weights["static"], found)


def _simulated(
    trainings: Sequence[Scores], weight: float, names: Sequence[str]
) -> Iterator[Stratum]:
    values = np.stack([one["dynamic"] for one in trainings])  # [training, episode]
    values = np.where(np.isfinite(values).all(axis=0), values, np.nan)
    code = trainings[0].get("dynamic_cell", np.zeros(values.shape[1])).astype(np.int64)
    present = np.unique(code)
    for cell in present:
        name = names[cell] if cell < len(names) else f"cell {cell}"
        yield Stratum("dynamic", name, weight / len(present), values[:, code == cell])


def _usual_variance(means: Sequence[Array]) -> float:
    """What a unit varies by inside its stratum; over all units where no stratum has two."""
    several = [mean for mean in means if len(mean) > 1]
    if several:
        squares = sum(float(np.square(mean - mean.mean()).sum()) for mean in several)
        return squares / sum(len(mean) - 1 for mean in several)
    everything = np.concatenate([*means, np.empty(0)])
    return float(np.var(everything, ddof=1)) if len(everything) > 1 else float("nan")
