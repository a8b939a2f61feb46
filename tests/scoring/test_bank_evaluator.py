"""Pretended trainings: as good as the surrogate says, as noisy as the bank was, and repeatable."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from se_rl.modules.design_bank.surrogate import LAST, SEARCH
from se_rl.records.entries import Candidate
from se_rl.records.jobs import TrainingJob
from se_rl.records.settings import preset
from se_rl.scoring.bank_evaluator import PRETENDED, BankEvaluator, PretendedTrainings
from se_rl.scoring.score import ScoreRule
from se_rl.scoring.standing import GUESS
from se_rl.scoring.trainings import Trainings

sys.path.append(str(Path(__file__).resolve().parents[1] / "modules"))
BANK = import_module("tiny_bank").tiny_bank(80, luck=0.1)
CONFIG = preset("standard")
PRETEND = PretendedTrainings(BANK, CONFIG.weights)
SOURCES = next(one.design.sources for one in BANK.designs if one.design.kind == "edit")
DESIGNS = {"default": {}, "design": SOURCES}


def evaluator(chance: int = 0) -> BankEvaluator:
    return BankEvaluator(PRETEND, lambda candidate: DESIGNS[candidate.id], chance)


def jobs(seeds: range) -> list[TrainingJob]:
    made = []
    for name in DESIGNS:
        for seed in seeds:
            made.append(TrainingJob(Candidate(name, {}, "edit"), CONFIG.rungs.search, seed))
    return made


def test_readings_follow_from_design_level_seed_and_chance() -> None:
    first = PRETEND.reading("design", SOURCES, SEARCH, 3)
    again = PRETEND.reading("design", SOURCES, SEARCH, 3)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    for other in (
        PRETEND.reading("design", SOURCES, SEARCH, 4),
        PRETEND.reading("design", SOURCES, LAST, 3),
        PRETEND.reading("design", SOURCES, SEARCH, 3, chance=1),
    ):
        assert not np.array_equal(first["static"], other["static"])


def test_their_mean_is_what_the_surrogate_expects() -> None:
    history, simulated = PRETEND.gains("design", SOURCES, LAST)
    assert (history, simulated) != (0.0, 0.0)
    found = []
    for chance in range(400):
        reading = PRETEND.reading("design", SOURCES, LAST, 0, chance=chance)
        found.append([reading["static"].mean(), reading["dynamic"].mean()])
    spread = np.hypot(PRETEND.luck.history, PRETEND.order_error)
    assert np.mean(found, axis=0) == pytest.approx([history, simulated], abs=4 * spread / 20)
    assert np.std(found, axis=0)[0] == pytest.approx(spread, rel=0.2)
    assert PRETEND.gains("default", {}, LAST) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_readings_without_luck_are_what_the_surrogate_expects() -> None:
    quiet = PretendedTrainings(BANK, CONFIG.weights, luck=0.0)
    reading = quiet.reading("design", SOURCES, LAST, 3)
    history, simulated = quiet.gains("design", SOURCES, LAST)
    assert reading["static"] == pytest.approx(history)
    assert reading["dynamic"] == pytest.approx(simulated)
    half = PretendedTrainings(BANK, CONFIG.weights, luck=0.5)
    assert half.order_error == pytest.approx(PRETEND.order_error / 2)
    assert half.luck.history == pytest.approx(PRETEND.luck.history / 2)


def test_a_standing_has_the_errors_that_the_bank_measured() -> None:
    rule = ScoreRule.of(CONFIG)
    errors, spreads = [], []
    for chance in range(40):
        pretended = evaluator(chance)
        trainings = Trainings(pretended, CONFIG.rungs, rule)
        for job, evaluation, stored in pretended.evaluate(jobs(range(3))):
            assert evaluation.ok and evaluation.isolation == PRETENDED and not stored
            trainings.add(job, evaluation)
        one = trainings.compare("design", "default", CONFIG.rungs.search, GUESS)
        assert one is not None and one.seeds == 3
        errors.append(one.order_se**2)
        spreads.append(np.var(one.by_seed, ddof=1))
    assert np.sqrt(np.mean(errors)) == pytest.approx(0.05, rel=0.2)  # as in the tiny bank
    # the luck of a design and that of the default
    usual = 2.0**0.5 * PRETEND.luck.of_score(CONFIG.weights)
    assert np.sqrt(np.mean(spreads)) == pytest.approx(usual, rel=0.25)
