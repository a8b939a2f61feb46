"""No fraud of the corpus scores on a martingale, ends the parent, or acts unseen by the fraud check.

Every control is played, and a sample of the rest: all of it with SE_RL_FRAUDS=1 in the environment,
SE_RL_DRAWN_DESIGNS well-behaved designs. `python benchmarks/frauds.py` prints the whole table.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from frauds import ALL, CORPUS
from frauds.campaign import ERRORS, ONE, SEVERAL, attacked, checked, control, martingale, verdict
from frauds.effects import alike, effect
from frauds.fraud import Fraud
from frauds.opening import opened
from frauds.simulated import attacked_simulated, verdict_simulated
from frauds.well_behaved import single, talking

WHOLE = bool(os.environ.get("SE_RL_FRAUDS"))
PLAYED = ALL if WHOLE else ALL[::6]
SLOW = ALL if WHOLE else ALL[::24]
DRAWN = int(os.environ.get("SE_RL_DRAWN_DESIGNS", "3"))
NAMED = (
    "shift: roll",
    "batch: batch mean",
    "small: a tenth",
    "memory: global",
    "past: count of calls",
    "hears: neighbouring book",
    "forged: memory in numpy",
)
"""Frauds whose actions change in the play that counts, each in another way."""


def _name(fraud: Fraud) -> str:
    return fraud.name


def test_the_corpus_is_as_large_as_it_must_be() -> None:
    assert len(ALL) >= 120
    assert sum(bool(fraud.control) for fraud in ALL) >= 40


@pytest.mark.parametrize("fraud", [fraud for fraud in ALL if fraud.control], ids=_name)
def test_the_fraud_earns_where_nothing_stops_it(fraud: Fraud) -> None:
    assert control(fraud).errors > 2.0 * ERRORS


@pytest.mark.parametrize("fraud", PLAYED, ids=_name)
def test_no_fraud_scores_with_several_windows_a_day(fraud: Fraud) -> None:
    outcome = attacked(fraud, SEVERAL)
    assert not outcome.succeeded, outcome


@pytest.mark.parametrize("fraud", SLOW, ids=_name)
def test_no_fraud_scores_with_one_window_a_day(fraud: Fraud) -> None:
    outcome = attacked(fraud, ONE)
    assert not outcome.succeeded, outcome


@pytest.mark.parametrize("fraud", SLOW, ids=_name)
def test_no_fraud_gains_by_other_orders_in_simulated_markets(fraud: Fraud) -> None:
    outcome = attacked_simulated(fraud)
    assert not outcome.succeeded, outcome


@pytest.mark.parametrize("name", ["shift: roll", "batch: batch rank", "past: count of calls"])
def test_the_check_needs_no_history(name: str) -> None:
    assert verdict_simulated(CORPUS[name]) == "acts on other orders"


@pytest.mark.parametrize(
    "name",
    ["only: large batches", "hides: at the shorter horizon alone", "hides: on large orders alone"],
)
def test_a_fraud_that_waits_for_some_orders_meets_them_in_the_check(name: str) -> None:
    assert verdict(CORPUS[name]) == "acts on other orders"


def test_one_idea_in_other_code_counts_once() -> None:
    same = ("shift: roll", "shift: convolution over rows")
    found = alike(CORPUS[name] for name in (*same, "batch: batch mean", "memory: global"))
    assert found == [list(same), ["batch: batch mean"], ["memory: global"]]
    if WHOLE:
        assert len({effect(fraud) for fraud in ALL}) >= 120


@pytest.mark.parametrize("name", NAMED)
def test_the_check_says_what_a_fraud_does(name: str) -> None:
    fraud = CORPUS[name]
    verdict = checked(opened(fraud), agents=fraud.agents)
    assert "own row" in verdict.reason or "martingale" in verdict.reason


def test_weights_that_hold_a_panel_are_worth_nothing_on_another_one() -> None:
    fraud = CORPUS["weights hold: every call"]
    own = martingale(SEVERAL, seed=5)
    verdict = checked(opened(fraud, own))
    assert not verdict.passed  # it counts its calls
    assert control(fraud).mean > 5.0


@pytest.mark.parametrize("seed", range(DRAWN))
def test_the_check_lets_well_behaved_designs_pass(seed: int) -> None:
    verdict = checked(single(seed))
    assert verdict.passed, verdict
    if seed % 3 == 0:
        verdict = checked(talking(seed), agents=2)
        assert verdict.passed, verdict
