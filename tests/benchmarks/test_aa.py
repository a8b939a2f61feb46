"""The A/A benchmark: coverage on trainings whose truth is known, and the whole command in small."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from se_rl.scoring.score import Array, ScoreRule
from se_rl_benchmarks import aa_test

RULE = ScoreRule({"static": 0.5, "dynamic": 0.5}, 0.02)


def bank(n: int, *, luck: float) -> list[dict[str, Array]]:
    rng = np.random.default_rng(0)
    days = np.arange(40.0)
    market = rng.normal(0, 5, 40)
    trainings = []
    for _ in range(n):
        level = rng.normal(0, luck)
        specific = level + rng.normal(0, 0.8, 40)
        trainings.append(
            {
                "static": specific,
                "static_total": specific + market * rng.normal(1, 0.1),
                "static_day": days,
                "dynamic": rng.normal(level, 2, 180),
                "dynamic_cell": np.arange(180.0) % 9,
            }
        )
    return trainings


@pytest.mark.parametrize("luck", [0.1, 0.4])
def test_coverage_of_a_bank(luck: float) -> None:
    found = aa_test.coverage(bank(40, luck=luck), RULE, seeds=5, comparisons=200)
    assert found.covered > 0.9 and found.spread == pytest.approx(found.stated, rel=0.25)
    assert "| intervals that cover 0, % |" in aa_test.table(found)


def test_too_few_trainings() -> None:
    with pytest.raises(ValueError, match="3 trainings are too few for two groups of 2; train more"):
        aa_test.coverage(bank(3, luck=0.1), RULE, seeds=2, comparisons=5)


def test_a_bank_is_read_in_the_order_of_seeds(tmp_path: Path) -> None:
    for seed in (10, 2):
        np.savez(tmp_path / f"training_{seed:04d}.npz", static=np.array([float(seed)]))
    assert [float(one["static"][0]) for one in aa_test.read_bank(tmp_path)] == [2.0, 10.0]
    assert json.dumps(vars(aa_test.coverage(bank(4, luck=0.1), RULE, seeds=2, comparisons=3)))
