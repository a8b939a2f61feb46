"""Scores once more: what may be replayed, and what may be scored by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_run import DATA, make_data, tiny_config

from se_rl.config import ConfigError, dump_yaml
from se_rl.core.by_hand import score_by_hand
from se_rl.core.replay import accepted, replay, train_again
from se_rl.records.archive import Archive
from se_rl.records.entries import Candidate, Evaluation, design_id
from se_rl.records.fraud import FraudCheck
from se_rl.records.jobs import TrainingJob
from se_rl.records.settings import RunConfig


@pytest.mark.parametrize(
    ("changes", "equal"),
    [
        ({}, True),
        ({"arrays": "other"}, False),
        ({"policy": "other"}, False),
        ({"status": "failed"}, False),
        ({"seconds": 9.0, "attempts": 2}, True),
    ],
)
def test_what_is_not_the_same_again_is_told(
    changes: dict[str, Any], equal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("se_rl.core.replay.check_design", lambda *_: FraudCheck(""))
    stored = [
        Evaluation("ab", rung, 0, "ok", arrays="a", policy="p", isolation="strong")
        for rung in (0, 1)
    ]
    said: list[str] = []

    class TrainingPool:
        def evaluate(
            self, jobs: list[TrainingJob]
        ) -> Iterator[tuple[TrainingJob, Evaluation, bool]]:
            for job in reversed(jobs):
                yield (
                    job,
                    replace(stored[job.rung.index], **(changes if job.rung.index else {})),
                    False,
                )

    run: Any = SimpleNamespace(
        training_pool=TrainingPool(), config=RunConfig(worlds="dynamic"), say=said.append
    )
    found = train_again(run, Candidate("ab", {}, "draft"), stored)
    assert [row.equal for row in found.evaluations] == [True, equal] and found.equal == equal
    assert found.isolation == "strong" and found.future_blind
    assert said[-1] == f"rung 1, seed 0: {'the same bits' if equal else 'DIFFERENT'}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of four designs: the default, one that raced, one that was screened, and one that failed."""
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path))
    make_data(tmp_path)
    (tmp_path / "config.yaml").write_text(dump_yaml(tiny_config(worlds="static")))
    with Archive.open(tmp_path / "archive.sqlite") as archive:
        archive.append("seal", "seal", {"text": "tiny", "origin": "given"})
        archive.append(
            "run_started", "run_started", {"data": {"sha256": "of other bars"}, "code_hash": "c"}
        )
        parent = Candidate(design_id({}), {}, "default")
        for name, rungs in {"": (0, 1, 2), "ab1": (0, 1), "ab2": (0,), "cd": (0, 1)}.items():
            design = Candidate(
                name or parent.id, {}, "draft" if name else "default", (parent.id,) if name else ()
            )
            archive.add_candidate(design, {})
            for rung in rungs:
                failed = name == "cd" and rung == 1
                done = Evaluation(
                    design.id, rung, 0, "failed" if failed else "ok", "nan" if failed else ""
                )
                archive.add_evaluation(done, key=f"{name} {rung}")
    return tmp_path


def test_accepted_designs_were_trained_longer(place: Path, tmp_path: Path) -> None:
    default = design_id({})
    assert accepted(place) == [default, "ab1"] == accepted(place, rung=0) == accepted(place, rung=1)
    assert accepted(place, rung=2) == [default]
    empty = tmp_path / "empty"
    empty.mkdir()
    with Archive.open(empty / "archive.sqlite"):
        (empty / "config.yaml").write_text(dump_yaml(tiny_config()))
    with pytest.raises(
        ConfigError,
        match="empty holds no design that was trained after its screen; let `se-rl run`",
    ):
        accepted(empty)


@pytest.mark.parametrize(
    ("designs", "rung", "words"),
    [
        (["xy"], None, "xy"),
        (["ab"], None, "ab"),
        (["ab1", "xy"], None, "xy"),
        (["ab2"], 2, "design ab2 was not trained at rung 2; se-rl show lists the rungs"),
        (["ab1"], None, f"the data {DATA} is not what the run used"),
    ],
)
def test_what_cannot_be_replayed(
    place: Path, designs: list[str], rung: int | None, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as told:
        replay(place, designs, rung=rung)
    assert "\n" not in str(told.value)


def test_what_cannot_be_scored(place: Path, tmp_path: Path) -> None:
    bytes_file, good, bad = (tmp_path / f"{name}.py" for name in ("binary", "good", "bad"))
    bytes_file.write_bytes(b"\xff\xfe\x00")
    bad.write_text("import os\n")
    good.write_text("def reward(step):\n    return step.traded_share\n")
    for file, words in (
        (tmp_path / "nowhere.py", "nowhere.py cannot be read"),
        (tmp_path, "cannot be read"),
        (bytes_file, "binary.py cannot be read"),
        (bad, r"bad.py is no valid reward \(static\): line 1: "),
        (good, f"the data {DATA} is not what the run used"),
    ):
        with pytest.raises(ConfigError, match=words) as told:
            score_by_hand(place, {"reward": file})
        assert "\n" not in str(told.value)
    with Archive.open(place / "archive.sqlite", read_only=True) as archive:
        assert len(archive.candidates()) == 4, "what is refused leaves no trace"
    with pytest.raises(ConfigError, match="blobs holds no run"):
        score_by_hand(place / "blobs", {"reward": good})
