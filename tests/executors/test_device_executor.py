"""Trainings that share a device: who may, who with, and what is lost with its process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from se_rl.config import ConfigError
from se_rl.core.operators import hashes
from se_rl.core.run import NAIVE_REWARD
from se_rl.data.features import FeatureScales
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.executors import device_batches
from se_rl.executors.device_batches import DEVICE_BATCH, DeviceBatches
from se_rl.executors.device_executor import DeviceExecutor, torch_device
from se_rl.executors.device_worker import DeviceInputs
from se_rl.executors.protocol import FinishedTask, Handle, TrainingInputs, TrainingTask
from se_rl.executors.training_settings import train_config, training_worlds_of
from se_rl.modules.grammar import draw
from se_rl.modules.kinds import KINDS
from se_rl.records.archive import Archive
from se_rl.records.entries import Candidate, design_id
from se_rl.records.jobs import TrainingJob
from se_rl.records.settings import RunConfig, preset
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.sandbox.lockdown import SandboxError

DATA = synthetic_market(SyntheticConfig(symbols=3, sessions=4, seed=5))
INPUTS = TrainingInputs(DATA, FeatureScales.fit(DATA), dict)
CONFIG = preset(
    "tiny", worlds="static", twins=False, work=0.003, samples=128, horizons=(8,), device="host"
)
REWARD = draw(KINDS["reward"].all_rules, np.random.default_rng(1))
FREE = "def reward(step):\n    return step.traded_share\n"


class Others:
    """An executor that ends every task at once."""

    def __init__(self) -> None:
        self.tasks: list[TrainingTask] = []

    def submit(self, task: TrainingTask) -> Handle:
        self.tasks.append(task)
        return len(self.tasks) - 1

    def poll(self, timeout_seconds: float) -> Sequence[FinishedTask]:
        ended = [FinishedTask(at, TrainedDesign({}, "ok", None, "", 0.0)) for at in self.tasks_left]
        self.tasks.clear()
        return ended

    @property
    def tasks_left(self) -> range:
        return range(len(self.tasks))

    def cancel(self, handle: Handle) -> None:
        del self.tasks[handle]

    def capacity(self) -> int:
        return 1

    def close(self) -> None:
        self.tasks.clear()


@pytest.fixture
def executor() -> Iterator[DeviceExecutor]:
    executor = DeviceExecutor(Others(), INPUTS, "host")
    yield executor
    executor.close()


def task(sources: Mapping[str, str], seed: int) -> TrainingTask:
    rung = CONFIG.rungs.screen
    worlds = training_worlds_of(CONFIG)
    return TrainingTask(sources, worlds, train_config(CONFIG, rung), seed, {}, 60.0, rung)


def all_ended(executor: DeviceExecutor, count: int) -> dict[Handle, FinishedTask]:
    ended: dict[Handle, FinishedTask] = {}
    until = time.monotonic() + 240
    while len(ended) < count and time.monotonic() < until:
        ended |= {one.handle: one for one in executor.poll(0.5)}
    return ended


def test_a_batch_is_trained_whole_and_lost_whole(executor: DeviceExecutor) -> None:
    batch = (task({}, 0), task({}, 1), task({"reward": REWARD}, 1))
    with_company = [replace(one, company=batch) for one in batch]
    first, last = (executor.submit(with_company[at]) for at in (0, 2))
    alone = executor.submit(task({"reward": FREE}, 0))
    assert executor.capacity() == 1 + 2
    process: Any = executor._process
    process._process.kill()
    ended = all_ended(executor, 3)
    assert not ended[alone].lost and ended[first].lost and ended[last].lost
    assert executor.capacity() == 1
    again = [executor.submit(with_company[at]) for at in (2, 0)]  # tried again by the pool
    ended = all_ended(executor, 2)
    here = DeviceInputs.of(INPUTS, "cpu").train(batch)
    for handle, answer in zip(again, (here.answers[2], here.answers[0]), strict=True):
        trained = ended[handle].trained
        assert trained.ok and trained.weights is not None and ended[handle].device == "host"
        assert trained.isolation == "not needed (made of the grammar's choices)"
        for name, value in trained.weights.items():
            assert np.array_equal(value, answer[name])
    executor.cancel(executor.submit(with_company[1]))
    assert executor._process is None, "nobody waits for it"


def test_free_python_is_not_loaded_on_a_device(executor: DeviceExecutor) -> None:
    free = task({"reward": FREE}, 0)
    executor.submit(replace(free, company=(free,)))
    why = r"1 trainings together on host failed \(ValueError: a design that needs a lock came"
    with pytest.raises(SandboxError, match=why):
        all_ended(executor, 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_device_that_is_not_there_is_refused_in_one_line() -> None:
    assert torch_device("host") == torch_device("cpu") == "cpu"
    with pytest.raises(ConfigError, match=r"no CUDA device was found by torch .*or use") as told:
        DeviceExecutor(Others(), INPUTS, "cuda")
    assert "\n" not in str(told.value)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with Archive.open(tmp_path / "archive.sqlite") as archive:
        yield archive


def job(archive: Archive, sources: Mapping[str, str], seed: int = 0, rung: int = 0) -> TrainingJob:
    modules = hashes(dict(sources))
    candidate = Candidate(design_id(modules), modules, "draft")
    archive.add_candidate(candidate, sources)
    return TrainingJob(candidate, CONFIG.rungs[rung], seed)


def batches_of(archive: Archive, config: RunConfig = CONFIG) -> DeviceBatches:
    return DeviceBatches(config, archive, lambda one: f"{one.candidate.id} {one.seed}")


def test_who_may_share_a_device(archive: Archive) -> None:
    imagined = {"imagination": draw(KINDS["imagination"].all_rules, np.random.default_rng(1))}
    default, written = job(archive, {}), job(archive, {"reward": REWARD})
    for config, sources, takes in (
        (CONFIG, {}, True),
        (CONFIG, {"reward": REWARD}, True),
        (CONFIG, {"reward": FREE}, False),
        (CONFIG, {"reward": NAIVE_REWARD}, False),
        (CONFIG, imagined, False),
        (replace(CONFIG, device="cpu"), {}, False),
        (replace(CONFIG, max_participation=0.1), {}, False),
        (replace(CONFIG, fill_model="limit_on_bars"), {}, False),
        (replace(CONFIG, worlds="both", scenario="multi"), {}, False),
    ):
        assert batches_of(archive, config).takes(job(archive, sources)) == takes
    batches = batches_of(archive)
    free = job(archive, {"reward": FREE})
    batches.gather([free, default, written])
    assert batches.company(free) == () and len(batches.company(default)) == 2
    assert batches.full_key(free) == f"{free.candidate.id} 0"


def test_company_is_kept_for_good_and_part_of_the_key(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_batches, "MOST_TOGETHER", 3)
    jobs = [job(archive, {}, seed) for seed in range(4)]
    long = job(archive, {}, 9, rung=2)
    first = batches_of(archive)
    first.gather([jobs[2], jobs[0], long])
    first.gather(jobs)
    companies = [[one.seed for one in first.company(job)] for job in (*jobs, long)]
    assert companies == [[0, 2], [1, 3], [0, 2], [1, 3], [9]]
    assert len(archive.events(DEVICE_BATCH)) == 3
    again = batches_of(archive)
    again.gather([*jobs, long])
    assert [again.full_key(one) for one in jobs] == [first.full_key(one) for one in jobs]
    assert len(archive.events(DEVICE_BATCH)) == 3
    with Archive.open(tmp_path / "other.sqlite") as other:
        elsewhere = batches_of(other)
        own = [job(other, {}, seed) for seed in range(4)]
        elsewhere.gather(own)
        assert [len(elsewhere.company(one)) for one in own] == [3, 3, 3, 1]
        assert {elsewhere.full_key(one) for one in own}.isdisjoint(map(first.full_key, jobs))
    gpu = batches_of(archive, replace(CONFIG, device="cuda"))
    assert gpu.full_key(jobs[0]) != first.full_key(jobs[0])
