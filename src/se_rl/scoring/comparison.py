"""Runs side by side: groups of equal settings over their seeds, with intervals, and the test that
corrects for having looked at several.

What is compared is the gain over the default of the same run. A run that kept the default gains
nothing on any day, and its sealed days were not opened.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from se_rl.records.gains import Bounds
from se_rl.records.results import ACCEPTED
from se_rl.scoring.comparable import comparable_results, have_equal_budgets
from se_rl.scoring.compared_runs import (
    RIVAL,
    ComparedRun,
    compared_run,
    rival_rows,
    with_idle_days,
)
from se_rl.scoring.run_groups import RunGroups, run_groups
from se_rl.scoring.score import Array, Contributions, Stratum
from se_rl.scoring.sealed_draws import difference, over_draws
from se_rl.scoring.statistics import Estimate, clustered_mean, spa_against_nothing

LEVEL = 0.05


@dataclass(frozen=True)
class GroupResult:
    """A group over its seeds: the mean score over the default with the errors of days and of runs
    together; `over_default` is the mean price advantage over it, `accepted` the runs that found a
    design. A `rival` is a group without a search, whose runs are the draws of test days.
    """

    group: str
    runs: int
    mean: float
    ci95: Bounds
    by_seed: tuple[float, ...]
    over_default: float
    score_valid: float
    simulated: float
    tokens: float
    accepted: int
    rival: bool = False


@dataclass(frozen=True)
class GroupDifference:
    """What group `a` scores over group `b`: paired by test day where the runs have the same days."""

    a: str
    b: str
    difference: float
    ci95: Bounds
    p: float


@dataclass(frozen=True)
class Comparison:
    """Runs side by side, grouped `by` what differs between them; `sentence` is what may be said of
    them, `basis` says what their errors rest on, `unlike` names settings of the task that differ.
    Rivals that were trained beside the runs are groups too, and SPA counts them.
    """

    runs: tuple[ComparedRun, ...] = ()
    by: tuple[str, ...] = ()
    groups: tuple[GroupResult, ...] = ()
    tests: tuple[GroupDifference, ...] = ()
    spa_p: float = math.nan
    sentence: str = ""
    equal_budget: bool = True
    basis: str = ""
    unlike: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """What SPA looked at, in words."""
        rivals = sum(group.rival for group in self.groups)
        among = f" ({rivals} of them rivals)" if rivals else ""
        return f"{len(self.groups)} groups{among}"


PAIRED = "paired by test day: all runs have the same test days"


def compare(places: Sequence[Path]) -> Comparison:
    """Finished runs: each one, groups of equal settings over their seeds, their differences, SPA.

    Groups on the same test days are paired by day. Runs on a synthetic set with different seals
    have different test days: they are compared over runs, without SPA. Groups on other data stand
    side by side without a test.
    """
    results = comparable_results(places)
    grouping = run_groups(results)
    rows = []
    for run, place, group in zip(results, places, grouping.groups, strict=True):
        rows.append(compared_run(run, place, group=group))
    rows = with_idle_days(rows, results)
    equal_budget = have_equal_budgets(results)
    rivals = list(rival_rows(rows, results, alike=equal_budget and not grouping.unlike))
    by_group: dict[str, list[ComparedRun]] = {}
    for row in (*rows, *rivals):
        by_group.setdefault(row.group, []).append(row)
    groups = [_group_result(name, own) for name, own in by_group.items()]
    tests = []
    for a, b in combinations(by_group, 2):
        first, second = by_group[a][0], by_group[b][0]
        if first.data == second.data and first.outcome != RIVAL:  # rivals are not tested by pairs
            tests.append(_difference(by_group[a], by_group[b]))
    return Comparison(
        runs=tuple(rows),
        by=grouping.by,
        groups=tuple(groups),
        tests=tuple(tests),
        spa_p=_spa(by_group) if _share_days(rows) else math.nan,
        sentence=_sentence(groups, tests),
        equal_budget=equal_budget,
        basis=_basis(rows, grouping),
        unlike=grouping.unlike,
    )


def _basis(rows: Sequence[ComparedRun], grouping: RunGroups) -> str:
    """What the errors of groups and differences rest on."""
    sets = len({row.data for row in rows})
    if _share_days(rows):
        said = PAIRED
    elif sets > 1:
        said = f"{sets} data sets: groups on different ones are not tested against each other"
    else:
        draws = len({row.seal for row in rows})
        said = f"over runs, not paired by day: {draws} seals, so {draws} draws of the test days"
    if grouping.unlike:
        said += f"; scores are of different tasks ({', '.join(grouping.unlike)})"
    return said


def _share_days(rows: Sequence[ComparedRun]) -> bool:
    """Whether all runs have the same test days."""
    return len({row.days_of for row in rows}) == 1


def _gains(rows: Sequence[ComparedRun]) -> Array:
    """[run, day]: the scores over the default."""
    return np.array([row.gain_by_day for row in rows])


def _spa(by_group: Mapping[str, Sequence[ComparedRun]]) -> float:
    """The chance that no group beats the default, corrected for having looked at all of them."""
    return spa_against_nothing([_gains(rows).mean(axis=0) for rows in by_group.values()])


def _estimate(rows: Sequence[ComparedRun]) -> Estimate:
    """A group's mean score; three searches that found the same design had one chance, not three."""
    if not _share_days(rows):
        gains = [row.score_over_default for row in rows]
        return over_draws(gains, [row.seal for row in rows], days=len(rows[0].gain_by_day))
    if len(rows) == 1:
        alone = rows[0].score_over_default
        return Estimate(alone.mean, alone.se, len(rows[0].gain_by_day))
    return Contributions((Stratum("static", "score", 1.0, _gains(rows)),)).estimate()


def _group_result(name: str, rows: Sequence[ComparedRun]) -> GroupResult:
    found = _estimate(rows)
    alone = rows[0].score_over_default
    return GroupResult(
        group=name,
        runs=len(rows),
        mean=found.mean,
        ci95=alone.ci95 if len(rows) == 1 else found.ci95,
        by_seed=tuple(row.score_over_default.mean for row in rows),
        over_default=float(np.mean([row.over_default.mean for row in rows])),
        score_valid=float(np.mean([row.score_valid for row in rows])),
        simulated=float(np.mean([row.simulated_over_default for row in rows])),
        tokens=float(np.mean([row.tokens for row in rows])),
        accepted=sum(row.outcome == ACCEPTED for row in rows),
        rival=rows[0].outcome == RIVAL,
    )


def _difference(a: Sequence[ComparedRun], b: Sequence[ComparedRun]) -> GroupDifference:
    if _share_days([*a, *b]):
        # The mean of three equal runs is not that of two to the last bit.
        by_day = np.round(_gains(a).mean(axis=0) - _gains(b).mean(axis=0), 9)
        found = clustered_mean(by_day, np.arange(len(by_day)))
    else:
        found = difference(_estimate(a), _estimate(b))
    return GroupDifference(a[0].group, b[0].group, found.mean, found.ci95, found.p_value)


def _sentence(groups: Sequence[GroupResult], tests: Sequence[GroupDifference]) -> str:
    """Who is ahead, and whether that is shown: a control that wins is named first."""
    best = max(groups, key=lambda group: group.mean)
    gain = f"a score of {best.mean:+.2f} bps over the default PPO on test days"
    if len(groups) == 1:
        return f"{best.group}: {gain}, {best.runs} runs"
    if best.mean <= 0.0:
        return "no group found a design that is ahead of the default PPO on test days"
    beaten = []
    for test in tests:
        if best.group in (test.a, test.b) and test.p < LEVEL / len(tests):
            beaten.append(test.b if test.a == best.group else test.a)
    tail = "; no difference between groups is shown"
    if beaten:
        tail = f"; shown against {', '.join(beaten)} (Bonferroni)"
    if not best.ci95[0] > 0.0:
        lead = f"no group is shown to beat the default; the highest mean is that of {best.group}"
        return f"{lead}, {gain}{tail}"
    return f"{best.group} is ahead with {gain}{tail}"
