"""Trainings on a device, many at once, are the trainings that the CPU gives one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.mixed_world import MixedWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.market.family import free_kinds
from se_rl.modules.defaults import Modules, Network, naive_reward
from se_rl.rl.on_device.device_update import BatchRow
from se_rl.rl.on_device.together import train_together
from se_rl.rl.policy import Neutral
from se_rl.rl.trained import Trained
from se_rl.rl.trainer import TrainConfig, train

DATA = synthetic_market(SyntheticConfig(symbols=3, sessions=4, seed=5))
STATIC = tuple(StaticWorld(DATA, horizon=horizon) for horizon in (8, 4))
DYNAMIC = DynamicWorld(kinds=free_kinds()[:1], horizon=3, bank=32, takes_price=True)
WORLDS = {"static": STATIC, "dynamic": DYNAMIC}
HELD_BACK = {"static": STATIC}
NEUTRAL = {"dynamic": Neutral(multiple=1.5, offset=1.0)}
CONFIG = TrainConfig(budget=0.035, samples=1024)


class Recurrent(nn.Module):
    """A network that remembers, and that torch cannot stack."""

    history = 3
    actions = "ratio"
    epochs = 2

    def __init__(self, obs_dim: int, history: int) -> None:
        super().__init__()
        self.feature_dim = 8
        self.memory = nn.GRU(obs_dim, 8, batch_first=True)

    def forward(self, obs: Tensor) -> Tensor:
        found: Tensor = self.memory(obs)[0][:, -1]
        return found


class Gated(Network):
    """A network that is no chain, and chooses slices."""

    actions = "slices"
    epochs = 1

    def forward(self, obs: Tensor) -> Tensor:
        return torch.sigmoid(obs[:, -1, :1]) * super().forward(obs)


def weights(trained: Trained) -> np.ndarray:
    parts = [p.detach().reshape(-1) for p in trained.policy.parameters()]
    return torch.cat(parts).numpy()


def test_many_at_once_are_what_they_are_one_by_one() -> None:
    networks = (Network, Recurrent, Gated)
    designs = (Modules(reward=naive_reward), *(Modules(network=network) for network in networks))
    seeds = (1, 2, 3, 4)
    options = {"neutral": NEUTRAL, "held_back": HELD_BACK}
    together = train_together(designs, WORLDS, CONFIG, seeds=seeds, device="cpu", **options)
    for modules, seed, found in zip(designs, seeds, together, strict=True):
        alone = train(modules, WORLDS, CONFIG, seed=seed, **options)
        assert found.reason is None and alone.reason is None
        assert [row.phase for row in found.curve] == [row.phase for row in alone.curve]
        assert {"static", "dynamic", "joint"} == {row.phase for row in found.curve}
        assert found.work == pytest.approx(alone.work, rel=1e-6)
        first, wanted = found.curve[0], alone.curve[0]
        assert first.rewards == pytest.approx(wanted.rewards, abs=1e-6)
        assert first.stats.as_dict() == pytest.approx(wanted.stats.as_dict(), abs=1e-4)
        assert np.isfinite([row.held_back for row in found.curve]).any()
        if modules.network is not Gated:  # a choice that falls otherwise once changes all after it
            assert np.abs(weights(found) - weights(alone)).max() < 2e-3
            assert found.curve[-1].held_back == pytest.approx(
                alone.curve[-1].held_back, abs=0.05, nan_ok=True
            )


def test_a_reward_with_kinks_is_learned_alike_until_rounding_has_grown() -> None:
    def kinked(step: Any) -> Tensor:
        away = (step.inventory_left - step.twap_inventory_left).abs()
        return step.traded_share * (step.fill_price - 1.0) - 2.0 * step.volatility * away

    config = TrainConfig(budget=0.01, samples=512)
    (found,) = train_together(
        (Modules(reward=kinked),), {"static": STATIC}, config, seeds=(1,), device="cpu"
    )
    alone = train(Modules(reward=kinked), {"static": STATIC}, config, seed=1)
    assert len(found.curve) == len(alone.curve) >= 6
    for row, wanted in zip(found.curve[:6], alone.curve, strict=False):
        assert row.stats.as_dict() == pytest.approx(wanted.stats.as_dict(), abs=2e-6, nan_ok=True)


def test_orders_in_broken_markets_teach_nothing() -> None:
    kind = free_kinds()[0]
    fragile = replace(
        kind.profile, noise_limit_rate=0.02, noise_market_rate=0.6, maker_levels=2, maker_lots=1
    )
    world = DynamicWorld(kinds=(replace(kind, profile=fragile),), horizon=6, bank=32)
    config = TrainConfig(budget=0.02, samples=384, copies=1)
    (found,) = train_together((Modules(),), {"dynamic": world}, config, seeds=(3,), device="cpu")
    alone = train(Modules(), {"dynamic": world}, config, seed=3)
    assert world.broken.any() and not world.broken.all()  # of the last batch
    assert np.abs(weights(found) - weights(alone)).max() < 2e-3


def test_samples_begin_again_where_another_policy_has_more() -> None:
    nothing = torch.zeros((2, 6, 1))
    row = BatchRow(nothing, nothing, [2, 2], [6, torch.tensor([0, 3, 5])], history=1, place=0)
    drawn = torch.zeros((2, 6), dtype=torch.int64)
    for i in range(2):
        row.shuffle(i, torch.Generator().manual_seed(1), drawn[i])
    assert sorted(drawn[0].tolist()) == list(range(6))
    assert drawn[1, :3].equal(drawn[1, 3:]) and sorted(drawn[1, :3].tolist()) == [0, 3, 5]


def test_the_same_seeds_give_the_same_bits() -> None:
    config = TrainConfig(budget=0.005, samples=256)
    runs = []
    for seeds in ((1, 2), (1, 2), (3, 2)):
        designs = [Modules()] * 2
        runs.append(train_together(designs, WORLDS, config, seeds=seeds, device="cpu"))
    first, again, other = ([weights(one) for one in run] for run in runs)
    assert all(map(np.array_equal, first, again))
    assert not np.array_equal(first[0], other[0])


def test_a_training_that_cannot_go_on_ends_alone() -> None:
    broken = Modules(reward=lambda step: step.fill_price / 0.0)
    config = TrainConfig(budget=0.005, samples=256)
    ended, other = train_together(
        (broken, Modules()), {"static": STATIC}, config, seeds=(1, 1), device="cpu"
    )
    assert ended.reason == "diverged after 0 updates: reward is not finite on a recorded step"
    assert other.reason is None and other.curve


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"device is 'cuda' and no CUDA device was found"):
        train_together((Modules(),), WORLDS, CONFIG, seeds=(1,))


def test_worlds_without_a_counterpart_are_refused() -> None:
    mixed = MixedWorld([STATIC[0], STATIC[0]])
    with pytest.raises(ValueError, match=r"static\+static world has no counterpart"):
        train_together((Modules(),), {"static": mixed}, CONFIG, seeds=(1,), device="cpu")
