"""How good a design is so far: paired differences to the default on the same orders, with errors, and shrunken.

A score is never a bare mean. Orders are paired with the default's, days and simulated episodes are the units, training
seeds add their own variance, and before designs are ranked their scores are shrunken towards each other: the best of many
noisy scores is mostly lucky.
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
"""Per order over TWAP, in bps: `static` (specific part) with `static_day`, `dynamic` and perhaps `dynamic_x2` by episode."""
SEED_SD, SEED_PRIOR = 0.3, 4.0
"""What training seeds differ by before anything is known, bps, and the weight of that guess in trainings."""


@dataclass(frozen=True)
class Standing:
    """A design against the default at one rung: the weighted difference over TWAP, its error, and the same by regime.

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
        return math.sqrt(self.order_se**2 + self.seed_sd**2 / self.seeds)

    @property
    def ci95(self) -> tuple[float, float]:
        """A normal interval: the units are many, the seeds' share of the error is pooled over designs."""
        return self.score - 1.96 * self.se, self.score + 1.96 * self.se

    def futile(self, bar: float = 0.0) -> bool:
        """Whether it is hopeless to come near the bar: even a lucky reading (95 %, one-sided) stays below it."""
        return self.score + 1.645 * self.se < bar


def standing(
    candidate: str,
    rung: int,
    own: Sequence[Scores],
    default: Sequence[Scores],
    *,
    weights: Mapping[str, float],
    regimes: Mapping[str, npt.NDArray[np.bool_]],
    seed_sd: float = SEED_SD,
) -> Standing:
    """Compare trainings with the default's of the same seeds, order by order."""
    differences = [
        {name: mine[name] - theirs[name] for name in _worlds(mine)}
        for mine, theirs in zip(own, default, strict=True)
    ]
    worlds = {
        "static": ["static"],
        "dynamic": [name for name in differences[0] if name.startswith("dynamic")],
    }
    score, variance, by_world = 0.0, 0.0, {}
    for world, names in worlds.items():
        if not weights[world] or not names:
            continue
        parts = [_pooled(differences, name, own[0].get(f"{name}_day")) for name in names]
        mean = float(np.mean([part[0] for part in parts]))
        error = float(
            np.mean([part[1] for part in parts])
        )  # the same episodes at two sizes are no two samples
        score, variance = score + weights[world] * mean, variance + (weights[world] * error) ** 2
        by_world[world] = mean
    by_seed = tuple(_weighted(one, weights) for one in differences)
    by_regime = {
        "all": score,
        **{name: _regime(differences, rows) for name, rows in regimes.items()},
    }
    if "dynamic" in by_world:
        by_regime["simulated"] = by_world["dynamic"]
    return Standing(
        candidate, rung, score, math.sqrt(variance), seed_sd, by_world, by_regime, by_seed
    )


def pooled_seed_sd(standings: Sequence[Standing]) -> float:
    """What training seeds differ by: pooled over designs, on top of a prior guess."""
    squares, degrees = SEED_PRIOR * SEED_SD**2, SEED_PRIOR
    for one in standings:
        if one.seeds > 1:
            squares += float(np.var(one.by_seed)) * one.seeds
            degrees += one.seeds - 1
    return math.sqrt(squares / degrees)


def shrunken(standings: Sequence[Standing]) -> dict[str, float]:
    """Scores shrunken by empirical Bayes, by how much of their spread is noise; the default is one of them, 0 for certain.

    Where all of the spread may be noise nothing is left: no design is above the default then.
    """
    scores = np.array([0.0, *(s.score for s in standings)])
    noise = np.array([0.0, *(s.se**2 for s in standings)])
    real = float(np.var(scores, ddof=1) - noise.mean()) if standings else 0.0
    kept = real / (real + noise) if real > 0.0 else 0.0 * noise
    centre = float(kept @ scores / kept.sum()) if real > 0.0 else 0.0
    shrunk = centre + kept * (scores - centre)
    return {s.candidate: float(value) for s, value in zip(standings, shrunk[1:], strict=True)}


def _worlds(scores: Scores) -> list[str]:
    return [name for name in scores if name == "static" or name.startswith("dynamic")]


def _pooled(
    differences: Sequence[Scores], name: str, day: npt.NDArray[Any] | None
) -> tuple[float, float]:
    """Mean over orders of the seeds' mean difference, with the error by day or episode; void orders do not count."""
    mean = np.mean([one[name] for one in differences], axis=0)
    known = np.isfinite(mean)
    units: npt.NDArray[Any] = (np.arange(len(mean)) if day is None else day.astype(np.int64))[known]
    if known.sum() < 2:
        return float("nan"), float("nan")
    found = clustered_mean(mean[known], units)
    return found.mean, found.se


def _weighted(one: Scores, weights: Mapping[str, float]) -> float:
    simulated = [
        float(np.nanmean(values)) for name, values in one.items() if name.startswith("dynamic")
    ]
    parts = {
        "static": [float(np.nanmean(one["static"]))] if "static" in one else [],
        "dynamic": simulated,
    }
    return sum(
        weights[world] * float(np.mean(values))
        for world, values in parts.items()
        if weights[world] and values
    )


def _regime(differences: Sequence[Scores], rows: npt.NDArray[np.bool_]) -> float:
    return float(np.mean([np.nanmean(one["static"][rows]) for one in differences]))
