"""Snapshots: the best weights on held-back orders are kept, cheaply, and only if surely better."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.modules.defaults import Modules
from se_rl.rl.held_back import ALLOWANCE, CHECKS, Judge, Marks, Snapshot, best_of, day_variance
from se_rl.rl.trainer import TrainConfig, Training

DATA = synthetic_market(SyntheticConfig(symbols=6, sessions=6))
TRAIN = StaticWorld(DATA, horizon=20, dates=DATA.dates[:4])
LATER = StaticWorld(DATA, horizon=20, dates=DATA.dates[4:])
CONFIG = TrainConfig(budget=0.6, samples=1024)


def snapshot(name: str, gains: list[float], risk: float = 0.0) -> Snapshot:
    marks = Marks({"static": np.array(gains)}, {"static": risk})
    return Snapshot({name: torch.zeros(1)}, marks)


def test_an_earlier_snapshot_is_kept_only_where_it_is_surely_better() -> None:
    last = snapshot("last", [1.0, 2.0, 3.0, 4.0])
    surely = snapshot("surely", [2.0, 3.1, 4.0, 4.9])
    luckily = snapshot("luckily", [9.0, -5.0, 3.1, 4.0])
    assert best_of([luckily, last]) is last
    assert best_of([surely, luckily, last]) is surely
    assert best_of([snapshot("risky", [2.0, 3.1, 4.0, 4.9], risk=3.0), last]) is last


@given(common=st.floats(0.0, 20.0), own=st.floats(0.0, 20.0), seed=st.integers(0, 99))
def test_the_variance_of_a_day_is_what_its_orders_share(
    common: float, own: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(400), 5)
    gain = common * rng.standard_normal(400)[day] + own * rng.standard_normal(len(day))
    scale = common**2 + own**2 / 5
    assert abs(day_variance(gain, day) - common**2) <= 0.45 * scale + 1e-9


def test_one_order_a_day_shows_no_risk() -> None:
    assert day_variance(np.array([3.0, -3.0]), np.array([0, 1])) == 0.0


def test_a_training_keeps_what_did_best_and_pays_for_finding_out() -> None:
    training = Training.of_design(
        Modules(), {"static": TRAIN}, CONFIG, seed=1, held_back={"static": (LATER,)}
    )
    trained = training.run()
    judged = [row for row in trained.curve if not math.isnan(row.held_back)]
    assert len(judged) == len(CHECKS) and trained.curve[-1] is judged[-1]
    best = best_of(training.judge._snapshots)
    for name, value in trained.policy.state_dict().items():
        assert torch.equal(value, best.weights[name])
    plain = Training.of_design(Modules(), {"static": TRAIN}, CONFIG, seed=1).run()
    updates = len(plain.curve) - len(trained.curve)
    assert 0 <= updates <= 1 + math.ceil(ALLOWANCE * len(plain.curve))


def test_a_budget_too_small_to_judge_is_spent_on_learning() -> None:
    config = TrainConfig(budget=0.004, samples=256)
    trained = Training.of_design(
        Modules(), {"static": TRAIN}, config, held_back={"static": (LATER,)}
    ).run()
    assert trained.reason is None
    assert all(math.isnan(row.held_back) for row in trained.curve)


def test_orders_are_the_same_for_all_policies_and_differ_by_seed() -> None:
    def orders(seed: int) -> np.ndarray:
        judge = Judge({"static": (LATER,)}, budget=1.0, neutral={}, risk=0.02, seed=seed)
        assert judge._draw({"static": 1e-6})
        return judge._plays[0][2].orders.row

    assert np.array_equal(orders(1), orders(1)) and not np.array_equal(orders(1), orders(2))


@pytest.mark.parametrize("cost", [1e-6, 1.1e-6, 1.3e-6, 1.7e-6])
def test_agents_that_talk_are_judged_in_whole_groups_on_history_too(cost: float) -> None:
    """A policy of four agents hears its neighbours there: a part of a group could not talk."""
    books = DynamicWorld(horizon=10, agents=4, sizes=(0.01, 0.3), takes_price=True, bank=16)
    judge = Judge(
        {"static": (LATER,), "dynamic": (books,)}, budget=1.0, neutral={}, risk=0.02, seed=1
    )
    assert judge._draw({"static": cost, "dynamic": cost})
    assert all(len(episodes) % 8 == 0 for _, _, episodes in judge._plays)
