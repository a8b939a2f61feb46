"""The documented agent: updates start at a ratio of 1, it learns, repeats, refuses in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.toy_worlds import CheapHalf
from se_rl.rl.advantages import stream_advantages
from se_rl.rl.policy_file import PolicyFileError
from se_rl.rl.ppo_agent import PPOAgent, PPOConfig
from se_rl.rl.rollout import Diverged
from se_rl.rl.trainer import TrainConfig, Training

STATE = np.zeros(4, np.float32)
FAST = PPOConfig(actor_lr=5e-3, critic_lr=1e-2, minibatches=2, ppo_epochs=6)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def weights(agent: PPOAgent) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1).clone() for p in agent.policy.parameters()])


def bandit(
    agent: PPOAgent, *, updates: int, unit: float = 1.0, pulls: int = 64
) -> list[dict[str, float]]:
    """Episodes of one step that earn most at an action of 0.3."""
    stats = []
    for _ in range(updates):
        for _ in range(pulls):
            action, log_prob, value = agent.select_action(STATE)
            agent.store_transition(
                STATE, action, -unit * float(np.sum((action - 0.3) ** 2)), True, log_prob, value
            )
        stats.append(agent.update())
    return stats


def test_the_documented_snippet_works() -> None:
    config = PPOConfig(
        actor_lr=3e-4, critic_lr=1e-3, gamma=0.99, gae_lambda=0.95, clip_epsilon=0.2, ppo_epochs=10
    )
    agent, state = PPOAgent(state_dim=32, action_dim=1, config=config), np.ones(32)
    before = weights(agent)
    for step in range(8):
        action, log_prob, value = agent.select_action(state)
        assert action.shape == (1,) and 0.0 <= action[0] <= 1.0 and isinstance(log_prob, float)
        agent.store_transition(state, action, float(step), step == 7, log_prob, value)
    stats = agent.update()
    assert {"policy_loss", "value_loss", "kl", "entropy"} <= set(stats) and all(
        map(np.isfinite, stats.values())
    )
    assert not torch.equal(before, weights(agent))


@pytest.mark.parametrize("action_dim", [1, 3])
def test_the_first_ratio_is_one(action_dim: int) -> None:
    agent = PPOAgent(4, action_dim, FAST)
    stats = bandit(agent, updates=4)
    assert all(abs(row["first_ratio_error"]) < 1e-6 for row in stats)


def test_the_first_ratio_would_show_a_wrong_density() -> None:
    agent = PPOAgent(4, 3, FAST)
    shapes = []

    def crooked(mean: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        shapes.append(tuple(mean.shape))
        return -0.5 * (outputs - mean).square().sum(-1) + 0.01 * len(
            shapes
        )  # another one at every call

    agent.policy.log_prob = crooked  # type: ignore[method-assign]
    for _ in range(4):
        action = np.full(3, 0.4)
        agent.store_transition(STATE, action, 0.0, True, 0.0, 0.0)
    assert agent.update()["first_ratio_error"] > 1e-3 and shapes


@pytest.mark.parametrize("action_dim", [1, 3])
def test_log_prob_is_the_density_of_the_action_itself(action_dim: int) -> None:
    agent = PPOAgent(4, action_dim, FAST)
    action, log_prob, _ = agent.select_action(STATE)
    mean = agent.policy(torch.zeros((1, 1, 4)))[0].detach()
    normal = torch.distributions.Normal(mean, torch.exp(agent.policy.log_std.detach()))
    squashed = torch.distributions.TransformedDistribution(
        normal, [torch.distributions.SigmoidTransform()]
    )
    assert log_prob == pytest.approx(
        float(squashed.log_prob(torch.as_tensor(action)).sum()), abs=1e-4
    )


@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_it_learns_a_bandit_in_any_unit(unit: float) -> None:
    agent = PPOAgent(4, 1, FAST)
    first = agent.select_action(STATE, deterministic=True)[0][0]
    stats = bandit(agent, updates=14, unit=unit)
    last = agent.select_action(STATE, deterministic=True)[0][0]
    assert abs(first - 0.5) < 0.05 and abs(last - 0.3) < 0.06
    assert stats[-1]["mean_reward"] > 0.6 * stats[0]["mean_reward"]


def test_values_follow_rewards_that_come_in_large_units() -> None:
    agent = PPOAgent(4, 1, FAST)
    for _ in range(12):
        for _ in range(16):
            agent.store_transition(STATE, [0.5], 10.0, True, 0.0, 0.0)
        agent.update()
    assert agent.select_action(STATE)[2] > 7.0


@given(count=st.integers(1, 9), minibatches=st.integers(1, 6))
@settings(max_examples=20, deadline=None)
def test_any_number_of_transitions_makes_an_update(count: int, minibatches: int) -> None:
    agent = PPOAgent(2, 1, PPOConfig(minibatches=minibatches, ppo_epochs=2))
    for step in range(count):
        agent.store_transition([0.0, 1.0], [0.4], float(step), step == count - 1, 0.0, 0.0)
    before = weights(agent)
    assert all(map(np.isfinite, agent.update().values()))
    assert torch.isfinite(weights(agent)).all() and not torch.equal(before, weights(agent))


def test_an_update_forgets_what_it_learned_from() -> None:
    agent = PPOAgent(4, 1, FAST)
    bandit(agent, updates=1, pulls=4)
    with pytest.raises(ValueError, match="nothing was stored"):
        agent.update()


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    def run(seed: int) -> torch.Tensor:
        agent = PPOAgent(4, 2, PPOConfig(seed=seed, ppo_epochs=2))
        bandit(agent, updates=2, pulls=16)
        return weights(agent)

    torch.manual_seed(11)
    one = run(3)
    torch.manual_seed(12)  # the global state is neither used
    drawn = torch.rand(1)
    assert torch.equal(one, run(3)) and not torch.equal(one, run(4))
    torch.manual_seed(12)
    assert torch.equal(drawn, torch.rand(1))


def test_the_global_random_state_is_not_moved() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    bandit(PPOAgent(4, 1, FAST), updates=1, pulls=4)
    assert torch.equal(torch.rand(3), expected)


def test_a_saved_agent_acts_the_same(tmp_path: Path) -> None:
    agent, other = PPOAgent(4, 3, FAST), PPOAgent(4, 3, PPOConfig(seed=9))
    bandit(agent, updates=1, pulls=16)
    agent.save(tmp_path / "agent.policy")
    other.load(str(tmp_path / "agent.policy"))
    assert torch.equal(weights(agent), weights(other))
    ours, theirs = (one.select_action(STATE, deterministic=True) for one in (agent, other))
    assert np.array_equal(ours[0], theirs[0]) and ours[1:] == theirs[1:]
    before = weights(other)
    bandit(other, updates=1, pulls=16)  # what was loaded is what learns
    assert not torch.equal(before, weights(other))
    with pytest.raises(PolicyFileError, match="action_dim 3, not 1"):
        PPOAgent(4, 1).load(tmp_path / "agent.policy")


def test_bad_shapes_and_numbers_are_refused_in_one_line() -> None:
    agent = PPOAgent(4, 2)
    good = {
        "state": STATE,
        "action": [0.1, 0.2],
        "reward": 0.0,
        "done": True,
        "log_prob": 0.0,
        "value": 0.0,
    }
    for name, value, words in (
        ("state", np.zeros(5), r"state has shape \(5,\), expected \(4,\)"),
        ("action", [0.1], r"action has shape \(1,\), expected \(2,\)"),
        ("reward", np.nan, "not finite"),
        ("value", np.inf, "not finite"),
        ("action", [0.1, np.nan], "action"),
        ("action", [0.1, 1.5], "action"),
        ("state", [0.0, 0.0, 0.0, np.nan], "state"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            agent.store_transition(**{**good, name: value})
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="nothing was stored"):
        agent.update()
    with pytest.raises(ValueError, match="state has shape"):
        agent.select_action(np.zeros((2, 4)))


@pytest.mark.parametrize(
    "setting",
    [
        {"actor_lr": 0.0},
        {"critic_lr": float("nan")},
        {"gamma": 1.1},
        {"gae_lambda": -0.1},
        {"clip_epsilon": 0.0},
        {"ppo_epochs": 0},
        {"minibatches": 0},
        {"minibatches": 1.5},
        {"exploration": -1.0},
    ],
)
def test_bad_settings_are_refused_in_one_line(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))) as caught:
        PPOConfig(**setting)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("state_dim", "action_dim"), [(0, 1), (4, 0)])
def test_agents_without_state_or_action_are_refused(state_dim: int, action_dim: int) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        PPOAgent(state_dim, action_dim)


@pytest.mark.parametrize("cut_off", [False, True])
def test_advantages_over_a_stream_equal_their_definition(cut_off: bool) -> None:
    g = torch.Generator().manual_seed(0)
    steps, gamma, lam = 2500, 0.99, 0.95  # longer than one matrix product sums
    rewards, values = torch.randn(steps, generator=g), torch.randn(steps, generator=g)
    done = torch.zeros(steps, dtype=torch.bool)
    done[[0, 3, 40, 41]] = True
    done[-1] = not cut_off
    expected, running = torch.empty(steps, dtype=torch.float64), 0.0
    for t in range(steps - 1, -1, -1):
        goes_on = 0.0 if done[t] else 1.0
        following = float(values[min(t + 1, steps - 1)]) * goes_on
        delta = float(rewards[t]) + gamma * following - float(values[t])
        running = delta + gamma * lam * goes_on * running
        expected[t] = running
    found = stream_advantages(rewards, values, done, gamma=gamma, lam=lam)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


class Toy(CheapHalf):
    """A world for an agent of four numbers a state: what `CheapHalf` shows, and nothing."""

    observation_size = 4

    def observe(self) -> np.ndarray:
        return np.pad(super().observe(), ((0, 0), (0, 1)))


def test_the_trainer_trains_the_agent_with_the_weights_of_its_worlds() -> None:
    def learned(share: float) -> torch.Tensor:
        agent = PPOAgent(4, 1, PPOConfig(ppo_epochs=1, minibatches=1))
        config = TrainConfig(samples=64, anneal=False, initial_alpha=share)
        worlds = {"static": Toy(4), "dynamic": Toy(8)}
        [row] = Training(agent.learner(), worlds, config).learn(["joint"])
        assert set(row.losses) == {"static", "dynamic"}
        assert row.stats.kl < 1e-6  # one pass: the ratio was 1 throughout
        return weights(agent)

    assert not torch.equal(learned(0.9), learned(0.1)) and torch.equal(learned(0.5), learned(0.5))


def test_rewards_that_are_not_finite_end_learning_with_a_reason() -> None:
    class Broken(Toy):
        def earned(self, traded: np.ndarray) -> np.ndarray:
            return traded * np.nan

    agent = PPOAgent(4, 1, FAST)
    training = Training(agent.learner(), {"static": Broken()}, TrainConfig(samples=64))
    with pytest.raises(Diverged, match="not finite"):
        training.learn(["static"])
