"""What a run will do at most, known from its settings alone: designs, trainings, work and time."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from se_rl.records.rungs import REFERENCE_SEEDS
from se_rl.records.settings import RunConfig

SECONDS_PER_DESIGN = 3.0
"""What the model takes to write one design, and its share of learning, roughly."""
SECONDS_PER_WORK = 1.2
"""A work unit of training with its share of scoring on one core, roughly: a demo takes four minutes
of two."""


@dataclass(frozen=True)
class RungPlan:
    """One rung: the designs that reach it at most, and their trainings; the same of the rivals.

    Not counted are the counterparts by which protocols and markets of several agents are judged.
    """

    rung: str
    designs: float
    trainings: float
    work_each: float

    @property
    def work(self) -> float:
        """Work units of the whole rung."""
        return self.trainings * self.work_each


@dataclass(frozen=True)
class RunPlan:
    """The plan of a run with `workers` trainings at once; `seconds` is a rough estimate."""

    data: str
    designer: str
    folder: str
    iterations: int
    designs: int
    rungs: tuple[RungPlan, ...]
    work: float
    workers: int
    seconds: float


def rung_plans(config: RunConfig) -> tuple[RungPlan, ...]:
    """The rungs with all that may climb them: the default, too, and at the last the naive design,
    which has fewer trainings.
    """
    batches = config.budget_designs / (config.parents * config.siblings)
    climbing = (config.budget_designs + 1, batches * config.promoted + 1, config.finalists + 1)
    plans = []
    for rung, designs in zip(config.rungs, climbing, strict=True):
        plans.append(RungPlan(rung.name, designs, designs * rung.seeds, rung.work))
    last, naive = plans[-1], min(REFERENCE_SEEDS, config.rungs.last.seeds)
    plans[-1] = replace(last, designs=last.designs + 1, trainings=last.trainings + naive)
    return tuple(plans)


def rival_plan(config: RunConfig) -> RungPlan:
    """The rivals, each trained as a finalist is."""
    last = config.rungs.last
    rivals = len(config.rivals)
    return RungPlan("rivals", rivals, rivals * last.seeds, last.work)


def plan_run(config: RunConfig, folder: str, *, workers: int) -> RunPlan:
    """What a run with these settings will do; nothing is loaded, trained or written."""
    rungs = rung_plans(config)
    work = sum(rung.work for rung in rungs)
    rivals = rival_plan(config)
    training = work / workers + rivals.work  # rivals are trained one after the other
    return RunPlan(
        data=config.data,
        designer=config.designer,
        folder=folder,
        iterations=config.iterations,
        designs=config.budget_designs,
        rungs=(*rungs, rivals) if config.rivals else rungs,
        work=work + rivals.work,
        workers=workers,
        seconds=training * SECONDS_PER_WORK + writing_seconds(config, written=0),
    )


def writing_seconds(config: RunConfig, *, written: int) -> float:
    """How long the model will write, once it has written so many designs."""
    if not config.asks_model:
        return 0.0
    return SECONDS_PER_DESIGN * max(0, config.budget_designs - written)


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usual_workers(executor: str) -> int:
    """Trainings at once where nobody says otherwise: one per core, of all nodes on a cluster."""
    from se_rl.executors.registry import is_cluster, prepare_ray

    if not is_cluster(executor):
        return usable_cores()
    prepare_ray()
    from se_rl.executors.ray_cluster import cluster_cores

    return max(1, cluster_cores(executor))
