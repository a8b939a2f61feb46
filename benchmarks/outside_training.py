"""Our PPO in the markets that others built, beside their learners and the best simple rules.

    python benchmarks/outside_training.py [--market qrm cw-noise-20 ...] [--seeds 5] [--workers 2]
        [--records FILE] [--out docs/results/outside_training.md]

Every training of a market and seed is one process on one core and one line in the file of records;
those that are there already are not made again, and the page shows all of them. Set
NUMBA_NUM_THREADS=1 and OMP_NUM_THREADS=1.

In `qrm`, units left at the end cost 1 each in training, as published; in the test they are bought at
once. The share of episodes with units left stands beside every figure: leaving them is the hole in
that protocol. Policies are played without noise, on episodes that nothing was chosen on.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch

from se_rl.baselines.outside import MeanReturn
from se_rl.environments.outside.lot_world import NAMES, PLACES, LotWorld
from se_rl.environments.outside.queue_reactive_world import PENALTY, QueueReactiveWorld
from se_rl.environments.outside.task import OutsideWorld, SeededEpisodes
from se_rl.environments.worlds import World
from se_rl.modules.defaults import Modules, Network
from se_rl.rl.surrogate import PPOSettings
from se_rl.rl.trainer import TrainConfig, Trained, train
from se_rl_benchmarks.outside_training_page import TrainingRow, figures, page

MARKETS = ("qrm", *NAMES)
FIRST_TEST_SEED = 50_000_000
"""Settings were chosen on episodes from 10,000,000 on."""
TEST_EPISODES = 30_000
AT_ONCE = 3000
"""Test episodes that are played together."""
RECORDS = Path("out/outside_training.jsonl")


class QueueNetwork(Network):
    """The default network, its constants fit to cheap episodes with noisy returns."""

    learning_rate = 2e-3
    gae_lambda = 0.95


class LotNetwork(Network):
    """The same for episodes that cost far more than passes through a network."""

    learning_rate = 3e-3
    epochs = 8
    action_scale = 4.0
    exploration = 0.4
    exploration_end = 0.1
    gae_lambda = 0.95


@dataclass(frozen=True)
class OutsideDesign:
    """What an agent sees and does in a market, and how it is trained."""

    inputs: tuple[str, ...]
    actions: str
    network: type[Network]
    work: float
    samples: int
    minibatches: int


QUEUE_DESIGN = OutsideDesign(
    inputs=(
        *("inventory", "time", "best_ask", "best_ask_size", "best_bid_size"),
        *("queues", "depths", "imbalance"),
    ),
    actions="grid",
    network=QueueNetwork,
    work=80.0,
    samples=51_200,
    minibatches=8,
)
LOT_DESIGN = OutsideDesign(
    inputs=(
        *("time", "inventory", "bid_drift", "drift", "spread", "imbalance", "last_move"),
        *("market_flow_1", "limit_flow_1", "market_flow_15", "limit_flow_15"),
        *("queues", "own_lots", "lots_ahead"),
    ),
    actions="simplex",
    network=LotNetwork,
    work=20.0,
    samples=6400,
    minibatches=4,
)


def design_of(market: str) -> OutsideDesign:
    """The design that is trained in a market."""
    return QUEUE_DESIGN if market == QueueReactiveWorld.name else LOT_DESIGN


def world_of(market: str, inputs: Sequence[str], *, training: bool) -> OutsideWorld:
    """A market's task with these inputs; leaving units costs its penalty in training alone."""
    if market == QueueReactiveWorld.name:
        return QueueReactiveWorld(inputs=inputs, penalty=PENALTY if training else None)
    return LotWorld.named(market, inputs=inputs, from_rest=True)


def train_in(market: str, seed: int, *, work: float | None = None) -> TrainingRow:
    """Train in a market and play the policy without noise."""
    torch.set_num_threads(1)
    design = design_of(market)
    started = time.process_time()
    world = world_of(market, design.inputs, training=True)
    trained = train(
        Modules(reward=lambda step: step.marked, network=design.network, actions=design.actions),
        {"static": cast(World, world)},
        TrainConfig(
            budget=work or design.work,
            samples=design.samples,
            ppo=PPOSettings(minibatches=design.minibatches),
        ),
        seed=seed,
    )
    if trained.reason:
        raise RuntimeError(f"{market}, seed {seed}: {trained.reason}")
    seconds = time.process_time() - started
    returned, unfinished = play_policy(world_of(market, design.inputs, training=False), trained)
    return TrainingRow(
        market=market,
        seed=seed,
        inputs=design.inputs,
        actions=design.actions,
        mean=returned.mean,
        error=returned.standard_error,
        episodes=returned.episodes,
        unfinished_share=unfinished,
        updates=len(trained.curve),
        seconds=seconds,
    )


def play_policy(world: OutsideWorld, trained: Trained) -> tuple[MeanReturn, float]:
    """The policy's mean action on the test episodes, and the share of unfinished ones."""
    runner = trained.runner("static")
    returned = []
    unfinished = 0
    for first in range(0, TEST_EPISODES, AT_ONCE):
        seeds = np.arange(first, min(first + AT_ONCE, TEST_EPISODES)) + FIRST_TEST_SEED
        observation = world.reset(SeededEpisodes(seeds))
        runner.start(len(seeds), world.horizon)
        fields = np.zeros((len(world.field_names), len(seeds)), np.float32)
        for _ in range(world.horizon):
            ratio, _ = runner.act(observation)
            observation = world.step(ratio, None, fields)
        returned.append(world.returned)
        unfinished += int(np.count_nonzero(world.unfinished))
    return MeanReturn.of(np.concatenate(returned)), unfinished / TEST_EPISODES


@dataclass(frozen=True)
class _Job:
    market: str
    seed: int
    work: float | None


def _do(job: _Job) -> TrainingRow:
    return train_in(job.market, job.seed, work=job.work)


def finished(jobs: Sequence[_Job], workers: int) -> Iterator[TrainingRow]:
    """Train, each in a process of its own, and give rows as they come."""
    if workers == 1:
        yield from map(_do, jobs)
        return
    compile_kernels({job.market for job in jobs})
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(_do, jobs)


def compile_kernels(markets: Collection[str]) -> None:
    """Fill numba's cache on disk, so that not every process compiles the same."""
    for market in markets:
        world = world_of(market, design_of(market).inputs, training=True)
        world.reset(world.draw(np.random.default_rng(0), 2))
        shares = np.full((2, PLACES), 1.0 / PLACES) if market in NAMES else np.ones(2)
        world.step(shares, None, np.zeros((len(world.field_names), 2), np.float32))


def read_records(path: Path) -> list[TrainingRow]:
    """All trainings of a file, by market and seed."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else ():
        fields = json.loads(line)
        rows.append(TrainingRow(**fields | {"inputs": tuple(fields["inputs"])}))
    return sorted(rows, key=lambda row: (MARKETS.index(row.market), row.seed))


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and print the page of all trainings."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--market", nargs="+", choices=MARKETS, default=list(MARKETS))
    parser.add_argument("--seeds", type=int, default=1, help="trainings a market")
    parser.add_argument("--work", type=float, help="of each training (default: the design's)")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--out", type=Path, help="write the page here, and JSON beside it")
    options = parser.parse_args(arguments)
    options.records.parent.mkdir(parents=True, exist_ok=True)
    known = {(row.market, row.seed) for row in read_records(options.records)}
    jobs = []
    for seed in range(options.seeds):
        for market in reversed(options.market):  # the longest first
            if (market, seed) not in known:
                jobs.append(_Job(market, seed, options.work))
    for row in finished(jobs, options.workers):
        print(f"... {row}", flush=True)
        with options.records.open("a") as records:
            records.write(json.dumps(asdict(row)) + "\n")
    rows = read_records(options.records)
    text = page(rows)
    print(text)
    if options.out:
        options.out.write_text(text)
        options.out.with_suffix(".json").write_text(json.dumps(figures(rows), indent=1) + "\n")


if __name__ == "__main__":
    main()
