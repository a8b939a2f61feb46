"""Well-behaved designs, drawn from the grammar and trained for a moment: the check must let them pass."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from frauds.campaign import BAR_MINUTES, SEVERAL
from frauds.channels import MESSAGE
from frauds.fraud import SYMBOLS
from se_rl.data.features import OBSERVATION_FIELDS
from se_rl.data.market_data import MarketData
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.modules.agent_interface import further_width
from se_rl.modules.kinds import KINDS
from se_rl.modules.loading import load_design
from se_rl.rl.policy import ActionMap, Policy, PolicyRunner
from se_rl.rl.trainer import TrainConfig, Trained, train
from se_rl.rl.training_worlds import TrainingWorldsConfig, make_worlds
from se_rl.scoring.execution import Actor
from se_rl.scoring.play import Open

LOUDER = 30.0
"""How much stronger than a moment of training makes them the policy's outputs are played."""


def drawn_design(seed: int) -> dict[str, str]:
    """Network, reward and communication drawn from the grammar."""
    rng = np.random.default_rng(seed)
    sources = {}
    for kind in ("network", "reward", "communication"):
        sources[kind] = KINDS[kind].random_source(rng)
    return sources


def trained(sources: dict[str, str], *, seed: int) -> Trained:
    """A training of a few batches on history."""
    modules = load_design({"network": sources["network"], "reward": sources["reward"]})
    worlds = make_worlds(
        modules,
        TrainingWorldsConfig(worlds="static", horizons=(SEVERAL,)),
        data=_train_days(),
        seed=seed,
    )
    return train(modules, worlds.train, TrainConfig(budget=2e-3, samples=128), seed=seed)


def single(seed: int) -> Open:
    """The trained policy of one design, its outputs made louder."""
    made = trained(drawn_design(seed), seed=seed)
    policy = made.policy
    with torch.no_grad():
        policy.heads.weight.mul_(LOUDER)

    def open_policy(_: str, horizon: int, rows: int) -> Actor:
        return PolicyRunner(policy, made.action_map)

    return open_policy


def talking(seed: int) -> Open:
    """Two agents of one design that talk, with first weights made louder."""
    sources = drawn_design(seed)
    torch.manual_seed(seed)
    parts = {"network": sources["network"], "communication": sources["communication"]}
    modules = load_design(parts)
    seen = len(OBSERVATION_FIELDS) + further_width(getattr(modules.network, "inputs", ()))
    policy = Policy(modules, observation_size=seen, agents=2, message_size=MESSAGE)
    with torch.no_grad():
        policy.heads.weight.mul_(10.0 * LOUDER)

    def open_policy(_: str, horizon: int, rows: int) -> Actor:
        return PolicyRunner(policy, ActionMap())

    return open_policy


@lru_cache
def _train_days() -> MarketData:
    return synthetic_market(
        SyntheticConfig(symbols=SYMBOLS, sessions=6, bar_minutes=BAR_MINUTES, seed=31)
    )
