"""One run in a folder at a time, with the settings it began with, and nobody else's files touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.config import ConfigError
from se_rl.records.run_folder import RunFolder

CONFIG: dict[str, Any] = {
    "seed": 3,
    "data": Path("data/x.csv"),
    "search": {"designs": 40, "rungs": (1, 3), "rate": 1e-05},
}

HOLD = """
import subprocess, sys
from se_rl.config import ConfigError
from se_rl.records.run_folder import RunFolder
sys.stdin.readline()
try:
    folder = RunFolder(sys.argv[1]).open()
except ConfigError as error:
    print(error, flush=True)
else:
    worker = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)  # outlives its parent
    print("won", worker.pid, flush=True)
sys.stdin.readline()
"""


def _start(folder: Path) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", HOLD, folder], **pipes)


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_of_runs_started_at_once_exactly_one_wins_and_its_end_frees_the_folder(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    runs = [_start(folder) for _ in range(4)]
    workers = []
    try:
        for run in runs:
            assert run.stdin is not None
            run.stdin.write("\n")
            run.stdin.flush()
        answers = {run.pid: _answer(run) for run in runs}
        winners = [pid for pid, said in answers.items() if said.startswith("won")]
        workers = [int(answers[pid].split()[1]) for pid in winners]
        assert len(winners) == 1, answers
        line = f"{folder} is in use by process {winners[0]}; wait for it or choose another --out"
        with pytest.raises(ConfigError) as refused:
            RunFolder(folder).open()
        assert str(refused.value) == line
        losers = [said for pid, said in answers.items() if pid not in winners]
        assert all(said.startswith(f"{folder} is in use by") for said in losers), answers

        next(run for run in runs if run.pid == winners[0]).kill()
        for run in runs:
            run.communicate()
        os.kill(workers[0], 0)  # what it started lives on, and does not hold the folder
        with RunFolder(folder) as mine:
            assert mine.lock.read_text() == f"{os.getpid()}\n"
    finally:
        for run in runs:
            run.kill()
            run.communicate()
        for worker in workers:
            os.kill(worker, signal.SIGKILL)


def test_a_folder_is_taken_once_in_a_process_too(tmp_path: Path) -> None:
    first = RunFolder(tmp_path / "a" / "b")
    with first as folder:
        assert folder is first
        with pytest.raises(ConfigError, match=f"in use by process {os.getpid()}"):
            RunFolder(tmp_path / "a" / "b").open()
        first.close()
        with RunFolder(tmp_path / "a" / "b"), pytest.raises(ConfigError, match="in use"):
            first.open()
    with first.open() as folder, folder:
        pass
    RunFolder(tmp_path / "a" / "b").open().close()


def test_the_files_of_a_run_lie_in_its_folder(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    places = (run.archive, run.results, run.report, run.policy, run.config, run.blobs)
    names = "archive.sqlite results.json report.html best.policy config.yaml blobs"
    assert [str(place.relative_to(tmp_path)) for place in places] == names.split()
    assert not list(tmp_path.iterdir())


def test_what_is_no_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ConfigError, match="not empty and holds no run; choose another --out"):
        RunFolder(tmp_path).open()
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ConfigError, match="cannot hold a run"):
        RunFolder(tmp_path / "thesis.tex").open()
    with pytest.raises(ConfigError, match="cannot hold a run"):
        RunFolder(tmp_path / "thesis.tex" / "run").open()


def test_a_run_whose_lock_file_was_deleted_is_still_a_run(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as folder:
        folder.bind(CONFIG)
        folder.database.touch()
        folder.lock.unlink()
    with RunFolder(tmp_path) as folder:
        assert folder.check_config(CONFIG)


def test_settings_are_stored_once_and_held_to(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as folder:
        assert not folder.check_config(CONFIG) and not folder.config.exists()
        folder.bind(CONFIG)
        assert folder.check_config(CONFIG)
        stored = folder.config.read_bytes()
        changes: list[tuple[dict[str, Any], str]] = [
            ({**CONFIG, "seed": 4}, "began with seed 3 and is now given 4"),
            (
                {**CONFIG, "search": {**CONFIG["search"], "rungs": (1, 9)}},
                r"search.rungs \[1, 3\] .* \[1, 9\]",
            ),
            (
                {**CONFIG, "search": {"designs": 40, "rungs": (1, 3)}},
                r"search.rate 1e-05 .* \(not set\)",
            ),
            ({"new": True, **CONFIG}, r"new \(not set\) .* true"),
            ({**CONFIG, "search": None}, r"search \(not set\) .* null"),
        ]
        for changed, words in changes:
            with pytest.raises(
                ConfigError, match=f"{words}; use the same settings, or another --out"
            ):
                folder.check_config(changed)
        assert folder.config.read_bytes() == stored and folder.check_config(CONFIG)


def test_settings_that_are_lost_or_damaged_are_not_made_up(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as folder:
        folder.bind(CONFIG)
        for broken in (b"seed: [", b"\xff\xfe\x00", b"", b"just a text"):
            folder.config.write_bytes(broken)
            with pytest.raises(ConfigError, match=r"config\.yaml is damaged; restore it"):
                folder.check_config(CONFIG)
        folder.config.unlink()
        folder.database.touch()
        with pytest.raises(ConfigError, match=r"has an archive but no config\.yaml"):
            folder.check_config(CONFIG)
        assert not folder.config.exists()


_LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_CONFIGS = st.dictionaries(
    st.text(),
    st.recursive(_LEAF, lambda x: st.lists(x, max_size=2) | st.dictionaries(st.text(), x)),
)


@settings(max_examples=30, deadline=None)
@given(_CONFIGS)
def test_any_settings_are_the_same_when_read_again(
    tmp_path_factory: pytest.TempPathFactory, config: dict[str, Any]
) -> None:
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    folder.bind(config)
    assert folder.check_config(config)
