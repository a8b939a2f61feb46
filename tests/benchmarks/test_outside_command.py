"""The trainings in others' markets: the whole command in small, and what its page says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from se_rl_benchmarks import outside_training
from se_rl_benchmarks.outside_training_page import LEARNERS, MarketFigures, TrainingRow


def test_markets_are_trained_once_and_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(outside_training, "TEST_EPISODES", 200)
    out = tmp_path / "page.md"
    wish = [
        "--market",
        "qrm",
        "cw-noise-20",
        "--work",
        "0.05",
        "--records",
        str(tmp_path / "kept.jsonl"),
    ]
    outside_training.main([*wish, "--out", str(out)])
    assert capsys.readouterr().out.count("... TrainingRow(") == 2
    outside_training.main(wish)
    again = capsys.readouterr().out
    assert "TrainingRow(" not in again and again == out.read_text() + "\n"
    queue, lots = json.loads(out.with_suffix(".json").read_text())["trainings"]
    assert (queue["actions"], lots["actions"]) == ("grid", "simplex")
    assert -2.0 < queue["mean"] < 0.0 and 0.0 <= queue["unfinished_share"] <= 1.0
    assert "- cw-noise-20: actions `simplex`" in again


def test_a_market_is_met_within_one_error_of_the_difference() -> None:
    def figures(*means: float) -> MarketFigures:
        row = TrainingRow("qrm", 0, (), "grid", 0.0, 0.003, 100, 0.0, 1, 1.0)
        return MarketFigures(tuple(TrainingRow(**vars(row) | {"mean": mean}) for mean in means))

    rival = LEARNERS["qrm"]
    assert figures(rival.mean - 0.005).meets(rival)
    assert not figures(rival.mean - 0.006).meets(rival)
    two = figures(-0.2, -0.21)
    assert two.mean == pytest.approx(-0.205)
    assert two.error == pytest.approx((0.005**2 + 0.003**2) ** 0.5)
