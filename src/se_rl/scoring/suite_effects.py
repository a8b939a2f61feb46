"""What trainings on many tasks say about a design: its effect on each, and all of them pooled.

On a task, designs are trained with the same seeds and scored on the same orders as the default. The
effect is the mean paired difference over the task's scale: the standard deviation of what the
default gains on a single order (a pair of both sides, or an episode). An order is the same kind of
thing on every task, while days and books hold more or fewer of them; and the default's own spread
is nothing that a design can change, as the spread of the differences would be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from se_rl.scoring.score import Contributions, ScoreRule, Scores, difference
from se_rl.scoring.statistics import Estimate, clustered_mean

TOGETHER = "mean of all designs"


@dataclass(frozen=True)
class DesignScores:
    """A design's trainings on a task by seed, and why others gave none."""

    by_seed: Mapping[int, Scores]
    reason: str = ""


@dataclass(frozen=True)
class TaskScores:
    """Every design on one task, and the default beside them; scores are in `unit`, by `rule`.

    `isolation` has the levels of the lock that trainings ran under.
    """

    task: str
    unit: str
    rule: ScoreRule
    default: DesignScores
    designs: Mapping[str, DesignScores]
    isolation: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskEffect:
    """A design against the default on one task; a `reason` says why there is no figure.

    `difference` is in the task's `unit`, `scale` too; `effect` is their quotient, `se` and `ci95`
    belong to it and hold the errors of days or episodes and of `seeds` trainings.
    """

    design: str
    task: str
    unit: str
    seeds: int
    difference: float
    scale: float
    effect: float
    se: float
    ci95: tuple[float, float]
    reason: str = ""


@dataclass(frozen=True)
class PooledEffect:
    """A design over all tasks that have a figure of it: the mean effect, Student's t over tasks.

    `ahead` and `behind` count the tasks whose own interval is above or below 0.
    """

    design: str
    tasks: int
    effect: float
    se: float
    ci95: tuple[float, float]
    ahead: int
    behind: int


@dataclass(frozen=True)
class SuiteResult:
    """Every design on every task, and pooled; `made` of `planned` trainings are done."""

    effects: tuple[TaskEffect, ...]
    pools: tuple[PooledEffect, ...]
    seeds: int
    made: int
    planned: int
    isolation: tuple[str, ...]


def suite_result(found: Sequence[TaskScores], *, seeds: int) -> SuiteResult:
    """The effects of all tasks, in their order."""
    effects: list[TaskEffect] = []
    made = planned = 0
    levels: set[str] = set()
    for one in found:
        effects += task_effects(one)
        levels.update(one.isolation)
        for design in (one.default, *one.designs.values()):
            made += len(design.by_seed)
            planned += seeds
    pools = tuple(pooled(effects))
    return SuiteResult(tuple(effects), pools, seeds, made, planned, tuple(sorted(levels)))


def task_effects(found: TaskScores) -> list[TaskEffect]:
    """All designs on a task and, where there are several, their mean."""
    effects = []
    differences: dict[tuple[int, ...], list[Contributions]] = {}
    for name, own in found.designs.items():
        seeds = tuple(seed for seed in own.by_seed if seed in found.default.by_seed)
        if not seeds:
            effects.append(_without_figure(found, name, own.reason or found.default.reason))
            continue
        paired = _paired(found, own, seeds)
        differences.setdefault(seeds, []).append(paired)
        effects.append(_effect(found, name, paired, seeds))
    together = max(differences.items(), key=lambda item: len(item[1]), default=((), []))
    if len(together[1]) > 1:
        effects.append(_effect(found, TOGETHER, mean_difference(together[1]), together[0]))
    return effects


def pooled(effects: Sequence[TaskEffect]) -> list[PooledEffect]:
    """Every design over its tasks."""
    pools = []
    for name in dict.fromkeys(effect.design for effect in effects):
        own = [one for one in effects if one.design == name and np.isfinite(one.effect)]
        if not own:
            continue
        mean = clustered_mean(np.array([one.effect for one in own]), np.arange(len(own)))
        ahead = sum(one.ci95[0] > 0.0 for one in own)
        behind = sum(one.ci95[1] < 0.0 for one in own)
        pools.append(PooledEffect(name, len(own), mean.mean, mean.se, mean.ci95, ahead, behind))
    return pools


def mean_difference(parts: Sequence[Contributions]) -> Contributions:
    """The mean of several designs' differences, day by day or episode by episode."""
    strata = []
    for same in zip(*(part.strata for part in parts), strict=True):
        values = np.mean([stratum.values for stratum in same], axis=0)
        strata.append(replace(same[0], values=values))
    return Contributions(tuple(strata))


def scale_of(trainings: Sequence[Scores]) -> float:
    """The standard deviation over single orders of what they gained, over all trainings."""
    variances = []
    for scores in trainings:
        values = scores["static"] if "static" in scores else scores["dynamic"]
        variances.append(float(np.nanvar(values, ddof=1)))
    return float(np.sqrt(np.mean(variances)))


def _paired(found: TaskScores, own: DesignScores, seeds: Sequence[int]) -> Contributions:
    """The differences of the same seeds."""
    theirs = [found.default.by_seed[seed] for seed in seeds]
    return difference([own.by_seed[seed] for seed in seeds], theirs, found.rule)


def _effect(
    found: TaskScores, name: str, paired: Contributions, seeds: Sequence[int]
) -> TaskEffect:
    # one training says nothing about what trainings differ by, so it has no error
    told = paired.estimate() if len(seeds) > 1 else Estimate(paired.score, float("nan"), 1)
    scale = scale_of([found.default.by_seed[seed] for seed in seeds])
    low, high = told.ci95
    return TaskEffect(
        name,
        found.task,
        found.unit,
        len(seeds),
        told.mean,
        scale,
        told.mean / scale,
        told.se / scale,
        (low / scale, high / scale),
    )


def _without_figure(found: TaskScores, name: str, reason: str) -> TaskEffect:
    nan = float("nan")
    return TaskEffect(name, found.task, found.unit, 0, nan, nan, nan, nan, (nan, nan), reason)
