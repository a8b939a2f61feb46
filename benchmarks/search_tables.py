"""Does the search climb? Whole searches of several arms and seeds, and their champions on sealed days.

    python benchmarks/search_tables.py [--arms local random] [--seeds 5] [--preset standard]
        [--minutes 8] [--out FOLDER]

Each search is the run's own: proposer, ladder, finals. Trainings go to forked processes without a
lock, which is why only arms without a model are run here. The champion and the default are then
trained anew with fresh seeds and scored on the test days and on fresh simulated orders. Writes
search.json and search.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.core.designers import Designers
from se_rl.core.preparation import make_kit
from se_rl.core.search import Search
from se_rl.core.training_loop import evolve
from se_rl.records.archive import Archive
from se_rl.records.entries import Evaluation
from se_rl.records.jobs import TrainingJob
from se_rl.records.rungs import Rung
from se_rl.records.settings import RunConfig, preset
from se_rl.scoring.score import Array, ScoreRule, Scores, difference
from se_rl_benchmarks.many_trainings import Job, Workshop, open_pool, outcome_of

FRESH_SEED = 1000
"""The first of the training seeds that no search uses."""
FRESH_TRAININGS = 5


class ForkedEvaluator:
    """Trains and scores the designs of one search in processes that all searches share."""

    def __init__(self, workshop: Workshop, pool: Any, archive: Archive) -> None:
        self.workshop = workshop
        self.pool = pool
        self.archive = archive
        self.trainings = 0
        self._scores: dict[str, dict[str, Array]] = {}

    @property
    def cells(self) -> Mapping[str, Sequence[str]]:
        """By world the names of the cells."""
        return self.workshop.data.validation.cells

    def regimes(self, rung: Rung) -> Mapping[str, Any]:
        """Which pairs of orders belong to which regime."""
        return self.workshop.data.validation.regimes(rung)

    def evaluate(
        self, jobs: Sequence[TrainingJob]
    ) -> Iterator[tuple[TrainingJob, Evaluation, bool]]:
        """Each job with its evaluation, in the order of the jobs."""
        asked = []
        for job in jobs:
            sources = self.archive.sources(job.candidate)
            asked.append(
                Job(job.candidate.id, job.rung.work, job.seed, sources, rung=job.rung.index)
            )
        self.trainings += len(asked)
        for job, outcome in zip(jobs, self.pool.imap(outcome_of, asked), strict=True):
            place = f"{job.candidate.id} {job.rung.index} {job.seed}"
            self._scores[place] = dict(outcome.scores)
            status = "failed" if outcome.reason else "ok"
            made = Evaluation(
                job.candidate.id,
                job.rung.index,
                job.seed,
                status,
                outcome.reason,
                arrays=place,
                work=job.rung.work,
                seconds=outcome.seconds,
            )
            yield job, made, False

    def arrays(self, evaluation: Evaluation) -> dict[str, Array]:
        """The scores of an evaluation."""
        return self._scores[evaluation.arrays]


@dataclass(frozen=True)
class SearchRow:
    """What one search found: its champion, and the champion's score over the default when sealed."""

    arm: str
    seed: int
    designs: int
    trainings: int
    champion: str
    at_last_rung: float
    over_default: float
    ci95: tuple[float, float]
    seconds: float


def search_once(
    workshop: Workshop, pool: Any, config: RunConfig, folder: Path
) -> tuple[SearchRow, Mapping[str, str]]:
    """One search from its first scan to its champion; and the champion's sources."""
    started = time.monotonic()
    folder.mkdir(parents=True)
    with Archive.open(folder / "archive.sqlite") as archive:
        evaluator = ForkedEvaluator(workshop, pool, archive)
        designers = Designers(config.llm, archive, evaluator, seed=config.seed)  # type: ignore[arg-type]
        search = Search(config, archive, evaluator, designers, make_kit(config))
        evolve(search)
        finalists = search.ladder.finals([])
        champion = search.ladder.champion(finalists)
        standing = search.ladder.longest(champion)
        sources = dict(search.designs.sources[champion])
        nothing = (0.0, 0.0)
        row = SearchRow(
            config.arm,
            config.seed,
            search.proposed,
            evaluator.trainings,
            champion if champion != search.default.id else "",
            standing.score if standing and champion != search.default.id else 0.0,
            0.0,
            nothing,
            time.monotonic() - started,
        )
        return row, sources


def sealed(
    workshop: Workshop, pool: Any, sources: Mapping[str, str], work: float
) -> tuple[float, tuple[float, float]]:
    """The design over the default on the test days and fresh simulated orders, fresh trainings."""
    jobs = []
    for design in (sources, {}):
        for k in range(FRESH_TRAININGS):
            jobs.append(Job("sealed", work, FRESH_SEED + k, design, rung=-1))
    found: list[Scores] = [one.scores for one in pool.map(outcome_of, jobs, chunksize=1)]
    own, default = found[:FRESH_TRAININGS], found[FRESH_TRAININGS:]
    rule = ScoreRule.of(workshop.config)
    estimate = difference(own, default, rule, cells=workshop.cells).estimate()
    return estimate.mean, (estimate.ci95[0], estimate.ci95[1])


def run_arm(
    workshop: Workshop, pool: Any, config: RunConfig, folder: Path, deadline: float
) -> SearchRow | None:
    """A search and its champion on sealed days; None where time is over."""
    if time.monotonic() > deadline:
        return None
    row, sources = search_once(workshop, pool, config, folder)
    if row.champion:
        mean, interval = sealed(workshop, pool, sources, config.rungs.last.work)
        row = replace(row, over_default=mean, ci95=interval)
    (folder / "champion.json").write_text(json.dumps({"row": asdict(row), "sources": sources}))
    print(json.dumps(asdict(row)), flush=True)
    return row


def summary(rows: Sequence[SearchRow]) -> dict[str, Any]:
    """Arms with their mean over seeds and its interval (Student's t over searches)."""
    from scipy.stats import t

    arms = {}
    for arm in dict.fromkeys(row.arm for row in rows):
        mine = [row for row in rows if row.arm == arm]
        gains = np.array([row.over_default for row in mine])
        n = len(gains)
        half = float(t.ppf(0.975, n - 1) * gains.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
        arms[arm] = {
            "seeds": n,
            "trainings": int(np.mean([row.trainings for row in mine])),
            "over_default": float(gains.mean()),
            "ci95": [float(gains.mean()) - half, float(gains.mean()) + half],
            "by_seed": gains.tolist(),
        }
    return arms


def table(arms: Mapping[str, Any]) -> str:
    """The arms in Markdown."""
    lines = ["| arm | searches | trainings each | score over the default, sealed | by seed |"]
    lines.append("|---|--:|--:|--:|---|")
    for arm, row in arms.items():
        low, high = row["ci95"]
        by_seed = ", ".join(f"{gain:+.2f}" for gain in row["by_seed"])
        lines.append(
            f"| {arm} | {row['seeds']} | {row['trainings']} "
            f"| {row['over_default']:+.2f} [{low:.2f}, {high:.2f}] | {by_seed} |"
        )
    return "\n".join(lines) + "\n"


def keep_set(path: Path, name: str, found: Mapping[str, Any]) -> None:
    """Write what was found on one set; what the file says of others, and of demos, stays."""
    told = json.loads(path.read_text()) if path.exists() else {}
    told["sets"] = {**told.get("sets", {}), name: found}
    path.write_text(json.dumps(told, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all searches at once, as far as the time goes, and write what is done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--arms", nargs="+", default=["local", "random"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--preset", default="standard")
    parser.add_argument("--data", default="nasdaq100")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args(arguments)
    workshop = Workshop(preset(options.preset, data=options.data), with_test_days=True)
    deadline = time.monotonic() + 60.0 * options.minutes
    configs = []
    for seed in range(options.seeds):
        for arm in options.arms:
            configs.append(replace(workshop.config, arm=arm, seed=seed))
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[SearchRow] = []
    with (
        tempfile.TemporaryDirectory() as place,
        open_pool(workshop, options.workers) as pool,
        ThreadPoolExecutor(len(configs)) as threads,
    ):
        waiting = []
        for config in configs:
            folder = Path(place) / f"{config.arm}-{config.seed}"
            waiting.append(threads.submit(run_arm, workshop, pool, config, folder, deadline))
        for one in waiting:
            row = one.result()
            if row is None:
                continue
            rows.append(row)
            found = {"arms": summary(rows), "searches": [asdict(each) for each in rows]}
            keep_set(options.out / "search.json", options.data, found)
            (options.out / "search.md").write_text(table(summary(rows)))
    print(table(summary(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
