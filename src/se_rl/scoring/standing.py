"""How good a design is so far: paired differences to the default, with errors, and shrunken.

A score is never a bare mean. Orders are paired with the default's, days and simulated episodes are
the units, training seeds add their own variance, and before designs are ranked their scores are
shrunken towards each other: the best of many noisy scores is mostly lucky.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.scoring.statistics import clustered_mean

Array = npt.NDArray[np.float64]
Scores = Mapping[str, Array]
"""Gain over TWAP per pair of orders, in bps.

`static` (the specific part) with `static_day`, `dynamic` and perhaps `dynamic_x2` by episode.
"""
Regimes = Mapping[str, npt.NDArray[np.bool_]]
"""For each regime of the market which pairs of orders belong to it."""
SEED_SD = 0.3
"""What training seeds differ by before anything is known, bps."""
SEED_PRIOR = 4.0
"""The weight of that guess, in trainings."""


@dataclass(frozen=True)
class Standing:
    """A design against the default at one rung: the weighted difference and its error, in bps.

    `order_se` is the error from the orders, `seed_sd` what single trainings are taken to differ by.
    """

    candidate: str
    rung: int
    score: float
    order_se: float
    seed_sd: float
    by_world: Mapping[str, float]
    by_regime: Mapping[str, float]
    by_seed: tuple[float, ...]

    @property
    def seeds(self) -> int:
        """How many trainings it is made of."""
        return len(self.by_seed)

    @property
    def se(self) -> float:
        """The error from orders and training seeds together."""
        # se^2 = order_se^2 + seed_sd^2 / n
        return math.sqrt(self.order_se**2 + self.seed_sd**2 / self.seeds)

    @property
    def ci95(self) -> tuple[float, float]:
        """A normal interval: units are many, the seeds' error is pooled over designs."""
        return self.score - 1.96 * self.se, self.score + 1.96 * self.se

    def futile(self, bar: float = 0.0) -> bool:
        """Whether it is hopeless: even a lucky reading (95 %, one-sided) stays below the bar."""
        return self.score + 1.645 * self.se < bar


def standing(
    candidate: str,
    rung: int,
    own: Sequence[Scores],
    default: Sequence[Scores],
    *,
    weights: Mapping[str, float],
    regimes: Regimes,
    seed_sd: float = SEED_SD,
) -> Standing:
    """Compare trainings with the default's of the same seeds, order by order."""
    differences = [_difference(*pair) for pair in zip(own, default, strict=True)]
    parts = {
        "static": ["static"],
        "dynamic": [name for name in differences[0] if name != "static"],
    }
    score = 0.0
    variance = 0.0
    by_world = {}
    for world, names in parts.items():
        if not weights[world] or not names:
            continue
        estimates = [_pooled(differences, name, own[0].get(f"{name}_day")) for name in names]
        mean = float(np.mean([estimate[0] for estimate in estimates]))
        # the same episodes at two sizes are not two samples, so their errors are averaged
        error = float(np.mean([estimate[1] for estimate in estimates]))
        # score = sum of w_i mean_i,  variance = sum of (w_i se_i)^2
        score = score + weights[world] * mean
        variance = variance + (weights[world] * error) ** 2
        by_world[world] = mean
    by_regime = {"all": score}
    for name, rows in regimes.items():
        by_regime[name] = _regime(differences, rows)
    if "dynamic" in by_world:
        by_regime["simulated"] = by_world["dynamic"]
    return Standing(
        candidate,
        rung,
        score,
        math.sqrt(variance),
        seed_sd,
        by_world,
        by_regime,
        by_seed=tuple(_weighted(one, weights) for one in differences),
    )


def pooled_seed_sd(standings: Sequence[Standing]) -> float:
    """What training seeds differ by: pooled over designs, on top of a prior guess."""
    squares = SEED_PRIOR * SEED_SD**2
    degrees = SEED_PRIOR
    for one in standings:
        if one.seeds > 1:
            squares += float(np.var(one.by_seed)) * one.seeds
            degrees += one.seeds - 1
    return math.sqrt(squares / degrees)


def shrunken(standings: Sequence[Standing]) -> dict[str, float]:
    """Scores shrunken by empirical Bayes, by how much of their spread is noise.

    The default is one of them, at 0. Where all of the spread may be noise nothing is left: no
    design is above the default then.
    """
    scores = np.array([0.0, *(s.score for s in standings)])  # [default and designs]
    noise = np.array([0.0, *(s.se**2 for s in standings)])
    # tau^2 = Var(score) - mean(se^2): the part of the spread that is not noise
    real = float(np.var(scores, ddof=1) - noise.mean()) if standings else 0.0
    # k_i = tau^2 / (tau^2 + se_i^2): the part of a score that is kept
    kept = real / (real + noise) if real > 0.0 else 0.0 * noise
    centre = float(kept @ scores / kept.sum()) if real > 0.0 else 0.0
    shrunk = centre + kept * (scores - centre)
    return {s.candidate: float(value) for s, value in zip(standings, shrunk[1:], strict=True)}


def _is_simulated(name: str) -> bool:
    return name.startswith("dynamic") and not name.endswith("_cell")


def _difference(mine: Scores, theirs: Scores) -> dict[str, Array]:
    worlds = [name for name in mine if name == "static" or _is_simulated(name)]
    return {name: mine[name] - theirs[name] for name in worlds}


def _pooled(
    differences: Sequence[Scores], name: str, day: npt.NDArray[Any] | None
) -> tuple[float, float]:
    """Mean over orders of the seeds' mean difference, with its error by day or episode.

    Void orders do not count.
    """
    mean = np.mean([one[name] for one in differences], axis=0)  # [order]
    known = np.isfinite(mean)
    if known.sum() < 2:
        return float("nan"), float("nan")
    units: npt.NDArray[Any] = np.arange(len(mean)) if day is None else day.astype(np.int64)
    found = clustered_mean(mean[known], units[known])
    return found.mean, found.se


def _weighted(one: Scores, weights: Mapping[str, float]) -> float:
    """The score of a single training."""
    values: dict[str, list[float]] = {"static": [], "dynamic": []}
    for name, differences in one.items():
        if name == "static" or _is_simulated(name):
            values[name.partition("_")[0]].append(float(np.nanmean(differences)))
    return sum(
        weights[world] * float(np.mean(found))
        for world, found in values.items()
        if weights[world] and found
    )


def _regime(differences: Sequence[Scores], rows: npt.NDArray[np.bool_]) -> float:
    return float(np.mean([np.nanmean(one["static"][rows]) for one in differences]))
