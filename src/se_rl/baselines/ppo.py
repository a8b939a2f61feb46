"""The default PPO as a rival, with the strong and with the naive reward.

The strong default takes noise out of the reward; the naive one is plain shortfall against arrival.
"""

from __future__ import annotations

from collections.abc import Mapping

from se_rl.environments.worlds import NamedWorlds
from se_rl.modules.defaults import Modules, naive_reward
from se_rl.rl.policy import Neutral
from se_rl.rl.trainer import TrainConfig, Trained, train


def train_strong(
    worlds: NamedWorlds, *, budget: float, seed: int, neutral: Mapping[str, Neutral]
) -> Trained:
    """Train the default design."""
    return train(Modules(), worlds, TrainConfig(budget=budget), seed=seed, neutral=neutral)


def train_naive(
    worlds: NamedWorlds, *, budget: float, seed: int, neutral: Mapping[str, Neutral]
) -> Trained:
    """Train the default design with the naive reward."""
    modules = Modules(reward=naive_reward)
    return train(modules, worlds, TrainConfig(budget=budget), seed=seed, neutral=neutral)
