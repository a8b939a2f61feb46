"""`replay`, `score`, `compare` and `evaluate` on mutated run folders and policy files: figures or one line.

What would train is replaced by a stand-in, so that thousands of folders are read in minutes; all that
reads is real. SE_RL_FUZZ scales the number of cases as in test_strangers_fuzz.py.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given, seed, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parent / "core"))
from tiny_run import DATA, make_data, tiny_config

from report.run_fixture import make_run
from se_rl.config import dump_yaml
from se_rl.core.preparation import run_seal
from se_rl.data.features import OBSERVATION_FIELDS
from se_rl.main import main
from se_rl.modules.defaults import Modules
from se_rl.records.archive import Archive
from se_rl.records.entries import Evaluation
from se_rl.records.fraud import FraudCheck
from se_rl.records.jobs import TrainingJob
from se_rl.records.settings import RunConfig
from se_rl.rl.policy import Policy
from se_rl.rl.policy_file import save_weights
from test_strangers_fuzz import (
    FACTS,
    FUZZ,
    SCALE,
    SEED,
    SLOWEST_SECONDS,
    change_file,
    change_rows,
    forged,
    mutate,
    odd_value,
)

SPOILT = (sqlite3.Error, OSError, ValueError, yaml.YAMLError)
"""What a second change may end in: the first may have left little."""
HASH = "fa8d015c" * 8
"""The data that the made-up run says it used."""


class ReadingRun:
    """Reads what a run would, and gives the stored trainings back in place of new ones."""

    def __init__(self, config: RunConfig, folder: Any, archive: Archive, **_: Any) -> None:
        self.config = replace(config, worlds="dynamic")  # no policy is played
        self.archive = archive
        self.seal = run_seal(config, archive)
        self.facts = {"sha256": HASH, "name": str(config.data)}
        self.code = "c0de" * 8
        self.say = lambda _: None
        self.training_pool = self

    def evaluate(self, jobs: Sequence[TrainingJob]) -> Iterator[tuple[TrainingJob, Any, bool]]:
        for job in jobs:
            yield job, Evaluation(job.candidate.id, job.rung.index, job.seed, "failed", "no"), False

    def validate(self, text: str, code_type: str) -> Any:
        return SimpleNamespace(is_valid=False, stage="static", error_message="not today")

    def close(self) -> None: ...


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a run of designs with settings, seal and policy, and a module by hand."""
    folder = tmp_path_factory.mktemp("home")
    make_data(folder)
    for name in ("run", "ended"):
        (folder / name).mkdir()
    run = make_run(folder / "run", rounds=2, ended=False)
    shutil.copy(make_run(folder / "ended", rounds=3) / "results.json", run / "results.json")
    (run / "config.yaml").write_text(dump_yaml(tiny_config()))
    with Archive.open(run / "archive.sqlite") as archive:
        archive.append("seal", "seal", {"text": "tiny", "origin": "given"})
        begun = {"data": {"sha256": HASH}, "code_hash": "c0de" * 8}
        archive.append("run_started", "run_started", begun)
        archive.append("neutral", "neutral", {"static": {"multiple": 1.0, "offset": 0.0}})
    torch.manual_seed(0)
    size = len(OBSERVATION_FIELDS)
    shape = {"observation_size": size, "actions": 2, "agents": 1, "message_size": 0}
    policy = Policy(Modules(), observation_size=size)
    save_weights(run / "best.policy", policy, {**FACTS, "shape": shape})
    (folder / "mine.py").write_text("def reward(step):\n    return step.news\n")
    return folder


@pytest.fixture(autouse=True)
def _reading(home: Path, private_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SE_RL_HOME", str(home))
    monkeypatch.setattr("se_rl.core.replay.Run", ReadingRun)
    monkeypatch.setattr("se_rl.core.by_hand.Run", ReadingRun)
    monkeypatch.setattr("se_rl.core.replay.check_design", lambda *_: FraudCheck(""))


def held(capsys: pytest.CaptureFixture[str], *words: object) -> int:
    """A command's exit code, after a look at what it said."""
    started = time.monotonic()
    code = main([str(word) for word in words])
    said = capsys.readouterr()
    last = said.err.rstrip("\n").split("\n")[-1]
    assert code in (0, 1, 2) and time.monotonic() - started < 4 * SLOWEST_SECONDS  # a sandbox warms
    assert "Traceback" not in said.err and not set("\x1b\x07") & set(said.out + last)
    assert code == 0 or said.out or (last.startswith("se-rl: ") and len(last) < 5000), said
    return code


def change_settings(folder: Path, rng: random.Random) -> None:
    """Mutate config.yaml, as data or as bytes."""
    file = folder / "config.yaml"
    if rng.random() < 0.3:
        content = bytearray(file.read_bytes())
        for _ in range(rng.randrange(1, 9)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        file.write_bytes(content)
        return
    raw = mutate(yaml.safe_load(file.read_text()), rng)
    try:
        file.write_text(yaml.safe_dump(raw))
    except (yaml.YAMLError, UnicodeEncodeError, RecursionError, ValueError):
        file.write_text(json.dumps(raw))


def change_seal(folder: Path, rng: random.Random) -> None:
    """Another run's seal, or none that is one."""
    with Archive.open(folder / "archive.sqlite") as archive:
        archive.append("seal", "seal again", {"text": odd_value(rng)})
    change_rows(folder, rng)


CHANGES = (change_rows, change_rows, change_file, change_settings, change_settings, change_seal)


def test_what_is_not_mutated_is_replayed_and_scored(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stand-in lets a whole folder through: else the fuzz would stop at the first door."""
    main(["replay", str(home / "run"), "all", "--json"])
    said = capsys.readouterr()
    assert said.err == ""
    found = json.loads(said.out)
    assert len(found["designs"]) > 1 and found["designs"][0]["same_code"]
    assert main(["score", str(home / "run"), "--reward", str(home / "mine.py")]) == 2
    assert "not today" in capsys.readouterr().err
    words = ["--data", DATA, "--horizon", "20", "--split", "valid"]
    assert main(["evaluate", str(home / "run"), *words]) == 0, capsys.readouterr()


@seed(SEED + 2)
@settings(max_examples=12 * SCALE, **FUZZ)
@given(number=st.integers(0, 2**32 - 1))
def test_replay_and_score_of_hostile_folders_end_in_one_line(
    home: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    number: int,
) -> None:
    rng = random.Random(number)
    place = tmp_path_factory.mktemp("case")
    folder = Path(shutil.copytree(home / "run", place / "run"))
    try:
        for change in rng.sample(CHANGES, rng.randrange(1, 3)):
            with suppress(*SPOILT):
                change(folder, rng)
        design = rng.choice(["all", "all", "0", "a", "c", "e", "", "\x1b[2J", "x" * 3000])
        rung = rng.choice([[], [], ["--rung", "0"], ["--rung", "2"]])
        held(capsys, "replay", folder, design, *rung)
        held(capsys, "score", folder, "--reward", home / "mine.py")
        held(capsys, "compare", folder, home / "run")
    finally:
        shutil.rmtree(place)


@seed(SEED + 3)
@settings(max_examples=6 * SCALE, **FUZZ)
@given(number=st.integers(0, 2**32 - 1))
def test_evaluate_of_hostile_policies_ends_in_figures_or_one_line(
    home: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    number: int,
) -> None:
    rng = random.Random(number)
    place = tmp_path_factory.mktemp("case")
    file = place / "a.policy"
    file.write_bytes(forged((home / "run" / "best.policy").read_bytes(), rng))
    try:
        if rng.random() < 0.4:  # among the files of a run, whose seal is read
            folder = Path(shutil.copytree(home / "run", place / "run"))
            with suppress(*SPOILT):
                rng.choice(CHANGES)(folder, rng)
            (folder / "best.policy").unlink(missing_ok=True)
            file = file.rename(folder / "best.policy").parent
        split = rng.choice(["valid", "valid", "test"])
        words = ("--data", DATA, "--horizon", "20", "--split", split, "--fill-model", "price_taker")
        held(capsys, "evaluate", file, *words)
    finally:
        shutil.rmtree(place)


MODULES = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "nothing": lambda path: None,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "an endless file": lambda path: (path.touch(), os.truncate(path, 1 << 34)),
    "letters that are none": lambda path: path.write_bytes(b"\xff\xfe" * 9),
    "a source too long": lambda path: path.write_text("#" * 70_000),
    "a dotted name without end": lambda path: path.write_text("import " + "a." * 30_000),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_by_hand_that_is_no_file_is_refused(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    MODULES[name](tmp_path / "mine.py")  # type: ignore[operator]
    folder = Path(shutil.copytree(home / "run", tmp_path / "run"))
    assert held(capsys, "score", folder, "--reward", tmp_path / "mine.py") == 2
