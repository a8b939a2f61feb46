"""Do the score's intervals cover the truth? The default against itself, with other training seeds.

    NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/aa_test.py [--data nasdaq100]
        [--preset standard] [--trainings 40] [--seeds 8] [--comparisons 200] [--workers N]
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
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.records.settings import preset
from se_rl.scoring.score import ScoreRule, Scores, difference
from se_rl.scoring.score_summary import score_summary
from se_rl_benchmarks.many_trainings import Job, Outcome, Workshop, run_jobs

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


def fill_bank(
    workshop: Workshop, bank: Path, *, n: int, workers: int | None, seconds: float
) -> None:
    """Train until the bank has `n` trainings, or until the time is up."""
    work = workshop.config.rungs.last.work
    missing = [seed for seed in range(n) if not _place(bank, seed).exists()]

    def keep(outcome: Outcome) -> None:
        seed = outcome.job.seed
        if outcome.reason:
            sys.exit(f"training {seed} gave no score ({outcome.reason}); run se-rl doctor")
        np.savez(_place(bank, seed), **outcome.scores)  # type: ignore[arg-type]
        print(f"training {seed} is scored", flush=True)

    jobs = [Job("default", work, seed) for seed in missing]
    if run_jobs(workshop, jobs, keep, seconds=seconds, workers=workers) < len(jobs):
        print(f"time is up after {seconds:g} s")


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
    parser.add_argument("--trainings", type=int, default=40)
    parser.add_argument("--seeds", type=int, help="trainings on each side (none: the last rung's)")
    parser.add_argument("--comparisons", type=int, default=200)
    parser.add_argument("--workers", type=int, help="processes (none: one for each core)")
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
    workshop = Workshop(config)
    fill_bank(workshop, given.bank, n=given.trainings, workers=given.workers, seconds=given.seconds)
    bank = read_bank(given.bank)
    seeds = given.seeds or config.rungs.last.seeds
    found = coverage(bank, rule, seeds=seeds, comparisons=given.comparisons)
    level = score_summary(bank, rule, cells=workshop.cells)
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
