"""What the tasks in others' markets share: seeded episodes that all have the same steps and reward.

They know neither sides nor bars, so that a reward is the only field a step fills. An episode may end
before the last step; it then stands still and earns nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Int = npt.NDArray[np.int64]
Observation = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SeededEpisodes:
    """What to run: one seed for each episode, on which alone its outcome depends."""

    seeds: Int

    def __len__(self) -> int:
        return len(self.seeds)


class OutsideWorld(ABC):
    """One such task, many episodes at once."""

    name: str
    horizon: int
    agents = 1
    takes_price = False
    field_names = ("reward",)
    observation_size: int
    reward: Array  # [n] of the last step
    returned: Array  # [n] the sum of the rewards so far
    unfinished: Int  # [n] what was left of the order at the end, before it was forced
    step_index: int

    def draw(self, rng: np.random.Generator, n: int) -> SeededEpisodes:
        """`n` fresh episodes."""
        return SeededEpisodes(rng.integers(2**62, size=n))

    def reset(self, episodes: SeededEpisodes) -> Observation:
        """Start these; the first observation [n, observation_size], reused by later steps."""
        n = len(episodes)
        self.step_index = 0
        self.reward = np.zeros(n)
        self.returned = np.zeros(n)
        self.unfinished = np.zeros(n, np.int64)
        self._start(episodes.seeds)
        return self._observe()

    @property
    def steps_left(self) -> int:
        """Decisions still to take, the coming one included."""
        return self.horizon - self.step_index

    @property
    def done(self) -> Bool:
        """Episodes that are over: nothing is left of their order, or no time."""
        return (self.remaining == 0) | (self.steps_left == 0)

    @property
    @abstractmethod
    def remaining(self) -> Int:
        """What is left of each order."""

    @property
    def broken(self) -> Bool:
        """Episodes whose outcome is void."""
        return np.zeros(len(self.returned), np.bool_)

    @abstractmethod
    def step(self, ratio: Array, offset: Array | None, fields: Observation) -> Observation:
        """One decision in the terms of `environments.worlds.World`; fields[0] is its reward."""

    @abstractmethod
    def _start(self, seeds: Int) -> None:
        """Begin markets and orders."""

    @abstractmethod
    def _observe(self) -> Observation:
        """What the agents see now."""

    def _book(self, reward: Array) -> None:
        """Count a step and what it earned."""
        self.reward = reward
        self.returned += reward
        self.step_index += 1
