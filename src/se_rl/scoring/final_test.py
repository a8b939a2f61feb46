"""What may be said after a search: the gain on the sealed test days with its doubts, and the
verdict in one sentence.

The tables themselves are made in core, which hands them in: classical strategies are no part of
scoring.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from se_rl.records.entries import Candidate, Evaluation
from se_rl.records.results import (
    NO_GAIN,
    OURS,
    STRONG,
    FinalistRow,
    FinalMetrics,
    Gain,
    LearningCurve,
    MethodRow,
    RunResults,
    Selection,
)
from se_rl.records.rungs import Rung
from se_rl.scoring.ladder import Ladder
from se_rl.scoring.standing import SEED_SD, Array
from se_rl.scoring.statistics import (
    Estimate,
    clustered_mean,
    day_means,
    selection_hurdle,
    spa_p_value,
)


def final_metrics(methods: Mapping[str, MethodRow], *, is_default: bool) -> FinalMetrics:
    """Our row of the test days, and what it gains over the default PPO: exactly nothing where it is
    the default.
    """
    ours, strong = methods[OURS], methods[STRONG]
    return FinalMetrics(
        PA=ours.PA,
        PA_std=ours.PA_std,
        WR=ours.WR,
        GLR=ours.GLR,
        AFI=ours.AFI,
        ci95=ours.ci95,
        over_TWAP=ours.over_TWAP,
        over_TWAP_specific=ours.over_TWAP_specific,
        over_TWAP_common=ours.over_TWAP_common,
        over_default=NO_GAIN if is_default else strong.ours_over or Gain(),
        over_default_specific=NO_GAIN if is_default else strong.ours_over_specific or Gain(),
    )


def over(ours: Sequence[Array], theirs: Sequence[Array], dates: npt.NDArray[np.integer]) -> Gain:
    """What trainings of one design gain per order over another's, seed by seed, with the errors of
    days and of seeds.

    The error of days alone would describe these very policies: a lucky training, not a design.
    """
    pairs = list(zip(ours, theirs, strict=False))
    by_day = clustered_mean(np.mean([a - b for a, b in pairs], axis=0), dates)
    seeds = np.array([a.mean() - b.mean() for a, b in pairs])  # [seed]
    several = len(seeds) > 1
    luck = float(np.var(seeds, ddof=1)) / len(seeds) if several else SEED_SD**2
    # se^2 = se_days^2 + var_seeds / n
    variance = by_day.se**2 + luck
    # Welch: degrees = (sum of variances)^2 / sum of (variance^2 / degrees)
    doubt = by_day.se**4 / max(1, by_day.days - 1)
    doubt = doubt + (luck**2 / (len(seeds) - 1) if several else 0.0)
    degrees = int(variance**2 / doubt) if doubt > 0.0 else by_day.days - 1
    found = Estimate(by_day.mean, math.sqrt(variance), degrees + 1)
    return Gain(found.mean, found.se, found.ci95)


def selection(ladder: Ladder, champion: str, *, proposed: int) -> Selection:
    """What the choice among so many designs must be held against, on the validation days that the
    search saw.
    """
    columns, default = _scores_by_day(ladder)
    over_twap = over_default = hurdle = float("nan")
    if columns and default is not None:
        over_twap = _spa(np.zeros(len(default)), columns)
        over_default = _spa(default, columns)
    standing = ladder.longest(champion)
    if standing and champion != ladder.default.id:
        hurdle = selection_hurdle(standing.se, proposed)
    return Selection(
        tried=proposed,
        scored=len(columns),
        hurdle_bps=hurdle,
        score_minus_hurdle_bps=standing.score - hurdle if standing else float("nan"),
        spa_p_over_twap=over_twap,
        spa_p_over_default=over_default,
        on="validation days of the search, history, specific part",
    )


def _scores_by_day(ladder: Ladder) -> tuple[list[Array], Array | None]:
    """The screened designs' scores on history by day, and the default's."""
    columns: list[Array] = []
    default = None
    for (name, rung), by_seed in ladder.evaluations.items():
        if rung != ladder.rungs.screen.index or not all(e.ok for e in by_seed.values()):
            continue
        scores = [ladder.scores(e) for e in by_seed.values()]
        if "static" not in scores[0]:
            continue
        mean = np.mean([one["static"] for one in scores], axis=0)  # [order]
        by_day = day_means(mean, scores[0]["static_day"].astype(np.int64))
        if name == ladder.default.id:
            default = by_day
        else:
            columns.append(by_day)
    return columns, default


def _spa(benchmark: Array, columns: Sequence[Array]) -> float:
    """SPA among the designs that do differ from the benchmark: rounding errors have no variance to
    studentise by.
    """
    unlike = [column for column in columns if not np.allclose(column, benchmark)]
    return spa_p_value(benchmark, np.stack(unlike, axis=1)) if unlike else 1.0


def finalists_table(ladder: Ladder, names: Sequence[str]) -> tuple[FinalistRow, ...]:
    """How the finalists stood at every rung: learning speed at the first two, what is left of it at
    the last.
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
            rungs=rungs,
        )
        rows.append(row)
    return tuple(rows)


def learning(ladder: Ladder, name: str) -> LearningCurve:
    """Gain over TWAP at each budget, of a design and of the default: the score's own weights, all
    seeds.
    """
    rungs = [rung for rung in ladder.rungs if (name, rung.index) in ladder.evaluations]
    return LearningCurve(
        work=tuple(rung.work for rung in rungs),
        best=tuple(_level(ladder, name, rung) for rung in rungs),
        default=tuple(_level(ladder, ladder.default.id, rung) for rung in rungs),
    )


def _level(ladder: Ladder, name: str, rung: Rung) -> float:
    """The weighted gain over TWAP of a design's trainings at a rung; NaN without any."""
    by_seed = ladder.evaluations.get((name, rung.index), {})
    done = [evaluation.scores for evaluation in by_seed.values() if evaluation.ok]
    parts = []
    for world, weight in ladder.config.weights.items():
        if weight and done:
            mean = np.mean([scores[world] for scores in done if world in scores])
            parts.append(weight * mean)
    return float(sum(parts)) if parts else float("nan")


def verdict(results: RunResults, champion: Candidate, default: str) -> str:
    """The result in one sentence, doubts first."""
    data = results.data
    where = f"{data.test_days} sealed days of {data.name}"
    where += " (SYNTHETIC)" if data.synthetic else ""
    if champion.id == default:
        none = f"of {results.designs.scored} scored ones none stood out above it"
        return (
            f"No design beat the default: {none} at three times the search's budget; "
            f"the {where} were opened for the default."
        )
    gain, twap = results.final_metrics.over_default, results.final_metrics.over_TWAP
    claim = f"design {champion.id} {_with_interval(gain)} bps over the default PPO on {where}"
    return f"{_state(gain)}: {claim}; over TWAP {_with_interval(twap)}."


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
