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

import numpy as np
import torch

from se_rl.baselines.outside import MeanReturn
from se_rl.environments.outside.lot_world import NAMES, PLACES
from se_rl.environments.outside.queue_reactive_world import QueueReactiveWorld
from se_rl.modules.defaults import TwoLayers
from se_rl.rl.outside_training import MARKETS, play_in, rules_of, train_in, world_of
from se_rl_benchmarks.outside_training_page import TrainingRow, figures, page

FIRST_TEST_SEED = 50_000_000
"""Settings were chosen on episodes from 10,000,000 on."""
TEST_EPISODES = 30_000
RECORDS = Path("out/outside_training.jsonl")


class QueueNetwork(TwoLayers):
    """The default network, its constants fit to cheap episodes with noisy returns."""

    learning_rate = 2e-3
    gae_lambda = 0.95


class LotNetwork(TwoLayers):
    """The same for episodes that cost far more than passes through a network."""

    learning_rate = 3e-3
    epochs = 8
    action_scale = 4.0
    exploration = 0.4
    exploration_end = 0.1
    gae_lambda = 0.95


@dataclass(frozen=True)
class OutsideLearner:
    """A network with its constants, and the work of a training: 345 or 319 updates."""

    network: type[TwoLayers]
    work: float


QUEUE_LEARNER = OutsideLearner(QueueNetwork, 132.0)
LOT_LEARNER = OutsideLearner(LotNetwork, 259.0)


def trained_row(market: str, seed: int, *, work: float | None = None) -> TrainingRow:
    """Train in a market and play the policy without noise."""
    torch.set_num_threads(1)
    learner = QUEUE_LEARNER if market == QueueReactiveWorld.name else LOT_LEARNER
    rules = rules_of(market)
    started = time.process_time()
    trained = train_in(market, learner.network, work=work or learner.work, seed=seed)
    if trained.reason:
        raise RuntimeError(f"{market}, seed {seed}: {trained.reason}")
    seconds = time.process_time() - started
    runner = trained.runner("static")
    played = play_in(market, runner, first_seed=FIRST_TEST_SEED, episodes=TEST_EPISODES)
    returned = MeanReturn.of(played.returned)
    return TrainingRow(
        market=market,
        seed=seed,
        inputs=rules.inputs,
        actions=rules.actions,
        mean=returned.mean,
        error=returned.standard_error,
        episodes=returned.episodes,
        unfinished_share=float(played.unfinished.mean()),
        updates=len(trained.curve),
        seconds=seconds,
    )


@dataclass(frozen=True)
class _Job:
    market: str
    seed: int
    work: float | None


def _do(job: _Job) -> TrainingRow:
    return trained_row(job.market, job.seed, work=job.work)


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
        world = world_of(market, training=True)
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
    parser.add_argument("--work", type=float, help="of each training (default: the market's)")
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
