"""Imitation starts side by side: differences are paired, and none is not held against itself."""

from __future__ import annotations

import numpy as np
import pytest

from se_rl.scoring.score import ScoreRule, Scores
from se_rl_benchmarks.starts import page, row_of

DAYS, PAIRS = 10, 4
RULE = ScoreRule({"static": 0.5, "dynamic": 0.5}, 0.0)


def scores(seed: int, *, history: float, simulated: float) -> Scores:
    """Gains around these means; luck is that of the seed, whatever the start."""
    rng = np.random.default_rng(seed)
    luck = rng.normal(size=DAYS * PAIRS)
    return {
        "static": history + luck,
        "static_total": history + luck,
        "static_day": np.repeat(np.arange(DAYS), PAIRS).astype(float),
        "dynamic": simulated + rng.normal(size=30),
        "dynamic_cell": np.zeros(30),
    }


def test_a_start_is_held_against_none_by_seed_and_order() -> None:
    base = [scores(seed, history=0.5, simulated=4.0) for seed in range(3)]
    own = [scores(seed, history=0.7, simulated=3.0) for seed in range(3)]
    row = row_of("ridge", own, base, RULE)
    assert row.seeds == 3
    assert row.over_none == pytest.approx((-0.4, -0.4, -0.4)), "the same luck is no error"
    assert row.history_over_none[0] == pytest.approx(0.2)
    assert row.simulated_over_none[0] == pytest.approx(-1.0)
    facts = {"set": "bars", "seeds": 3, "work": 4.2, "days": DAYS}
    text = page([row_of("none", base, base, RULE), row], facts)
    assert "| ridge |" in text and "-0.40 [-0.40, -0.40]" in text
    assert text.splitlines()[-2].count("[") == 0, "none is not held against itself"
