"""What a cluster costs: the share of a worker's time that is neither training nor scoring.

    python benchmarks/executor_cost.py [--trainings 6] [--seconds 10] [--out docs/results]

The default design is trained with other seeds for about so many seconds each, on this machine and
on a Ray cluster of one node here, one training at a time. Rooms are opened before the clock starts.
The main process's own seconds per evaluation are what limits a large cluster (docs/scale.md). A busy
machine slows trainings and everything around them alike, so the shares hold; the seconds do not.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from se_rl.core.run import Run
from se_rl.modules.kinds import KINDS
from se_rl.records.archive import Archive
from se_rl.records.files import to_json, write_text
from se_rl.records.jobs import TrainingJob
from se_rl.records.run_folder import RunFolder
from se_rl_benchmarks.killed_runs import TINY
from se_rl_benchmarks.local_cluster import LocalCluster
from se_rl_benchmarks.markdown_tables import number, table

TRIAL_WORK = 0.3
"""Work units of the training that says how long others must be."""


@dataclass(frozen=True)
class ExecutorCost:
    """One executor: shares of wall time, and seconds of the main process per evaluation."""

    executor: str
    trainings: int
    mean_seconds: float
    deviation: float
    overhead: float
    main_seconds: float
    validation_seconds: float
    seconds_per_work: float


def cost(run: Run, *, executor: str, trainings: int, seconds: float) -> ExecutorCost:
    """Trainings of the default design one after the other; the first opens the room."""
    pool, screen = run.training_pool, run.config.rungs.screen
    run.archive.add_candidate(run.search.default, {})

    def evaluated(work: float, seeds: Sequence[int]) -> list[float]:
        rung = replace(screen, work=work)
        jobs = [TrainingJob(run.search.default, rung, seed) for seed in seeds]
        found = [evaluation for _, evaluation, _ in pool.evaluate(jobs)]
        assert all(evaluation.ok for evaluation in found), [one.reason for one in found]
        return [evaluation.seconds for evaluation in found]

    example = KINDS["reward"].contract.examples[0]
    pool.validate(example, "reward")
    evaluated(screen.work, [0])
    short, long = evaluated(screen.work, [1])[0], evaluated(TRIAL_WORK, [2])[0]
    per_work = (long - short) / (TRIAL_WORK - screen.work)
    started, own = time.monotonic(), time.process_time()
    spent = evaluated((seconds - short) / per_work + screen.work, range(3, 3 + trainings))
    wall, own = time.monotonic() - started, time.process_time() - own
    asked = time.monotonic()
    assert pool.validate(example, "reward").is_valid
    return ExecutorCost(
        executor,
        trainings,
        float(np.mean(spent)),
        float(np.std(spent, ddof=1)),
        1.0 - sum(spent) / wall,
        own / trainings,
        time.monotonic() - asked,
        per_work,
    )


def measured(executor: str, *, trainings: int, seconds: float) -> ExecutorCost:
    """The cost of one executor, with a tiny run in a folder that is thrown away."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ.update(TINY.environment(folder))
        TINY.make_data(folder)
        (folder / "run").mkdir()
        archive = stack.enter_context(Archive.open(folder / "run" / "archive.sqlite"))
        config = TINY.tiny_config()
        run = Run(config, RunFolder(folder / "run"), archive, workers=1, executor=executor)
        stack.callback(run.close)
        return cost(run, executor=executor, trainings=trainings, seconds=seconds)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trainings", type=int, default=6, metavar="N")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S")
    parser.add_argument("--out", type=Path, help="where executor_cost.json goes")
    options = parser.parse_args()
    how = {"trainings": options.trainings, "seconds": options.seconds}
    found = [measured("local", **how)]
    with LocalCluster(nodes=1) as cluster:
        os.environ.update(cluster.environment)
        found.append(measured("ray", **how))
    rows = [asdict(one) for one in found]
    if options.out:
        write_text(options.out / "executor_cost.json", to_json({"executors": rows}))
    print(table(list(rows[0]), [[_cell(value) for value in row.values()] for row in rows]))
    return 0


def _cell(value: object) -> str:
    return number(value, 4) if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
