"""The rows of a comparison: finished runs, and the rivals that were trained beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from se_rl.records.gains import Gain
from se_rl.records.results import (
    OURS,
    STRONG,
    DesignCounts,
    FinalMetrics,
    LearningCurve,
    RunResults,
)
from se_rl.scoring.run_groups import RunGroup, arm_of
from se_rl.seal import seal_digest

RIVAL = "rival"
"""What stands for an outcome in the row of a rival, which is no search."""


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison; gains `over_default` are price advantages, `score_over_default` is
    gain less risk. `gain_by_day` is that score over the default as a mean over test days, `seal`
    the digest of the run's seal, `outcome` how its search ended.
    """

    name: str
    group: str
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
    gain_by_day: tuple[float, ...]
    seal: str = ""
    outcome: str = ""
    days_of: str = ""


def compared_run(run: RunResults, place: Path, *, group: RunGroup) -> ComparedRun:
    """The row of a run; what it gained by day is added by `with_idle_days` where it kept the default."""
    best = run.finalist(run.best)
    score = run.final_metrics.score_over_default
    return ComparedRun(
        name=str(place),
        group=group.name,
        arm=arm_of(run.config),
        seed=run.seeds.search,
        data=group.data,
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
        gain_by_day=_gain_by_day(run),
        seal=seal_digest(run.seal.text),
        outcome=run.outcome,
        days_of=group.days,
    )


def _gain_by_day(run: RunResults, method: str = OURS) -> tuple[float, ...]:
    """A method's score over the default by test day; none where the default was kept."""
    if not run.is_accepted:
        return ()
    by_day = run.score_by_day
    return tuple((np.array(by_day[method]) - np.array(by_day[STRONG])).tolist())


def with_idle_days(rows: Sequence[ComparedRun], results: Sequence[RunResults]) -> list[ComparedRun]:
    """The rows, where a run that kept the default gains nothing on any of its test days."""
    opened: dict[str, int] = {}
    for row in rows:
        opened[row.days_of] = max(opened.get(row.days_of, 0), len(row.gain_by_day))
    found = []
    for row, run in zip(rows, results, strict=True):
        days = opened[row.days_of] or run.data.test_days or 2
        found.append(row if run.is_accepted else replace(row, gain_by_day=(0.0,) * days))
    return found


def rival_rows(
    rows: Sequence[ComparedRun], results: Sequence[RunResults], *, alike: bool
) -> Iterator[ComparedRun]:
    """Every rival of a run that opened its sealed days, as a group of its own.

    Runs that are `alike` in task and budget trained the same rivals: a row for each draw of test
    days is enough.
    """
    seen = set()
    for row, run in zip(rows, results, strict=True):
        for name, score in run.rivals.items():
            group = name if alike else f"{name}, {row.group}"
            if (group, row.seal, row.days_of) in seen:
                continue
            seen.add((group, row.seal, row.days_of))
            own, default = run.baselines.get(name), run.baselines.get(STRONG)
            over = own.PA - default.PA if own and default else math.nan
            yield replace(
                row,
                group=group,
                outcome=RIVAL,
                score_valid=math.nan,
                over_default=Gain(over),
                score_over_default=score.score,
                simulated_over_default=score.simulated.mean,
                tokens=0,
                gain_by_day=_gain_by_day(run, name),
            )
