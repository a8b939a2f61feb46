"""How good a design is so far: paired differences to the default, with errors, and shrunken.

What a score is, `score.py` says. Here it is a design's less the default's, on the same orders and
training seeds, and before designs are ranked their scores are shrunken towards each other: the best
of many noisy scores is mostly lucky.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from se_rl.scoring.score import SEED_SD, Array, Contributions, ScoreRule, Scores, difference
from se_rl.scoring.statistics import Component, combined

Regimes = Mapping[str, npt.NDArray[np.bool_]]
"""For each regime of the market which pairs of orders belong to it."""
SEED_PRIOR = 4.0
"""Trainings beyond the first of each design that the guess at the seeds' spread stands in for."""


class SeedSpread(NamedTuple):
    """What single trainings differ by, bps, and the degrees of freedom behind it."""

    sd: float
    degrees: float


GUESS = SeedSpread(SEED_SD, math.inf)
"""The spread before anything is known."""
CERTAIN = SeedSpread(0.0, math.inf)
"""The spread of what does not depend on training at all."""


@dataclass(frozen=True)
class Standing:
    """A design against the default at one rung: the difference of scores and its error, in bps.

    `order_se` is the error from days and episodes that all trainings share, `spread` what single
    trainings are taken to differ by. `by_seed` are the scores of its trainings, whose seeds are
    `training_seeds`. `by_part` splits the score: `specific` and `risk` on history, each cell of
    simulated orders; `part_se` has the error of each, where it has one.
    """

    candidate: str
    rung: int
    score: float
    order_se: float
    spread: SeedSpread
    by_world: Mapping[str, float]
    by_regime: Mapping[str, float]
    by_seed: tuple[float, ...]
    by_part: Mapping[str, float] = field(default_factory=dict)
    order_degrees: float = math.inf
    training_seeds: tuple[int, ...] = ()
    part_se: Mapping[str, float] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        """How many trainings it is made of."""
        return len(self.by_seed)

    @property
    def se(self) -> float:
        """The error from orders and training seeds together."""
        # se^2 = order_se^2 + seed_sd^2 / n
        return math.sqrt(self.order_se**2 + self.spread.sd**2 / self.seeds)

    @property
    def ci95(self) -> tuple[float, float]:
        """Its interval, by Student's t with Welch's degrees of freedom."""
        orders = Component(self.order_se**2, self.order_degrees)
        seeds = Component(self.spread.sd**2 / self.seeds, self.spread.degrees)
        return combined(self.score, [orders, seeds]).ci95

    def futile(self, bar: float = 0.0) -> bool:
        """Whether it is hopeless: even a lucky reading (95 %, one-sided) stays below the bar."""
        return self.score + 1.645 * self.se < bar


def standing(
    candidate: str,
    rung: int,
    own: Sequence[Scores],
    default: Sequence[Scores],
    *,
    rule: ScoreRule,
    regimes: Regimes,
    cells: Sequence[str] = (),
    spread: SeedSpread = GUESS,
    training_seeds: Sequence[int] = (),
) -> Standing:
    """Compare trainings with the default's of the same seeds, order by order."""
    found = difference(own, default, rule, cells=cells)
    error = found.shared_order_error()
    by_world = {world: part.score for world, part in found.by_world().items()}
    parts = _parts(found, own, default, rule=rule)
    by_regime = {"all": found.score}
    for name, rows in regimes.items():
        by_regime[name] = _in_regime(own, default, rule=rule, rows=rows)
    if "dynamic" in by_world:
        by_regime["simulated"] = by_world["dynamic"]
    return Standing(
        candidate,
        rung,
        found.score,
        math.sqrt(error.variance),
        spread,
        by_world,
        by_regime,
        by_seed=tuple(float(score) for score in found.by_training),
        by_part={name: part.score for name, part in parts.items()},
        part_se=_known_errors(parts),
        order_degrees=error.degrees,
        training_seeds=tuple(training_seeds),
    )


def pooled_seed_spread(standings: Sequence[Standing]) -> SeedSpread:
    """What training seeds differ by, pooled over designs.

    A guess stands in for the trainings that are missing, and goes as they come.
    """
    squares = 0.0
    degrees = 0
    for one in standings:
        degrees += one.seeds - 1
        squares += float(np.var(one.by_seed)) * one.seeds
    missing = max(0.0, SEED_PRIOR - degrees)
    variance = (missing * SEED_SD**2 + squares) / (missing + degrees)
    return SeedSpread(math.sqrt(variance), max(SEED_PRIOR, degrees))


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


def leading(shrunk: Mapping[str, float], default: str) -> str:
    """The design with the highest shrunken score; the default where none is above 0."""
    best = max(shrunk, key=lambda name: shrunk[name], default=default)
    return best if shrunk.get(best, 0.0) > 0.0 else default


def _parts(
    found: Contributions, own: Sequence[Scores], default: Sequence[Scores], *, rule: ScoreRule
) -> dict[str, Contributions]:
    """The score's parts: on history the gain and what risk takes from it, then every cell."""
    parts = {}
    if "static" in found.by_world():
        specific = difference(own, default, rule.on_history(risk=0.0))
        parts["specific"] = specific
        # pseudo-values of the whole less those of the gain are those of the risk
        parts["risk"] = found.by_world()["static"].less(specific)
    return parts | found.cells()


def _known_errors(parts: Mapping[str, Contributions]) -> dict[str, float]:
    """The standard error of each part; a cell with a single episode has none."""
    errors = {name: part.se for name, part in parts.items()}
    return {name: error for name, error in errors.items() if math.isfinite(error)}


def _in_regime(
    own: Sequence[Scores],
    default: Sequence[Scores],
    *,
    rule: ScoreRule,
    rows: npt.NDArray[np.bool_],
) -> float:
    """The difference of scores on the history of one regime."""

    def chosen(trainings: Sequence[Scores]) -> list[dict[str, Array]]:
        names = ("static", "static_total", "static_day")
        return [{name: one[name][rows] for name in names} for one in trainings]

    return difference(chosen(own), chosen(default), rule.on_history()).score
