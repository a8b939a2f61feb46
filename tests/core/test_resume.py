"""Runs that are killed (the long form is benchmarks/kill_campaign.py): the same command goes on as if nothing had been."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from se_rl.executors.local_sandbox import LocalSandbox
from se_rl.sandbox.lockdown import Isolation, SandboxError, isolation_level, refusal
from se_rl_benchmarks import kill_campaign, killed_runs

SMALLER = kill_campaign.SMALLER


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A kind of run, of which one was left alone."""
    if not isolation_level().enough:
        pytest.skip("no sandbox is to be had on this machine")
    out = tmp_path_factory.mktemp("runs")
    kill_campaign.TINY.make_data(out / "home")
    return kill_campaign.leave_alone(kill_campaign.Kind("small", SMALLER, out / "home"), out)


def test_a_run_that_is_killed_twice_and_loses_its_room_twice_ends_as_the_one_left_alone(
    alone: Any, tmp_path: Path
) -> None:
    folder, keys, rng = tmp_path / "killed", set[str](), random.Random(5)
    told = len(alone.record["events"])
    for first, last in ((2, told // 4), (told // 4, told // 2)):
        child = kill_campaign.Child(folder, alone)
        lines = rng.randint(first, last)
        while len(child.heard()) < lines and not child.wait(0.01):
            pass
        assert child.kill() == []
        assert child.process.returncode == -signal.SIGKILL
        keys, faults = kill_campaign.lost(folder, keys)
        assert keys and not faults
    child = kill_campaign.Child(folder, alone)
    for victims in (1, 0):
        while not (
            chosen := kill_campaign.descendants(child.process.pid)[victims]
        ) and not child.wait(0.01):
            pass
        os.kill(rng.choice(chosen), signal.SIGKILL)
    assert child.wait(240) and child.process.returncode == 0
    assert kill_campaign.differences(folder, alone) == []
    accepted = '"outcome": "accepted"' in (folder / "results.json").read_text()
    assert alone.record["test_openings"] == accepted


def test_what_is_lost_changed_or_made_twice_is_noticed(alone: Any, tmp_path: Path) -> None:
    folder, original = tmp_path / "copy", alone.home.parent / "alone_small"
    shutil.copytree(original, folder)
    log = folder.with_suffix(".log")
    log.write_text(original.with_suffix(".log").read_text())
    assert kill_campaign.differences(folder, alone) == []
    made = next(which for which, is_new in killed_runs.acknowledged(log) if is_new)
    log.write_text(f"{log.read_text()}evaluated {made} new\nevaluated other/0/0 new\n")
    results = folder / "results.json"
    told = results.read_text().replace('"schema_version": 1', '"schema_version": 2')
    results.write_text(told)
    faults = ["results not as in the run left alone", f"evaluation {made} was made 2 times"]
    assert kill_campaign.differences(folder, alone) == faults
    assert kill_campaign.lost(folder, {"some key"})[1] == ["some key is gone", "other/0/0 is gone"]


def test_work_in_the_room_is_done_again_unless_there_can_be_no_room() -> None:
    sandbox = LocalSandbox(cast(Any, None))
    tries: list[SandboxError] = []

    def work(fails: int, hopeless: bool = False) -> int:
        if len(tries) < fails:
            tries.append(refusal(Isolation("none", ())) if hopeless else SandboxError("killed"))
            raise tries[-1]
        return len(tries)

    assert sandbox.with_retries(partial(work, 2)) == 2
    for hopeless, expected in ((False, 3), (True, 1)):
        tries.clear()
        with pytest.raises(SandboxError):
            sandbox.with_retries(partial(work, 9, hopeless))
        assert len(tries) == expected


def test_a_server_whose_parent_died_before_it_could_ask_for_its_signal_ends_at_once() -> None:
    code = "from se_rl.sandbox.forkserver import main; main(-1, 0)"  # its parent is not process 0; -1 is no socket
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
