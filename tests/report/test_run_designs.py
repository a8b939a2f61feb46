"""What a run's archive says of its designs: how they ended, what they gained, how they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_fixture import BEST, make_run

from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, Candidate, Evaluation, design_id
from se_rl.report.run_designs import judge, read_run, side_by_side

DEFAULT_ID = design_id({})


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("ended"))


def candidate(**more: Any) -> Candidate:
    return replace(Candidate("abc", {"reward": "0"}, "tweak", ("start",), "reward", 1), **more)


def trained(rung: int, *, reason: str = "") -> Evaluation:
    return Evaluation("abc", rung, 0, "failed" if reason else "ok", reason)


@pytest.mark.parametrize(
    ("made", "own", "gains", "told"),
    [
        (candidate(operator=DEFAULT), [trained(0), trained(1)], {}, ("default", 0.0, 1, "")),
        (candidate(twin="def"), [], {}, ("repeat", None, -1, "repeats def")),
        (candidate(reason="syntax"), [], {}, ("not valid", None, -1, "syntax")),
        (candidate(), [], {}, ("waiting", None, -1, "dropped")),
        (candidate(), [trained(0)], {0: 0.5}, ("scored", 0.5, 0, "dropped")),
        (candidate(), [trained(0), trained(1)], {0: 9.0, 1: 0.3}, ("scored", 0.3, 1, "dropped")),
        (
            candidate(),
            [trained(0), trained(1, reason="nan")],
            {0: 0.5},
            ("training failed", None, -1, "nan"),
        ),
    ],
)
def test_a_design_is_judged_at_the_highest_rung(
    made: Candidate,
    own: Sequence[Evaluation],
    gains: dict[int, float],
    told: tuple[str, float | None, int, str],
) -> None:
    estimates = {rung: {"mean": mean, "se": 0.1} for rung, mean in gains.items()}
    found = judge(1, made, own, gains=estimates, dropped="dropped")
    assert (found.state, found.gain, found.rung, found.reason) == told


def test_the_gain_is_the_paired_difference_to_the_default(ended: Path) -> None:
    with Archive.open(ended / "archive.sqlite", read_only=True) as archive:
        run = read_run(archive, None)
        means = [
            [e.scores["static"] for e in archive.evaluations(name) if e.rung == 2]
            for name in (run.best, DEFAULT_ID)
        ]
    best = run.designs[BEST]
    assert best.rung == 2 and best.gain == pytest.approx(
        fmean(means[0]) - fmean(means[1])
    )  # both worlds gain alike here
    assert best.se is not None and 0 < best.se < 0.1


LINES = st.lists(st.sampled_from(["", "a", "b = 1", "    return x", "</script>"]), max_size=12)


@given(LINES, LINES)
def test_a_diff_holds_both_texts(left: list[str], right: list[str]) -> None:
    rows = list(side_by_side("\n".join(left), "\n".join(right)))
    assert [old for _, old, _ in rows if old is not None] == "\n".join(left).splitlines()
    assert [new for _, _, new in rows if new is not None] == "\n".join(right).splitlines()
    assert all(old == new for kind, old, new in rows if kind == "same")
