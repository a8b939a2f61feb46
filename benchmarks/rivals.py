"""The rivals of the field side by side: docs/results/rivals.md and .json.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/rivals.py [--split test|valid]
        [--packed FILE.npz] [--sets NAME...] [--champions FILE --arm full --without reward]
        [--workers 16] [--minutes 9]

On history: real and synthetic days, as `defaults.py` does them (`--pack` there writes the real sets
for a machine that has none of them). In simulated markets: cells of profile and size, limit orders
of 40 steps, everything paired with TWAP by market orders in the same market. In others' markets
(`outside_rivals.py`): by their rules, with the suite's work. Champions are those of
`search_tables.py` on nasdaq100, one search a seed, unchanged on every set; `--without` has them
once more with the default in place of a module. Every finished training is a line of `--keep`,
known by set, method, seed, budget and split; what is there is not done again, so that a table grows
over several calls and machines.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import cast

import numpy as np
import torch

from se_rl.baselines import registry, schedules
from se_rl.baselines.passive_grid import best_constant
from se_rl.baselines.registry import LearnedRival, TrainedRival
from se_rl.data.catalog import load_dataset
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_core import ratios_from_weights
from se_rl.environments.task import Orders
from se_rl.environments.worlds import NamedWorlds
from se_rl.market.family import FAMILY
from se_rl.modules.kinds import KINDS
from se_rl.records.settings import RISK
from se_rl.rl.action_maps import MAX_OFFSET
from se_rl.rl.policy import Neutral
from se_rl.scoring.execution import Actor, ConstantSchedule, execute
from se_rl.scoring.statistics import day_means
from se_rl_benchmarks import outside_rivals
from se_rl_benchmarks.ceiling_cells import TEST_BOOKS, Cell, entries
from se_rl_benchmarks.champion_rival import Champions, read_champions
from se_rl_benchmarks.defaults import SETS, Job, gains, read_set, run
from se_rl_benchmarks.defaults_page import SPLIT, DayGains
from se_rl_benchmarks.outside_rules import BEST_RULES
from se_rl_benchmarks.packed_sets import read_packed
from se_rl_benchmarks.real_sets import REAL_SETS, ROOT
from se_rl_benchmarks.rivals_page import RivalGains, SetGroup, finished, maker, page

REAL = ("us_2015", "cn_15min_2025_all", "cn_5min_2018", "in_15min_2024")
SYNTHETIC = ("nasdaq100", "csi100")
CELLS = {
    f"{profile}, {100 * size:g} %": Cell(size, profile, "free")
    for profile in FAMILY
    for size in (0.05, 0.20)
}
"""Simulated cells by name."""
OTHERS = tuple(outside_rivals.TASKS)
"""Others' markets by name."""
ALL_SETS = (*REAL, *SYNTHETIC, *CELLS, *OTHERS)
LEARNED: dict[str, LearnedRival | Champions] = {rival.name: rival for rival in registry.LEARNED}
ALMGREN_CHRISS = "Almgren-Chriss"
PLANNED = ("TWAP", "VWAP", ALMGREN_CHRISS, registry.RIDGE)
CONSTANT = "best constant"
PLANNED_IN_CELLS = ("TWAP", ALMGREN_CHRISS, CONSTANT)
"""What needs no history; the constant schedule is the one that outputs of 0 mean."""
GROUPS = (
    SetGroup(
        "On history",
        "bps. Price taker without costs, both sides, fitted and trained on train days; T=240 on minute\n"
        f"bars and the whole session elsewhere. Score: specific gain - {RISK:g}/2 x the variance of a\n"
        "day's whole gain. Plans that are the same for both sides earn what TWAP earns.",
        (*REAL, *SYNTHETIC),
        by="days",
        risk=RISK,
    ),
    SetGroup(
        "In simulated markets",
        "bps. Limit orders of 40 steps of 5 and 20 % of volume, against TWAP by market orders in the\n"
        "same market. Score: the mean.",
        tuple(CELLS),
        by="books",
    ),
    SetGroup(
        "In others' markets",
        outside_rivals.WORDS,
        OTHERS,
        by="episodes",
        decimals=3,
        cannot={name: outside_rivals.cannot(name) for name in OTHERS},
        notes={name: f"Best simple rule: {BEST_RULES[name][0]}." for name in OTHERS},
    ),
)
TRAIN_BOOKS = 4096
URGENCY = 2.0


def main() -> None:
    """Do the jobs that are missing, and write the page of all that are done."""
    options = _options()
    names = tuple(options.sets or ALL_SETS)
    torch.set_num_threads(1)
    if options.champions:
        champions = read_champions(options.champions, found_on=SYNTHETIC[0], arm=options.arm)
        for one in (champions, *map(champions.without, options.without)):
            LEARNED[one.name] = one
    done = read_kept(options.keep)
    jobs = list(all_jobs(names, options))
    missing = [job for job in jobs if job not in done]
    if missing and options.minutes:
        _load(dict.fromkeys(job.name for job in missing), options)
        until = time.monotonic() + 60.0 * options.minutes
        run(
            missing,
            options.keep,
            workers=options.workers,
            until=until,
            outcome=outcome,
            warm_up="PPO strong",
        )
        done = read_kept(options.keep)
    found = [done[job] for job in jobs if job in done]
    jobs_done = f"{len(found)} of {len(jobs)}"
    facts = {"split": options.split, "seeds": options.seeds, "jobs": jobs_done}
    table = finished(found, GROUPS, facts=facts)
    options.out.with_suffix(".json").write_text(json.dumps(table, indent=1))
    options.out.write_text(page(table, GROUPS))
    print(f"{options.out}: {jobs_done} jobs")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--split", choices=("test", "valid"), default="valid")
    parser.add_argument("--sets", nargs="+", choices=ALL_SETS)
    parser.add_argument("--packed", type=Path, help="take the real sets from this .npz")
    parser.add_argument("--champions", type=Path, help="a row of champions out of this file")
    parser.add_argument("--arm", default="full", help="of the champions' searches")
    parser.add_argument("--without", nargs="+", default=[], choices=KINDS, help="also without it")
    parser.add_argument("--budget", type=float, default=10.8, help="work units per training")
    parser.add_argument("--seeds", type=int, default=5, help="trainings per row")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so many")
    parser.add_argument("--keep", type=Path, default=ROOT / "out" / "rivals.jsonl")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "rivals.md")
    return parser.parse_args()


def _load(names: Iterable[str], options: argparse.Namespace) -> None:
    """Read the bars that are asked for, and play TWAP in others' markets, before processes fork."""
    known = read_packed(options.packed) if options.packed else {}
    for name in names:
        if name in REAL_SETS:
            SETS[name] = known[name] if name in known else read_set(name)
        elif name in SYNTHETIC:
            SETS[name] = load_dataset(name).data
        elif name in OTHERS:
            outside_rivals.load_twap(name, options.split)


def read_kept(keep: Path) -> dict[Job, RivalGains]:
    """The lines that are there, by the jobs that made them."""
    found: dict[Job, RivalGains] = {}
    if keep.exists():
        for line in keep.read_text().splitlines():
            row = cast(RivalGains, json.loads(line))
            found[_job(row["set"], row["method"], row["seed"], row["budget"], row["split"])] = row
    return found


def _job(name: str, method: str, seed: int, budget: float, split: str) -> Job:
    return Job(name, SPLIT, method, seed, budget, split, 0)


def all_jobs(names: tuple[str, ...], options: argparse.Namespace) -> Iterator[Job]:
    """Everybody's first seed on all sets, then the next."""
    for seed in range(options.seeds):
        for name in names:
            budget = outside_rivals.TASKS[name].work if name in OTHERS else options.budget
            for method in (*planned(name), *learned(name)) if seed == 0 else learned(name):
                yield _job(name, method, seed, budget, options.split)


def planned(name: str) -> tuple[str, ...]:
    """The rows of a set that learn nothing."""
    if name in OTHERS:
        return outside_rivals.planned(name)
    return PLANNED_IN_CELLS if name in CELLS else PLANNED


def learned(name: str) -> tuple[str, ...]:
    """The rows of a set that are trained."""
    if name in OTHERS:
        without = outside_rivals.cannot(name)
        return (*(method for method in LEARNED if method not in without), outside_rivals.TUNED)
    return tuple(LEARNED)


class Timed:
    """Trains a rival and counts the CPU seconds that it takes."""

    def __init__(self, rival: LearnedRival | Champions) -> None:
        self._train = rival.load()
        self.seconds = 0.0

    def __call__(
        self,
        worlds: NamedWorlds,
        *,
        budget: float,
        seed: int,
        neutral: Mapping[str, Neutral],
    ) -> TrainedRival:
        """Train once."""
        started = time.process_time()
        trained = self._train(worlds, budget=budget, seed=seed, neutral=neutral)
        self.seconds = time.process_time() - started
        return trained


def outcome(job: Job) -> RivalGains:
    """One job, with what its training took and which machine made it."""
    if job.name in OTHERS:
        row = outside_rivals.outside_gains(job, LEARNED.get(job.method))
    else:
        timed = Timed(LEARNED[job.method]) if job.method in LEARNED else None
        found = _cell_gains(job, timed) if job.name in CELLS else gains(job, timed)
        seconds = timed.seconds if timed else 0.0
        row = RivalGains(**found, seconds=seconds, budget=job.budget, split=job.split)
    if job.name in SETS:
        row["names"] = len(SETS[job.name].symbols)
    row["made_by"] = maker()
    return row


@cache
def _cell(name: str) -> tuple[DynamicWorld, DynamicWorld, ConstantSchedule]:
    """A cell's worlds to train in and to score in, and its best constant schedule."""
    world = CELLS[name].world(None, books=TEST_BOOKS + TRAIN_BOOKS)
    to_train = world.over(range(TEST_BOOKS, TEST_BOOKS + TRAIN_BOOKS))
    return to_train, world, best_constant([to_train], np.random.default_rng(0))


def _cell_gains(job: Job, timed: Timed | None) -> DayGains:
    """What a method saves against TWAP in every book; orders that are void save nothing."""
    torch.set_num_threads(1)
    world, fresh, constant = _cell(job.name)
    episodes = entries(fresh, 0, TEST_BOOKS)
    actor: Actor
    if timed is not None:
        neutral = {"dynamic": Neutral(constant.multiple, constant.offset)}
        trained = timed({"dynamic": world}, budget=job.budget, seed=job.seed, neutral=neutral)
        actor = trained.runner("dynamic")
    else:
        actor = constant if job.method == CONSTANT else PlannedActor(job.method, episodes.orders)
    done = execute(fresh, actor, episodes)
    saved = np.nan_to_num(done.gain - done.twap_gain)
    if job.method == "TWAP":
        saved = np.zeros_like(saved)
    by_book = day_means(saved, done.clusters).tolist()
    return DayGains(
        set=job.name,
        fold=SPLIT,
        method=job.method,
        seed=job.seed,
        dates=list(range(len(by_book))),
        specific=by_book,
        whole=by_book,
    )


class PlannedActor:
    """Shares that were fixed in advance, traded by limits that take whatever is there."""

    def __init__(self, method: str, orders: Orders) -> None:
        weights = schedules.twap(orders)
        if method == ALMGREN_CHRISS:
            weights = schedules.almgren_chriss(orders, urgency=URGENCY)
        self._ratios = ratios_from_weights(weights)

    def start(self, n: int, horizon: int) -> None:
        """Begin."""
        self._step = 0

    def act(self, observation: object) -> tuple[schedules.Array, schedules.Array]:
        """The next share."""
        ratio = self._ratios[:, self._step]
        self._step += 1
        return ratio, np.full(len(ratio), -MAX_OFFSET)

    def close(self) -> None:
        """Nothing to end."""


if __name__ == "__main__":
    main()
