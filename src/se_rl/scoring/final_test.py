"""What may be said after a search: the gain on the sealed test days with its doubts, and the
verdict in one sentence.

The tables themselves are made in core, which hands them in: classical strategies are no part of
scoring.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from se_rl.records.entries import Evaluation
from se_rl.records.gains import NO_GAIN, NO_SCORE_GAIN, Gain, ScoreSummary
from se_rl.records.method_rows import MethodRow
from se_rl.records.results import (
    NO_VALID_DESIGN,
    OURS,
    STRONG,
    FinalistRow,
    FinalMetrics,
    LearningCurve,
    RunResults,
    Selection,
)
from se_rl.records.rungs import Rung
from se_rl.scoring.ladder import Ladder
from se_rl.scoring.score import (
    SEED_SD,
    Array,
    Contributions,
    ScoreRule,
    Scores,
    contributions,
    difference,
)
from se_rl.scoring.score_summary import score_summary
from se_rl.scoring.statistics import (
    Component,
    clustered_mean,
    combined,
    selection_hurdle,
    spa_against_nothing,
)

SPA_UNITS = 250
"""Equal units that days and episodes are dealt out to, at most, for SPA to resample."""


@dataclass(frozen=True)
class FinalScores:
    """The scores of the learned methods on the sealed test days and fresh simulated orders;
    `over_default` is that of our design, `rivals` has those of the rivals.
    """

    over_TWAP: Mapping[str, ScoreSummary]
    over_default: ScoreSummary
    by_day: Mapping[str, tuple[float, ...]]
    rivals: Mapping[str, ScoreSummary]


def final_scores(
    trainings: Mapping[str, Sequence[Scores]],
    rule: ScoreRule,
    *,
    rivals: Sequence[str] = (),
    cells: Sequence[str],
    days: int,
) -> FinalScores:
    """Every learned method's score over TWAP; ours and the rivals' over the default PPO, training by
    training.
    """
    over_twap = {}
    for name, own in trainings.items():
        over_twap[name] = score_summary(own, rule, cells=cells)
    ours, strong = _paired(trainings, OURS)
    n = len(ours)
    both = contributions([*ours, *strong], rule)
    default_by_day = both.part(slice(n, 2 * n)).spread_over(days)
    by_day = {OURS: both.part(slice(0, n)).spread_over(days), STRONG: default_by_day}
    over_default = {}
    for name in (OURS, *rivals):
        own, strong = _paired(trainings, name)
        over_default[name] = score_summary(own, rule, other=strong, cells=cells)
        if name != OURS:  # so that the difference of two rows is that of the pairs
            gain = difference(own, strong, rule).spread_over(days)
            by_day[name] = default_by_day + gain
    return FinalScores(
        over_twap,
        over_default.pop(OURS),
        {name: tuple(values.tolist()) for name, values in by_day.items()},
        rivals=over_default,
    )


def _paired(
    trainings: Mapping[str, Sequence[Scores]], name: str
) -> tuple[Sequence[Scores], Sequence[Scores]]:
    """The trainings of a method and of the default, as many of each as both have."""
    n = min(len(trainings[name]), len(trainings[STRONG]))
    return trainings[name][:n], trainings[STRONG][:n]


def final_metrics(methods: Mapping[str, MethodRow], scores: FinalScores) -> FinalMetrics:
    """Our row of the test days, and what it gains over the default PPO."""
    strong = methods[STRONG]
    return replace(
        _metrics_of(methods[OURS]),
        over_default=strong.ours_over or Gain(),
        over_default_specific=strong.ours_over_specific or Gain(),
        score=scores.over_TWAP[OURS],
        score_over_default=scores.over_default,
    )


def kept_metrics(methods: Mapping[str, MethodRow]) -> FinalMetrics:
    """The row of the default where it was kept: over itself it gains exactly nothing."""
    return replace(
        _metrics_of(methods[STRONG]),
        over_default=NO_GAIN,
        over_default_specific=NO_GAIN,
        score_over_default=NO_SCORE_GAIN,
    )


def _metrics_of(row: MethodRow) -> FinalMetrics:
    return FinalMetrics(
        PA=row.PA,
        PA_std=row.PA_std,
        WR=row.WR,
        GLR=row.GLR,
        AFI=row.AFI,
        ci95=row.ci95,
        over_TWAP=row.over_TWAP,
        over_TWAP_specific=row.over_TWAP_specific,
        over_TWAP_common=row.over_TWAP_common,
    )


def over(ours: Sequence[Array], theirs: Sequence[Array], dates: npt.NDArray[np.integer]) -> Gain:
    """What trainings of one design gain per order over another's, seed by seed, with the errors of
    days and of seeds.

    The error of days alone would describe these very policies: a lucky training, not a design.
    """
    pairs = list(zip(ours, theirs, strict=False))
    by_day = clustered_mean(np.mean([a - b for a, b in pairs], axis=0), dates)
    seeds = np.array([a.mean() - b.mean() for a, b in pairs])  # [seed]
    luck = Component(SEED_SD**2, np.inf)
    if len(seeds) > 1:
        luck = Component(float(np.var(seeds, ddof=1)) / len(seeds), len(seeds) - 1)
    # se^2 = se_days^2 + var_seeds / n
    days = Component(by_day.se**2, max(1, by_day.days - 1))
    found = combined(by_day.mean, [days, luck])
    return Gain(found.mean, found.se, found.ci95)


def selection(ladder: Ladder, champion: str, *, proposed: int) -> Selection:
    """What the choice among so many designs must be held against, on the validation days and
    simulated episodes that the search saw.
    """
    over_twap = _screened(ladder, over_default=False)
    over_default = _screened(ladder, over_default=True)
    hurdle = float("nan")
    standing = ladder.longest(champion)
    if standing and champion != ladder.default.id:
        hurdle = selection_hurdle(standing.se, proposed)
    return Selection(
        tried=proposed,
        scored=len(over_twap),
        hurdle_bps=hurdle,
        score_minus_hurdle_bps=standing.score - hurdle if standing else float("nan"),
        spa_p_over_twap=spa_against_nothing(over_twap),
        spa_p_over_default=spa_against_nothing(over_default),
        on="validation days and simulated episodes of the search, score",
    )


def _screened(ladder: Ladder, *, over_default: bool) -> list[Array]:
    """The screened designs' scores, over TWAP or over the default, spread over equal units."""
    screen = ladder.rungs.screen
    default = ladder.trainings.at(ladder.default.id, screen)
    columns: list[Array] = []
    for name in ladder.climbed:
        by_seed = ladder.trainings.at(name, screen)
        seeds = [seed for seed in by_seed if seed in default]
        if name == ladder.default.id or not seeds:
            continue
        if not all(e.ok for e in (*by_seed.values(), *default.values())):
            continue
        own = [ladder.trainings.scores(by_seed[seed]) for seed in seeds]
        theirs = [ladder.trainings.scores(default[seed]) for seed in seeds]
        found = contributions(own, ladder.rule)
        if over_default:
            found = difference(own, theirs, ladder.rule)
        if math.isfinite(found.score):
            columns.append(found.spread_over(_units(found)))
    return columns


def _units(found: Contributions) -> int:
    """As many as there are days and episodes, at most `SPA_UNITS`; never fewer than days."""
    units = [stratum.values.shape[1] for stratum in found.strata]
    days = units[0] if found.strata[0].world == "static" else 0
    return max(days, min(SPA_UNITS, sum(units)))


def finalists_table(ladder: Ladder, names: Sequence[str]) -> tuple[FinalistRow, ...]:
    """How the finalists stood at every rung: at the first two after as long a training, at the last
    after a longer one.
    """
    rows = []
    for name in names:
        last = ladder.standings[name, ladder.rungs.last.index]
        rungs = {}
        for rung in ladder.rungs:
            if (name, rung.index) in ladder.standings:
                rungs[str(rung.index)] = ladder.standings[name, rung.index].score
        row = FinalistRow(
            name,
            score=last.score,
            se=last.se,
            ci95=last.ci95,
            by_seed=tuple(last.by_seed),
            by_world=dict(last.by_world),
            by_part=dict(last.by_part),
            rungs=rungs,
        )
        rows.append(row)
    return tuple(rows)


def learning(ladder: Ladder, name: str) -> LearningCurve:
    """The score over TWAP at each budget, of a design and of the default: the mean of all seeds."""
    by_work = {rung.work: rung for rung in ladder.rungs if ladder.trainings.at(name, rung)}
    rungs = list(by_work.values())  # of rungs that train alike the later has all trainings
    return LearningCurve(
        work=tuple(rung.work for rung in rungs),
        best=tuple(_level(ladder, name, rung) for rung in rungs),
        default=tuple(_level(ladder, ladder.default.id, rung) for rung in rungs),
    )


def _level(ladder: Ladder, name: str, rung: Rung) -> float:
    """The score over TWAP of a design's trainings at a rung; NaN without any."""
    by_seed = ladder.trainings.at(name, rung)
    done = [ladder.trainings.scores(evaluation) for evaluation in by_seed.values() if evaluation.ok]
    return contributions(done, ladder.rule).score if done else float("nan")


def verdict(results: RunResults) -> str:
    """The result in one sentence, doubts first."""
    data = results.data
    where = f"{data.test_days} sealed days of {data.name}"
    where += " (SYNTHETIC)" if data.synthetic else ""
    if not results.is_accepted:
        days = "were opened once" if results.test_openings else "were not opened"
        lead = results.outcome.capitalize()
        return f"{lead}: {_why_kept(results)}; the default is kept and the {where} {days}."
    metrics = results.final_metrics
    gain = metrics.score_over_default.score
    claim = (
        f"design {results.best} scores {_with_interval(gain)} bps over the default PPO on {where}"
    )
    parts = f"price advantage {_with_interval(metrics.over_default)} over the default"
    return f"{_state(gain)}: {claim}; {parts}, {_with_interval(metrics.over_TWAP)} over TWAP."


def _why_kept(results: RunResults) -> str:
    """Why no design took the default's place."""
    counts = results.designs
    if results.outcome == NO_VALID_DESIGN:
        refused = counts.proposed - counts.valid - counts.repeated
        lost = f"{refused} refused, {counts.repeated} repeated, {counts.valid} failed in training"
        return f"none of {counts.proposed} proposed designs could be scored ({lost})"
    none = f"of {counts.scored} scored designs none stood out above the default"
    return f"{none} after three times the search's training"


def _state(gain: Gain) -> str:
    low, high = gain.ci95
    if not math.isfinite(low):
        return "Not shown (too few days)"
    if low > 0:
        return "Shown"
    return "Worse than the default" if high < 0 else "Not shown"


def _with_interval(gain: Gain) -> str:
    low, high = gain.ci95
    return f"{gain.mean:+.2f} [{low:.2f}, {high:.2f}]"


def seeds_of(evaluations: Mapping[int, Evaluation]) -> list[int]:
    """The training seeds that gave a policy, in order: none is left out for its score."""
    return [seed for seed, evaluation in sorted(evaluations.items()) if evaluation.ok]
