"""Imitation starts: what each teacher leaves in a policy before RL, and what that costs."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rl.toy_worlds import ToyWorld
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.static_world import StaticWorld
from se_rl.modules.defaults import Modules, Network
from se_rl.modules.errors import ModuleError
from se_rl.modules.kinds import KINDS
from se_rl.modules.kinds.network import check_attributes
from se_rl.modules.loading import load_design
from se_rl.rl.imitation import SHARE, StartTeacher, imitate
from se_rl.rl.learner import Learner
from se_rl.rl.policy import Neutral, PolicyRunner
from se_rl.rl.rollout import Diverged
from se_rl.rl.trainer import TrainConfig, Training, train
from se_rl.scoring.execution import execute

HORIZON = 20
ORDERS = 200


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@cache
def history() -> StaticWorld:
    return StaticWorld(
        synthetic_market(SyntheticConfig(symbols=8, sessions=5)), horizon=HORIZON, starts=[60, 200]
    )


def begun(start: str, *, budget: float, world=None, modules=None, neutral=None) -> tuple:
    """A training after its imitation start, and the work that this took."""
    training = Training.of_design(
        modules or Modules(),
        {"static": world or history()},
        TrainConfig(budget=budget, samples=2048, start=start),
        neutral={"static": neutral or Neutral()},
    )
    return training, imitate(training.learner, training.worlds, budget=budget, seed=0)


def traded(training: Training, world, episodes, *, neutral=None) -> tuple[np.ndarray, np.ndarray]:
    """Shares and limits [order, step] of the policy without noise on its own orders."""
    policy, action_map = training.learner.policy, training.learner.action_map
    runner = PolicyRunner(policy, action_map, neutral=neutral or Neutral())
    runner.start(len(episodes), world.horizon)
    observation = world.reset(episodes)
    fields = np.empty((len(world.field_names), len(episodes)), np.float32)
    left = np.ones(len(episodes))
    shares, limits = [], []
    for _ in range(world.horizon):
        ratio, offset = runner.act(observation)
        observation = world.step(ratio, offset if world.takes_price else None, fields)
        shares.append(left * ratio)
        limits.append(offset)
        left = left * (1.0 - ratio)
    return np.stack(shares, 1), np.stack(limits, 1)


def test_a_clone_of_the_ridge_trades_its_schedule_before_rl() -> None:
    """Most of what tilts the ridge can be seen: half of its tilts' variance at least."""
    training, _ = begun("ridge", budget=4.0)
    teacher = StartTeacher.of("ridge", (history(),), budget=4.0)
    episodes = history().draw(np.random.default_rng(5), ORDERS)
    assert teacher.plan is not None
    wanted = HORIZON * teacher.plan(episodes.orders)
    own = HORIZON * traded(training, history(), episodes)[0]
    untaught = HORIZON * traded(begun("none", budget=4.0)[0], history(), episodes)[0]
    tilts = np.square(wanted - 1.0).mean()
    assert np.square(own - wanted).mean() < tilts / 2.0
    assert np.square(untaught - wanted).mean() > 0.9 * tilts


def test_a_clone_of_foresight_beats_twap_on_its_own_train_episodes() -> None:
    training, _ = begun("foresight", budget=2.0)
    episodes = history().draw(np.random.default_rng(5), 1000)
    gain = execute(
        history(), PolicyRunner(training.learner.policy, training.learner.action_map), episodes
    ).over_twap()
    assert gain.mean > 4.0 * gain.se > 0.0


def test_foresight_is_the_best_schedule_of_bounded_slices() -> None:
    teacher = StartTeacher.of("foresight", (history(),), budget=1.0)
    assert teacher.plan is not None and teacher.work == 0.0
    orders = history().draw(np.random.default_rng(1), ORDERS).orders
    plan = teacher.plan(orders)
    price = orders.side[:, None] * orders.gather(history().data.price)
    np.testing.assert_allclose(plan.sum(1), 1.0)
    assert plan.min() >= 0.0 and plan.max() <= 3.0 / HORIZON + 1e-12
    cheapest = np.where(plan > 0.0, price, np.inf).min(1)
    dearest = np.where(plan < 3.0 / HORIZON - 1e-9, price, -np.inf).max(1)
    assert (dearest <= cheapest + 1e-9).all(), "no bar left out is better than one that is used"


class Priced(ToyWorld):
    """Orders have limits; nothing is earned."""

    takes_price = True

    def earned(self, shares: np.ndarray) -> np.ndarray:
        return np.zeros_like(shares)


class Hasty(Network):
    """An output of 0 trades twice the neutral slice."""

    action_zero = 2.0


@pytest.mark.parametrize("start", ["constant", "ridge"])
def test_a_constant_start_leaves_the_neutral_action(start: str) -> None:
    """Whatever the design's zero is; without bars there is no ridge, and its start is the same."""
    neutral = Neutral(0.5, 3.0)
    world = Priced(HORIZON)
    modules = Modules(network=Hasty)
    training, _ = begun(start, budget=1.5, world=world, modules=modules, neutral=neutral)
    episodes = world.draw(np.random.default_rng(0), ORDERS)
    shares, limits = traded(training, world, episodes, neutral=neutral)
    left = 1.0 - np.concatenate([np.zeros((ORDERS, 1)), shares.cumsum(1)[:, :-1]], 1)
    slices = shares[:, :-1] / left[:, :-1] * np.arange(HORIZON, 1, -1)
    np.testing.assert_allclose(slices, 0.5, atol=0.1)
    np.testing.assert_allclose(limits, 3.0, atol=0.2)


def test_the_start_counts_in_the_budget_and_is_the_same_again() -> None:
    budget = 0.3
    training, work = begun("foresight", budget=budget)
    assert SHARE * budget <= work < 2.0 * SHARE * budget
    plain, nothing = begun("none", budget=budget)
    assert nothing == 0.0
    value = training.learner.policy.heads.weight[1]
    assert torch.equal(value, plain.learner.policy.heads.weight[1]), "values are not taught"
    config = TrainConfig(budget=budget, samples=2048)
    trained = {}
    for start in ("none", "ridge", "foresight"):
        chosen = Modules(network=type("Chosen", (Network,), {"start": start}))
        trained[start] = train(chosen, {"static": history()}, config)
        assert trained[start].reason is None and trained[start].work >= budget
    assert trained["none"].curve[0].work < trained["foresight"].curve[0].work - work / 2.0
    assert trained["foresight"].curve[0].work < trained["ridge"].curve[0].work, "its plan counts"
    assert len(trained["foresight"].curve) < len(trained["none"].curve)
    again = train(
        Modules(),
        {"static": history()},
        TrainConfig(budget=budget, samples=2048, start="foresight"),
    )
    for own, other in zip(
        again.policy.parameters(), trained["foresight"].policy.parameters(), strict=True
    ):
        assert torch.equal(own, other), "a design's choice and a setting are one"


def test_a_teacher_that_the_budget_does_not_pay_for_is_a_reason() -> None:
    reason = train(Modules(), {"static": history()}, TrainConfig(budget=0.01, start="ridge")).reason
    assert reason is not None and "start 'ridge' takes 0.01 of a budget of 0.01" in reason
    with pytest.raises(Diverged):
        StartTeacher.of("ridge", (history(),), budget=0.01)


def test_an_unknown_start_is_refused_in_one_line() -> None:
    worlds = {"static": history()}
    config = TrainConfig(start="guru")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="start is 'guru'; use one of none, ridge, foresight"):
        Learner.of_design(Modules(), worlds, config, seed=0)
    chooses = type("Chooses", (Network,), {"actions": "slices"})
    settings = TrainConfig(start="ridge")
    assert Learner.of_design(Modules(network=chooses), worlds, settings, seed=0).start == "none"
    both = type("Both", (chooses,), {"start": "ridge"})
    with pytest.raises(ValueError, match="teachers trade ratios"):
        Learner.of_design(Modules(network=both), worlds, settings, seed=0)
    for wrong in ("guru", 3, None):
        with pytest.raises(ModuleError, match=r"start = .* is unknown; set one of none, ridge"):
            check_attributes(SimpleNamespace(start=wrong))
    source = (
        KINDS["network"]
        .contract.examples[0]
        .replace("    learning_rate", '    start = "ridge"\n    learning_rate')
    )
    assert load_design({"network": source}).network.start == "ridge"  # type: ignore[attr-defined]
