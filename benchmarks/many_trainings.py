"""Many trainings at once in forked processes: what tables and banks of designs are made of.

Nothing is locked up here, so designs must be hand-written or spelled by the grammar. Each process
has one core: set NUMBA_NUM_THREADS=1 and OMP_NUM_THREADS=1 before Python starts.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from multiprocessing.pool import Pool
from queue import Empty, SimpleQueue

import numpy as np
import torch

from se_rl.baselines.passive_grid import best_constant
from se_rl.core.final_tables import TEST_ORDERS
from se_rl.core.preparation import GRID_EPISODES, RunData, load_run_data
from se_rl.data.catalog import DataSet, load_dataset
from se_rl.data.features import observation_table
from se_rl.environments.dynamic_world import EpisodeBank
from se_rl.executors.training_settings import train_config, training_worlds_of
from se_rl.modules.errors import one_line
from se_rl.modules.loading import load_design
from se_rl.records.settings import RunConfig
from se_rl.rl.policy import Neutral
from se_rl.rl.trainer import Trained, train
from se_rl.rl.training_worlds import dynamic_worlds, make_worlds
from se_rl.rl.written_policy import is_written
from se_rl.scoring.execution import Actor
from se_rl.scoring.history_orders import HistoryOrders, scored_world
from se_rl.scoring.play import Open, OwnRows
from se_rl.scoring.score import Scores
from se_rl.seal import PUBLIC, Seal, sealed_seed

WITHOUT_DERIVATIVE = "def reward(step):\n    return step.mid_after - step.mid_before\n"
"""A reward that nothing can be learned from, by autograd least of all."""


@dataclass(frozen=True)
class Job:
    """One training of a design and its score on the validation days of the last rung."""

    design: str
    work: float
    seed: int
    sources: Mapping[str, str] = field(default_factory=dict)
    worlds: str = "both"
    """Where it is trained; it is scored in both."""
    rung: int = 2
    """Where it is scored: a rung's validation days, or -1 for the test days."""


@dataclass(frozen=True)
class Outcome:
    """What a job came to: its scores by pair of orders, seconds, and the path of alpha."""

    job: Job
    scores: Scores
    seconds: float
    alpha: tuple[float, ...]
    reason: str = ""


class Workshop:
    """A run's data, markets and validation, made once and shared by all processes.

    `dataset` are bars that are here already; else they are read by the name in the settings.
    """

    def __init__(
        self,
        config: RunConfig,
        *,
        seal: str = PUBLIC,
        with_test_days: bool = False,
        dataset: DataSet | None = None,
    ) -> None:
        self.data = load_run_data(config, Seal(seal, "given"), dataset=dataset)
        self.config = self.data.config
        self._table = observation_table(self.data.train, self.data.scales)
        self.sealed = SealedDays(self.data, seal, dataset) if with_test_days else None

    @property
    def cells(self) -> tuple[str, ...]:
        """The names of the simulated cells."""
        return self.data.validation.cells.get("dynamic", ())

    @cached_property
    def banks(self) -> Mapping[int, EpisodeBank]:
        """Simulated episodes to train on, by horizon."""
        worlds = dynamic_worlds(
            training_worlds_of(self.config), data=self.data.train, scales=self.data.scales
        )
        return {world.horizon: world.filled_bank() for world in worlds}

    @cached_property
    def neutral(self) -> Mapping[str, Neutral]:
        """What an output of 0 means in simulated markets: the best constant schedule there."""
        worlds = dynamic_worlds(
            training_worlds_of(self.config),
            data=self.data.train,
            scales=self.data.scales,
            banks=self.banks,
        )
        episodes = min(GRID_EPISODES, self.config.bank)
        best = best_constant(worlds, np.random.default_rng(0), episodes=episodes)
        return {"dynamic": Neutral(best.multiple, best.offset)}

    def trained(self, job: Job) -> Trained:
        """The training of a job."""
        modules = load_design(dict(job.sources))
        config = replace(self.config, worlds=job.worlds)  # type: ignore[arg-type]
        worlds = make_worlds(
            modules,
            training_worlds_of(config),
            data=self.data.train,
            scales=self.data.scales,
            table=self._table,
            banks=self.banks,
            seed=job.seed,
        )
        return train(
            modules,
            worlds.train,
            replace(train_config(config, config.rungs.last), budget=job.work),
            seed=job.seed,
            neutral=self.neutral,
            held_back=worlds.held_back,
        )

    def outcome(self, job: Job) -> Outcome:
        """Train and score."""
        torch.set_num_threads(1)
        started = time.perf_counter()
        made = self.trained(job)
        seconds = time.perf_counter() - started
        scores: Scores = {}
        policy = self._opened(made, job)
        if made.reason is None and job.rung < 0:
            assert self.sealed is not None  # asked for when the workshop was opened
            scores = self.sealed.scores(policy)
        elif made.reason is None:
            scores = self.data.validation.score(self.config.rungs[job.rung], policy)
        alpha = tuple(row.alpha for row in made.curve if row.phase == "joint")
        return Outcome(job, scores, seconds, alpha, made.reason or "")

    def _opened(self, made: Trained, job: Job) -> Open:
        """The policy for a play, in one batch where the run would play it so."""

        def opened(world: str, horizon: int, rows: int) -> Actor:
            return made.runner(world)

        alone = self.config.book_agents == 1
        return OwnRows(opened) if alone and is_written(job.sources) else opened

    def prepare(self) -> None:
        """Simulate and compile all that every process needs, in this one.

        A pass of autograd here would break every forked process where torch knows a GPU, so the
        reward has no derivative.
        """
        for rung in (0, 1, 2) if self.sealed is None else (0, 1, 2, -1):
            self.outcome(Job("warm-up", 0.05, 0, {"reward": WITHOUT_DERIVATIVE}, rung=rung))


class SealedDays:
    """The test days of a set and simulated orders that no search sees."""

    def __init__(self, data: RunData, seal: str, dataset: DataSet | None = None) -> None:
        config = data.config
        if dataset is None:
            dataset = load_dataset(config.data, seal=seal, scored_days=config.scored_days)
        dates = dataset.dates("test")
        self._history = HistoryOrders(
            config,
            scored_world(config, dataset.data, dates=dates, scales=data.scales),
            dates=dates,
            seed=sealed_seed(seal, TEST_ORDERS),
        )
        self._markets = data.validation.test_markets()

    def scores(self, policy: Open) -> Scores:
        """All scores of one policy, by pair of orders."""
        return self._history.scores(policy) | self._markets.scores(policy)


def run_jobs(
    workshop: Workshop,
    jobs: Iterable[Job],
    keep: Callable[[Outcome], None],
    *,
    seconds: float,
    workers: int | None = None,
) -> int:
    """Run jobs in their order until the time is over; how many were kept.

    A job is taken when a process is free for it, so it may depend on what was kept before. A design
    that raises an error has it as its reason and ends nothing.
    """
    until = time.monotonic() + seconds
    workers = workers or os.cpu_count() or 1
    done: SimpleQueue[Outcome] = SimpleQueue()
    waiting = iter(jobs)
    kept = 0
    with open_pool(workshop, workers) as pool:

        def start(job: Job) -> None:
            def fail(error: BaseException) -> None:
                done.put(Outcome(job, {}, 0.0, (), one_line(error, job.design)))

            pool.apply_async(outcome_of, (job,), callback=done.put, error_callback=fail)

        running = 0
        for job in islice(waiting, workers):
            start(job)
            running += 1
        while running:
            try:
                keep(done.get(timeout=max(0.0, until - time.monotonic())))
            except Empty:
                break
            kept += 1
            following = next(waiting, None)
            if following is None:
                running -= 1
            else:
                start(following)
        pool.terminate()
    return kept


_WORKSHOP: Workshop | None = None


def open_pool(workshop: Workshop, workers: int | None = None) -> Pool:
    """Processes that share a prepared workshop; ask them for `outcome_of` jobs."""
    global _WORKSHOP
    workshop.prepare()
    _WORKSHOP = workshop
    return multiprocessing.get_context("fork").Pool(workers or os.cpu_count())


def outcome_of(job: Job) -> Outcome:
    """A job done in the workshop that this process was forked with."""
    assert _WORKSHOP is not None  # set before the fork
    outcome = _WORKSHOP.outcome(job)
    gc.collect()  # a training's worlds are large and refer to each other: hundreds pile up
    return outcome
