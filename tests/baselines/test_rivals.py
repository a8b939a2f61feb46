"""Each rival where its idea must win; what they share is right by itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from baselines.rival_worlds import (
    NoisyDrift,
    PricedMarket,
    SignalMarket,
    TidalMarket,
    earned_by,
)
from se_rl.baselines.registry import modules_of
from se_rl.baselines.rivals import (
    double_dqn,
    hybrid_price,
    macro_micro,
    oracle_distillation,
)
from se_rl.baselines.rivals.choices import ChoiceGrid, ChoiceNetwork, rival_policy
from se_rl.baselines.rivals.learning import RivalRules, RivalTraining, train_by_ppo
from se_rl.baselines.rivals.macro_micro import INTERVAL, HierarchyNetwork
from se_rl.baselines.rivals.play import future_of
from se_rl.baselines.rivals.replay import PrioritisedReplay, TargetNetwork, Transitions, n_step
from se_rl.config import ConfigError
from se_rl.modules.defaults import Network
from se_rl.rl.trainer import Trained

NOTHING = 1e-9
"""A budget for one batch."""


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def trained(how, world, *, budget: float, seed: int = 0) -> Trained:
    return how(
        {"static": world},
        budget=budget,
        seed=seed,
        neutral={},
        rules=RivalRules(reward=lambda step: step.reward),
    )


def flat_ppo(worlds, **options) -> Trained:
    """PPO with the same choices and layers, without any of the rivals' ideas."""
    return train_by_ppo(RivalTraining(ChoiceNetwork, worlds, **options))


def test_double_dqn_comes_close_to_dynamic_programming_on_a_small_exact_market() -> None:
    world = SignalMarket(5)
    best = world.optimum()
    first = earned_by(trained(double_dqn.train, world, budget=NOTHING), world, orders=20_000)
    after = earned_by(trained(double_dqn.train, world, budget=1.5), world, orders=20_000)
    assert first < after < best + 0.01 and after - first > 0.8 * (best - first)


@pytest.mark.parametrize("how", [double_dqn.train, oracle_distillation.train])
def test_a_rival_learns_at_several_horizons_at_once(how) -> None:
    worlds = (NoisyDrift(6), NoisyDrift(5))
    trained(how, worlds, budget=0.3)
    assert all(world.t == world.horizon for world in worlds), "both were played to the end"


def test_a_student_of_the_future_learns_what_rewards_alone_hide() -> None:
    world = NoisyDrift(8)
    gains = []
    for seed in (2, 3):
        taught = trained(oracle_distillation.train, world, budget=1.0, seed=seed)
        alone = trained(flat_ppo, world, budget=1.0, seed=seed)
        gains.append((world.expected(taught), world.expected(alone)))
    taught_mean, alone_mean = np.mean(gains, axis=0)
    assert taught_mean > alone_mean + 0.02 and taught_mean > 0.02


def test_a_scope_that_moves_finds_limits_beyond_every_fixed_grid() -> None:
    world = PricedMarket(8)
    hybrid = earned_by(trained(hybrid_price.train, world, budget=1.5), world)
    fixed = earned_by(trained(flat_ppo, world, budget=0.7), world)
    assert fixed <= 0.4 + 1e-6  # two of five ticks are all that a grid of two reaches
    assert hybrid > 0.8


def test_a_volume_that_holds_uses_what_only_the_first_step_shows() -> None:
    world = TidalMarket(3 * INTERVAL)
    hierarchy = earned_by(trained(macro_micro.train, world, budget=1.2), world)
    flat = earned_by(trained(flat_ppo, world, budget=1.2), world)
    assert hierarchy > 0.15 and hierarchy > flat + 0.1


@pytest.mark.parametrize("name", ["DDQN", "OPD", "HALOP", "MacMic"])
def test_a_rival_that_knows_nothing_is_the_neutral_schedule_and_has_a_stored_form(name) -> None:
    factory = modules_of(name, actions=2).network
    policy = rival_policy(factory.network, observation_size=32, actions=2)
    outputs, value, _ = policy(torch.randn(6, policy.history, 32))
    assert outputs.tolist() == [[pytest.approx(0.0, abs=1e-3), 0.0]] * 6
    assert value.tolist() == [0.0] * 6
    with pytest.raises(ConfigError, match="known are DDQN"):
        modules_of("AlphaFold", actions=2)


def test_choices_blend_shares_and_quote_the_likeliest_price() -> None:
    choices = ChoiceGrid(2)
    logits = torch.full((1, len(choices)), -30.0)
    # once the slice at -1 tick, twice the slice at -1 and at +2 ticks
    for choice, chance in ((1, 0.5), (4 * 5 + 1, 0.2), (4 * 5 + 4, 0.3)):
        logits[0, choice] = np.log(chance)
    outputs = choices.blended(logits)
    assert outputs[0, 0].exp().item() == pytest.approx(0.5 * 1.0 + 0.5 * 2.0, rel=1e-4)
    assert outputs[0, 1].item() == -0.5  # one tick towards the other side, two ticks a unit


def test_n_step_returns_end_with_the_order_and_before_what_was_explored() -> None:
    rewards = torch.tensor([[1.0], [2.0], [4.0], [8.0], [16.0]])
    explored = torch.tensor([[True], [False], [False], [True], [False]])
    seen = torch.arange(5.0)[:, None, None]
    found = n_step(seen, torch.zeros(5, 1), rewards, explored, steps=3, gamma=0.5)
    assert found.returned.tolist() == [1 + 1 + 1, 2 + 2, 4.0, 8 + 8, 16.0]
    assert found.later[:3, 0].tolist() == [3.0, 3.0, 3.0]
    assert found.discount.tolist() == [0.125, 0.25, 0.5, 0.0, 0.0]


def test_what_is_decided_after_an_order_is_over_is_left_out() -> None:
    rewards = torch.tensor([[1.0, 1.0], [2.0, 2.0], [0.0, 4.0]])
    live = torch.tensor([[True, True], [True, True], [False, True]])
    seen = torch.arange(6.0).view(3, 2, 1)
    explored = torch.zeros(3, 2, dtype=torch.bool)
    found = n_step(seen, torch.zeros(3, 2), rewards, explored, live=live, steps=2)
    assert found.seen[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 5.0]
    assert found.returned.tolist() == [3.0, 3.0, 2.0, 6.0, 4.0]
    assert found.discount.tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_replay_draws_by_priority_weighs_against_it_and_forgets_the_oldest() -> None:
    replay = PrioritisedReplay(4, 1, alpha=1.0, beta=1.0)
    numbers = torch.arange(6.0)
    replay.add(_numbered(numbers[:4]))
    replay.note(torch.arange(4), torch.tensor([1.0, 1.0, 2.0, 0.0]))
    places, drawn, weight = replay.draw(20_000, torch.Generator().manual_seed(0))
    share = torch.bincount(places, minlength=4) / 20_000
    torch.testing.assert_close(share, torch.tensor([0.25, 0.25, 0.5, 0.0]), atol=0.02, rtol=0)
    assert (drawn.seen[:, 0] == places).all()
    ratio = weight[places == 0][0] / weight[places == 2][0]
    assert ratio.item() == pytest.approx(2.0, rel=1e-2)
    replay.add(_numbered(numbers[4:]))
    kept = replay.draw(500, torch.Generator().manual_seed(0))[1].seen[:, 0]
    assert set(kept.tolist()) <= {2.0, 3.0, 4.0, 5.0} and {4.0, 5.0} <= set(kept.tolist())
    with pytest.raises(ValueError, match="do not fit"):
        replay.add(_numbered(numbers))


def _numbered(numbers: torch.Tensor) -> Transitions:
    return Transitions(
        numbers[:, None], torch.zeros(len(numbers)).long(), numbers, numbers[:, None], numbers
    )


def test_a_target_follows_its_network_by_its_rate() -> None:
    network, copy = Network(2, 1), Network(2, 1)
    target = TargetNetwork(network, copy, rate=0.25)
    before = copy.first.weight.clone()
    with torch.no_grad():
        network.first.weight += 1.0
    target.follow()
    torch.testing.assert_close(copy.first.weight, before + 0.25)
    assert not copy.first.weight.requires_grad


def test_the_future_is_what_comes_and_never_what_was() -> None:
    path = torch.tensor([0.0, 1.0, 3.0, 2.0])[:, None]
    seen = future_of(path, 1.0)[:, 0]  # [step, number]
    assert seen[0].tolist() == [1.0, 3.0, 2.0, 2.0, 2.0, 2.0, 3.0, 1.0]
    assert seen[2].tolist() == [-1.0] * 8
    other = path.clone()
    other[0] = 9.0
    torch.testing.assert_close(future_of(other, 1.0)[1:], future_of(path, 1.0)[1:])


def test_an_interval_is_counted_from_the_observation() -> None:
    world = TidalMarket(3 * INTERVAL)
    network = HierarchyNetwork(world.observation_size, 1)
    observation = world.reset(world.draw(np.random.default_rng(0), 2))
    fields = np.zeros((1, 2), np.float32)
    ages = []
    for _ in range(world.horizon):
        ages.append(int(network.steps_into(torch.from_numpy(observation)[:, None])[0]))
        observation = world.step(np.full(2, 0.1), None, fields)
    assert ages == list(range(INTERVAL)) * 3
    assert HierarchyNetwork.history == INTERVAL


def test_a_rival_learns_in_one_world() -> None:
    with pytest.raises(ValueError, match="one world"):
        RivalTraining(
            ChoiceNetwork,
            {"static": SignalMarket(5), "dynamic": SignalMarket(5)},
            budget=1.0,
            seed=0,
            neutral={},
        )
