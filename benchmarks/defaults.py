"""Old and new default, naive, XS ridge and TWAP on real days: docs/results/defaults.md and .json.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/defaults.py [--split test|valid]
        [--packed FILE.npz] [--workers 16] [--minutes 9]
    python benchmarks/defaults.py --pack FILE.npz

Everything is fitted on train days, trainings see history alone, and orders are price takers'
without costs. Walk-forward: the days after the train days in blocks, each with all days before it
as its past, pooled by market. Jobs are ordered by importance and stop by the clock; what is
finished by then makes the table. `--pack` writes the sets as one file for a machine that has none
of them. Test days are for the final table; try things with `--split valid`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import TimeoutError as TooLate
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from se_rl.baselines import registry, schedules
from se_rl.baselines.classical import Planning
from se_rl.baselines.fitting import Fitted
from se_rl.baselines.registry import TrainRival
from se_rl.baselines.settings import BaselinesConfig
from se_rl.baselines.task import BaselineTask
from se_rl.data.catalog import load_dataset
from se_rl.data.features import FeatureScales
from se_rl.data.known import with_history
from se_rl.data.market_data import MarketData
from se_rl.data.splits import Dates, given_split, split_dates, walk_forward
from se_rl.environments.ridge import XSRidge
from se_rl.environments.static_core import StaticCore, ratios_from_weights
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import Orders, order_pairs
from se_rl.environments.worlds import Episodes
from se_rl.scoring.execution import execute
from se_rl.scoring.order_scores import Panel, Score
from se_rl.scoring.statistics import day_means
from se_rl_benchmarks.defaults_page import SPLIT, DayGains, finished, page
from se_rl_benchmarks.old_default import train_old
from se_rl_benchmarks.packed_sets import read_packed, write_packed
from se_rl_benchmarks.real_sets import REAL_SETS, ROOT

NAMES = (
    "cn_15min_2025_all",
    "cn_5min_2018",
    "us_2015",
    "in_15min_2024",
    "us_2025",
    "us_2018",
)
"""The sets of the table, the most telling first."""
LEARNED = ("new default", "old default", "naive")
PLANNED = ("TWAP", registry.RIDGE)
PLANS = {rival.name: rival.plan for rival in registry.PLANNED}
PENALTIES = {"tracking penalty 0.05": 0.05, "tracking penalty 0.2": 0.2}
"""The old default with a price on straying from TWAP in its reward, as `penalty.py` tries it."""
SYNTHETIC_HORIZON = 240
MOST_NAMES = 600
"""Symbols of a set in a packed file."""
SETS: dict[str, MarketData] = {}
"""The bars of every set; filled before processes fork, so that they share it."""


@dataclass(frozen=True)
class Job:
    """One method on one set: a training of one seed, or a plan."""

    name: str
    fold: int
    method: str
    seed: int
    budget: float
    split: str
    blocks: int


def main() -> None:
    """Run all jobs within the time and write the page."""
    options = _options()
    names = options.sets or NAMES
    if options.pack:
        write_packed(options.pack, {name: _most_traded(read_set(name)) for name in names})
        print(f"{options.pack}: {options.pack.stat().st_size / 1e6:.1f} MB")
        return
    SETS.update(read_packed(options.packed) if options.packed else _read_all(names))
    torch.set_num_threads(1)
    jobs = list(all_jobs(names, options))
    until = time.monotonic() + 60.0 * options.minutes
    options.keep.unlink(missing_ok=True)
    found = run(jobs, options.keep, workers=options.workers, until=until)
    facts = {
        "split": options.split,
        "budget": options.budget,
        "seeds": options.seeds,
        "blocks": options.blocks,
        "names": {name: len(SETS[name].symbols) for name in names},
        "jobs": f"{len(found)} of {len(jobs)}",
    }
    table = finished(found, {name: REAL_SETS[name].market for name in names}, facts)
    options.out.with_suffix(".json").write_text(json.dumps(table, indent=1))
    options.out.write_text(page(table))
    print(f"{options.out}: {len(found)} of {len(jobs)} jobs")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--split", choices=("test", "valid"), default="valid")
    parser.add_argument("--sets", nargs="+", choices=NAMES)
    parser.add_argument("--pack", type=Path, help="write the sets to this .npz and stop")
    parser.add_argument("--packed", type=Path, help="take the sets from this .npz")
    parser.add_argument("--budget", type=float, default=10.8, help="work units per training")
    parser.add_argument("--seeds", type=int, default=5, help="trainings per row")
    parser.add_argument("--blocks", type=int, default=3, help="of the walk forward; 0 for none")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so many")
    parser.add_argument("--keep", type=Path, default=ROOT / "out" / "defaults.jsonl")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "defaults.md")
    return parser.parse_args()


def _read_all(names: tuple[str, ...]) -> dict[str, MarketData]:
    missing = [name for name in names if not REAL_SETS[name].path.exists()]
    if missing:
        place = REAL_SETS[missing[0]].path
        sys.exit(f"real data not found: {place}; set SE_RL_SHARED_DATA or give --packed")
    return {name: read_set(name) for name in names}


def read_set(name: str) -> MarketData:
    """The bars of a set, with its own split."""
    real = REAL_SETS[name]
    split = given_split(real.train_until, real.valid_until)
    return load_dataset(str(real.path), split=split).data


def _most_traded(data: MarketData) -> MarketData:
    """At most MOST_NAMES symbols, by the money they traded on train days: a packed file is small."""
    train = data.select(dates=split_dates(data.dates, data.provenance.split)["train"])
    money = np.nansum(train.price * train.require_volume("ranking"), axis=(1, 2))  # [symbol]
    chosen = np.sort(np.argsort(-money)[:MOST_NAMES])
    return data.select(symbols=[data.symbols[place] for place in chosen])


def all_jobs(names: tuple[str, ...], options: argparse.Namespace) -> Iterator[Job]:
    """The sets' own splits first, then the folds; trainings of one seed after the other."""
    for folds in ((SPLIT,), range(options.blocks)):
        for seed in range(options.seeds):
            for name in names:
                for fold in folds:
                    methods = (*PLANNED, *LEARNED) if seed == 0 else LEARNED
                    for method in methods:
                        yield Job(
                            name, fold, method, seed, options.budget, options.split, options.blocks
                        )


def run(
    jobs: list[Job],
    keep: Path,
    *,
    workers: int,
    until: float,
    outcome: Callable[[Job], DayGains] | None = None,
    warm_up: str = LEARNED[0],
) -> list[DayGains]:
    """Everything that is finished when the time is over, in the order it was; added to `keep`.

    `outcome` does a job (None: `gains`); a short one of the method `warm_up` compiles for all.
    """
    work = outcome or gains
    keep.parent.mkdir(parents=True, exist_ok=True)
    fork = get_context("fork")
    with fork.Pool(1) as first:  # no autograd step may happen before a fork
        first.map(work, [replace(jobs[0], method=warm_up, budget=0.01)])
    found: list[DayGains] = []
    with fork.Pool(workers) as pool, keep.open("a") as file:
        waiting = pool.imap_unordered(work, jobs)
        while len(found) < len(jobs) and time.monotonic() < until:
            try:
                done = waiting.next(timeout=max(0.1, until - time.monotonic()))
            except TooLate:
                break
            found.append(done)
            file.write(json.dumps(done) + "\n")
            file.flush()
        pool.terminate()
    return found


def days_of(job: Job) -> tuple[Dates, Dates]:
    """The days to fit on and those to execute."""
    data = SETS[job.name]
    at = data.provenance.split
    parts = split_dates(data.dates, at)
    if job.fold == SPLIT:
        return parts["train"], parts[job.split]
    dates = data.dates if job.split == "test" else data.dates[data.dates <= parts["valid"][-1]]
    fold = walk_forward(dates, job.blocks, at=at)[job.fold]
    return fold.past, fold.block


def gains(job: Job, train_rival: TrainRival | None = None) -> DayGains:
    """What one job gains over TWAP on every day it executes.

    `train_rival` trains (None: as the method's name says).
    """
    torch.set_num_threads(1)
    past, days = days_of(job)
    horizon = REAL_SETS[job.name].horizon if job.name in REAL_SETS else SYNTHETIC_HORIZON
    train = SETS[job.name].select(dates=past)
    scales = FeatureScales.fit(train)
    data = with_history(SETS[job.name], days)
    orders = order_pairs(data, None if horizon == "session" else horizon, dates=days)
    panel = Panel.of(data, orders)
    core = StaticCore(data)
    twap = Score("TWAP", panel, core.execute(orders, ratios_from_weights(schedules.twap(orders))))
    if job.method in PLANS:
        weights = _planned(job.method, data, orders, (train, scales))
        record = core.execute(orders, ratios_from_weights(weights))
    else:
        world = StaticWorld(train, horizon=orders.horizon, scales=scales)
        train_once = train_rival or _trainer(job.method)
        trained = train_once({"static": world}, budget=job.budget, seed=job.seed, neutral={})
        fresh = StaticWorld(data, horizon=orders.horizon, scales=scales)
        record = execute(fresh, trained.runner("static"), Episodes(orders)).record
    own = Score(job.method, panel, record)
    return DayGains(
        set=job.name,
        fold=job.fold,
        method=job.method,
        seed=job.seed,
        dates=[int(date) for date in data.dates[np.unique(panel.day)]],
        specific=day_means(own.specific_pa() - twap.specific_pa(), panel.day).tolist(),
        whole=day_means(own.pa() - twap.pa(), panel.day).tolist(),
    )


def _planned(
    method: str, data: MarketData, orders: Orders, train: tuple[MarketData, FeatureScales]
) -> schedules.Array:
    """The shares per step that a planned rival fixes in advance."""
    ridge = XSRidge.fit((train,)) if method == registry.RIDGE else None
    task = BaselineTask(BaselinesConfig(), data, orders)
    weights = PLANS[method](Planning(task, Fitted(train[1], ridge, (train,), ())))
    if weights is None:
        raise ValueError(f"{method} cannot be planned on {data.provenance.name}; leave it out")
    return weights


def _trainer(method: str) -> TrainRival:
    rivals = {rival.name: rival for rival in registry.LEARNED}
    trainers: Mapping[str, TrainRival] = {
        "new default": rivals["PPO strong"].load(),
        "naive": rivals["PPO naive"].load(),
        "old default": train_old,
        **{name: partial(train_old, penalty=price) for name, price in PENALTIES.items()},
    }
    return trainers[method]


if __name__ == "__main__":
    main()
