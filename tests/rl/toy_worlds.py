"""Tiny worlds for tests of the learner, in the shape of `se_rl.environments.worlds.World`."""

from __future__ import annotations

import numpy as np

from se_rl.environments.task import Orders
from se_rl.environments.worlds import Episodes


class ToyWorld:
    """A base: the inventory follows the ratios; subclasses say what a step earns."""

    name, agents, takes_price, observation_size, field_names = "static", 1, False, 3, ("reward",)

    def __init__(self, horizon: int = 8) -> None:
        self.horizon = horizon

    def draw(self, rng: np.random.Generator, n: int) -> Episodes:
        zeros = np.zeros(n, np.int64)
        side = np.where(np.arange(n) < n // 2, 1, -1).astype(np.int8)
        orders = Orders.of_usual_size(zeros, zeros, side, np.ones(n), self.horizon)
        return Episodes(orders, rng.integers(2**62, size=n // self.agents))

    def reset(self, episodes: Episodes) -> np.ndarray:
        self.n, self.t = len(episodes), 0
        self.left = np.ones(self.n)
        self.rng = np.random.default_rng(episodes.seeds)
        self.begin()
        return self.observe()

    def step(self, ratio: np.ndarray, offset: np.ndarray | None, fields: np.ndarray) -> np.ndarray:
        self.t += 1
        traded = self.left * (1.0 if self.t == self.horizon else ratio)
        self.left = self.left - traded
        fields[0] = self.earned(traded)
        return self.observe()

    @property
    def broken(self) -> np.ndarray:
        return np.zeros(self.n, np.bool_)

    def observe(self) -> np.ndarray:
        seen = np.stack(
            [np.full(self.n, 1 - self.t / self.horizon), self.left, self.signal()], axis=1
        )
        return seen.astype(np.float32)

    def begin(self) -> None: ...

    def signal(self) -> np.ndarray:
        return np.zeros(self.n)

    def earned(self, traded: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class CheapHalf(ToyWorld):
    """The price is better in one half of the horizon; the signal says which.

    Without a signal nobody can beat TWAP. With two agents in a book only the first is
    told: the second must hear it from the first.
    """

    def __init__(self, horizon: int = 8, *, agents: int = 1, noise: float = 0.0) -> None:
        super().__init__(horizon)
        self.agents, self.noise = agents, noise

    def begin(self) -> None:
        books = self.n // self.agents
        self.early = np.repeat(self.rng.choice([1.0, -1.0], books), self.agents)

    def signal(self) -> np.ndarray:
        told = np.arange(self.n) % self.agents == 0
        return np.where(told, self.early, 0.0)

    def earned(self, traded: np.ndarray) -> np.ndarray:
        first_half = 1.0 if self.t <= self.horizon // 2 else -1.0
        return (
            traded * (self.early * first_half + self.noise * self.rng.standard_normal(self.n))
            - traded**2
        )
