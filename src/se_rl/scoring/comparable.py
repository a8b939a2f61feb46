"""Which runs may stand side by side: each once, on the same data, with a score by test day."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from se_rl.config import ConfigError
from se_rl.records.results import OURS, STRONG, RunResults
from se_rl.records.results_file import read_results
from se_rl.records.run_folder import RunFolder


def comparable_results(places: Sequence[Path]) -> list[RunResults]:
    """The results of finished runs; refused where they cannot be compared."""
    _refuse_twice(places)
    results = [read_results(RunFolder(place).results) for place in places]
    _require_same_data(results, places)
    _require_scores(results, places)
    return results


def _refuse_twice(places: Sequence[Path]) -> None:
    seen = set()
    for place in places:
        if place.resolve() in seen:
            raise ConfigError(f"{place} is given twice; a run counts once")
        seen.add(place.resolve())


def _require_same_data(results: Sequence[RunResults], places: Sequence[Path]) -> None:
    for run, place in zip(results, places, strict=True):
        if not _is_same_data(run, results[0]):
            raise ConfigError(
                f"{place} used other data than {places[0]}; compare runs on the same data"
            )


def _require_scores(results: Sequence[RunResults], places: Sequence[Path]) -> None:
    for run, place in zip(results, places, strict=True):
        if OURS not in run.score_by_day or STRONG not in run.score_by_day:
            raise ConfigError(
                f"{place} has no score by test day: an older se-rl made it; "
                "compare runs that this one made"
            )


def _is_same_data(run: RunResults, other: RunResults) -> bool:
    """Whether two runs used the same data; synthetic sets may differ by the seal of later days."""
    one, two = run.data, other.data
    if one.sha256 == two.sha256:  # one file, but its days may be split in two ways
        return (one.train_sha256, one.test_days) == (two.train_sha256, two.test_days)
    if not (one.synthetic and two.synthetic and one.train_sha256):
        return False
    return one.train_sha256 == two.train_sha256 and run.seal.text != other.seal.text
