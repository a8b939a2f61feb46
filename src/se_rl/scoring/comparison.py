"""Runs side by side: arms over their seeds, with intervals, and the test that corrects for having
looked at several.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.records.gains import Bounds, Gain
from se_rl.records.results import (
    OURS,
    STRONG,
    DesignCounts,
    FinalMetrics,
    LearningCurve,
    RunResults,
)
from se_rl.scoring.comparable import comparable_results
from se_rl.scoring.score import Array, Contributions, Stratum
from se_rl.scoring.sealed_draws import difference, over_draws
from se_rl.scoring.statistics import Estimate, clustered_mean, spa_p_value
from se_rl.seal import seal_digest

BUDGET = (
    "iterations",
    "parents",
    "siblings",
    "promoted",
    "finalists",
    "work",
    "seeds",
    "max_designs",
)
"""Settings that must be equal for a fair comparison of arms."""
LEVEL = 0.05


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison; gains `over_default` are price advantages, `score_over_default` is
    gain less risk. `score_by_day` is the score over TWAP as a mean over test days, `seal` the
    digest of the run's seal.
    """

    name: str
    arm: str
    seed: int
    data: str
    designs: DesignCounts
    score_valid: float
    final: FinalMetrics
    over_TWAP: Gain
    over_default: Gain
    score_over_default: Gain
    simulated_over_default: float
    learning: LearningCurve
    tokens: int
    minutes: float
    spa_p: float
    score_by_day: Mapping[str, tuple[float, ...]]
    seal: str = ""


@dataclass(frozen=True)
class ArmResult:
    """An arm over its seeds: the mean score over the default with the errors of days and of runs
    together; `over_default` is the mean price advantage over it.
    """

    arm: str
    runs: int
    mean: float
    ci95: Bounds
    by_seed: tuple[float, ...]
    over_default: float
    score_valid: float
    simulated: float
    tokens: float


@dataclass(frozen=True)
class ArmDifference:
    """What arm `a` scores over arm `b`: paired by test day where the runs have the same days."""

    a: str
    b: str
    difference: float
    ci95: Bounds
    p: float


@dataclass(frozen=True)
class Comparison:
    """Runs on the same data side by side; `sentence` is what may be said of them, `basis` says what
    their errors rest on."""

    runs: tuple[ComparedRun, ...] = ()
    groups: tuple[ArmResult, ...] = ()
    tests: tuple[ArmDifference, ...] = ()
    spa_p: float = math.nan
    sentence: str = ""
    equal_budget: bool = True
    basis: str = ""


PAIRED = "paired by test day: all runs have the same test days"


def arm_of(config: Mapping[str, Any]) -> str:
    """What a run's settings leave of the whole: the name of its arm."""
    off = [name for name in ("hle", "lle") if not config[name]]
    parts = ["no-dek"] if len(off) == 2 else [f"no-{name}" for name in off]
    if config["arm"] != "full":  # the controls have no enhancement to leave out
        parts = [str(config["arm"])]
    if not config["imagine"]:
        parts.append("no-imagine")
    if config["worlds"] != "both":
        parts.append(f"{config['worlds']}-only")
    return " ".join(parts) or "full"


def compare(places: Sequence[Path]) -> Comparison:
    """Finished runs on the same data: each one, the arms over their seeds, their differences, SPA.

    Runs on a synthetic set with different seals have different test days: they are compared over
    runs, without SPA.
    """
    results = comparable_results(places)
    same_days = all(run.data.sha256 == results[0].data.sha256 for run in results)
    rows = [_compared(run, place) for run, place in zip(results, places, strict=True)]
    by_arm: dict[str, list[ComparedRun]] = {}
    for row in rows:
        by_arm.setdefault(row.arm, []).append(row)
    if not same_days:
        return _over_runs(by_arm, rows, equal_budget=_have_equal_budgets(results))
    days = {arm: _mean_by_day(own) for arm, own in by_arm.items()}
    tests = [_difference(a, b, days[a] - days[b]) for a, b in combinations(days, 2)]
    groups = [_arm_result(arm, own) for arm, own in by_arm.items()]
    columns = np.stack(list(days.values()), axis=1)  # [day, arm]
    return Comparison(
        runs=tuple(rows),
        groups=tuple(groups),
        tests=tuple(tests),
        spa_p=spa_p_value(np.zeros(len(columns)), columns),
        sentence=_sentence(groups, tests),
        equal_budget=_have_equal_budgets(results),
        basis=PAIRED,
    )


def _have_equal_budgets(results: Sequence[RunResults]) -> bool:
    budgets = {tuple(str(run.config[key]) for key in BUDGET) for run in results}
    return len(budgets) == 1


def _over_runs(
    by_arm: Mapping[str, Sequence[ComparedRun]], rows: Sequence[ComparedRun], *, equal_budget: bool
) -> Comparison:
    """Runs whose test days are different draws: the gain of each is one number of its arm."""
    found: dict[str, Estimate] = {}
    groups = []
    for arm, own in by_arm.items():
        gains = [row.score_over_default for row in own]
        seals = [row.seal for row in own]
        one = over_draws(gains, seals, days=len(own[0].score_by_day[OURS]))
        found[arm] = one
        groups.append(_arm_of_runs(arm, own, mean=one.mean, ci95=one.ci95))
    tests = []
    for a, b in combinations(found, 2):
        gap = difference(found[a], found[b])
        tests.append(ArmDifference(a, b, gap.mean, gap.ci95, gap.p_value))
    draws = len({row.seal for row in rows})
    return Comparison(
        runs=tuple(rows),
        groups=tuple(groups),
        tests=tuple(tests),
        sentence=_sentence(groups, tests),
        equal_budget=equal_budget,
        basis=f"over runs, not paired by day: {draws} seals, so {draws} draws of the test days",
    )


def _compared(run: RunResults, place: Path) -> ComparedRun:
    best = run.finalist(run.best)
    score = run.final_metrics.score_over_default
    return ComparedRun(
        name=str(place),
        arm=arm_of(run.config),
        seed=run.seeds.search,
        data=run.data.name,
        designs=run.designs,
        score_valid=best.score if best else 0.0,
        final=run.final_metrics,
        over_TWAP=run.final_metrics.over_TWAP,
        over_default=run.final_metrics.over_default,
        score_over_default=score.score,
        simulated_over_default=score.simulated.mean,
        learning=run.learning,
        tokens=run.llm.tokens_in + run.llm.tokens_out,
        minutes=run.times.minutes,
        spa_p=run.spa_p,
        score_by_day={name: run.score_by_day[name] for name in (OURS, STRONG)},
        seal=seal_digest(run.seal.text),
    )


def _mean_by_day(rows: Sequence[ComparedRun]) -> Array:
    """Our design's score by test day, the mean of an arm's runs."""
    return np.mean([row.score_by_day[OURS] for row in rows], axis=0)


def _arm_result(arm: str, rows: Sequence[ComparedRun]) -> ArmResult:
    """An arm over its seeds; three searches that found the same design had one
    chance, not three.
    """
    if len(rows) == 1:
        alone = rows[0].score_over_default
        return _arm_of_runs(arm, rows, mean=alone.mean, ci95=alone.ci95)
    ours = np.array([row.score_by_day[OURS] for row in rows])  # [run, day]
    strong = np.array([row.score_by_day[STRONG] for row in rows])
    found = Contributions((Stratum("static", "score", 1.0, ours - strong),)).estimate()
    return _arm_of_runs(arm, rows, mean=found.mean, ci95=found.ci95)


def _arm_of_runs(arm: str, rows: Sequence[ComparedRun], *, mean: float, ci95: Bounds) -> ArmResult:
    return ArmResult(
        arm=arm,
        runs=len(rows),
        mean=mean,
        ci95=ci95,
        by_seed=tuple(row.score_over_default.mean for row in rows),
        over_default=float(np.mean([row.over_default.mean for row in rows])),
        score_valid=float(np.mean([row.score_valid for row in rows])),
        simulated=float(np.mean([row.simulated_over_default for row in rows])),
        tokens=float(np.mean([row.tokens for row in rows])),
    )


def _difference(a: str, b: str, by_day: Array) -> ArmDifference:
    # The mean of three equal runs is not that of two to the last bit.
    rounded = np.round(by_day, 9)
    found = clustered_mean(rounded, np.arange(len(rounded)))
    return ArmDifference(a, b, found.mean, found.ci95, found.p_value)


def _sentence(groups: Sequence[ArmResult], tests: Sequence[ArmDifference]) -> str:
    """Who is ahead, and whether that is shown: a control that wins is named first."""
    best = max(groups, key=lambda group: group.mean)
    gain = f"a score of {best.mean:+.2f} bps over the default PPO on test days"
    if len(groups) == 1:
        return f"{best.arm}: {gain}, {best.runs} runs"
    if best.mean <= 0.0:
        return "no arm found a design that is ahead of the default PPO on test days"
    beaten = []
    for test in tests:
        if best.arm in (test.a, test.b) and test.p < LEVEL / len(tests):
            beaten.append(test.b if test.a == best.arm else test.a)
    tail = "; no difference between arms is shown"
    if beaten:
        tail = f"; shown against {', '.join(beaten)} (Bonferroni)"
    if not best.ci95[0] > 0.0:
        lead = f"no arm is shown to beat the default; the highest mean is that of {best.arm}"
        return f"{lead}, {gain}{tail}"
    return f"{best.arm} is ahead with {gain}{tail}"
