"""A suite from designs and tasks to effects; what was trained before is looked up."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path

from se_rl.config import ConfigError
from se_rl.core.suite.designs import DEFAULT_DESIGN, SuiteDesign
from se_rl.core.suite.evaluators import Say, open_evaluator
from se_rl.core.suite.tasks import SuiteTask
from se_rl.records.archive import Archive
from se_rl.records.jobs import TrainingJob
from se_rl.scoring.score import Scores
from se_rl.scoring.suite_effects import DesignScores, SuiteResult, TaskScores, suite_result

NOT_REACHED = "not trained yet"


@dataclass(frozen=True)
class SuitePlan:
    """What to do: designs, tasks at their work, trainings of each, and the folder that keeps them.

    No training begins after `until`, in seconds of the clock.
    """

    designs: tuple[SuiteDesign, ...]
    tasks: tuple[SuiteTask, ...]
    seeds: int
    out: Path
    unsafe: bool = False
    until: float = math.inf

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ConfigError(f"seeds is {self.seeds}; a design needs 1 training or more")
        _check_names("designs", [DEFAULT_DESIGN.name, *(one.name for one in self.designs)])
        _check_names("tasks", [one.name for one in self.tasks])


def _check_names(what: str, names: list[str]) -> None:
    """Refuse two of one name: what is kept and shown goes by names."""
    if len(set(names)) < len(names):
        raise ConfigError(f"{what} {', '.join(names)} are not all different; name each once")


def run_suite(plan: SuitePlan, *, workers: int = 1, say: Say = lambda _: None) -> SuiteResult:
    """Do what is missing, `workers` tasks at once, and say what came of it."""
    found = {one.task: one for one in _all_tasks(plan, workers, say)}
    return suite_result([found[task.name] for task in plan.tasks], seeds=plan.seeds)


def _all_tasks(plan: SuitePlan, workers: int, say: Say) -> Iterator[TaskScores]:
    if workers == 1:
        for task in plan.tasks:
            yield run_task(task, plan, say=say)
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        waiting = [pool.submit(run_task, task, plan) for task in plan.tasks]
        for one in as_completed(waiting):
            say(f"{one.result().task}: done")
            yield one.result()
    finally:
        pool.shutdown(cancel_futures=True)


def run_task(task: SuiteTask, plan: SuitePlan, *, say: Say = lambda _: None) -> TaskScores:
    """All designs on one task, one seed of everybody after the other."""
    designs = (DEFAULT_DESIGN, *plan.designs)
    scores: dict[str, dict[int, Scores]] = {design.name: {} for design in designs}
    reasons = dict.fromkeys(scores, NOT_REACHED)
    levels = set()
    plan.out.mkdir(parents=True, exist_ok=True)
    with (
        Archive.open(plan.out / f"{task.name}.sqlite") as archive,
        open_evaluator(task, archive, unsafe=plan.unsafe, say=say) as evaluator,
    ):
        for seed, design in product(range(plan.seeds), designs):
            if time.time() > plan.until:
                break
            say(f"{task.name}: {design.name}, training {seed + 1} of {plan.seeds}")
            archive.add_candidate(design.candidate, design.sources)
            job = TrainingJob(design.candidate, task.rung, seed)
            ((_, evaluation, _),) = evaluator.evaluate([job])
            reasons[design.name] = evaluation.reason
            levels.add(evaluation.isolation)
            if evaluation.ok:
                scores[design.name][seed] = evaluator.arrays(evaluation)
    found = {name: DesignScores(scores[name], reasons[name]) for name in scores}
    default = found.pop(DEFAULT_DESIGN.name)
    return TaskScores(task.name, task.unit, task.rule, default, found, tuple(sorted(levels)))
