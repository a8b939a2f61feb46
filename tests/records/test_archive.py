"""The archive keeps what it acknowledged, once and in order, through kills, full disks, damage and other versions."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import DDL, Engine, event, inspect, select, text
from sqlalchemy.dialects import postgresql

from se_rl.config import ConfigError
from se_rl.records import schema
from se_rl.records.archive import Archive, ArchiveError
from se_rl.records.blobs import FolderBlobs
from se_rl.records.engines import open_engine
from se_rl.records.entries import (
    DEFAULT,
    Adapter,
    Candidate,
    Evaluation,
    Instruction,
    ModelCall,
    design_id,
    key_of,
    sha256,
)

SOURCE = "def reward(step):\n    return step.fill_price\n"
OTHER = "def imagine(bars, generator):\n    return bars\n"
ROOT = Candidate("root", {}, DEFAULT)
CHILD = Candidate(
    design_id({"reward": sha256(SOURCE)}),
    {"reward": sha256(SOURCE)},
    "draft",
    ("root",),
    "reward",
    1,
)
CROSS = Candidate(
    "cross",
    {"reward": sha256(SOURCE), "imagination": sha256(OTHER)},
    "crossover",
    (CHILD.id, "root"),
    behaviour=(0.5, -1),
)
SCORED = Evaluation(
    CHILD.id, 1, 7, "ok", scores={"static_specific": 0.1 + 0.2, "dynamic": -1e-300}, work=2.0
)


Place = str | Path
"""Where an archive is: a file of SQLite, or a run on a PostgreSQL server."""
NewPlace = Callable[[], Place]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive.sqlite"


@pytest.fixture
def place(new_place: NewPlace) -> Place:
    return new_place()


def exercise(archive: Archive) -> None:
    """One of everything, the second time as often as the first."""
    for _ in range(2):
        archive.append("run_started", "start", {"seed": 3, "data": {"name": "it's 100% \\ :x"}})
        archive.add_candidate(ROOT, {})
        archive.add_candidate(CHILD, {"reward": SOURCE})
        archive.add_candidate(CROSS, {"imagination": OTHER})
        archive.add_evaluation(SCORED, key="e1")
        archive.add_evaluation(Evaluation("cross", 0, 2**40, "failed", "diverged"), key="e2")
        archive.add_call(ModelCall("c1", "smollm2", "", 8, 100, 2**33, 0.25, 1.5, "ab"))
        archive.add_instruction(Instruction("i1", "macro", "Sell evenly.", "default"))
        archive.add_adapter(Adapter("a1", "", "cd", 2, {"kl": 0.01}))
        assert archive.open_test(key="t1", data_hash="ef", candidate="cross") == 1
    assert [c.id for c in archive.lineage("cross")] == ["cross", CHILD.id, "root"]
    assert archive.candidates() == [ROOT, CHILD, CROSS]
    assert archive.evaluation("e1") == SCORED and archive.evaluation("none") is None
    assert [e.seed for e in archive.evaluations()] == [7, 2**40] and archive.evaluations(
        CHILD.id
    ) == [SCORED]
    assert archive.sources(CROSS) == {"reward": SOURCE, "imagination": OTHER}
    assert (
        archive.calls()[0].tokens_out == 2**33 and archive.instructions()[0].text == "Sell evenly."
    )
    assert archive.adapters()[0].stats == {"kl": 0.01} and archive.test_openings() == 1
    kinds = "run_started proposed proposed proposed evaluated evaluated model_call instruction adapter test_opened"
    assert [e.kind for e in archive.events()] == kinds.split()


def test_all_that_is_stored_is_found_again(place: Place) -> None:
    with Archive.open(place) as archive:
        exercise(archive)
        assert not archive.append("run_started", "start", {"seed": 4}) and archive.add_evaluation(
            SCORED, key="e3"
        )
    with Archive.open(place, read_only=True) as archive:
        assert archive.find("start") == {"seed": 3, "data": {"name": "it's 100% \\ :x"}}
        assert archive.evaluation("e3") == SCORED and archive.find("e1") == json.loads(
            json.dumps(vars(SCORED))
        )
        assert (
            len({e.seq for e in archive.events()}) == 11 and archive.events(since=10)[0].key == "e3"
        )
        assert [e.key for e in archive.events("model_call", "adapter")] == ["c1", "adapter a1"]
        with pytest.raises(ArchiveError, match="may not be written"):
            archive.append("late", "late", {})
        with pytest.raises(ArchiveError, match="reading only"):
            archive.put_blob(b"late")
        with archive._transaction() as connection:
            versions = connection.execute(select(schema.MODULE_VERSION)).all()
        assert sorted(map(tuple, versions), key=lambda row: row[1]) == [
            (sha256(OTHER), "imagination", "cross"),
            (sha256(SOURCE), "reward", CHILD.id),
        ]


def test_sqlite_is_set_up_to_lose_nothing(path: Path) -> None:
    with Archive.open(path) as archive, archive._transaction() as connection:
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in _PRAGMAS]
    assert dict(zip(_PRAGMAS, found, strict=True)) == _PRAGMAS


_PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}


def test_events_are_only_ever_appended(place: Place) -> None:
    with Archive.open(place) as archive:
        exercise(archive)
        for statement in ("UPDATE event SET kind = 'x'", "DELETE FROM event WHERE seq = 2"):
            with (
                pytest.raises(ArchiveError, match="only ever appended"),
                archive._transaction() as connection,
            ):
                connection.execute(text(statement))


def test_what_does_not_fit_together_is_refused_whole(place: Place) -> None:
    with Archive.open(place) as archive:
        exercise(archive)
        before = archive.events()
        with pytest.raises(ArchiveError, match=r"(?i)foreign key"):
            archive.add_evaluation(Evaluation("nobody", 1, 0, "ok"), key="e9")
        with pytest.raises(ArchiveError, match=r"(?i)foreign key"):
            archive.add_candidate(Candidate("orphan", {}, "draft", ("nobody",)), {})
        with pytest.raises(ValueError, match="not the one"):
            archive.add_candidate(
                Candidate("liar", {"reward": sha256(OTHER)}, "draft", ("root",)), {"reward": SOURCE}
            )
        with pytest.raises(ValueError, match="cannot be one of 'model_call'"):
            archive.add_call(ModelCall("e1", "m", "", 1, 1, 1, 0.0, 0.0, ""))
        with pytest.raises(TypeError, match="set cannot be stored"):
            archive.append("odd", "odd", {"value": {1}})
        assert archive.events() == before and archive.evaluation("e9") is None


def test_a_design_is_named_by_the_beginning_of_its_id(place: Place) -> None:
    with Archive.open(place) as archive:
        for name in ("abc1", "abc2", "ab", "x"):
            archive.add_candidate(Candidate(name, {}, "draft"), {})
        assert archive.candidate("abc2").id == "abc2" and archive.candidate("ab").id == "ab"
        with pytest.raises(
            ConfigError, match=r"'abc' begins the ids of 2 designs \(abc1, abc2\); write more"
        ):
            archive.candidate("abc")
        with pytest.raises(ConfigError, match="there is no design 'abd' among 4"):
            archive.candidate("abd")


def test_threads_may_share_an_archive(place: Place) -> None:
    with Archive.open(place) as archive, ThreadPoolExecutor(4) as pool:
        written = list(
            pool.map(lambda i: archive.append("row", f"row{i % 20}", {"i": i}), range(80))
        )
        assert sum(written) == 20 and len(archive.events()) == 20


def test_payloads_may_hold_numpy_and_read_only_mappings(place: Place) -> None:
    odd = {
        "a": np.float32(0.1),
        "b": np.arange(3),
        "c": MappingProxyType({"d": np.int64(2**40)}),
        "e": "\ud800\0",
    }
    with Archive.open(place) as archive:
        archive.append("odd", "odd", {**odd, "f": float("-inf")})
        expected = {
            "a": float(np.float32(0.1)),
            "b": [0, 1, 2],
            "c": {"d": 2**40},
            "e": "\ud800\0",
            "f": float("-inf"),
        }
        assert archive.find("odd") == expected
        archive.add_candidate(ROOT, {})
        archive.add_evaluation(
            Evaluation("root", np.int64(1), np.uint32(7), "ok", work=np.float32(2)), key="e"
        )  # type: ignore[arg-type]
        assert archive.evaluations("root") == [Evaluation("root", 1, 7, "ok", work=2.0)]


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_EVENTS = st.lists(
    st.tuples(st.integers(0, 8), st.dictionaries(st.text(), _PLAIN, max_size=3), st.booleans()),
    max_size=20,
)


@settings(max_examples=10, deadline=None)
@given(steps=_EVENTS)
def test_the_first_writing_of_a_key_stands_and_order_is_kept(
    new_place: NewPlace, steps: list[tuple[int, dict[str, Any], bool]]
) -> None:
    expected: dict[str, tuple[str, dict[str, Any]]] = {}
    place = new_place()
    archive = Archive.open(place)
    for number, payload, reopen in steps:
        key, kind = f"k{number}", f"kind{number % 3}"
        assert archive.append(kind, key, payload) == (key not in expected)
        expected.setdefault(key, (kind, payload))
        if reopen:
            archive.close()
            archive = Archive.open(place)
    with archive:
        found = archive.events()
        assert [(e.key, (e.kind, e.payload)) for e in found] == list(expected.items())
        assert [e.seq for e in found] == list(range(1, len(found) + 1))
        assert [e.key for e in archive.events("kind1")] == [
            k for k, (kind, _) in expected.items() if kind == "kind1"
        ]


@settings(max_examples=12, deadline=None)
@given(choices=st.lists(st.lists(st.integers(0, 30), max_size=3), max_size=8))
def test_lineage_holds_every_ancestor_once_youngest_first(
    new_place: NewPlace, choices: list[list[int]]
) -> None:
    ancestors: list[set[int]] = []
    with Archive.open(new_place()) as archive:
        for i, chosen in enumerate(choices):
            parents = [choice % i for choice in chosen] if i else []
            archive.add_candidate(
                Candidate(f"d{i}", {}, "mix", tuple(f"d{p}" for p in parents)), {}
            )
            ancestors.append({i}.union(*(ancestors[p] for p in parents)))
        for i, line in enumerate(ancestors):
            assert [c.id for c in archive.lineage(f"d{i}")] == [
                f"d{j}" for j in sorted(line, reverse=True)
            ]
        assert archive.lineage("nobody") == []


@settings(max_examples=12, deadline=None)
@given(st.binary(max_size=60), st.data())
def test_a_flipped_byte_in_a_blob_is_seen_and_mended_by_storing_again(
    content: bytes, data: st.DataObject
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Archive.open(Path(folder) / "a.sqlite") as archive,
    ):
        name = archive.put_blob(content)
        file = Path(folder) / "blobs" / name[:2] / name[2:]
        assert archive.blob(name) == content and archive.has_blob(name) and name == sha256(content)
        broken = bytearray(content or b"x")
        broken[data.draw(st.integers(0, len(broken) - 1))] ^= data.draw(st.integers(1, 255))
        file.write_bytes(bytes(broken))
        with pytest.raises(
            ArchiveError, match=f"blob {name[:12]} is damaged; delete .* run the same command again"
        ):
            archive.blob(name)
        assert not archive.has_blob(name)
        assert archive.put_blob(content) == name and archive.blob(name) == content
        file.unlink()
        with pytest.raises(ArchiveError, match=f"blob {name[:12]} is missing"):
            archive.blob(name)
        assert not archive.has_blob(name) and not archive.has_blob("")


def test_a_newer_schema_is_refused_and_an_older_one_brought_up_to_date(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Archive.open(place) as archive:
        archive.append("old", "old", {"kept": True})
    _change(place, "UPDATE meta SET schema_version = 2")
    for read_only in (False, True):
        with pytest.raises(
            ArchiveError, match=r"newer se-rl \(schema 2, this one reads 1\); update se-rl$"
        ):
            Archive.open(place, read_only=read_only)
    _change(place, "UPDATE meta SET schema_version = 0", "DROP TABLE test_use")
    with pytest.raises(ArchiveError, match="has schema 0, which this se-rl no longer reads"):
        Archive.open(place)
    monkeypatch.setitem(schema.MIGRATIONS, 0, schema.TEST_USE.create)
    with Archive.open(place, read_only=True) as archive:
        assert archive.find("old") == {"kept": True} and archive.test_openings() == 0
    with Archive.open(place) as archive:
        assert archive.open_test(key="t", data_hash="", candidate="") == 1


def test_a_failed_migration_changes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    Archive.open(place).close()
    _change(place, "UPDATE meta SET schema_version = 0", "DROP TABLE test_use")

    def broken(connection: Any) -> None:
        schema.TEST_USE.create(connection)
        raise ArchiveError("stopped half-way")

    monkeypatch.setitem(schema.MIGRATIONS, 0, broken)
    with pytest.raises(ArchiveError, match="half-way"):
        Archive.open(place)
    engine, _ = open_engine(place)
    with closing_engine(engine), engine.begin() as connection:
        assert connection.execute(select(schema.META.c.schema_version)).scalar() == 0
        assert "test_use" not in inspect(connection).get_table_names()


def _change(place: Place, *statements: str) -> None:
    engine, _ = open_engine(place)
    with closing_engine(engine), engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


@contextmanager
def closing_engine(engine: Engine) -> Iterator[None]:
    try:
        yield
    finally:
        engine.dispose()


def test_what_is_no_archive_is_refused_in_one_line(tmp_path: Path) -> None:
    text = tmp_path / "text.sqlite"
    text.write_text("not a database at all, but long enough to be taken for one\n" * 50)
    _change(tmp_path / "other.sqlite", "CREATE TABLE mine (x)")
    for place, words in (
        (text, "damaged or no archive"),
        (tmp_path / "other.sqlite", "but no archive of se-rl"),
    ):
        before = place.read_bytes()
        for read_only in (False, True):
            with pytest.raises(ArchiveError, match=words) as caught:
                Archive.open(place, read_only=read_only)
            assert "\n" not in str(caught.value) and place.read_bytes() == before
    with pytest.raises(ConfigError, match="there is no archive"):
        Archive.open(tmp_path / "missing.sqlite", read_only=True)
    with pytest.raises(ArchiveError, match="cannot be opened"):
        Archive.open(tmp_path / "no" / "folder" / "a.sqlite")
    for url in ("postgresql+nothing://me:secret@host/x", "sqlite:///a.sqlite", "oracle://x", "://"):
        with pytest.raises(ConfigError, match="opens no archive") as refused:
            Archive.open(url)
        assert "secret" not in str(refused.value) and "\n" not in str(refused.value)


def test_no_damage_to_the_file_passes_unseen(tmp_path: Path) -> None:
    """A flipped byte anywhere gives a clear line, or it was in a place that holds nothing."""
    path, broken = tmp_path / "archive.sqlite", tmp_path / "broken.sqlite"
    with Archive.open(path) as archive:
        exercise(archive)
        for i in range(30):
            archive.append("more", f"more{i}", {"numbers": list(range(1000))})
        expected = archive.events(), archive.candidates()
    whole, refused = path.read_bytes(), 0
    rng = random.Random(0)
    keys = [
        found.start() for found in re.finditer(b"more7", whole)
    ]  # in the table, and in the index it is found by
    for place in [*keys, *(rng.randrange(len(whole)) for _ in range(80))]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << rng.randrange(8)
        broken.write_bytes(bytes(flipped))
        try:
            with Archive.open(broken) as archive:
                assert (archive.events(), archive.candidates()) == expected
                assert all(archive.find(e.key) == e.payload for e in expected[0])
                assert not archive.append("more", "more7", {})
        except ArchiveError as error:
            refused += 1
            assert "\n" not in str(error) and str(broken) in str(error)
        for rest in tmp_path.glob("broken.sqlite*"):
            rest.unlink()
    assert refused > 20
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ArchiveError, match="is damaged"):
        Archive.open(path)


def test_a_full_disk_is_one_clear_line_and_loses_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Archive.open(path) as archive:
        with archive._transaction() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 5}")
        stored = 0
        with pytest.raises(
            ArchiveError,
            match=r"no room left on its disk; make room.*nothing that was stored is lost",
        ):
            while archive.append("row", f"row{stored}", {"text": "x" * 1000}):
                stored += 1
        with archive._transaction() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 100000")
        assert archive.append("row", f"row{stored}", {}) and len(archive.events()) == stored + 1 > 5

        for fault, words in (
            (errno.ENOSPC, "no room left"),
            (errno.EDQUOT, "no room left"),
            (errno.EIO, "cannot be written"),
        ):
            for place in (1, 2):
                content = f"{fault} {place}".encode()
                with monkeypatch.context() as patch, pytest.raises(ArchiveError, match=words):
                    patch.setattr(os, "fsync", _fails_at(place, fault))
                    archive.put_blob(content)
                assert not list(_blob_folder(archive).glob("*/.*"))
                assert archive.blob(archive.put_blob(content)) == content


def _blob_folder(archive: Archive) -> Path:
    assert isinstance(archive.blobs, FolderBlobs)
    return archive.blobs.folder


def _fails_at(place: int, fault: int) -> Any:
    calls = iter(range(1, 100))

    def fsync(handle: int) -> None:
        if next(calls) == place:
            raise OSError(fault, os.strerror(fault))

    return fsync


def test_nothing_acknowledged_is_lost_by_a_kill(place: Place) -> None:
    _run_campaign("kill", place)


def test_nothing_acknowledged_is_lost_on_a_full_disk(tmp_path: Path) -> None:
    _run_campaign("full", tmp_path)


def _run_campaign(name: str, place: Place) -> None:
    command = [sys.executable, __file__, name, str(place)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    faults, acknowledged = map(int, ran.stdout.split())
    assert faults >= 15 and acknowledged >= 16


def kill_campaign(place: str) -> tuple[int, int]:
    """A writer is killed again and again; whatever it had acknowledged stands, and the next goes on."""
    rng = random.Random()
    acknowledged: list[int] = []
    for turn in range(16):
        reading, writing = os.pipe()
        writer = os.fork()
        if not writer:
            os.close(reading)
            _write_on(place, writing, start=turn * 100_000)
        os.close(writing)
        with os.fdopen(reading) as told:
            if turn % 3:  # else it may not even have opened its archive
                acknowledged.append(int(told.readline()))
            time.sleep(rng.uniform(0.0, 0.04))
            os.kill(writer, signal.SIGKILL)
            os.waitpid(writer, 0)
            acknowledged += [int(line) for line in told if line.endswith("\n")]
        with Archive.open(place) as archive:
            _check(archive, acknowledged)
    return 16, len(acknowledged)


def _write_on(place: str, acknowledge: int, *, start: int) -> None:
    with Archive.open(place) as archive:
        archive.add_candidate(ROOT, {})
        for i in range(start, start + 100_000):
            _store(archive, i)
            os.write(acknowledge, f"{i}\n".encode())


def _store(archive: Archive, i: int) -> None:
    blob = archive.put_blob(f"policy {i}".encode() * 50)
    archive.add_evaluation(Evaluation("root", 1, i, "ok", policy=blob), key=key_of(i))


def _check(archive: Archive, acknowledged: list[int]) -> None:
    """All that was acknowledged, at most one row more for each fault, every row beside its event, every blob whole."""
    stored = archive.evaluations()
    assert {e.seed for e in stored} >= set(acknowledged) and len({e.seed for e in stored}) == len(
        stored
    )
    assert len(archive.events("evaluated")) == len(stored) and all(
        archive.has_blob(e.policy) for e in stored
    )
    if "://" in archive.place:
        return
    with closing(sqlite3.connect(archive.place)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert not raw.execute("PRAGMA foreign_key_check").fetchall()


def full_campaign(place: str) -> tuple[int, int]:
    """No file may grow beyond ever other limits, so that the first write fails, or the second, or any later one."""
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    faults, kept = 0, 0
    for limit in range(0, 460_000, 16_900):
        path, acknowledged = Path(place, str(limit), "archive.sqlite"), []
        path.parent.mkdir()
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))
        try:
            with Archive.open(path) as archive:
                archive.add_candidate(ROOT, {})
                for i in range(15):
                    _store(archive, i)
                    acknowledged.append(i)
        except ArchiveError as error:
            faults += 1
            assert "nothing that was stored is lost" in str(error) or "cannot be opened" in str(
                error
            ), error
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        with Archive.open(path) as archive:
            archive.add_candidate(ROOT, {})
            _check(archive, acknowledged)
            _store(archive, 99)
            _check(archive, [*acknowledged, 99])
        kept += len(acknowledged)
    return faults, kept


def _statements(path: Path) -> list[str]:
    """All that an archive says to its database in one exercise, in the words of Postgres."""
    said: list[Any] = []

    def listen(_: Any, statement: Any, *__: Any) -> None:
        if not isinstance(statement, DDL):  # those are the triggers of SQLite
            said.append(statement)

    event.listen(Engine, "before_execute", listen)
    try:
        with Archive.open(path) as archive:
            exercise(archive)
    finally:
        event.remove(Engine, "before_execute", listen)
    dialect = postgresql.dialect(paramstyle="named")
    return [str(one.compile(dialect=dialect)) for one in said]


def test_every_statement_can_be_said_to_postgres(path: Path) -> None:
    said = "\n".join(_statements(path))
    assert "seq BIGSERIAL" in said and "WITH RECURSIVE" in said and "DOUBLE PRECISION" in said
    assert "PRAGMA" not in said and " OR IGNORE" not in said and "AUTOINCREMENT" not in said


if __name__ == "__main__":
    print(*{"kill": kill_campaign, "full": full_campaign}[sys.argv[1]](sys.argv[2]))
