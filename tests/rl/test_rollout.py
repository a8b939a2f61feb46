"""Rollouts repeat bit for bit; the hindsight baseline removes noise and bends no gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rl.toy_worlds import CheapHalf
from se_rl.modules.defaults import Modules, Network
from se_rl.rl.advantages import advantages, subtract_hindsight_baseline
from se_rl.rl.policy import ActionMap, Neutral, Policy
from se_rl.rl.rollout import Diverged, Rollout, collect

NAMES = (
    "no_order_mid",
    "no_order_mid_before",
    "news",
    "inventory_left",
    "traded_share",
    "twap_inventory_left",
    "twap_traded_share",
    "fill_price",
)
STEPS = 8


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def walk(orders: int, *, seed: int, edge: float = 0.0) -> tuple[Rollout, Tensor]:
    """Orders on a random walk, their sizes TWAP's times one plus noise; and the noise, the action.

    `edge` is what one share more than TWAP's earns by itself in the first half, and loses in the
    second.
    """
    g = torch.Generator().manual_seed(seed)
    moves, noise = (
        1e-3 * torch.randn((STEPS, orders), generator=g),
        torch.randn((STEPS, orders), generator=g),
    )
    after = 1.0 + moves.cumsum(0)
    before = after - moves
    left, traded = torch.empty((2, STEPS, orders))
    have = torch.ones(orders)
    for t in range(STEPS):
        ratio = (
            torch.ones(orders)
            if t == STEPS - 1
            else ((1.0 + 0.3 * noise[t]) / (STEPS - t)).clamp(0.0, 1.0)
        )
        traded[t] = have * ratio
        have = left[t] = have - traded[t]
    sign = torch.where(torch.arange(STEPS) < STEPS // 2, 1.0, -1.0)[:, None]
    twap_left = (1.0 - (torch.arange(STEPS) + 1) / STEPS)[:, None].expand(STEPS, orders)
    twap_traded = torch.full((STEPS, orders), 1.0 / STEPS)
    fields = torch.stack(
        [after, before, moves, left, traded, twap_left, twap_traded, before + edge * sign]
    )
    zeros = torch.zeros((STEPS, orders))
    kept = torch.ones(orders, dtype=torch.bool)
    played = Rollout(
        torch.zeros((STEPS, orders, 1)), zeros[..., None], zeros, zeros, fields, NAMES, kept
    )
    return played, noise


def marked(step: Any) -> Tensor:
    """What was sold above the last price, and what the price did to the rest; nothing older."""
    move = step.no_order_mid - step.no_order_mid_before
    return (
        step.traded_share * (step.fill_price - step.no_order_mid_before)
        + step.inventory_left * move
    )


def estimates_of(played: Rollout) -> Tensor:
    return advantages(played.rewards(marked, bound=1.0), played.values, gamma=1.0, lam=1.0)


def slopes(estimates: Tensor, noise: Tensor) -> Tensor:
    """The gradient of each order by each step's mean: advantage times score [step - 1, order].

    The last step trades everything whatever the action.
    """
    return ((estimates - estimates.mean()) * noise)[:-1]


def test_hindsight_explains_most_of_the_variance_on_a_random_walk() -> None:
    played, noise = walk(4000, seed=0)
    raw = estimates_of(played)
    calm = subtract_hindsight_baseline(raw, played, discount=1.0)
    assert calm.var() < raw.var() / 2
    assert slopes(calm, noise).var() < slopes(raw, noise).var() / 2


def test_the_gradients_mean_stays() -> None:
    played, noise = walk(40_000, seed=1, edge=5e-4)
    raw = estimates_of(played)
    one, two = (
        slopes(raw, noise),
        slopes(subtract_hindsight_baseline(raw, played, discount=1.0), noise),
    )
    error = (two - one).std(dim=1) / played.values.shape[1] ** 0.5
    assert ((two - one).mean(dim=1).abs() < 4.0 * error).all()
    calm_error = two.std(dim=1) / played.values.shape[1] ** 0.5
    assert (
        two.mean(dim=1)[: STEPS // 2] > 4.0 * calm_error[: STEPS // 2]
    ).all()  # and there is a gradient to keep


def test_worlds_without_the_fields_are_left_as_they_are() -> None:
    played, _ = walk(16, seed=0)
    fewer = Rollout(
        played.observations,
        played.outputs,
        played.log_probs,
        played.values,
        played.fields[1:],
        NAMES[1:],
        played.kept,
    )
    raw = estimates_of(played)
    assert subtract_hindsight_baseline(raw, fewer, discount=1.0) is raw


def test_broken_orders_neither_count_nor_change() -> None:
    played, _ = walk(200, seed=2)
    raw = estimates_of(played)
    spoilt, kept = raw.clone(), played.kept.clone()
    spoilt[:, :50], kept[:50] = 1e6, False
    broken = Rollout(
        played.observations,
        played.outputs,
        played.log_probs,
        played.values,
        played.fields,
        NAMES,
        kept,
    )
    calm = subtract_hindsight_baseline(spoilt, broken, discount=1.0)
    assert (calm[:, :50] == 1e6).all()
    rest = Rollout(
        played.observations[:, 50:],
        played.outputs[:, 50:],
        played.log_probs[:, 50:],
        played.values[:, 50:],
        played.fields[:, :, 50:],
        NAMES,
        played.kept[50:],
    )
    torch.testing.assert_close(
        calm[:, 50:], subtract_hindsight_baseline(raw[:, 50:], rest, discount=1.0)
    )


def test_the_input_is_not_written_to() -> None:
    played, _ = walk(50, seed=3)
    raw = estimates_of(played)
    before = raw.clone()
    subtract_hindsight_baseline(raw, played, discount=0.9)
    assert torch.equal(raw, before)


def rolled(seed: int, *, exploration: float | None = None) -> Rollout:
    torch.manual_seed(0)
    policy = Policy(Modules(), observation_size=3, actions=1)
    if exploration is not None:
        with torch.no_grad():
            policy.log_std.fill_(np.log(exploration))
    return played_by(policy, seed)


def played_by(policy: Policy, seed: int) -> Rollout:
    world = CheapHalf()
    return collect(
        world,
        policy,
        ActionMap(),
        world.draw(np.random.default_rng(7), 32),
        generator=torch.Generator().manual_seed(seed),
        neutral=Neutral(),
        device=torch.device("cpu"),
    )


def test_the_same_generator_gives_the_same_bits() -> None:
    one, two, other = rolled(1), rolled(1), rolled(2)
    for name in ("observations", "outputs", "log_probs", "values", "fields"):
        assert torch.equal(getattr(one, name), getattr(two, name))
    assert not torch.equal(one.outputs, other.outputs)


def test_what_is_kept_is_what_happened() -> None:
    played = rolled(1, exploration=0.5)
    assert played.observations.shape == (8, 32, 3) and played.outputs.shape == (8, 32, 1)
    torch.manual_seed(0)
    policy = Policy(Modules(), observation_size=3, actions=1)
    with torch.no_grad():
        policy.log_std.fill_(np.log(0.5))
        mean, values, _ = policy(played.observations[3][:, None])
        torch.testing.assert_close(policy.log_prob(mean, played.outputs[3]), played.log_probs[3])
        torch.testing.assert_close(values, played.values[3])
    left = played.observations[
        :, :, 1
    ]  # the inventory before each step, and what the ratio did to it
    for t in range(7):
        ratio = ActionMap().ratio(played.outputs[t, :, 0], steps_left=8 - t, neutral=Neutral())
        torch.testing.assert_close(left[t + 1], left[t] * (1 - ratio), rtol=1e-4, atol=1e-6)


def test_windows_are_answered_as_the_module_answers_them() -> None:
    class Remembering(Network):
        history = 3

    torch.manual_seed(0)
    policy = Policy(Modules(network=Remembering), observation_size=3, actions=1)
    with torch.no_grad():
        policy.heads.weight.normal_()
        played = played_by(policy, 1)
        mean, values, _ = policy(played.windows_at(5, history=3))
        torch.testing.assert_close(policy.log_prob(mean, played.outputs[5]), played.log_probs[5])
    torch.testing.assert_close(values, played.values[5])


def test_an_output_that_is_not_finite_ends_the_rollout() -> None:
    with pytest.raises(Diverged, match="not finite at step 0"):
        rolled(1, exploration=np.nan)


def test_the_whole_return_less_the_value_is_the_advantage_at_lambda_one() -> None:
    g = torch.Generator().manual_seed(0)
    rewards, values = torch.randn((6, 5), generator=g), torch.randn((6, 5), generator=g)
    returns = rewards.flip(0).cumsum(0).flip(0)
    torch.testing.assert_close(advantages(rewards, values, gamma=1.0, lam=1.0), returns - values)
    following = torch.cat([values[1:], torch.zeros((1, 5))])
    torch.testing.assert_close(
        advantages(rewards, values, gamma=0.9, lam=0.0), rewards + 0.9 * following - values
    )
