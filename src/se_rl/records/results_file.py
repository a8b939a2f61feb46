"""results.json: written once a run has ended, and read back as a record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from se_rl.bounded_reading import MOST_JSON_BYTES, plain_json, read_regular
from se_rl.config import ConfigError
from se_rl.records.files import to_json, write_text
from se_rl.records.plain import RecordError, from_plain, to_plain
from se_rl.records.results import RESULTS_VERSION, RunResults

NEEDED = frozenset(
    (
        "config",
        "data",
        "by_day",
        "final_metrics",
        "finalists",
        "learning",
        "designs",
        "dynamic",
        "seeds",
        "llm",
    )
)
"""What results of a run have and those of other commands do not."""

MOST_DAYS = 10_000
"""Test days of a run; tests draw whole samples of them many times over."""


class NoResults(ConfigError):
    """There are no results to read: the run has not ended, or its file is lost or damaged."""


def write_results(path: Path, results: RunResults) -> None:
    """Write the file, whole or not at all."""
    write_text(path, to_json(to_plain(results)))


def read_results(path: Path) -> RunResults:
    """The results in this file; what cannot be read is said in one line."""
    try:
        raw = plain_json(read_regular(path, most_bytes=MOST_JSON_BYTES))
    except FileNotFoundError:
        if not path.parent.exists():
            raise NoResults(
                f"there is no folder {path.parent}; give that of a finished run, "
                "as made by `se-rl run --out`"
            ) from None
        raise NoResults(
            f"{path.parent} has no {path.name}: the run has not finished; finish it with the same "
            "`se-rl run` command"
        ) from None
    except OSError as error:
        raise NoResults(
            f"{path} cannot be read: {error.strerror}; give the folder of a run"
        ) from None
    except ValueError:
        raise NoResults(
            f"{path} is damaged; run the same `se-rl run` command again, which writes it anew"
        ) from None
    if not isinstance(raw, dict) or not set(raw) >= NEEDED:
        raise ConfigError(
            f"{path} holds no results of a run; give the folder of one, "
            "as made by `se-rl run --out`"
        )
    return results_of(raw, path=path)


def results_of(raw: Mapping[str, Any], *, path: Path) -> RunResults:
    """The record in parsed JSON; an unknown version is refused."""
    version = raw.get("schema_version", RESULTS_VERSION)
    if version != RESULTS_VERSION:
        raise ConfigError(
            f"{path} has schema_version {version!r}, and this se-rl reads {RESULTS_VERSION}; "
            "use the se-rl that wrote it, or update this one"
        )
    try:
        found = from_plain(RunResults, raw)
        for name, days in found.by_day.items():
            if len(days) > MOST_DAYS:
                raise RecordError(f"by_day.{name} has more than {MOST_DAYS} days")
        return found
    except RecordError as error:
        raise NoResults(
            f"{path} is damaged ({error}); run the same `se-rl run` command again, "
            "which writes it anew"
        ) from None
