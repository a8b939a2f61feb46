"""The default design as it was before risk entered the score, kept to compare with.

It runs in today's trainer: what is old is its reward, its network and its learning constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from se_rl.environments.worlds import NamedWorlds
from se_rl.modules.defaults import Modules
from se_rl.rl.policy import Neutral
from se_rl.rl.trainer import TrainConfig, Trained, train


def old_reward(step: Any) -> Tensor:
    """Gain over TWAP on the same episode, marked to the mid without our order, without news."""
    move = step.no_order_mid - step.no_order_mid_before - step.news
    own = step.traded_share * (step.fill_price - step.no_order_mid_before)
    own = own + step.inventory_left * move
    twap = step.twap_traded_share * (step.twap_fill_price - step.no_order_mid_before)
    twap = twap + step.twap_inventory_left * move
    return own - twap


@dataclass(frozen=True)
class PenalisedReward:
    """The old reward less a price for being elsewhere than TWAP while the market moves."""

    penalty: float

    def __call__(self, step: Any) -> Tensor:
        """The price is `penalty` x volatility x (inventory - TWAP's inventory) squared."""
        away = step.inventory_left - step.twap_inventory_left
        return old_reward(step) - self.penalty * step.volatility * away.square()


class OldNetwork(nn.Module):
    """Two hidden layers of 64 tanh units on all inputs."""

    learning_rate = 1e-3
    exploration = 1.0
    epochs = 4
    gae_lambda = 0.8
    gae_lambda_dynamic = 1.0
    entropy_bonus = 0.0
    history = 1
    action_zero = 1.0
    action_scale = 1.0

    def __init__(self, obs_dim: int, history: int) -> None:
        super().__init__()
        self.feature_dim = 64
        self.first = nn.Linear(obs_dim * history, 64)
        self.second = nn.Linear(64, 64)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, history, obs_dim] -> [B, 64]."""
        return torch.tanh(self.second(torch.tanh(self.first(obs.flatten(1)))))


def train_old(
    worlds: NamedWorlds,
    *,
    budget: float,
    seed: int,
    neutral: Mapping[str, Neutral],
    penalty: float = 0.0,
) -> Trained:
    """Train the old default, with a tracking penalty in its reward where one is given."""
    reward = PenalisedReward(penalty) if penalty else old_reward
    modules = Modules(reward=reward, network=OldNetwork)
    return train(modules, worlds, TrainConfig(budget=budget), seed=seed, neutral=neutral)
