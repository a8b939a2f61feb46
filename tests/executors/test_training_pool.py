"""The training pool with an executor whose workers are lost by plan: what is tried again, and what is a result."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

import numpy as np
import pytest

from se_rl.config import ConfigError
from se_rl.executors import job_queue
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
    """Ends each task of a seed with the next status of `plan`, the newest (-1) or the oldest (0)
    task first."""

    plan: dict[int, list[str]]

    def __init__(self, *_: Any, workers: int) -> None:
        self.workers = workers
        self.running: dict[Handle, TrainingTask] = {}
        self.submitted: list[int] = []
        self.cancelled: list[int] = []
        self.most = 0
        self.is_open = True
        self.first = -1

    def submit(self, task: TrainingTask) -> Handle:
        handle = len(self.submitted)
        self.submitted.append(task.seed)
        self.running[handle] = task
        self.most = max(self.most, len(self.running))
        return handle

    def poll(self, timeout_seconds: float) -> Sequence[FinishedTask]:
        self.is_open = True
        if not self.running:
            return []
        handle = [*self.running][self.first]
        task = self.running.pop(handle)
        status = self.plan[task.seed].pop(0)
        weights = {"weight:w": np.full(2, float(task.seed))}
        reason = None if status == "ok" else f"seed {task.seed}"
        trained = TrainedDesign({}, status, reason, "planned", 1.0, 2.0, weights=weights)
        return [FinishedTask(handle, trained)]

    def cancel(self, handle: Handle) -> None:
        self.cancelled.append(self.running.pop(handle).seed)

    def capacity(self) -> int:
        return self.workers if self.is_open else 0

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
        yield pool_with(archive)


def pool_with(archive: Archive, *, basis: str = "bars", **how: Any) -> TrainingPool:
    archive.add_candidate(DESIGN, {})
    return TrainingPool(
        CONFIG,
        archive,
        cast(Any, OneScore()),
        inputs=TrainingInputs(None, cast(Any, None), dict),
        neutral=dict,
        basis=basis,
        executor="planned",
        **how,
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


def test_an_executor_without_workers_yet_is_asked_until_it_has_some(pool: TrainingPool) -> None:
    planned(pool, ["ok"]).is_open = False
    [(_, evaluation, _)] = pool.evaluate(jobs(1))
    assert evaluation.ok


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


def test_idle_workers_make_what_will_be_asked_for(pool: TrainingPool) -> None:
    executor = planned(pool, *(["ok"] for _ in range(5)))
    executor.first = 0
    pool.look_ahead(jobs(5)[1:])
    [(_, _, stored)] = pool.evaluate(jobs(1))
    assert not stored and len(executor.running) == 2  # nobody waits for the next batch
    made = {job.seed: (evaluation.ok, stored) for job, evaluation, stored in pool.evaluate(jobs(5))}
    assert made == {0: (True, True)} | dict.fromkeys(range(1, 5), (True, False))
    assert sorted(executor.submitted) == [0, 1, 2, 3, 4] and not executor.running
    assert all(stored for _, _, stored in pool.evaluate(jobs(5)))


def test_what_was_made_ahead_and_never_asked_for_ends_with_the_pool(pool: TrainingPool) -> None:
    executor = planned(pool, *(["ok"] for _ in range(6)))
    executor.first = 0
    pool.look_ahead(jobs(6)[1:])
    list(pool.evaluate(jobs(1)))
    pool.close()
    assert len(executor.cancelled) == 2 and not executor.running


def test_a_worker_lost_between_batches_costs_one_attempt(pool: TrainingPool) -> None:
    executor = planned(pool, ["ok"], ["killed", "ok"], ["ok"])
    executor.first = 0
    pool.look_ahead(jobs(2)[1:])
    list(pool.evaluate(jobs(1)))
    found = {job.seed: evaluation for job, evaluation, _ in pool.evaluate(jobs(3)[1:])}
    assert found[1].attempts == 2 and found[2].ok and executor.submitted.count(1) == 2


def test_an_unknown_executor_is_refused(pool: TrainingPool) -> None:
    with pytest.raises(
        ConfigError, match=r"executor 'moon' is unknown; use one of local, .*ray://HOST:PORT"
    ):
        open_executor("moon", pool.scorer, workers=1)


def test_trainings_of_another_run_are_taken_with_their_origin(
    pool: TrainingPool, tmp_path: Path
) -> None:
    planned(pool, ["ok"], ["failed"])
    made = {job.seed: evaluation for job, evaluation, _ in pool.evaluate(jobs(2))}
    (tmp_path / "other").mkdir()
    with Archive.open(tmp_path / "other" / "archive.sqlite") as archive:
        other = pool_with(archive, library=[pool.archive])
        planned(other)
        for job, taken, stored in other.evaluate(jobs(2)):
            assert stored and taken == replace(made[job.seed], origin=tmp_path.name)
        assert archive.evaluations() == [
            replace(made[seed], origin=tmp_path.name) for seed in (0, 1)
        ]
        assert archive.blob(made[0].policy) == pool.archive.blob(made[0].policy)


@pytest.fixture
def neighbours(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[TrainingPool]]:
    """Two searches on one database."""
    monkeypatch.setitem(EXECUTORS, "planned", PlannedExecutor)
    monkeypatch.setattr(job_queue, "LOOK_AGAIN_SECONDS", 0.01)
    basis = token_hex(4)
    with ExitStack() as stack:
        places = [f"{postgres}&run={basis}-{name}" for name in "ab"]
        archives = [stack.enter_context(Archive.open(place)) for place in places]
        yield [pool_with(archive, basis=basis) for archive in archives]


def test_what_another_search_trains_is_waited_for_and_taken(neighbours: list[TrainingPool]) -> None:
    one, two = neighbours
    first, second = planned(one, ["ok"], ["ok"], ["ok"]), planned(two, ["ok"], ["ok"], ["ok"])
    going = one.evaluate(jobs(3))
    made = [next(going)]  # by now it is at the two others
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(lambda: list(two.evaluate(jobs(3))))
        while len(two.archive.evaluations()) < 1:
            time.sleep(0.01)
        made += list(going)
        taken = waiting.result(60)
    assert sorted(first.submitted) == [0, 1, 2] and second.submitted == []
    assert all(stored for _, _, stored in taken)
    by_seed = {job.seed: replace(e, origin=one.archive.run) for job, e, _ in made}
    assert {job.seed: e for job, e, _ in taken} == by_seed
    assert {e.seed: e for e in two.archive.evaluations()} == by_seed
    assert [stored for _, _, stored in two.evaluate(jobs(3))] == [True] * 3


def test_what_another_search_leaves_unfinished_is_trained_here(
    neighbours: list[TrainingPool],
) -> None:
    one, two = neighbours
    planned(one, ["ok"], ["ok"], ["ok"])
    second = planned(two, ["ok"], ["ok"], ["ok"])
    going = one.evaluate(jobs(3))
    done = next(going)[0].seed
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(lambda: list(two.evaluate(jobs(3))))
        while len(two.archive.evaluations()) < 1:
            time.sleep(0.01)
        one.archive.close()  # as if its process had been killed
        taken = {job.seed: stored for job, _, stored in waiting.result(60)}
    assert taken == {seed: seed == done for seed in range(3)}
    assert sorted(second.submitted) == sorted({0, 1, 2} - {done})
