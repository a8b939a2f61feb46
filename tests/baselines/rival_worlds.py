"""Small markets in which the idea of a rival must win."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from rl.toy_worlds import ToyWorld
from se_rl.baselines.rivals.choices import ACTION_MAP, MULTIPLES, ChoiceGrid
from se_rl.baselines.rivals.macro_micro import INTERVAL
from se_rl.data.features import OBSERVATION_FIELDS, OBSERVATION_PLACE
from se_rl.environments.task import USUAL_HORIZON
from se_rl.rl.policy import Neutral
from se_rl.rl.trainer import Trained


def earned_by(trained: Trained, world: ToyWorld, *, orders: int = 2000) -> float:
    """The mean reward of orders that nobody was trained on, by the policy without noise."""
    runner = trained.runner("static")
    runner.start(orders, world.horizon)
    observation = world.reset(world.draw(np.random.default_rng(99), orders))
    fields = np.zeros((len(world.field_names), orders), np.float32)
    total = 0.0
    for _ in range(world.horizon):
        ratio, offset = runner.act(observation)
        observation = world.step(ratio, offset if world.takes_price else None, fields)
        total += float(fields[0].mean())
    return total


class SignalMarket(ToyWorld):
    """A signal that turns now and then is the price; haste costs its square. Known optimum."""

    stays, worth = 0.75, 0.6

    def begin(self) -> None:
        self.good = self.rng.choice([1.0, -1.0], self.n)

    def signal(self) -> np.ndarray:
        return self.good

    def earned(self, traded: np.ndarray) -> np.ndarray:
        gain = self.worth * traded * self.good - traded**2
        turned = self.rng.random(self.n) > self.stays
        self.good = np.where(turned, -self.good, self.good)
        return gain

    def optimum(self) -> float:
        """By dynamic programming over all choices, inventories that they lead to, and signals."""
        outputs = ChoiceGrid(1).taken(torch.arange(len(MULTIPLES)))[:, 0]

        @cache
        def value(t: int, left: float, good: float) -> float:
            ratio = ACTION_MAP.ratio(outputs, steps_left=self.horizon - t, neutral=Neutral())
            best = -np.inf
            for share in ratio.tolist():
                traded = left * share
                gain = self.worth * traded * good - traded**2
                if t + 1 < self.horizon:
                    rest = left - traded
                    gain += self.stays * value(t + 1, rest, good)
                    gain += (1 - self.stays) * value(t + 1, rest, -good)
                best = max(best, gain)
            return best

        return (value(0, 1.0, 1.0) + value(0, 1.0, -1.0)) / 2


class NoisyDrift(ToyWorld):
    """The price drifts as the signal says, under noise on the way and more noise in every fill.

    Who sees the path knows what to do at once; from rewards alone it takes many orders.
    """

    field_names = ("reward", "no_order_mid", "no_order_mid_before")
    drift, noise, fill_noise = 0.1, 0.5, 4.0

    def begin(self) -> None:
        self.up = self.rng.choice([1.0, -1.0], self.n)
        shocks = self.rng.standard_normal((self.horizon, self.n))
        moves = self.drift * self.up + self.noise * shocks
        self.path = np.concatenate([np.zeros((1, self.n)), moves.cumsum(0)])

    def signal(self) -> np.ndarray:
        return self.up

    def step(self, ratio: np.ndarray, offset: np.ndarray | None, fields: np.ndarray) -> np.ndarray:
        observation = super().step(ratio, offset, fields)
        fields[1], fields[2] = self.path[self.t], self.path[self.t - 1]
        return observation

    def earned(self, traded: np.ndarray) -> np.ndarray:
        luck = self.fill_noise * self.rng.standard_normal(self.n)
        return traded * (self.path[self.t] + luck) - 0.1 * traded**2

    def expected(self, trained: Trained) -> float:
        """What a policy earns in the mean, the noise taken out."""
        quiet = NoisyDrift(self.horizon)
        quiet.noise = quiet.fill_noise = 0.0
        return earned_by(trained, quiet)


class PricedMarket(ToyWorld):
    """What a share earns depends on its limit alone; the signal says which of two is best."""

    takes_price = True
    best_ticks = 5.0

    def begin(self) -> None:
        self.wide = self.rng.choice([1.0, -1.0], self.n)

    def signal(self) -> np.ndarray:
        return self.wide

    def step(self, ratio: np.ndarray, offset: np.ndarray | None, fields: np.ndarray) -> np.ndarray:
        assert offset is not None
        self.ticks = np.rint(offset)
        return super().step(ratio, offset, fields)

    def earned(self, traded: np.ndarray) -> np.ndarray:
        missed = np.abs(self.ticks - self.best_ticks * self.wide) / self.best_ticks
        return traded * (1.0 - missed)


class TidalMarket(ToyWorld):
    """An interval is good or bad for all its steps, and only its first step shows which."""

    observation_size = len(OBSERVATION_FIELDS)

    def begin(self) -> None:
        self.tides = self.rng.choice([1.0, -1.0], (self.horizon // INTERVAL, self.n))

    def observe(self) -> np.ndarray:
        seen = np.zeros((self.n, self.observation_size), np.float32)
        seen[:, OBSERVATION_PLACE["time_left"]] = 1 - self.t / self.horizon
        seen[:, OBSERVATION_PLACE["inventory_left"]] = self.left
        seen[:, OBSERVATION_PLACE["horizon"]] = np.log(self.horizon / USUAL_HORIZON)
        if self.t % INTERVAL == 0 and self.t < self.horizon:
            seen[:, OBSERVATION_PLACE["imbalance"]] = self.tides[self.t // INTERVAL]
        return seen

    def earned(self, traded: np.ndarray) -> np.ndarray:
        return traded * self.tides[(self.t - 1) // INTERVAL] - 2.0 * traded**2
