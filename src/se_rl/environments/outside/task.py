"""What the tasks in others' markets share: seeded episodes that all have the same steps and reward.

They know neither sides nor bars, so that a step fills few fields: its reward, the same marked to the
mid, and whether the order was still open. An episode may end before the last step; it then stands
still and earns nothing.
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


@dataclass(frozen=True, eq=False)
class OutsideReturns:
    """What played episodes returned, NaN where they are void, and whether anything was left."""

    returned: Array
    unfinished: Bool


class OutsideWorld(ABC):
    """One such task, many episodes at once.

    A step's `marked` reward counts what is left of the order at the mid: over an episode it sums up
    to the return less what the order was worth at first, which no agent can change, but it shows
    what a move of the price did to the order when it happens.
    """

    name: str
    horizon: int
    agents = 1
    takes_price = False
    field_names = ("reward", "marked", "live")
    observation_size: int
    reward: Array  # [n] of the last step
    marked: Array  # [n] the same, what is left counted at the mid
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
        self.marked = np.zeros(n)
        self.returned = np.zeros(n)
        self.unfinished = np.zeros(n, np.int64)
        self._start(episodes.seeds)
        self._worth = self._rest_at_mid()
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

    def step(self, ratio: Array, offset: Array | None, fields: Observation) -> Observation:
        """One decision in the terms of `environments.worlds.World`; fills `field_names`."""
        fields[2] = self.remaining > 0
        observation = self._decide(ratio, offset)
        fields[0] = self.reward
        fields[1] = self.marked
        return observation

    @abstractmethod
    def _decide(self, ratio: Array, offset: Array | None) -> Observation:
        """Act, and run to the next decision."""

    @abstractmethod
    def _start(self, seeds: Int) -> None:
        """Begin markets and orders."""

    @abstractmethod
    def _observe(self) -> Observation:
        """What the agents see now."""

    @abstractmethod
    def _rest_at_mid(self) -> Array:
        """What the rest of each order would return at the mid."""

    def _book(self, reward: Array) -> None:
        """Count a step and what it earned."""
        self.reward = reward
        self.returned += reward
        self.step_index += 1
        worth = self._rest_at_mid() if self.steps_left else np.zeros(len(reward))
        self.marked = reward + worth - self._worth
        self._worth = worth
