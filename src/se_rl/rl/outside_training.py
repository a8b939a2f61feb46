"""Trainings in the markets that others built: what every agent sees and does there, and its play.

A market has rules of its own: its reward, marked to the mid, its observations and the meaning of
outputs. What a design brings along is its network with the learning constants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
from torch import Tensor

from se_rl.environments.outside.lot_world import NAMES, LotWorld
from se_rl.environments.outside.queue_reactive_world import PENALTY, QueueReactiveWorld
from se_rl.environments.outside.task import (
    Array,
    Observation,
    OutsideReturns,
    OutsideWorld,
    SeededEpisodes,
)
from se_rl.environments.worlds import World
from se_rl.modules.defaults import Modules, NetworkFactory, Reward
from se_rl.rl.rollout import Diverged
from se_rl.rl.surrogate import PPOSettings
from se_rl.rl.threads import one_thread
from se_rl.rl.trainer import TrainConfig, Trained, train

MARKETS = (QueueReactiveWorld.name, *NAMES)
AT_ONCE = 3000
"""Episodes that are played together."""


@dataclass(frozen=True)
class OutsideRules:
    """What agents see and do in a market, and the order steps and parts of one update."""

    inputs: tuple[str, ...]
    actions: str
    samples: int
    minibatches: int


QUEUE_RULES = OutsideRules(
    inputs=(
        *("inventory", "time", "best_ask", "best_ask_size", "best_bid_size"),
        *("queues", "depths", "imbalance"),
    ),
    actions="grid",
    samples=51_200,
    minibatches=8,
)
LOT_RULES = OutsideRules(
    inputs=(
        *("time", "inventory", "bid_drift", "drift", "spread", "imbalance", "last_move"),
        *("market_flow_1", "limit_flow_1", "market_flow_15", "limit_flow_15"),
        *("queues", "own_lots", "lots_ahead"),
    ),
    actions="simplex",
    samples=6400,
    minibatches=4,
)


def rules_of(market: str) -> OutsideRules:
    """The rules of a market."""
    return QUEUE_RULES if market == QueueReactiveWorld.name else LOT_RULES


def world_of(market: str, *, training: bool) -> OutsideWorld:
    """A market's task; leaving units costs its penalty in training alone."""
    inputs = rules_of(market).inputs
    if market == QueueReactiveWorld.name:
        return QueueReactiveWorld(inputs=inputs, penalty=PENALTY if training else None)
    return LotWorld.named(market, inputs=inputs, from_rest=True)


def marked(step: Any) -> Tensor:
    """What a step earned, what is left of the order counted at the mid."""
    found: Tensor = step.marked
    return found


def train_in(
    market: str,
    network: NetworkFactory,
    *,
    work: float,
    seed: int,
    samples: int | None = None,
    reward: Reward = marked,
) -> Trained:
    """Train a network by the rules of a market, perhaps with other `samples` in an update."""
    rules = rules_of(market)
    world = world_of(market, training=True)
    return train(
        Modules(reward=reward, network=network, actions=rules.actions),
        {"static": cast(World, world)},
        TrainConfig(
            budget=work,
            samples=samples or rules.samples,
            ppo=PPOSettings(minibatches=rules.minibatches),
        ),
        seed=seed,
    )


class Player(Protocol):
    """Acts for a batch of orders: ratios and offsets, step by step."""

    def start(self, n: int, horizon: int) -> None:
        """Begin `n` orders of `horizon` steps."""

    def act(self, observation: Observation) -> tuple[Array, Array]:
        """The next step."""


def play_in(market: str, player: Player, *, first_seed: int, episodes: int) -> OutsideReturns:
    """A player on the episodes from a seed on."""
    world = world_of(market, training=False)
    parts = list(_played(world, player, np.arange(first_seed, first_seed + episodes)))
    return OutsideReturns(
        np.concatenate([returned for returned, _ in parts]),
        np.concatenate([unfinished for _, unfinished in parts]),
    )


def _played(
    world: OutsideWorld, player: Player, seeds: npt.NDArray[np.int64]
) -> Iterator[tuple[Array, npt.NDArray[np.bool_]]]:
    for part in np.split(seeds, range(AT_ONCE, len(seeds), AT_ONCE)):
        observation = world.reset(SeededEpisodes(part))
        player.start(len(part), world.horizon)
        fields = np.zeros((len(world.field_names), len(part)), np.float32)
        for _ in range(world.horizon):
            with one_thread():
                ratio, offset = player.act(observation)
            if not (np.isfinite(ratio).all() and np.isfinite(offset).all()):
                raise Diverged("the policy's actions are not finite")
            observation = world.step(ratio, offset, fields)
        yield np.where(world.broken, np.nan, world.returned), world.unfinished > 0
