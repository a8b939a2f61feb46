"""Who trains and scores designs on a task of the suite: a run's own pool, or a market of others.

Trainings of our own tasks are a run's: behind the lock. In others' markets a network is trained in
this process, so it must be one that the grammar spells, built anew from its choices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import numpy as np

from se_rl.core.preparation import TrainingMarkets, load_run_data, open_training_pool
from se_rl.core.suite.tasks import OutsideTask, OwnTask, SuiteTask
from se_rl.data.catalog import load_dataset
from se_rl.data.splits import given_split
from se_rl.executors.stored_policy import array_bytes, arrays_from_bytes
from se_rl.modules.defaults import Network, NetworkFactory
from se_rl.modules.derivation import Choice, derivation, spell
from se_rl.modules.errors import one_line
from se_rl.modules.loading import load_module
from se_rl.records.archive import Archive
from se_rl.records.code_hash import code_hash
from se_rl.records.entries import Evaluation, key_of
from se_rl.records.jobs import TrainingJob
from se_rl.rl.outside_training import play_in, train_in
from se_rl.rl.written_policy import KIND
from se_rl.scoring.score import Array
from se_rl.seal import PUBLIC, Seal

FIRST_EPISODE = 70_000_000
EPISODES = 2000
"""Episodes of others' markets that policies are scored on, and the seed of the first."""
FREE = "its network is free Python, and others' markets train only what the grammar spells"
SAME = "its network is the default's, and nothing else of a design is in others' markets"
Say = Callable[[str], None]


class SuiteEvaluator(Protocol):
    """The part of `scoring.evaluator.Evaluator` that a suite needs."""

    def evaluate(
        self, jobs: Sequence[TrainingJob]
    ) -> Iterator[tuple[TrainingJob, Evaluation, bool]]:
        """Each job with its evaluation and whether it was looked up, as they finish."""
        ...

    def arrays(self, evaluation: Evaluation) -> Mapping[str, Array]:
        """The scores of an evaluation."""
        ...


@contextmanager
def open_evaluator(
    task: SuiteTask, archive: Archive, *, unsafe: bool, say: Say
) -> Iterator[SuiteEvaluator]:
    """Who trains and scores on a task, while the context lasts."""
    if isinstance(task, OutsideTask):
        yield OutsideEvaluator(task, archive)
        return
    say(f"{task.name}: loading")
    dataset = load_dataset(
        task.config.data,
        seal=PUBLIC,
        split=given_split(task.config.train_until, task.config.valid_until),
        scored_days=task.config.scored_days,
        with_test=False,
    )
    config = _with_some_horizon(task, bars=len(dataset.data.grid)).config
    data = load_run_data(config, Seal(PUBLIC), dataset=dataset)
    markets = TrainingMarkets(data, archive, say=say)
    pool = open_training_pool(data, markets, workers=1, unsafe=unsafe, say=say)
    try:
        yield pool
    finally:
        pool.close()


def _with_some_horizon(task: OwnTask, *, bars: int) -> OwnTask:
    """The task with orders of a whole session, where its sessions are too short for others."""
    if min(task.config.horizons) <= bars:
        return task
    return replace(task, config=replace(task.config, horizons=(bars,)))


def outside_network(sources: Mapping[str, str]) -> NetworkFactory | str:
    """A design's network for others' markets, or why there is none.

    Which of our observations it looks at is left out: others' markets have others.
    """
    if KIND not in sources:
        return SAME
    choices = derivation(sources[KIND], KIND)
    if choices is None:
        return FREE
    seeing = [Choice("inputs", 0) if choice.rule == "inputs" else choice for choice in choices]
    network: NetworkFactory = load_module(spell(seeing, KIND), KIND)
    return network


class OutsideEvaluator:
    """Trains and plays the networks of designs in one market; what stands in the archive is looked
    up. Scores are returns, an episode each."""

    def __init__(self, task: OutsideTask, archive: Archive) -> None:
        self._task = task
        self._archive = archive

    def evaluate(
        self, jobs: Sequence[TrainingJob]
    ) -> Iterator[tuple[TrainingJob, Evaluation, bool]]:
        """Each job with its evaluation and whether it was looked up, in their order."""
        for job in jobs:
            key = self._key(job)
            stored = self._archive.evaluation(key)
            if stored is not None:
                yield job, replace(stored, candidate=job.candidate.id), True
                continue
            made = self._evaluated(job)
            self._archive.add_evaluation(made, key=key)
            yield job, made, False

    def arrays(self, evaluation: Evaluation) -> Mapping[str, Array]:
        """The returns of an evaluation."""
        return arrays_from_bytes(self._archive.blob(evaluation.arrays))

    def _key(self, job: TrainingJob) -> str:
        """The name of an evaluation; of a design its network is all that counts here."""
        modules = job.candidate.modules
        return key_of(
            self._task.name,
            modules.get(KIND, "the default's" if modules else "default"),
            job.rung.work,
            self._task.samples,
            job.seed,
            EPISODES,
            code_hash(),
        )

    def _evaluated(self, job: TrainingJob) -> Evaluation:
        """Train and play; a design that cannot be trained here is a result with a reason."""
        started = time.process_time()
        returned, reason = self._returns(job)
        if not reason and not np.isfinite(returned).any():
            reason = "every episode is void: the policy breaks its markets"
        made = Evaluation(
            job.candidate.id,
            job.rung.index,
            job.seed,
            "failed" if reason else "ok",
            reason,
            work=job.rung.work,
            isolation="not needed (made of the grammar's choices)",
        )
        if reason:
            return made
        return replace(
            made,
            scores={"score": float(np.nanmean(returned))},
            arrays=self._archive.put_blob(array_bytes({"dynamic": returned})),
            seconds=round(time.process_time() - started, 3),
        )

    def _returns(self, job: TrainingJob) -> tuple[Array, str]:
        market = self._task.name
        sources = self._archive.sources(job.candidate)
        none = np.zeros(0)
        network = outside_network(sources) if sources else Network
        if isinstance(network, str):
            return none, network
        try:
            trained = train_in(
                market, network, work=job.rung.work, seed=job.seed, samples=self._task.samples
            )
            if trained.reason:
                return none, trained.reason
            runner = trained.runner("static")
            played = play_in(market, runner, first_seed=FIRST_EPISODE, episodes=EPISODES)
        except (RuntimeError, ValueError, IndexError) as error:  # a network of other observations
            return none, one_line(error, KIND)
        return played.returned, ""
