"""Trainings that many searches share: each is made once, and kept for later calls if asked.

A training's outcome is decided by its job, the settings and the code, so what one search has
trained another need not. A search that the clock ended begins anew in the next call, finds its
trainings in the folder, and so soon goes on where it was.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from multiprocessing.pool import Pool
from pathlib import Path

import numpy as np

from se_rl.modules.errors import one_line
from se_rl.records.code_hash import code_hash
from se_rl.records.entries import key_of
from se_rl.records.settings import RunConfig
from se_rl_benchmarks.many_trainings import Job, Outcome, outcome_of

TRAININGS_DEPEND_ON = (
    "config.py",
    "seal.py",
    "data",
    "market",
    "environments",
    "modules",
    "rl",
    "scoring",
    "baselines",
    "core/preparation.py",
    "core/final_tables.py",
    "executors/training_settings.py",
    "records/jobs.py",
    "records/rungs.py",
)
"""What a training in a `Workshop` and its scores are decided by, beside job and settings."""
EXCEPT = (
    "modules/design_bank",
    "modules/edits.py",
    "scoring/bank_evaluator.py",
    "scoring/comparison.py",
    "scoring/ladder.py",
    "scoring/prospects.py",
    "scoring/standing.py",
    "scoring/trainings.py",
)
"""Files among them that choose designs, and neither train nor score one."""
OF_SEARCHES = (
    *(
        "llm",
        "adapter",
        "free",
        "chain_of_thought",
        "seed",
        "arm",
        "scan",
        "against",
        "bank_prior",
        "hle",
        "lle",
        "estimator",
    ),
    *("imagine", "device", "islands", "iterations", "parents", "siblings", "promoted", "finalists"),
    *("seeds", "epsilon", "lora_rank", "lora_alpha", "replay", "rivals", "max_designs"),
    *("max_minutes", "max_tokens", "max_usd", "usd_in", "usd_out"),
)
"""Settings that say how designs are found; jobs have seeds and worlds of their own."""
_TOLD = "told"
"""The array of a stored outcome that holds what is no score, as JSON."""


class TimeIsOver(Exception):
    """A search is given up."""


class SharedTrainings:
    """Trainings in forked processes; `folder` keeps them for searches that train as these do."""

    def __init__(
        self, pool: Pool, folder: Path | None = None, *, config: RunConfig | None = None
    ) -> None:
        self._pool = pool
        self._folder = folder
        self._made_by = made_by(config) if config and folder else ""
        self._known: dict[str, Future[Outcome]] = {}
        self._lock = threading.Lock()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def start(self, job: Job) -> Future[Outcome]:
        """Begin a training, unless it is known or has begun."""
        sources = sorted(job.sources.items())
        key = key_of(self._made_by, job.work, job.seed, sources, job.worlds, job.rung)
        with self._lock:
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = self._begun(job, key)
        return known

    def outcomes(self, jobs: Sequence[Job], deadline: float = math.inf) -> Iterator[Outcome]:
        """What the jobs come to, in their order; a design that raises an error has it as reason."""
        waiting = [self.start(job) for job in jobs]
        for job, one in zip(jobs, waiting, strict=True):
            left = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
            try:
                yield one.result(left)
            except TimeoutError:
                raise TimeIsOver from None
            except Exception as error:
                yield Outcome(job, {}, 0.0, (), one_line(error, job.design))

    def _begun(self, job: Job, key: str) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        path = self._folder / f"{key}.npz" if self._folder else None
        if path is not None and path.exists():
            future.set_result(stored_outcome(path, job))
            return future

        def done(outcome: Outcome) -> None:
            if path is not None:
                store_outcome(path, outcome)
            future.set_result(outcome)

        self._pool.apply_async(
            outcome_of, (job,), callback=done, error_callback=future.set_exception
        )
        return future


def made_by(config: RunConfig) -> str:
    """The code that trains and the settings that trainings depend on, as one key."""
    settings = {name: value for name, value in asdict(config).items() if name not in OF_SEARCHES}
    return key_of(code_hash(parts=TRAININGS_DEPEND_ON, without=EXCEPT), settings)


def store_outcome(path: Path, outcome: Outcome) -> None:
    """Write an outcome, whole or not at all."""
    told = {"seconds": outcome.seconds, "alpha": outcome.alpha, "reason": outcome.reason}
    arrays = {**outcome.scores, _TOLD: np.array(json.dumps(told))}
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    unfinished.rename(path)


def stored_outcome(path: Path, job: Job) -> Outcome:
    """What `store_outcome` wrote."""
    with np.load(path) as stored:
        told = json.loads(str(stored[_TOLD]))
        scores = {name: stored[name] for name in stored.files if name != _TOLD}
    return Outcome(job, scores, told["seconds"], tuple(told["alpha"]), told["reason"])
