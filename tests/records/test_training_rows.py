"""Stored trainings: the one that is shown, and the path of alpha in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from se_rl.records.entries import Evaluation
from se_rl.records.training_rows import WorldWeights, longest_training


def row(phase: str, work: float, alpha: float, *losses: float) -> dict[str, float | str]:
    numbers: dict[str, float | str] = {"phase": phase, "work": work, "alpha": alpha}
    return numbers | {f"loss_{place}": loss for place, loss in enumerate(losses)}


def test_the_path_of_alpha_is_that_of_the_joint_phase() -> None:
    rows = [
        row("static", 1.0, 0.5, 0.9),
        row("dynamic", 2.0, 0.5, 0.7),
        row("joint", 3.0, 0.52, 0.8, 0.4),
        row("joint", 4.0, 0.56, 0.0, 0.0),
    ]
    path = WorldWeights.of_rows(rows)
    assert path.work == (3.0, 4.0) and path.alpha == (0.52, 0.56)
    assert path.static_loss == (0.8, 0.0) and path.dynamic_loss == (0.4, 0.0)
    assert path.static_share == (pytest.approx(2 / 3), 0.5)
    assert WorldWeights.of_rows(rows[:2]) == WorldWeights()


def test_the_longest_training_is_the_first_seed_of_the_highest_rung() -> None:
    low = Evaluation(candidate="a", rung=0, seed=1, status="ok", curve="x")
    high = replace(low, rung=2, seed=7)
    first = replace(high, seed=3)
    failed = replace(high, seed=1, status="failed")
    without = replace(high, seed=2, curve="")
    assert longest_training([low, high, failed, first, without]) == first
    assert longest_training([failed, without]) is None
