"""A score taken apart for readers: history and its risk, simulated orders cell by cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from se_rl.records.gains import Gain, ScoreSummary
from se_rl.scoring.score import (
    Array,
    Contributions,
    ScoreRule,
    Scores,
    contributions,
    difference,
    tracking_error,
)


def score_summary(
    own: Sequence[Scores],
    rule: ScoreRule,
    *,
    other: Sequence[Scores] | None = None,
    cells: Sequence[str] = (),
) -> ScoreSummary:
    """The score of a design's trainings over TWAP, or over another design's of the same seeds."""
    found = _compared(own, other, rule, cells=cells)
    worlds = found.by_world()
    history = worlds.get("static")
    simulated = worlds.get("dynamic")
    specific = whole = Gain()
    error = cost = float("nan")
    if history is not None:
        gain = _compared(own, other, rule.on_history(risk=0.0))
        specific = gain_of(gain)
        theirs = None if other is None else _on_whole(other)
        whole = gain_of(_compared(_on_whole(own), theirs, rule.on_history(risk=0.0)))
        cost = gain.score - history.score
        error = _tracking_error(own) - (_tracking_error(other) if other is not None else 0.0)
    return ScoreSummary(
        score=gain_of(found),
        history=gain_of(history) if history else Gain(),
        specific=specific,
        whole=whole,
        risk_cost=cost,
        tracking_error=error,
        simulated=gain_of(simulated) if simulated else Gain(),
        cells={name: gain_of(cell) for name, cell in found.cells().items()},
    )


def gain_of(found: Contributions) -> Gain:
    """A score with its error and interval."""
    estimate = found.estimate()
    return Gain(estimate.mean, estimate.se, estimate.ci95)


def training_numbers(scores: Scores, rule: ScoreRule) -> dict[str, float]:
    """One training in a few numbers: its score, and the mean of everything that goes into it."""
    numbers = {"score": contributions([scores], rule).score}
    for name, values in scores.items():
        if not name.endswith(("_day", "_cell")):
            numbers[name] = _mean(values)
    return numbers


def _compared(
    own: Sequence[Scores],
    other: Sequence[Scores] | None,
    rule: ScoreRule,
    *,
    cells: Sequence[str] = (),
) -> Contributions:
    if other is None:
        return contributions(own, rule, cells=cells)
    return difference(own, other, rule, cells=cells)


def _on_whole(trainings: Sequence[Scores]) -> list[Scores]:
    """The same trainings with the whole gain in the place of its specific part."""
    return [{**one, "static": one["static_total"]} for one in trainings]


def _tracking_error(trainings: Sequence[Scores]) -> float:
    return tracking_error([one["static_total"] for one in trainings], trainings[0]["static_day"])


def _mean(values: Array) -> float:
    """Mean over the orders that are not void."""
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
