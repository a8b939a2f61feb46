"""Others' markets for Gymnasium users: one episode at a time."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from se_rl.environments.order_source import Info
from se_rl.environments.outside.lot_world import PLACES, LotWorld
from se_rl.environments.outside.queue_reactive_world import ACTIONS, QueueReactiveWorld
from se_rl.environments.outside.task import Observation, OutsideWorld

FARTHEST = 100.0
"""Observations are of the order of 1; what is farther away than this is cut off."""


class OutsideEnvironment(gym.Env[Observation, Any]):
    """A batch of one of an outside world; `info` says what is left of the order."""

    metadata = {"render_modes": []}  # noqa: RUF012 (as in Gymnasium)
    world: OutsideWorld

    def observe(self, world: OutsideWorld) -> None:
        """Take a world, and the space of what it shows."""
        self.world = world
        shape = (world.observation_size,)
        self.observation_space = spaces.Box(-FARTHEST, FARTHEST, shape, np.float32)

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[Observation, Info]:
        """A fresh episode; the same seed is the same market."""
        super().reset(seed=seed)
        observation = self.world.reset(self.world.draw(self.np_random, 1))
        return _within(observation), self._info()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, Info]:
        """One decision."""
        observation = self._decide(action)
        reward = float(self.world.reward[0])
        return _within(observation), reward, bool(self.world.done[0]), False, self._info()

    @abstractmethod
    def _decide(self, action: Any) -> Observation:
        """Hand one action to the world."""

    def _info(self) -> Info:
        return {
            "remaining": int(self.world.remaining[0]),
            "unfinished": int(self.world.unfinished[0]),
        }


class QueueReactiveEnvironment(OutsideEnvironment):
    """`qrm`: buy 25 units in 25 decisions, each 0, 50 or 100 % of the best ask queue."""

    def __init__(self, **options: Any) -> None:
        self.market = QueueReactiveWorld(**options)
        self.observe(self.market)
        self.action_space = spaces.Discrete(len(ACTIONS))

    def _decide(self, action: Any) -> Observation:
        wanted = ACTIONS[int(action)] * self.market.best_ask_size
        return self.market.buy(np.rint(wanted).astype(np.int64))


class LotEnvironment(OutsideEnvironment):
    """`cw-noise-20` and its kin: sell lots, spread over the market, five levels and none.

    An action's seven numbers are weights: they are divided by their sum, and zeros hold all back.
    """

    def __init__(self, kind: str = "noise", order: int = 20) -> None:
        self.market = LotWorld(kind, order)
        self.observe(self.market)
        self.action_space = spaces.Box(0.0, 1.0, (PLACES,), np.float32)

    def _decide(self, action: Any) -> Observation:
        weights = np.clip(np.asarray(action, np.float64), 0.0, None)
        total = weights.sum()
        return self.market.spread(weights[None] / (total if total > 0.0 else 1.0))


def _within(observation: Observation) -> Observation:
    """The one observation of a batch, inside its space."""
    return np.clip(observation[0], -FARTHEST, FARTHEST)
