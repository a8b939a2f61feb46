"""Do the score's intervals cover the truth? The default against itself, with other training seeds.

    NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/aa_test.py [--data nasdaq100]
        [--preset standard] [--trainings 24] [--seeds 5] [--comparisons 200] [--workers 2]
        [--seconds 540] [--bank DIR] [--out FILE]

Trains the default design many times at the last rung's budget, scores every training on that rung's
validation days and simulated orders, and then draws two disjoint groups of trainings again and
again: as if one were a new design. Whatever the days were, the truth is a difference of 0, and a
95 % interval should miss it in one case of twenty. Every training is stored in --bank as it ends,
and one that is there is not made again: a run that was cut short goes on. There is one process per
worker, so one thread in each is enough.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.core.preparation import TrainingMarkets, load_run_data
from se_rl.executors.training_settings import train_config, training_worlds_of
from se_rl.modules.defaults import Modules
from se_rl.records.archive import Archive
from se_rl.records.settings import RunConfig, preset
from se_rl.rl.trainer import Trained, train
from se_rl.rl.training_worlds import make_worlds
from se_rl.scoring.score import Array, ScoreRule, Scores, difference
from se_rl.scoring.score_summary import score_summary
from se_rl.seal import PUBLIC, Seal

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Coverage:
    """How often intervals of a true difference of 0 covered it, and how wide they were, bps.

    `spread` is the standard deviation of the differences, `stated` the mean standard error.
    """

    comparisons: int
    seeds: int
    covered: float
    covered_se: float
    half_width: float
    spread: float
    stated: float


def coverage(
    trainings: Sequence[Scores], rule: ScoreRule, *, seeds: int, comparisons: int, seed: int = 0
) -> Coverage:
    """Compare disjoint groups of trainings of one design with each other."""
    if 2 * seeds > len(trainings):
        raise ValueError(
            f"{len(trainings)} trainings are too few for two groups of {seeds}; train more"
        )
    rng = np.random.default_rng(seed)
    means = np.empty(comparisons)
    errors = np.empty(comparisons)
    halves = np.empty(comparisons)
    for i in range(comparisons):
        drawn = rng.permutation(len(trainings))[: 2 * seeds]
        chosen = [trainings[place] for place in drawn]
        found = difference(chosen[:seeds], chosen[seeds:], rule).estimate()
        means[i] = found.mean
        errors[i] = found.se
        halves[i] = found.ci95[1] - found.mean
    covered = float(np.mean(np.abs(means) <= halves))
    return Coverage(
        comparisons,
        seeds,
        covered,
        math.sqrt(covered * (1.0 - covered) / comparisons),
        float(halves.mean()),
        float(means.std(ddof=1)),
        float(errors.mean()),
    )


class DefaultTrainings:
    """Trains the default design at the last rung and scores it there; made once, then forked."""

    def __init__(self, config: RunConfig, archive: Archive, say: Callable[[str], None]) -> None:
        self.config = config
        data = load_run_data(config, Seal(PUBLIC, "given"))
        markets = TrainingMarkets(data, archive, say=say)
        self.validation = data.validation
        self.neutral = markets.neutral()
        self.worlds = make_worlds(
            Modules(),
            training_worlds_of(data.config),
            data=data.train,
            scales=data.scales,
            banks=markets.banks(),
        )
        say("compiling, and playing the orders to score on once")
        rung = self.config.rungs.last
        self.rung = rung
        self._scores(self._trained(0, work=min(rung.work, 0.05)))

    @property
    def cells(self) -> Sequence[str]:
        """The cells of simulated orders."""
        return self.validation.cells.get("dynamic", ())

    def __call__(self, seed: int) -> tuple[int, dict[str, Array]]:
        """The scores of one training."""
        return seed, self._scores(self._trained(seed, work=self.rung.work))

    def _trained(self, seed: int, *, work: float) -> Trained:
        settings = train_config(self.config, replace(self.rung, work=work))
        return train(
            Modules(),
            self.worlds.train,
            settings,
            seed=seed,
            neutral=self.neutral,
            held_back=self.worlds.held_back,
        )

    def _scores(self, trained: Trained) -> dict[str, Array]:
        return self.validation.score(self.rung, lambda world, _, __: trained.runner(world))


_trainings: DefaultTrainings | None = None
"""Inherited by forked processes, which cannot be sent worlds."""


def _train_one(seed: int) -> tuple[int, dict[str, Array]]:
    assert _trainings is not None
    return _trainings(seed)


def fill_bank(
    trainings: DefaultTrainings, bank: Path, *, n: int, workers: int, seconds: float
) -> None:
    """Train until the bank has `n` trainings, or until the time is up."""
    global _trainings
    _trainings = trainings
    missing = [seed for seed in range(n) if not _place(bank, seed).exists()]
    end = time.monotonic() + seconds
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        found = pool.imap_unordered(_train_one, missing)
        for _ in missing:
            try:
                seed, scores = found.next(timeout=max(0.0, end - time.monotonic()))
            except multiprocessing.TimeoutError:
                print(f"time is up after {seconds:g} s")
                return
            np.savez(_place(bank, seed), **scores)  # type: ignore[arg-type]
            print(f"training {seed} is scored", flush=True)


def read_bank(bank: Path) -> list[Scores]:
    """The trainings of a bank in the order of their seeds."""
    found: list[Scores] = []
    for path in sorted(bank.glob("training_*.npz")):
        with np.load(path) as arrays:
            found.append(dict(arrays))
    return found


def _place(bank: Path, seed: int) -> Path:
    return bank / f"training_{seed:04d}.npz"


def table(found: Coverage) -> str:
    """The outcome as markdown."""
    rows = {
        "comparisons of the default with itself": f"{found.comparisons}",
        "trainings on each side": f"{found.seeds}",
        "intervals that cover 0, %": f"{100 * found.covered:.1f} ± {100 * found.covered_se:.1f}",
        "half-width of the interval, bps": f"{found.half_width:.3f}",
        "standard deviation of the differences, bps": f"{found.spread:.3f}",
        "standard error as stated, bps": f"{found.stated:.3f}",
    }
    lines = ["| A/A | |", "|---|--:|"]
    for name, value in rows.items():
        lines.append(f"| {name} | {value} |")
    return "\n".join(lines)


def main() -> None:
    """Fill the bank, compare, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", default="nasdaq100")
    parser.add_argument("--preset", default="standard", help="whose last rung")
    parser.add_argument("--work", type=float, help="another search budget, a third of the last")
    parser.add_argument("--trainings", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=5, help="trainings on each side")
    parser.add_argument("--comparisons", type=int, default=200)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=540.0, help="time for trainings")
    parser.add_argument("--bank", type=Path, default=ROOT / "out" / "aa")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "aa.json")
    given = parser.parse_args()
    changes: dict[str, Any] = {"data": given.data}
    if given.work is not None:
        changes["work"] = given.work
    config = preset(given.preset, **changes)
    rule = ScoreRule.of(config)
    given.bank.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        with Archive.open(Path(folder) / "aa.sqlite") as archive:
            trainings = DefaultTrainings(config, archive, say=print)
        fill_bank(
            trainings,
            given.bank,
            n=given.trainings,
            workers=given.workers,
            seconds=given.seconds,
        )
    bank = read_bank(given.bank)
    found = coverage(bank, rule, seeds=given.seeds, comparisons=given.comparisons)
    level = score_summary(bank, rule, cells=trainings.cells)
    print(table(found))
    print(f"the default's score over TWAP: {level.score.mean:+.2f} bps {level.score.ci95}")
    told = {
        "data": given.data,
        "preset": given.preset,
        "work": config.rungs.last.work,
        "trainings": len(bank),
        **vars(found),
        "default": {
            "score": level.score.mean,
            "history": level.history.mean,
            "risk_cost": level.risk_cost,
            "tracking_error": level.tracking_error,
            "simulated": level.simulated.mean,
            "cells": {name: cell.mean for name, cell in level.cells.items()},
        },
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
