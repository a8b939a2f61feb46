"""The trainings in the queue-reactive market: the whole command in small."""

from __future__ import annotations

import json

import pytest

from se_rl_benchmarks import outside_training


def test_a_design_is_trained_and_tested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(outside_training, "TEST_EPISODES", 200)
    name = "all inputs, share of the queue"
    outside_training.main(["--work", "0.1", "--only", name, "--json"])
    (row,) = json.loads(capsys.readouterr().out)["trainings"]
    assert row["design"] == name and row["updates"] > 0
    assert -2.0 < row["mean"] < 0.0 and 0.0 <= row["unfinished_share"] <= 1.0
