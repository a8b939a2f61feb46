"""Batches that one kernel plays on history are those of the long way round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.costs import Costs
from se_rl.environments.mixed_world import MixedWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import World
from se_rl.modules.defaults import Modules, Network, TwoLayers
from se_rl.rl import rollout
from se_rl.rl.action_maps import Neutral, action_map_of
from se_rl.rl.history_rollout import HistoryPlayer
from se_rl.rl.policy import Policy
from se_rl.rl.rollout import Diverged, Rollout, collect

BARS = synthetic_market(SyntheticConfig(symbols=6, sessions=4))
OTHER_BARS = synthetic_market(SyntheticConfig(symbols=6, sessions=4, seed=5))


def world_of(*, costs: Costs | None = None, horizon: int = 30) -> StaticWorld:
    return StaticWorld(BARS, horizon=horizon, costs=costs or Costs())


def activated(name: str) -> type[nn.Module]:
    class Chain(nn.Module):
        action_scale = 1.5

        def __init__(self, obs_dim: int, history: int) -> None:
            super().__init__()
            self.feature_dim = 24
            self.first = nn.Linear(obs_dim, 40)
            self.second = nn.Linear(40, 24)

        def forward(self, obs: Tensor) -> Tensor:
            act: Any = getattr(torch, name, None) or getattr(nn.functional, name)
            return self.second(act(self.first(obs.flatten(1))))

    return Chain


def played(
    world: World, network: Any, *, orders: int = 24, neutral: Neutral | None = None
) -> Rollout:
    """A batch of a policy with bold outputs."""
    torch.set_num_threads(1)
    torch.manual_seed(3)
    modules = Modules(network=network)
    policy = Policy(modules, observation_size=world.observation_size, worlds=2)
    with torch.no_grad():
        policy.heads.weight.copy_(0.5 * torch.randn_like(policy.heads.weight))
    return collect(
        world,
        policy,
        action_map_of(modules),
        world.draw(np.random.default_rng(2), orders),
        generator=torch.Generator().manual_seed(1),
        neutral=neutral or Neutral(),
        device=torch.device("cpu"),
        place=1,
    )


def the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HistoryPlayer, "of", classmethod(lambda cls, *given: None))


def same(one: Rollout, other: Rollout) -> None:
    for name in ("observations", "outputs", "log_probs", "values", "fields"):
        mine, theirs = getattr(one, name), getattr(other, name)
        torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=2e-5, msg=name)
    assert one.values.abs().max() > 0.1 and one.fields.std() > 0.0


@pytest.mark.parametrize(
    "network",
    [Network, TwoLayers, *map(activated, ("tanh", "relu", "silu", "gelu", "elu"))],
)
def test_the_kernel_plays_what_the_policy_would(
    network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(costs=Costs(half_spread_bps=2.0, fee_bps=0.5))
    known = HistoryPlayer.of
    used: list[bool] = []

    def noted(*given: Any) -> HistoryPlayer | None:
        found = known(*given)
        used.append(found is not None)
        return found

    monkeypatch.setattr(HistoryPlayer, "of", noted)
    quick = played(world, network, neutral=Neutral(1.5))
    record = world.record()
    assert used == [True]
    the_long_way(monkeypatch)
    same(quick, played(world, network, neutral=Neutral(1.5)))
    again = world.record()
    np.testing.assert_allclose(record.leftover, again.leftover, atol=1e-9)


def test_inputs_of_bars_are_played_by_the_kernel_too(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("pressure_60", "drift", "pressure_5")
    world = world_of().showing(names)
    quick = played(world, Network)
    further = quick.observations[..., -3:]
    assert further[..., 0].std() > 0.1 and not further[..., 1].any()
    the_long_way(monkeypatch)
    same(quick, played(world, Network))


def test_real_and_imagined_orders_of_one_batch_each_meet_their_own_bars(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = StaticWorld(OTHER_BARS, horizon=30)
    mixed = MixedWorld([world_of(), other])
    quick = played(mixed, Network)
    the_long_way(monkeypatch)
    same(quick, played(mixed, Network))


@pytest.mark.parametrize(
    "costs", [Costs(max_participation=0.1), Costs(fills="limit_on_bars", max_participation=0.1)]
)
def test_worlds_that_may_refuse_shares_go_the_long_way(costs: Costs) -> None:
    world = world_of(costs=costs)
    policy = Policy(Modules(), observation_size=world.observation_size)
    fused = rollout.FusedPolicy.of(policy)
    assert HistoryPlayer.of(world, policy, action_map_of(Modules()), fused) is None
    assert HistoryPlayer.of(world_of(), policy, action_map_of(Modules()), fused) is not None


def test_outputs_that_are_not_finite_end_the_training() -> None:
    world = world_of()
    policy = Policy(Modules(), observation_size=world.observation_size)
    with torch.no_grad():
        policy.heads.bias.fill_(float("nan"))
    with pytest.raises(Diverged, match="not finite at step 0"):
        collect(
            world,
            policy,
            action_map_of(Modules()),
            world.draw(np.random.default_rng(2), 4),
            generator=torch.Generator().manual_seed(1),
            neutral=Neutral(),
            device=torch.device("cpu"),
        )
