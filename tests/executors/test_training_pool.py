"""The training pool with an executor whose workers are lost by plan: what is tried again, and what is a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from se_rl.config import ConfigError
from se_rl.executors.protocol import FinishedTask, Handle, TrainingInputs, TrainingTask
from se_rl.executors.registry import EXECUTORS, open_executor
from se_rl.executors.training_pool import TrainingPool
from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, Candidate, Evaluation, design_id
from se_rl.records.jobs import TrainingJob
from se_rl.records.settings import preset
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.sandbox.lockdown import SandboxError

CONFIG = preset("tiny")
DESIGN = Candidate(design_id({}), {}, DEFAULT)


class PlannedExecutor:
    """Ends each task of a seed with the next status of `plan`, the newest task first."""

    plan: dict[int, list[str]]

    def __init__(self, *_: Any, workers: int) -> None:
        self.workers = workers
        self.running: dict[Handle, TrainingTask] = {}
        self.submitted: list[int] = []
        self.cancelled: list[int] = []
        self.most = 0

    def submit(self, task: TrainingTask) -> Handle:
        handle = len(self.submitted)
        self.submitted.append(task.seed)
        self.running[handle] = task
        self.most = max(self.most, len(self.running))
        return handle

    def poll(self, timeout_seconds: float) -> Sequence[FinishedTask]:
        handle, task = self.running.popitem()
        status = self.plan[task.seed].pop(0)
        weights = {"weight:w": np.full(2, float(task.seed))}
        reason = None if status == "ok" else f"seed {task.seed}"
        trained = TrainedDesign({}, status, reason, "planned", 1.0, 2.0, weights=weights)
        return [FinishedTask(handle, trained)]

    def cancel(self, handle: Handle) -> None:
        self.cancelled.append(self.running.pop(handle).seed)

    def capacity(self) -> int:
        return self.workers

    def close(self) -> None:
        self.running.clear()


class OneScore:
    """Validation that gives every policy the same scores."""

    markets_digest = ""

    def score(self, *_: Any) -> dict[str, Any]:
        gains = np.ones(4)
        return {"static": gains, "static_total": gains, "static_day": np.arange(4.0)}


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TrainingPool]:
    monkeypatch.setitem(EXECUTORS, "planned", PlannedExecutor)
    with Archive.open(tmp_path / "archive.sqlite") as archive:
        archive.add_candidate(DESIGN, {})
        inputs = TrainingInputs(None, cast(Any, None), dict)
        yield TrainingPool(
            CONFIG,
            archive,
            cast(Any, OneScore()),
            inputs=inputs,
            neutral=dict,
            data_hash="bars",
            executor="planned",
        )


def jobs(seeds: int) -> list[TrainingJob]:
    return [TrainingJob(DESIGN, CONFIG.rungs.screen, seed) for seed in range(seeds)]


def planned(pool: TrainingPool, *plans: list[str]) -> PlannedExecutor:
    executor = cast(PlannedExecutor, pool.executor)
    executor.plan = dict(enumerate(plans))
    return executor


def test_a_lost_worker_is_tried_again_and_a_failure_is_a_result(pool: TrainingPool) -> None:
    plans = (["ok"], ["killed", "lost", "ok"], ["crashed"] * 3, ["timeout"], ["failed"])
    executor = planned(pool, *plans)
    found: dict[int, Evaluation] = {}
    for job, evaluation, stored in pool.evaluate(jobs(5)):
        assert not stored
        found[job.seed] = evaluation
    assert executor.most == executor.capacity() == 2 and not executor.running
    assert [found[seed].status for seed in range(5)] == ["ok", "ok", "failed", "failed", "failed"]
    assert [found[seed].attempts for seed in range(5)] == [1, 3, 3, 1, 1]
    assert found[2].reason == "crashed: seed 2" and found[3].reason == "timeout: seed 3"
    assert (
        found[0].scores == {"score": 0.5, "static": 1.0, "static_total": 1.0}
        and found[0].policy != found[1].policy
    )
    assert np.array_equal(pool.arrays(found[1])["static"], np.ones(4))
    looked_up = {job.seed: (e, stored) for job, e, stored in pool.evaluate(jobs(5))}
    assert looked_up == {seed: (evaluation, True) for seed, evaluation in found.items()}
    assert len(executor.submitted) == 9


def test_a_sandbox_that_is_lost_every_time_says_nothing_about_the_design(
    pool: TrainingPool,
) -> None:
    executor = planned(pool, ["ok"], ["lost"] * 3)
    with pytest.raises(SandboxError, match="killed in 3 attempts at one training; then run"):
        list(pool.evaluate(jobs(2)))
    assert executor.submitted.count(1) == 3
    assert executor.cancelled in ([], [0]) and not executor.running


def test_trainings_that_nobody_waits_for_are_cancelled(pool: TrainingPool) -> None:
    executor = planned(pool, *(["ok"] for _ in range(4)))
    going = pool.evaluate(jobs(4))
    next(going)
    assert len(executor.running) == 2
    cast(Any, going).close()
    assert len(executor.cancelled) == 2 and not executor.running


def test_an_unknown_executor_is_refused(pool: TrainingPool) -> None:
    with pytest.raises(
        ConfigError, match=r"executor 'moon' is unknown; use one of local, .*ray://HOST:PORT"
    ):
        open_executor("moon", pool.scorer, workers=1)
