"""The training pool: designs are trained by an executor, several at once, and scored by validation.

Every evaluation has a key made of all that its outcome depends on and is stored under it: what
stands in the archive is looked up, never computed twice. A worker that was killed from outside is
tried again; what the design itself broke is a result with a reason.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TypeVar

import numpy as np

from se_rl.executors.device_batches import DeviceBatches
from se_rl.executors.device_executor import DeviceExecutor
from se_rl.executors.job_queue import JobQueue, KnownEvaluations, TrainingAttempt
from se_rl.executors.local_sandbox import ATTEMPTS, LocalSandbox
from se_rl.executors.node_report import NodeReport
from se_rl.executors.policy_scoring import PolicyScorer
from se_rl.executors.protocol import Executor, FinishedTask, Handle, TrainingInputs, TrainingTask
from se_rl.executors.registry import LOCAL, open_executor
from se_rl.executors.stored_policy import (
    array_bytes,
    arrays_from_bytes,
    training_bytes,
    training_from_bytes,
)
from se_rl.executors.training_settings import (
    deadline_seconds,
    train_config,
    training_key,
    training_worlds_of,
)
from se_rl.llm.code_validator import ValidationResult
from se_rl.records.archive import Archive
from se_rl.records.entries import Candidate, Evaluation, key_of
from se_rl.records.jobs import TrainingJob
from se_rl.records.rungs import Rung
from se_rl.records.schema import AGAIN
from se_rl.records.settings import RunConfig
from se_rl.rl.policy import Neutral
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.sandbox.lockdown import SandboxError
from se_rl.scoring.play import Open
from se_rl.scoring.score import Array, ScoreRule
from se_rl.scoring.score_summary import training_numbers
from se_rl.scoring.standing import Regimes
from se_rl.scoring.validation import Validation

T = TypeVar("T")
POLL_SECONDS = 0.05


class TrainingPool:
    """Trains and scores designs with `workers` trainings at once on the executor of this name.

    `inputs` are what all trainings share, `neutral` says what an output of 0 means in each world,
    `basis` is a digest of the data and the code. `library` are archives of other runs: what they
    evaluated is the same piece of work by its key.
    """

    def __init__(
        self,
        config: RunConfig,
        archive: Archive,
        validation: Validation,
        *,
        inputs: TrainingInputs,
        neutral: Callable[[], Mapping[str, Neutral]],
        basis: str,
        workers: int = 2,
        unsafe: bool = False,
        library: Sequence[Archive] = (),
        executor: str = LOCAL,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.config = config
        self.archive = archive
        self.validation = validation
        self.training_worlds = training_worlds_of(config)
        self.sandbox = LocalSandbox(inputs, unsafe=unsafe)
        self.scorer = PolicyScorer(validation, self.sandbox, neutral)
        self.executor: Executor = open_executor(executor, self.scorer, workers=workers, say=say)
        if config.device != "cpu":
            self.executor = DeviceExecutor(self.executor, inputs, config.device)
        key = partial(training_key, config, markets=validation.markets_digest, basis=basis)
        self._batches = DeviceBatches(config, archive, key)
        self._known = KnownEvaluations(archive, library)
        self._queue = JobQueue(self._known, self.key)
        self._running: dict[Handle, TrainingAttempt] = {}
        self._unasked: set[str] = set()

    @property
    def unsafe(self) -> bool:
        """Whether designs run without a lock."""
        return self.sandbox.unsafe

    def close(self) -> None:
        """End all trainings and the sandbox."""
        self._give_up({attempt.key for attempt in self._running.values()})
        self.executor.close()
        self.sandbox.close()

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
        """Judge a module (`llm.generator.Validator`).

        SandboxError where no sandbox can be had, which is no verdict.
        """
        return self.sandbox.validate(code, code_type)

    def with_retries(self, work: Callable[[], T]) -> T:
        """Do work that needs the sandbox; again where a process in it was killed from outside."""
        return self.sandbox.with_retries(work)

    # what was evaluated

    def key(self, job: TrainingJob) -> str:
        """The name of an evaluation: everything that its outcome depends on."""
        return self._batches.full_key(job)

    def evaluate(
        self, jobs: Sequence[TrainingJob]
    ) -> Iterator[tuple[TrainingJob, Evaluation, bool]]:
        """Each job with its evaluation and whether it was looked up, as they finish."""
        self._batches.gather(jobs)
        waiting = []
        for job in jobs:
            key = self.key(job)
            stored = self._known.find(key, job.candidate.id)
            if stored is None:
                waiting.append(job)
            else:
                made_ahead = key in self._unasked
                self._unasked.discard(key)
                yield job, stored, not made_ahead
        yield from self._train(waiting)

    def look_ahead(self, jobs: Iterable[TrainingJob]) -> None:
        """Make trainings that will be asked for while workers have nothing else to do.

        A batch ends before all of them are free, and a model writes while none is needed. What a
        training comes to does not depend on when it is made, unless it has company on a device.
        """
        self._queue.look_ahead(job for job in jobs if not self._batches.takes(job))

    @property
    def cells(self) -> Mapping[str, Sequence[str]]:
        """By world the names of the cells that orders are sorted into."""
        return self.validation.cells

    def regimes(self, rung: Rung) -> Regimes:
        """Which pairs of orders belong to which regime."""
        return self.validation.regimes(rung)

    def arrays(self, evaluation: Evaluation) -> dict[str, Array]:
        """The scores of an evaluation per pair of orders."""
        return arrays_from_bytes(self.archive.blob(evaluation.arrays))

    def policy(self, candidate: Candidate, evaluation: Evaluation) -> TrainedDesign:
        """The trained policy of an evaluation, from the archive."""
        sources = self.archive.sources(candidate)
        return training_from_bytes(self.archive.blob(evaluation.policy), sources)

    def opened(self, trained: TrainedDesign) -> Open:
        """A way to open a trained policy for a world."""
        return self.scorer.opened(trained)

    # training

    def _train(self, jobs: Iterable[TrainingJob]) -> Iterator[tuple[TrainingJob, Evaluation, bool]]:
        """Keep the executor busy; score each training as it ends, while the others go on."""
        wanted = {self.key(job): job for job in jobs}
        self._queue.ask(sorted(wanted.values(), key=self._has_process))
        try:
            while wanted:
                self._fill()
                for job, evaluation in self._queue.found():
                    del wanted[self.key(job)]
                    yield job, evaluation, True
                if not self._running:  # no worker yet, or another search is at all that is left
                    time.sleep(POLL_SECONDS)
                for finished in self.executor.poll(POLL_SECONDS if self._running else 0.0):
                    attempt = self._running.pop(finished.handle)
                    if finished.lost and attempt.number < ATTEMPTS:
                        self._queue.again(attempt)
                        continue
                    if finished.node is not None:
                        self._note(finished.node)
                    self._fill()  # the next one trains while this one is scored
                    evaluation = self._stored(attempt, finished)
                    if attempt.key in wanted:
                        yield wanted.pop(attempt.key), evaluation, False
                    else:
                        self._unasked.add(attempt.key)
            self._fill()  # nobody is idle until the next batch
        finally:
            self._give_up(wanted)

    def _fill(self) -> None:
        """Submit as much as the executor takes."""
        while len(self._running) < self.executor.capacity():
            attempt = self._queue.take()
            if attempt is None:
                return
            self._running[self.executor.submit(self._task(attempt.job))] = attempt

    def _give_up(self, keys: Container[str]) -> None:
        """Cancel trainings that nobody waits for any more."""
        for handle, attempt in list(self._running.items()):
            if attempt.key in keys:
                self.executor.cancel(handle)
                del self._running[handle]
                self._queue.let_go(attempt)
        self._queue.withdraw()

    def _has_process(self, job: TrainingJob) -> bool:
        """Whether a job is trained by itself; those with company on a device begin at once."""
        return not self._batches.company(job)

    def _task(self, job: TrainingJob) -> TrainingTask:
        company = tuple(map(self._task_alone, self._batches.company(job)))
        return replace(self._task_alone(job), company=company)

    def _task_alone(self, job: TrainingJob) -> TrainingTask:
        return TrainingTask(
            self.archive.sources(job.candidate),
            self.training_worlds,
            train_config(self.config, job.rung),
            job.seed,
            self.scorer.neutral(),
            deadline_seconds(job.rung),
            job.rung,
        )

    def _note(self, node: NodeReport) -> None:
        """Write down, once, a machine that did some of the work."""
        facts = asdict(node)
        self.archive.append("node", key_of("node", facts), facts)

    # scoring

    def _stored(self, attempt: TrainingAttempt, finished: FinishedTask) -> Evaluation:
        """Score a finished training and store what came of it."""
        try:
            evaluation = self._scored(attempt, finished)
            self.archive.add_evaluation(evaluation, key=attempt.key)
        finally:
            self._queue.let_go(attempt)
        return evaluation

    def _scored(self, attempt: TrainingAttempt, finished: FinishedTask) -> Evaluation:
        """The evaluation of a finished training."""
        job, trained = attempt.job, finished.trained
        if trained.status == "lost":  # that says nothing about the design
            what = f"the process on {finished.device}" if finished.device else "the sandbox"
            raise SandboxError(f"{what} was killed in {ATTEMPTS} attempts at one training; {AGAIN}")
        base = Evaluation(
            job.candidate.id,
            job.rung.index,
            job.seed,
            "failed",
            _failure(trained),
            work=trained.work,
            seconds=round(trained.seconds, 3),
            isolation=trained.isolation,
            attempts=attempt.number,
            device=finished.device,
        )
        if not trained.ok:
            return base
        scored = finished.scored or self.scorer.score(job.rung, trained)
        if scored.reason:
            return replace(base, reason=scored.reason)
        scores = training_numbers(scored.arrays, ScoreRule.of(self.config))
        if any(not np.isfinite(value) for value in scores.values()):
            return replace(base, reason="every order is void: the policy breaks its markets")
        return replace(
            base,
            status="ok",
            reason="",
            scores=scores,
            arrays=self.archive.put_blob(array_bytes(scored.arrays)),
            policy=self.archive.put_blob(training_bytes(trained)),
            curve=self.archive.put_blob(json.dumps(list(trained.curve)).encode()),
            seconds=round(trained.seconds + scored.seconds, 3),
        )


def _failure(trained: TrainedDesign) -> str:
    """Why a training gave no policy; "" where it gave one."""
    if trained.status != "ok":
        return f"{trained.status}: {trained.reason}"
    return trained.reason or ""
