"""`se-rl bench ppo`: order steps per CPU second of the whole inner loop on one core, beside SB3.

There are two peers: SB3 as people run it, and SB3 given our batched world, network and settings.
All take turns, so that a busy machine slows them alike, and train for the same CPU seconds. What
their policies then gain on later days stands beside.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import World
from se_rl.modules.contracts import LIMITS
from se_rl.modules.defaults import Modules, Network
from se_rl.rl.advantages import advantages, subtract_hindsight_baseline
from se_rl.rl.batch import Batch
from se_rl.rl.ppo import PPOSettings
from se_rl.rl.trainer import TrainConfig, Training
from se_rl_benchmarks.ppo_contenders import (
    HORIZON,
    SAME,
    Contender,
    make_data,
    ours,
    over_twap,
    take_turns,
)
from se_rl_benchmarks.ppo_design import design_in_fresh_process
from se_rl_benchmarks.ppo_sb3 import sb3_defaults, sb3_same
from se_rl_benchmarks.ppo_units import unit_costs
from se_rl_benchmarks.timing import Measurement, Say, silent

VALID_ORDERS = 4096
TURNS = 4.0
"""CPU seconds of training for each second that the caller grants."""
OURS = "ours"
OURS_SAME = "ours, same settings"
SB3_DEFAULTS = "SB3 PPO, its defaults, 8 Gymnasium environments"
SB3_SAME = "SB3 PPO, our batched world, network and settings"
PEERS = {SB3_DEFAULTS: OURS, SB3_SAME: OURS_SAME}
"""Each peer, and which of our two figures it is compared with."""
PARTS = ("rollout", "reward", "advantages", "update")
INSTALL = 'not installed: pip install "se-rl[baselines]"'


def bench_ppo(*, seconds: float = 2.0, say: Say = silent) -> Measurement:
    """Order steps per CPU second of ours and of SB3, rollout to update."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        say("making data")
        past, later = make_data()
        found = contenders(past)
        say("training all in turns")
        take_turns(found, seconds=TURNS * seconds)
        say("parts of an update")
        gained = gains(found, past, later)
        shares = parts(StaticWorld(past, horizon=HORIZON), seconds=seconds)
        say("what a work unit costs")
        units = unit_costs(past)
    finally:
        torch.set_num_threads(threads)
    say("one design in both worlds")
    rates = {name: float(np.median(one.rates)) for name, one in found.items()}
    peers = {name: rates[name] for name in PEERS if name in rates}
    detail: dict[str, object] = {
        "SB3": "measured" if peers else INSTALL,
        "data": past.provenance.label,
        OURS_SAME: rates[OURS_SAME],
        **gained,
        **shares,
        **units,
        **design_in_fresh_process(),
    }
    return Measurement(
        name="PPO end to end, static world",
        unit="order steps per CPU second on one core: rollout, reward, advantages and update",
        value=rates[OURS],
        peers=peers,
        ratios={name: rates[PEERS[name]] / value for name, value in peers.items()},
        detail=detail,
    )


def contenders(data: MarketData) -> dict[str, Contender]:
    """Ours with its defaults and with what SB3 can have too, and both peers if SB3 is installed."""

    def world() -> StaticWorld:  # each contender leaves its own in mid-episode
        return StaticWorld(data, horizon=HORIZON)

    found = {OURS: ours(world(), PPOSettings()), OURS_SAME: ours(world(), SAME)}
    try:
        return found | {SB3_DEFAULTS: sb3_defaults(data), SB3_SAME: sb3_same(world())}
    except ImportError:
        return found


def gains(found: dict[str, Contender], past: MarketData, later: MarketData) -> dict[str, str]:
    """What every policy gains on later orders, and after how many CPU seconds of training."""
    valid = StaticWorld(later, horizon=HORIZON, scales=FeatureScales.fit(past))
    episodes = valid.draw(np.random.default_rng(1), VALID_ORDERS)
    lines = {}
    for name, one in found.items():
        mean, error = over_twap(valid, one.act, episodes, clusters=episodes.orders.row)
        figure = f"{mean:.2f} +- {error:.2f} bps after {one.cpu_seconds:.1f} CPU s"
        lines[f"gain over TWAP, {name}"] = figure
    return lines


class AutogradNetwork(Network):
    """The same network with a forward of its own, which the gradient by hand does not know."""

    def forward(self, obs: Tensor) -> Tensor:
        """What the default network does."""
        return super().forward(obs)


def parts(world: World, *, seconds: float) -> dict[str, float]:
    """Shares of an iteration's time, and nanoseconds per sample-pass of the update.

    The update is timed twice: with the gradient by hand, and with autograd.
    """
    fused = _laps(world, Modules(network=Network), seconds=seconds / 2)
    autograd = _laps(world, Modules(network=AutogradNetwork), seconds=seconds / 2)
    epochs = round(Modules().constant("epochs"))
    whole = sum(fused.values())
    found = {f"share of {part}": ns / whole for part, ns in fused.items()}
    found["ns per sample-pass, fused"] = fused["update"] / epochs
    found["ns per sample-pass, autograd"] = autograd["update"] / epochs
    return found


def _laps(world: World, modules: Modules, *, seconds: float) -> dict[str, float]:
    """CPU nanoseconds per order step of each part of an iteration, medians."""
    config = TrainConfig(anneal=False, ppo=SAME)
    training = Training.of_design(modules, {world.name: world}, config, seed=0)
    laps: list[list[float]] = []
    end = time.perf_counter() + seconds
    while not laps or time.perf_counter() < end:
        laps.append(_lap(training, world, modules))
    medians = np.median(laps, axis=0).tolist()
    return dict(zip(PARTS, medians, strict=True))


def _lap(training: Training, world: World, modules: Modules) -> list[float]:
    """One iteration, as the trainer makes it: CPU nanoseconds per order step of each of PARTS."""
    learner = training.learner
    sampler = training.worlds[world.name]
    lam = modules.constant("gae_lambda")
    times = [time.process_time()]
    rollout = sampler.play(learner.policy, learner.action_map)
    times.append(time.process_time())
    rewards = rollout.rewards(modules.reward, bound=LIMITS.reward_magnitude)
    times.append(time.process_time())
    estimates = advantages(rewards / rewards.std(), rollout.values, gamma=1.0, lam=lam)
    centred = subtract_hindsight_baseline(estimates, rollout, discount=lam)
    batch = Batch.of(rollout, centred, policy=learner.policy)
    times.append(time.process_time())
    learner.ppo.update([batch])
    times.append(time.process_time())
    return [1e9 * lap / rollout.values.numel() for lap in np.diff(times)]
