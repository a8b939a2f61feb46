"""Does more training hurt? The default at 1 to 30 times a budget, in both worlds and in one.

    python benchmarks/training_lengths.py [--preset standard] [--seeds 3] [--minutes 8] [--out FOLDER]

Trains on the train days of the synthetic set and scores on its validation days: history by gain
less risk, simulated orders by cell. Specialists train in one world with half of the budget, which
is what that world gets of a hybrid training. Writes lengths.json and lengths.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from se_rl.records.settings import preset
from se_rl.scoring.score import Contributions, ScoreRule, contributions
from se_rl_benchmarks.many_trainings import Job, Outcome, Workshop, run_jobs

HEAD = """# The default, trained longer

Made by `python benchmarks/training_lengths.py`; do not edit. The default design on the train days of
a synthetic set, scored on validation days that no search has seen and on simulated orders; bps over
TWAP, the mean over training seeds ± its error over seeds, days and orders. Trained in both worlds, or
as a specialist of one with half of the work, which is what that world gets of a training in both.

"""
TIMES = (1, 3, 10, 30)
SPECIALISTS = (10, 30)


@dataclass(frozen=True)
class LengthRow:
    """One length of training: score and parts in bps over TWAP, with errors over seeds and orders."""

    worlds: str
    work: float
    seeds: int
    score: float
    score_se: float
    history: float
    history_se: float
    simulated: float
    simulated_se: float
    seconds: float
    last_alpha: float | None


def jobs_of(work: float, seeds: int) -> list[Job]:
    """The longest first, so that no process waits for one of them at the end."""
    jobs = []
    for times in reversed(TIMES):
        for seed in range(seeds):
            jobs.append(Job("default", times * work, seed))
            if times in SPECIALISTS:
                jobs.append(Job("default", times * work / 2.0, seed, worlds="static"))
                jobs.append(Job("default", times * work / 2.0, seed, worlds="dynamic"))
    return jobs


def row_of(outcomes: Sequence[Outcome], rule: ScoreRule, cells: Sequence[str]) -> LengthRow:
    """The mean over training seeds with its error."""
    whole = contributions([one.scores for one in outcomes], rule, cells=cells)
    worlds = whole.by_world()
    score, score_se = _estimate(whole)
    history, history_se = _estimate(worlds["static"])
    simulated, simulated_se = _estimate(worlds["dynamic"])
    alphas = [one.alpha[-1] for one in outcomes if one.alpha]
    return LengthRow(
        outcomes[0].job.worlds,
        outcomes[0].job.work,
        len(outcomes),
        score,
        score_se,
        history,
        history_se,
        simulated,
        simulated_se,
        float(np.mean([one.seconds for one in outcomes])),
        float(np.mean(alphas)) if alphas else None,
    )


def _estimate(part: Contributions) -> tuple[float, float]:
    found = part.estimate()
    return found.mean, found.se


def page(rows: Sequence[LengthRow]) -> str:
    """The page in Markdown."""
    lines = [
        "| trained in | work | seeds | score | history | simulated | seconds | last alpha |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        alpha = "" if row.last_alpha is None else f"{row.last_alpha:.2f}"
        lines.append(
            f"| {row.worlds} | {row.work:g} | {row.seeds} | {row.score:+.2f} ± {row.score_se:.2f} "
            f"| {row.history:+.2f} ± {row.history_se:.2f} "
            f"| {row.simulated:+.2f} ± {row.simulated_se:.2f} "
            f"| {row.seconds:.1f} | {alpha} |"
        )
    return HEAD + "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what fits into the time, and write what is done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--preset", default="standard")
    parser.add_argument("--data", default="nasdaq100")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args(arguments)
    config = preset(options.preset, data=options.data)
    workshop = Workshop(config)
    rule = ScoreRule.of(workshop.config)
    done: dict[tuple[str, float], list[Outcome]] = {}

    def keep(outcome: Outcome) -> None:
        job = outcome.job
        if outcome.reason:
            print(f"{job.worlds} {job.work:g} seed {job.seed}: {outcome.reason}", flush=True)
            return
        done.setdefault((job.worlds, job.work), []).append(outcome)
        rows = [row_of(done[key], rule, workshop.cells) for key in sorted(done)]
        options.out.mkdir(parents=True, exist_ok=True)
        told = {"set": options.data, "rows": [asdict(row) for row in rows]}
        (options.out / "lengths.json").write_text(json.dumps(told, indent=1) + "\n")
        (options.out / "lengths.md").write_text(page(rows))
        print(f"{job.worlds} {job.work:g} seed {job.seed}: {outcome.seconds:.1f} s", flush=True)

    run_jobs(workshop, jobs_of(config.work, options.seeds), keep, seconds=60.0 * options.minutes)
    print((options.out / "lengths.md").read_text() if done else "nothing was done in this time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
