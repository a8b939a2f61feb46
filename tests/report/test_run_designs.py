"""What a run's archive says of its designs: how they ended, what they gained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_fixture import BEST, SE, make_run

from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, Candidate, Evaluation, StoredStanding
from se_rl.report.run_designs import design_of, read_run


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("ended"))


def candidate(**more: Any) -> Candidate:
    return replace(Candidate("abc", {"reward": "0"}, "tweak", ("start",), "reward", 1), **more)


def trained(rung: int, *, reason: str = "") -> Evaluation:
    return Evaluation("abc", rung, 0, "failed" if reason else "ok", reason)


def standing(rung: int, score: float) -> StoredStanding:
    return StoredStanding("abc", rung, 1, score, 0.1, (score - 0.2, score + 0.2), (score,), {})


@pytest.mark.parametrize(
    ("made", "own", "at", "told"),
    [
        (candidate(operator=DEFAULT), [trained(0)], standing(1, 0.0), ("default", 0.0, 1, "")),
        (candidate(twin="def"), [], None, ("repeat", None, -1, "repeats def")),
        (candidate(reason="syntax"), [], None, ("not valid", None, -1, "syntax")),
        (candidate(), [], None, ("waiting", None, -1, "dropped")),
        (candidate(), [trained(0)], standing(0, 0.5), ("scored", 0.5, 0, "dropped")),
        (candidate(), [trained(0), trained(1)], standing(1, 0.3), ("scored", 0.3, 1, "dropped")),
        (
            candidate(),
            [trained(0), trained(1, reason="nan")],
            standing(0, 0.5),
            ("training failed", None, -1, "nan"),
        ),
    ],
)
def test_how_a_design_ended(
    made: Candidate,
    own: Sequence[Evaluation],
    at: StoredStanding | None,
    told: tuple[str, float | None, int, str],
) -> None:
    found = design_of(1, made, evaluations=own, standing=at, dropped="dropped")
    assert (found.state, found.gain, found.rung, found.reason) == told


def test_a_design_shows_its_stored_standing_at_the_highest_rung(ended: Path) -> None:
    with Archive.open(ended / "archive.sqlite", read_only=True) as archive:
        run = read_run(archive, None)
        stored = archive.standings()[run.best, 2]
    best = run.designs[BEST]
    assert best.standing == stored and (best.gain, best.se, best.rung) == (stored.score, SE, 2)
