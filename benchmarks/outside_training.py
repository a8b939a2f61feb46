"""Our PPO in the queue-reactive market, beside the published learner: which inputs and actions pay?

    python benchmarks/outside_training.py [--work 48] [--seeds 0 1 2] [--only NAME] [--json]

Trained with the published penalty of 1 for each unit left at the end; played without noise on fresh
episodes in which the rest is bought at once, as in the published test. The share of episodes with
units left stands beside every figure: leaving them is the hole in that protocol.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import cast

import numpy as np
from torch import nn

from se_rl.baselines.outside import MeanReturn
from se_rl.environments.outside.queue_reactive_world import (
    INPUTS,
    PENALTY,
    PUBLISHED_INPUTS,
    QueueReactiveWorld,
)
from se_rl.environments.outside.task import SeededEpisodes
from se_rl.environments.worlds import World
from se_rl.modules.defaults import Modules, Network
from se_rl.rl.policy import Neutral
from se_rl.rl.trainer import TrainConfig, Trained, train

FIRST_TEST_SEED = 50_000_000
"""Settings were chosen on episodes from 10,000,000 on."""
TEST_EPISODES = 30_000
NEUTRAL = Neutral(multiple=1.5)
"""An output of 0 takes about one unit of a usual queue, at the speed of TWAP."""
PUBLISHED = {"DDQN": -0.259, "best simple rule": -0.342}


@dataclass(frozen=True)
class QueueNetwork:
    """The default network in larger steps: these episodes are cheap and their returns noisy."""

    learning_rate: float = 3e-3
    exploration: float = 1.0
    exploration_end: float = 0.1
    gae_lambda: float = 0.95
    batch: float = 2.0

    def __call__(self, obs_dim: int, history: int) -> nn.Module:
        return Network(obs_dim, history)


DESIGNS = {
    "published inputs, share of the queue": (PUBLISHED_INPUTS, "queue"),
    "published inputs, share of the rest": (PUBLISHED_INPUTS, "inventory"),
    "all inputs, share of the queue": (tuple(INPUTS), "queue"),
    "all inputs, share of the rest": (tuple(INPUTS), "inventory"),
}


@dataclass(frozen=True)
class QueueTraining:
    """One training and its test."""

    design: str
    seed: int
    mean: float
    error: float
    unfinished_share: float
    updates: int
    seconds: float


def train_design(name: str, *, seed: int, work: float) -> QueueTraining:
    """Train one design and play it without noise."""
    inputs, share_of = DESIGNS[name]
    started = time.process_time()
    world = QueueReactiveWorld(inputs=inputs, share_of=share_of, penalty=PENALTY)
    modules = Modules(reward=lambda step: step.reward, network=QueueNetwork())
    trained = train(
        modules,
        {"static": cast(World, world)},
        TrainConfig(budget=work),
        seed=seed,
        neutral={"static": NEUTRAL},
    )
    seconds = time.process_time() - started
    test = QueueReactiveWorld(inputs=inputs, share_of=share_of)
    returned = play_policy(test, trained)
    return QueueTraining(
        design=name,
        seed=seed,
        mean=returned.mean,
        error=returned.standard_error,
        unfinished_share=float(np.mean(test.unfinished > 0)),
        updates=len(trained.curve),
        seconds=seconds,
    )


def play_policy(world: QueueReactiveWorld, trained: Trained) -> MeanReturn:
    """The policy's mean action on the test episodes."""
    runner = trained.runner("static")
    seeds = np.arange(FIRST_TEST_SEED, FIRST_TEST_SEED + TEST_EPISODES)
    observation = world.reset(SeededEpisodes(seeds))
    runner.start(len(seeds), world.horizon)
    fields = np.zeros((1, len(seeds)), np.float32)
    for _ in range(world.horizon):
        ratio, _ = runner.act(observation)
        observation = world.step(ratio, None, fields)
    return MeanReturn.of(world.returned)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the designs and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=float, default=48.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", choices=tuple(DESIGNS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows = []
    for name in [options.only] if options.only else DESIGNS:
        for seed in options.seeds:
            row = train_design(name, seed=seed, work=options.work)
            print(f"... {row}", file=sys.stderr, flush=True)
            rows.append(asdict(row))
    if options.json:
        print(json.dumps({"published": PUBLISHED, "trainings": rows}, indent=1))
        return
    for one in rows:
        print(
            f"{one['design']}, seed {one['seed']}: {one['mean']:.4f} +- {one['error']:.4f}, "
            f"{100 * one['unfinished_share']:.2f} % unfinished, {one['seconds']:.0f} s"
        )
    print(f"published: {PUBLISHED}")


if __name__ == "__main__":
    main()
