"""Searches in memory against the surrogate: their curves, and that luck differs between them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from se_rl.modules.design_bank.storage import load_bank
from se_rl.records.settings import preset
from se_rl.scoring.bank_evaluator import PretendedTrainings
from se_rl_benchmarks.simulated_searches import SimulatedSearch, curve, main, search_once

CONFIG = preset("tiny", against="bank", iterations=2, siblings=3, seeds=(1, 1, 2))


@pytest.mark.parametrize("arm", ["local", "random", "best-of-n"])
def test_a_search_is_whole_and_repeatable(arm: str) -> None:
    trainings = PretendedTrainings(load_bank(), CONFIG.weights)
    config = replace(CONFIG, arm=arm)  # type: ignore[arg-type]
    found = search_once(trainings, config)
    assert found == search_once(trainings, config)
    assert found != search_once(trainings, replace(config, seed=1))
    assert len(found.leaders) == 2 and found.trainings >= 1 + 6
    assert max(0.0, found.best_tried) >= max(found.champion, *found.leaders)
    assert (found.champion == 0.0) == found.kept_default


def test_a_curve_is_the_mean_of_its_searches() -> None:
    one = SimulatedSearch("local", 10, (0.0, 0.2), 0.3, 0.4, False)
    other = SimulatedSearch("local", 20, (0.1,), -0.1, 0.0, True)
    found = curve([one, other], 6)
    assert found.leaders == pytest.approx((0.05, 0.15))
    assert (found.searches, found.trainings, found.kept_default) == (2, 15.0, 0.5)
    assert found.champion == pytest.approx(0.1) and found.best_tried == pytest.approx(0.2)


def test_page_and_twin_say_that_this_is_no_result(tmp_path: Path) -> None:
    words = ["--searches", "4", "--preset", "tiny", "--arms", "local", "random"]
    assert main([*words, "--workers", "1", "--out", str(tmp_path)]) == 0
    told = json.loads((tmp_path / "simulated_searches.json").read_text())
    assert told["arms"]["local"]["searches"] == 2 and told["searches"] == 4
    page = (tmp_path / "simulated_searches.md").read_text()
    assert "not a\nresult" in page and "| random | 2 |" in page
