"""Mutated run folders and policy files by the thousand: 0 tracebacks, 0 hangs, bounded memory.

SE_RL_FUZZ scales the number of cases: 1 (default) is a few seconds, 100 is 2,000 folders and 4,000 files.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from report.run_fixture import make_run
from se_rl.main import main
from se_rl.modules.defaults import Modules
from se_rl.records.entries import key_of
from se_rl.rl.policy import Policy
from se_rl.rl.policy_file import PolicyFileError, digest, read_policy, save_weights

SCALE = max(1, int(os.environ.get("SE_RL_FUZZ", "1")))
SEED = 20_241_112
SLOWEST_SECONDS = 30.0
MOST_GROWTH_BYTES = 2 << 30
ODD: tuple[Any, ...] = (
    None, True, -1, 10**30, 10**400, 1e308, float("nan"), float("inf"), "", "x" * 5000, "\x1b[2J",
    "\ud800", "../../etc/passwd", "0" * 64, [], {}, [[]], {"a": {"b": []}}, [1, "x", None],
    "<script>alert(1)</script>",
)  # fmt: skip
FUZZ = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def odd_value(rng: random.Random) -> Any:
    return nested(rng.randrange(200)) if rng.random() < 0.1 else rng.choice(ODD)


def mutate(value: Any, rng: random.Random) -> Any:
    """The same plain data with one part of it replaced, removed or added."""
    if rng.random() < 0.25 or not isinstance(value, (dict, list)) or not value:
        return odd_value(rng)
    changed = dict(value) if isinstance(value, dict) else list(value)
    key = rng.choice(list(changed)) if isinstance(changed, dict) else rng.randrange(len(changed))
    fate = rng.random()
    if fate < 0.2:
        del changed[key]
    elif fate < 0.3 and isinstance(changed, dict):
        changed[rng.choice(["surprise", "", "id", "a.b"])] = odd_value(rng)
    else:
        changed[key] = mutate(changed[key], rng)
    return changed


def change_rows(folder: Path, rng: random.Random) -> None:
    """Forge events, digests included, or break rows and tables outright."""
    with closing(sqlite3.connect(folder / "archive.sqlite")) as raw:
        raw.execute("PRAGMA foreign_keys = OFF")
        raw.execute("DROP TRIGGER IF EXISTS event_refuses_update")
        raw.execute("DROP TRIGGER IF EXISTS event_refuses_delete")
        if rng.random() < 0.2:
            table = rng.choice(["candidate", "evaluation", "meta", "model_call", "lineage"])
            columns = [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]
            odd = rng.choice([None, -1, "x", b"\xff\xfe", 2**62, 1.5])
            sql = f"UPDATE OR IGNORE {table} SET {rng.choice(columns)} = ?"
            drop = rng.choice([f"DROP TABLE {table}", f"DELETE FROM {table}"])
            with suppress(sqlite3.Error):
                raw.execute(drop) if rng.random() < 0.4 else raw.execute(sql, (odd,))
            raw.commit()
            return
        rows = raw.execute("SELECT seq, at, kind, key, payload FROM event").fetchall()
        for seq, at, kind, key, payload in rng.sample(rows, rng.randrange(1, 4)):
            text: Any = json.dumps(mutate(json.loads(payload), rng))
            if rng.random() < 0.1:
                text = rng.choice(["", "{", "3", '{"a": NaN}', "[" * 3000, b"\xff\x00", 7])
            sound = key_of(at, kind, key, text) if isinstance(text, str) else "x"
            statement = "UPDATE event SET payload = ?, digest = ? WHERE seq = ?"
            raw.execute(statement, (text, sound, seq))
        raw.commit()


def change_file(folder: Path, rng: random.Random) -> None:
    """Replace a blob, the results or the archive's own bytes."""
    files = sorted(file for file in (folder / "blobs").rglob("*") if file.is_file())
    file = rng.choice([*files, folder / "results.json", folder / "archive.sqlite"])
    content = bytearray(file.read_bytes())
    fate = rng.randrange(5)
    if fate == 0:
        file.unlink()
        os.mkfifo(file)
    elif fate == 1:
        file.unlink()
        file.symlink_to(rng.choice(["/dev/zero", "/etc/passwd", file.name]))
    elif file.name == "results.json":
        file.write_text(json.dumps(mutate(json.loads(content), rng)))
    else:
        for _ in range(rng.randrange(1, 40)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        file.write_bytes(content[: rng.randrange(1, len(content))] if fate == 2 else content)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("whole"), rounds=3)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.fixture
def bounded() -> Iterator[None]:
    before = peak_bytes()
    yield
    assert peak_bytes() - before < MOST_GROWTH_BYTES


@seed(SEED)
@settings(max_examples=20 * SCALE, **FUZZ)
@given(number=st.integers(0, 2**32 - 1))
def test_hostile_folders_end_in_figures_or_one_line(
    whole: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    bounded: None,
    number: int,
) -> None:
    rng = random.Random(number)
    place = tmp_path_factory.mktemp("case")
    folder = Path(shutil.copytree(whole, place / "run"))
    try:
        change = rng.choice([change_rows, change_rows, change_file])
        change(folder, rng)
        design = rng.choice(["", "", "0", "1", "a", "b", "c", "d", "e", "f"])
        commands = [
            ["show", str(folder), *([design] if design else [])],
            rng.choice([["report", str(folder), "--out", str(place / "p.html")]])
            if rng.random() < 0.3
            else ["compare", str(folder)],
        ]
        for words in commands:
            started = time.monotonic()
            code = main(words)
            assert time.monotonic() - started < SLOWEST_SECONDS
            shown = capsys.readouterr()
            assert code == 0 or (shown.err.startswith("se-rl: ") and shown.err.count("\n") == 1)
            assert "\x1b" not in shown.out + shown.err
    finally:
        shutil.rmtree(place)


FACTS = {
    "shape": {"observation_size": 4, "actions": 2, "agents": 1, "message_size": 0},
    "action_map": {"zero": 1.0, "scale": 1.0, "price_scale": 2.0},
    "neutral": {"static": {"multiple": 1.0, "offset": 0.0}},
    "design": {},
    "seed": 0,
    "work": 1.0,
    "name": "PPO",
}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("policy") / "a.policy"
    torch.manual_seed(0)
    save_weights(path, Policy(Modules(), observation_size=4), FACTS)
    read_policy(path, Modules())
    return path.read_bytes()


def forged(content: bytes, rng: random.Random) -> bytes:
    """A policy file with a mutated header, a fitting hash, and sometimes broken bytes."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    facts = json.loads(header["__metadata__"]["facts"])
    if rng.random() < 0.6:
        facts = mutate(facts, rng)
    if rng.random() < 0.5:
        facts = facts if rng.random() < 0.5 else {**FACTS, "shape": mutate(FACTS["shape"], rng)}
    header["__metadata__"]["facts"] = json.dumps(facts)
    if rng.random() < 0.4:
        header = mutate(header, rng)
    text = json.dumps(header, separators=(",", ":")).encode()
    length = len(text) if rng.random() < 0.9 else rng.choice([0, 1, 2**40, 2**63, 2**64 - 1])
    made = length.to_bytes(8, "little") + text + content[end:]
    if rng.random() < 0.1:
        made = made[: rng.randrange(len(made))]
    return made.replace(b"0" * 64, digest(made).encode(), 1) if rng.random() < 0.1 else rehash(made)


def rehash(content: bytes) -> bytes:
    """The same file with its hash put right, as far as there is a place for it."""
    from se_rl.rl import policy_file

    named = f'"sha256":"{digest(content)}"'.encode()
    return policy_file._HASH.sub(named, content, count=1)


@seed(SEED + 1)
@settings(max_examples=40 * SCALE, **FUZZ)
@given(number=st.integers(0, 2**32 - 1))
def test_hostile_policy_files_load_or_are_refused_in_one_line(
    policy: bytes, tmp_path_factory: pytest.TempPathFactory, bounded: None, number: int
) -> None:
    rng = random.Random(number)
    path = tmp_path_factory.getbasetemp() / "fuzzed.policy"
    path.write_bytes(forged(policy, rng))
    try:
        read_policy(path, Modules())
    except PolicyFileError as error:
        line = str(error)
        assert "\n" not in line and str(path) in line and len(line) < 1000


@pytest.mark.parametrize("name", ["observation_size", "actions", "agents", "message_size"])
def test_a_policy_that_asks_for_gigabytes_is_refused(
    policy: bytes, tmp_path: Path, bounded: None, name: str
) -> None:
    path = tmp_path / "huge.policy"
    facts = {**FACTS, "shape": {**FACTS["shape"], "agents": 2, name: 10**8}}  # type: ignore[dict-item]
    save_weights(path, Policy(Modules(), observation_size=4), facts)
    with pytest.raises(PolicyFileError, match=f"{name} is 100000000"):
        read_policy(path, Modules())
