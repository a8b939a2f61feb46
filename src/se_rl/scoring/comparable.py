"""Which runs may stand side by side: each once, with a score by test day or the default kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from se_rl.config import ConfigError
from se_rl.records.results import OURS, PRETENDED_SEARCH, STRONG, RunResults
from se_rl.records.results_file import read_results
from se_rl.records.run_folder import RunFolder

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
"""Settings that must be equal for a fair comparison of groups."""


def comparable_results(places: Sequence[Path]) -> list[RunResults]:
    """The results of finished runs; refused where they cannot be compared."""
    _refuse_twice(places)
    results = [read_results(RunFolder(place).results) for place in places]
    _require_scores(results, places)
    return results


def _refuse_twice(places: Sequence[Path]) -> None:
    seen = set()
    for place in places:
        if place.resolve() in seen:
            raise ConfigError(f"{place} is given twice; a run counts once")
        seen.add(place.resolve())


def _require_scores(results: Sequence[RunResults], places: Sequence[Path]) -> None:
    for run, place in zip(results, places, strict=True):
        if run.outcome == PRETENDED_SEARCH:
            raise ConfigError(f"{place} is {PRETENDED_SEARCH}; compare runs that trained designs")
        if run.is_accepted and not {OURS, STRONG} <= set(run.score_by_day):
            raise ConfigError(
                f"{place} has no score by test day: an older se-rl made it; "
                "compare runs that this one made"
            )


def have_equal_budgets(results: Sequence[RunResults]) -> bool:
    """Whether all runs may try and train as much."""
    budgets = {tuple(str(run.config[key]) for key in BUDGET) for run in results}
    return len(budgets) == 1
