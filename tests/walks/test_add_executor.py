"""The walk of CONTRIBUTING.md: add an executor. This one hands trainings to threads that wait for them."""

from __future__ import annotations

import sys
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from se_rl.core.run import Run
from se_rl.executors.policy_scoring import PolicyScorer
from se_rl.executors.protocol import FinishedTask, Handle, TrainingTask
from se_rl.executors.registry import EXECUTORS
from se_rl.records.archive import Archive
from se_rl.records.entries import Evaluation
from se_rl.records.jobs import TrainingJob
from se_rl.records.run_folder import RunFolder
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.sandbox.lockdown import isolation_level

sys.path.append(str(Path(__file__).resolve().parents[1] / "core"))
from tiny_run import make_data, tiny_config

# file 1, src/se_rl/executors/threads.py: the five methods of `Executor`


class Threads:
    """An `Executor` with a thread for each training, which itself runs in the sandbox."""

    def __init__(self, scorer: PolicyScorer, *, workers: int) -> None:
        self.sandbox = scorer.sandbox
        self.workers = workers
        self.threads = ThreadPoolExecutor(workers)
        self.running: dict[Handle, Future[TrainedDesign]] = {}
        self.submitted = 0

    def submit(self, task: TrainingTask) -> Handle:
        self.submitted += 1
        call = self.sandbox.start(task)
        work = lambda: TrainedDesign.of(call.wait(), task.sources, task.expected)  # noqa: E731
        self.running[self.submitted] = self.threads.submit(work)
        return self.submitted

    def poll(self, timeout_seconds: float) -> list[FinishedTask]:
        wait(self.running.values(), timeout_seconds, "FIRST_COMPLETED")
        ended = [handle for handle, future in self.running.items() if future.done()]
        return [FinishedTask(handle, self.running.pop(handle).result()) for handle in ended]

    def cancel(self, handle: Handle) -> None:
        self.running.pop(handle).cancel()

    def capacity(self) -> int:
        return self.workers

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)


# file 2, src/se_rl/executors/registry.py: one line in EXECUTORS


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXECUTORS, "threads", Threads)


# file 3, tests/executors/test_threads.py: the same evaluations, bit for bit


def evaluated(place: Path, executor: str) -> tuple[Evaluation, Run]:
    """The default design of a tiny run at the first rung, trained by this executor."""
    config = tiny_config(worlds="static")
    archive = Archive.open(place / executor / "archive.sqlite")
    run = Run(config, RunFolder(place / executor), archive, workers=1, executor=executor)
    try:
        archive.add_candidate(run.search.default, {})
        job = TrainingJob(run.search.default, config.rungs.screen, 0)
        [(_, evaluation, stored)] = run.training_pool.evaluate([job])
        assert not stored
        return evaluation, run
    finally:
        run.close()
        archive.close()


@pytest.mark.usefixtures("threads")
def test_an_executor_that_was_added_gives_the_same_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isolation_level().enough:
        pytest.skip("no sandbox is to be had on this machine")
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path))
    make_data(tmp_path)
    for executor in ("local", "threads"):
        (tmp_path / executor).mkdir()
    local, _ = evaluated(tmp_path, "local")
    other, run = evaluated(tmp_path, "threads")
    assert isinstance(run.training_pool.executor, Threads)
    assert run.training_pool.executor.submitted == 1
    assert local.ok and other.ok and other.scores == local.scores
    files = (other.arrays, other.policy, other.curve)  # named by what they hold
    assert files == (local.arrays, local.policy, local.curve)
