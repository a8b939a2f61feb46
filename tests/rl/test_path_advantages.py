"""Advantages by derivative are what trying out every action would find."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.costs import Costs
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import FIELD_NAMES, World
from se_rl.market.family import free_kinds
from se_rl.modules.defaults import Modules, Network, Reward, naive_reward, reward
from se_rl.rl.path_advantages import path_advantages
from se_rl.rl.trainer import TrainConfig, Training, train
from se_rl.scoring.execution import execute

STEPS = 6
ORDERS = 5
DATA = synthetic_market(SyntheticConfig(symbols=6, sessions=4, seed=3))


def bold(step: object) -> Tensor:
    """Gain over TWAP with a squared term, losses counting double."""
    value = reward(step) - 0.2 * (step.inventory_left - step.time_left).square()  # type: ignore[attr-defined]
    return torch.where(value < 0.0, 2.0 * value, value)


def played(outputs: Tensor) -> Tensor:
    """Fields [field, step, order] of orders that trade the logistic function of these outputs."""
    steps, orders = outputs.shape
    g = torch.Generator().manual_seed(7)
    fields = torch.zeros((len(FIELD_NAMES), steps, orders), dtype=outputs.dtype)
    moves = 1e-3 * torch.randn((steps, orders), generator=g, dtype=outputs.dtype)
    news = 1e-3 * torch.randn((steps, orders), generator=g, dtype=outputs.dtype)
    held = torch.ones(orders, dtype=outputs.dtype)
    traded, left = [], []
    for t in range(steps):
        share = torch.ones_like(held) if t == steps - 1 else torch.sigmoid(outputs[t])
        traded.append(share * held)
        held = (1.0 - share) * held
        left.append(held)
    after = 1.0 + moves.cumsum(0)
    even = 1.0 - (torch.arange(steps, dtype=outputs.dtype)[:, None] + 1.0) / steps
    named = {
        "traded_share": torch.stack(traded),
        "inventory_left": torch.stack(left),
        "no_order_mid": after,
        "no_order_mid_before": after - moves,
        "fill_price": after - 0.3 * moves,
        "news": news,
        "time_left": even.expand(steps, orders),
        "twap_traded_share": torch.full((steps, orders), 1.0 / steps, dtype=outputs.dtype),
        "twap_inventory_left": even.expand(steps, orders),
        "twap_fill_price": after - 0.3 * moves,
    }
    for name, column in named.items():
        fields[FIELD_NAMES.index(name)] = column
    return fields


@pytest.mark.parametrize("pay", [reward, naive_reward, bold])
def test_slopes_are_what_a_little_more_of_every_output_earns(pay: Reward) -> None:
    g = torch.Generator().manual_seed(1)
    outputs = torch.randn((STEPS, ORDERS), generator=g, dtype=torch.float64) - 1.0
    up = torch.ones_like(outputs)
    found = path_advantages(played(outputs), FIELD_NAMES, pay, up, discount=1.0)
    assert found is not None

    def total(of: Tensor) -> Tensor:
        named = dict(zip(FIELD_NAMES, played(of).flatten(1), strict=True))
        return pay(type("Step", (), named)).view(STEPS, ORDERS).sum(0)

    for step in range(STEPS):
        more = outputs.clone()
        more[step] += 1e-6
        less = outputs.clone()
        less[step] -= 1e-6
        tried = (total(more) - total(less)) / 2e-6
        torch.testing.assert_close(found[step], tried, atol=1e-8, rtol=1e-5)


def test_what_comes_later_counts_by_the_discount() -> None:
    outputs = torch.zeros((STEPS, ORDERS), dtype=torch.float64)
    fields = played(outputs)
    up = torch.ones_like(outputs)

    def first(discount: float) -> Tensor:
        found = path_advantages(fields, FIELD_NAMES, naive_reward, up, discount=discount)
        assert found is not None
        return found[0]

    # the naive reward pays traded * (price - 1): with no look ahead only the step's own price counts
    price = fields[FIELD_NAMES.index("fill_price")]
    torch.testing.assert_close(first(0.0), 0.25 * (price[0] - 1.0))
    later = torch.zeros(ORDERS, dtype=torch.float64)
    for step in range(STEPS - 1, 0, -1):
        share = 1.0 if step == STEPS - 1 else 0.5
        later = share * (price[step] - 1.0) + 0.7 * (1.0 - share) * later
    torch.testing.assert_close(first(0.7), 0.25 * (price[0] - 1.0 - 0.7 * later))


def test_an_output_on_the_wrong_side_of_its_mean_is_as_bad_as_the_other_is_good() -> None:
    fields = played(torch.zeros((STEPS, ORDERS)))
    noise = torch.linspace(-1.0, 1.0, STEPS * ORDERS).view(STEPS, ORDERS)
    one = path_advantages(fields, FIELD_NAMES, reward, noise, discount=0.8)
    other = path_advantages(fields, FIELD_NAMES, reward, -noise, discount=0.8)
    assert one is not None and other is not None and bool(one.any())
    assert torch.equal(one, -other)


@pytest.mark.parametrize(
    "pay",
    [
        lambda step: (step.traded_share * (step.fill_price - 1.0)).sign(),
        lambda step: (step.traded_share * (step.fill_price - 1.0)).detach(),
        lambda step: step.news * step.volatility,
        lambda step: (step.traded_share - step.traded_share).sqrt(),
    ],
)
def test_a_reward_without_a_derivative_is_learned_by_trial(pay: Reward) -> None:
    fields = played(torch.zeros((STEPS, ORDERS)))
    up = torch.ones((STEPS, ORDERS))
    assert path_advantages(fields, FIELD_NAMES, pay, up, discount=0.8) is None


def test_a_training_on_signs_still_learns() -> None:
    def signs(step: object) -> Tensor:
        gain = step.traded_share * (step.fill_price - step.no_order_mid_before)  # type: ignore[attr-defined]
        return gain.sign()

    world = StaticWorld(DATA, horizon=8)
    trained = train(Modules(reward=signs), {"static": world}, TrainConfig(budget=0.02, samples=512))
    assert trained.reason is None
    assert float(trained.policy.heads.weight.detach()[0].abs().max()) > 0.02


class Slices(Network):
    actions = "slices"


@pytest.mark.parametrize(
    ("world", "network", "known"),
    [
        (StaticWorld(DATA, horizon=8), Network, True),
        (StaticWorld(DATA, horizon=8, costs=Costs(half_spread_bps=1.0)), Network, True),
        (StaticWorld(DATA, horizon=8, costs=Costs(max_participation=0.1)), Network, False),
        (StaticWorld(DATA, horizon=8), Slices, False),
        (DynamicWorld(kinds=free_kinds()[:1], horizon=3, bank=16), Network, False),
    ],
)
def test_only_where_no_price_moves_with_us_is_the_noise_kept(
    world: World, network: type[Network], known: bool
) -> None:
    training = Training.of_design(
        Modules(network=network), {"static": world}, TrainConfig(samples=256)
    )
    learner = training.learner
    rollout = training.worlds["static"].play(learner.policy, learner.action_map)
    assert (rollout.noise is not None) == known
    if rollout.noise is None:
        return
    # the outputs less their means
    seen = rollout.observations.flatten(0, 1)[:, None]
    means = learner.policy.answer(seen, 0)[0][0].detach().view_as(rollout.noise)
    torch.testing.assert_close(rollout.noise, rollout.outputs[..., 0] - means, atol=1e-5, rtol=0.0)


def test_a_short_training_finds_what_reverts() -> None:
    """Twenty days with reversal: the policy earns more than TWAP on other days, whatever its seed."""
    data = synthetic_market(SyntheticConfig(symbols=40, sessions=28, seed=11))
    past = StaticWorld(data, horizon=60, dates=data.dates[:20])
    later = StaticWorld(data, horizon=60, dates=data.dates[20:])
    for seed in (0, 1):
        trained = train(
            Modules(),
            {"static": past},
            TrainConfig(budget=1.2),
            seed=seed,
        )
        orders = later.draw(np.random.default_rng(0), 2000)
        assert execute(later, trained.runner("static"), orders).over_twap().mean > 0.5
