"""Who trains in `se-rl bench ppo`, how they take turns, and what their policies gain over TWAP."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import torch

from se_rl.data.market_data import MarketData
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.worlds import Array, Episodes, Int, Observation, World, new_fields
from se_rl.modules.defaults import Modules, gain_over_twap
from se_rl.rl.policy import PolicyRunner
from se_rl.rl.ppo import PPOSettings
from se_rl.rl.trainer import TrainConfig, Training

HORIZON = 240
SESSIONS = 20
VALID_SESSIONS = 40
SAME = PPOSettings(kl_stop=float("inf"))
"""What both sides can have: SB3 stops at another estimate of the KL divergence, so neither does."""

Act = Callable[[Observation, int], Array]
"""Observations and steps left -> ratios, without noise."""


@dataclass
class Contender:
    """One that trains. `iterate` plays and learns one batch and returns its order steps."""

    iterate: Callable[[], int]
    act: Act
    cpu_seconds: float = 0.0
    rates: list[float] = field(default_factory=list)


def make_data(seed: int = 0) -> tuple[MarketData, MarketData]:
    """Synthetic train days, and the days after them."""
    sessions = SESSIONS + VALID_SESSIONS
    data = synthetic_market(SyntheticConfig(symbols=20, sessions=sessions, seed=seed))
    return data.select(dates=data.dates[:SESSIONS]), data.select(dates=data.dates[SESSIONS:])


def take_turns(found: Mapping[str, Contender], *, seconds: float) -> None:
    """Whoever has used the least CPU time goes next, until everybody has used `seconds`."""
    while True:
        one = min(found.values(), key=lambda contender: contender.cpu_seconds)
        if one.cpu_seconds >= seconds:
            return
        started = time.process_time()
        steps = one.iterate()
        spent = time.process_time() - started
        one.cpu_seconds += spent
        one.rates.append(steps / spent)


def ours(world: World, ppo: PPOSettings) -> Contender:
    """Our trainer at a constant learning rate, as SB3's."""
    config = TrainConfig(anneal=False, ppo=ppo)
    training = Training.of_design(Modules(), {world.name: world}, config, seed=0)
    learner = training.learner

    def iterate() -> int:
        training.iterate(world.name)
        return training.worlds[world.name].orders[0] * world.horizon

    return Contender(iterate, acting(PolicyRunner(learner.policy, learner.action_map), world))


def acting(runner: PolicyRunner, world: World) -> Act:
    """A runner as a plain function, started anew at the first step of an order."""

    def act(observation: Observation, steps_left: int) -> Array:
        if steps_left == world.horizon:
            runner.start(len(observation), world.horizon)
        return runner.act(observation)[0]

    return act


def over_twap(world: World, act: Act, episodes: Episodes, *, clusters: Int) -> tuple[float, float]:
    """Mean gain over TWAP in bps and its error; the orders of one cluster are one observation.

    Summed over an order, `gain_over_twap` is its gain less TWAP's, with the news taken out.
    """
    observation = world.reset(episodes)
    fields = new_fields(len(episodes))
    gain = np.zeros(len(episodes))
    seen = SimpleNamespace(**dict(zip(world.field_names, torch.from_numpy(fields), strict=True)))
    for step in range(world.horizon):
        observation = world.step(act(observation, world.horizon - step), None, fields)
        gain += 1e4 * gain_over_twap(seen).numpy()
    kept = ~world.broken
    mean = gain[kept].mean()
    cluster = np.unique(clusters[kept], return_inverse=True)[1]
    misses = np.bincount(cluster, weights=gain[kept] - mean)
    return float(mean), float(np.sqrt(np.sum(misses**2)) / kept.sum())
