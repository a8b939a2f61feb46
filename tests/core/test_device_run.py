"""Runs with a device, here the CPU in its place: the same table however often they are interrupted."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tiny_run import tiny_config

from se_rl.core.replay import replay
from se_rl.core.run import run_search
from se_rl.executors.device_batches import DEVICE_BATCH
from se_rl.executors.device_executor import DeviceExecutor
from se_rl.executors.protocol import Handle, TrainingTask
from se_rl.records.archive import Archive
from se_rl.records.entries import Evaluation, design_id
from se_rl.sandbox.lockdown import isolation_level
from se_rl_benchmarks import kill_campaign
from se_rl_benchmarks.killed_runs import Child, Kind, descendants, differences

SMALLER = kill_campaign.SMALLER
SETTINGS = {**SMALLER, "seeds": (1, 1, 2), "device": "host"}
NEAR_BPS = 0.01
"""Far less than what trainings with other seeds differ by (docs/results/gpu.md)."""
KINKED_BPS = 0.1
"""The same for drawn rewards: where a slope jumps, rounding grows from update to update (test_together.py)."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not isolation_level().enough:
        pytest.skip("no sandbox is to be had on this machine")
    home = tmp_path_factory.mktemp("runs") / "home"
    kill_campaign.TINY.make_data(home)
    return home


@pytest.fixture(scope="module")
def alone(home: Path) -> Kind:
    return kill_campaign.leave_alone(Kind("device", SETTINGS, home), home.parent)


@pytest.fixture
def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SE_RL_HOME", str(home))
    monkeypatch.setenv("SE_RL_CACHE", str(home / "cache"))


def evaluations(folder: Path) -> dict[tuple[str, int, int], Evaluation]:
    with Archive.open(folder / "archive.sqlite", read_only=True) as archive:
        return {(e.candidate, e.rung, e.seed): e for e in archive.evaluations()}


def test_a_run_says_what_went_where_and_agrees_with_one_without_a_device(alone: Kind) -> None:
    out = alone.home.parent
    plain = Kind("plain", {**SETTINGS, "device": "cpu"}, alone.home)
    kill_campaign.leave_alone(plain, out)
    found, wanted = evaluations(out / "alone_device"), evaluations(out / "alone_plain")
    shared = [one for one in found.values() if one.device]
    counted = {"host": len(shared), "own process": len(found) - len(shared)}
    assert alone.record["results"]["trainings"] == counted and min(counted.values()) > 0
    assert plain.record["results"]["trainings"] == {"own process": len(wanted)}
    assert f"own process {counted['own process']}" in (out / "alone_device/report.html").read_text()
    both = found.keys() & wanted.keys()
    assert len(both) > len(found) / 2
    for name in both:
        own, other = found[name], wanted[name]
        near = NEAR_BPS if name[0] == design_id({}) else KINKED_BPS
        assert own.ok and own.scores["score"] == pytest.approx(other.scores["score"], abs=near)
        if not own.device:
            assert (own.policy, own.arrays) == (other.policy, other.arrays)


def test_a_run_that_is_stopped_inside_a_batch_and_loses_its_processes_ends_the_same(
    alone: Kind, at_home: None, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"

    def stop(kind: str, payload: Mapping[str, Any], *, stored: bool = False) -> None:
        if kind == "evaluated":
            raise KeyboardInterrupt

    settings: dict[str, Any] = SETTINGS
    with pytest.raises(KeyboardInterrupt):
        run_search(tiny_config(**settings), folder, tell=stop, workers=2)
    with Archive.open(folder / "archive.sqlite", read_only=True) as archive:
        (batch,) = archive.events(DEVICE_BATCH)
        assert len(archive.evaluations()) == 1 < len(batch.payload["jobs"])
    child = Child(folder, alone)
    kill_device_process(child)
    while "promoted" not in child.heard() and not child.wait(0.01):
        pass
    assert child.kill() == [] and child.process.returncode == -signal.SIGKILL
    child = Child(folder, alone)
    assert child.wait(240) and child.process.returncode == 0
    assert differences(folder, alone) == []


def kill_device_process(child: Child) -> None:
    """Kill the process on the device as soon as there is one."""
    while not child.wait(0.01):
        for pid in descendants(child.process.pid)[0]:
            if b"device_worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                return
    raise AssertionError("the run ended without one")


def test_what_shared_a_device_is_replayed_in_its_company(
    alone: Kind, at_home: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = alone.home.parent / "alone_device"
    with Archive.open(folder / "archive.sqlite", read_only=True) as archive:
        batches = [event.payload["jobs"] for event in archive.events(DEVICE_BATCH)]
    jobs = next(batch for batch in batches if len({name for name, _, _ in batch}) > 1)
    trained: list[int] = []
    train = DeviceExecutor.submit

    def submit(executor: DeviceExecutor, task: TrainingTask) -> Handle:
        trained.append(len(task.company))
        return train(executor, task)

    monkeypatch.setattr(DeviceExecutor, "submit", submit)
    name, rung, _ = jobs[-1]
    (design,) = replay(folder, [name], rung=rung)
    assert design.equal and len(trained) == len(design.evaluations)
    assert len(jobs) in trained
