"""Many runs in one PostgreSQL database: what they share, what stays their own, and who may write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from se_rl import doctor
from se_rl.config import ConfigError
from se_rl.records import postgres as postgres_records
from se_rl.records.archive import Archive, ArchiveError
from se_rl.records.blobs import BlobStore, FolderBlobs
from se_rl.records.entries import DEFAULT, Candidate, Evaluation, Leader, key_of, sha256
from se_rl.records.postgres import VARIABLE, stored_url, use_database
from se_rl.records.remote_blobs import DatabaseBlobs, UrlBlobs, blobs_place
from se_rl.records.run_folder import RunFolder
from se_rl.records.schema import transaction
from se_rl.records.secrets import scrub
from se_rl.records.shared_archive import SharedArchive
from se_rl.records.shared_tables import BLOB

ROOT = Candidate("root", {}, DEFAULT)
MEMORY = "memory://se-rl-blobs"


@pytest.fixture
def pair(postgres: str, request: pytest.FixtureRequest) -> Iterator[tuple[SharedArchive, ...]]:
    """The archives of two runs on one server."""
    name = key_of(request.node.name)[:8]
    with (
        Archive.open(f"{postgres}&run={name}-a") as one,
        Archive.open(f"{postgres}&run={name}-b") as two,
    ):
        assert isinstance(one, SharedArchive) and isinstance(two, SharedArchive)
        for archive in (one, two):
            archive.add_candidate(ROOT, {})
        yield one, two


def test_an_evaluation_is_found_by_others_and_copied_with_its_origin(pair: Any) -> None:
    one, two = pair
    made = Evaluation("root", 0, 3, "ok", policy=one.put_blob(b"weights"))
    assert two.made_elsewhere("k") is None
    one.add_evaluation(made, key="k")
    found = two.made_elsewhere("k")
    assert found == Evaluation("root", 0, 3, "ok", policy=made.policy, origin=one.run)
    assert two.blob(made.policy) == b"weights" and two.evaluation("k") is None
    assert two.add_evaluation(found, key="k") and two.evaluation("k") == found
    assert [e.origin for e in one.evaluations() + two.evaluations()] == ["", one.run]
    one.discard()  # what came from there stays, and is not offered as one's own
    assert two.made_elsewhere("k") is None and two.evaluation("k") == found


def test_a_key_is_claimed_by_one_run_at_a_time_and_let_go_with_its_connection(pair: Any) -> None:
    one, two = pair
    assert one.claim("k") and not two.claim("k") and two.claim("other")
    one.release("k")
    assert two.claim("k") and not one.claim("k")
    two.close()
    assert one.claim("k")


def test_leaders_of_the_same_task_are_shown_latest_of_each_run_best_first(pair: Any) -> None:
    one, two = pair
    task = key_of(one.place)
    for iteration, score in ((1, 5.0), (2, 1.0)):
        one.add_leader(Leader(task, iteration, "root", {}, score, 0.1))
    two.add_leader(Leader(task, 1, "root", {"reward": sha256("")}, 3.0, 0.1))
    two.add_leader(Leader("other task", 2, "root", {}, 9.0, 0.1))
    assert two.leaders(task) == [(one.run, Leader(task, 2, "root", {}, 1.0, 0.1))]
    assert [leader.score for _, leader in one.leaders(task)] == [3.0]
    assert one.leaders("no task") == []


def test_one_process_writes_a_run_and_any_number_read_it(
    pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = pair
    monkeypatch.setattr(postgres_records, "LOCK_SECONDS", 0.1)
    with pytest.raises(ArchiveError, match="is in use by another process; wait for it"):
        Archive.open(one.place)
    with Archive.open(one.place, read_only=True) as reading:
        assert reading.candidates() == [ROOT]
        with pytest.raises(ArchiveError, match="open for reading only"):
            reading.put_blob(b"late")
    with pytest.raises(ArchiveError, match="there is no run nobody in this database"):
        Archive.open(one.place.replace(one.run, "nobody"), read_only=True)


def test_a_lost_connection_is_made_again_with_its_lock(pair: Any, monkeypatch: Any) -> None:
    one, two = pair
    monkeypatch.setattr(postgres_records, "LOCK_SECONDS", 0.1)
    with two._transaction() as connection:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        connection.exec_driver_sql(ended, (f"se-rl {one.run}",))
    assert one.append("later", "later", {}) and one.find("later") == {}
    with pytest.raises(ArchiveError, match="in use by another process"):
        Archive.open(one.place)


def test_an_event_that_was_changed_in_the_database_is_noticed(pair: Any) -> None:
    one, _ = pair
    one.append("row", "row", {"x": 1})
    with one._transaction() as connection:
        connection.exec_driver_sql("ALTER TABLE event DISABLE TRIGGER ALL")
        connection.exec_driver_sql("UPDATE event SET payload = '{}' WHERE key = 'row'")
    with pytest.raises(ArchiveError, match=r"is damaged.*event 2 is not as it was written"):
        one.find("row")


def _stores(pair: Any, folder: Path) -> dict[str, tuple[BlobStore, Callable[[str, bytes], None]]]:
    """Every kind of store, and how its bytes are changed behind its back."""
    one = pair[0]
    files = FolderBlobs(folder)

    def change_row(name: str, content: bytes) -> None:
        with transaction(one._engine, one.place) as connection:
            row = BLOB.update().where(BLOB.c.name == name)
            connection.execute(row.values(content=content))

    def change_object(name: str, content: bytes) -> None:
        fsspec.filesystem("memory").pipe(f"/se-rl-blobs/{name[:2]}/{name[2:]}", content)

    return {
        "folder": (files, lambda name, content: files.path(name).write_bytes(content) and None),
        "database": (DatabaseBlobs(one._engine, one.place), change_row),
        "url": (UrlBlobs(MEMORY), change_object),
    }


@pytest.mark.parametrize("kind", ["folder", "database", "url"])
def test_every_store_names_blobs_by_content_sees_damage_and_mends_it(
    kind: str, pair: Any, tmp_path: Path
) -> None:
    store, change = _stores(pair, tmp_path)[kind]
    for content in (b"", b"\0\xff weights", b"x" * 300_000):
        name = store.put(content)
        assert name == sha256(content) == store.put(content)
        assert store.get(name) == content and store.has(name)
        with pytest.raises(ArchiveError, match="refused" if len(content) > 5 else "damaged"):
            change(name, b"other words")
            store.get(name, most_bytes=10 if len(content) > 5 else 100)
        assert not store.has(name)
        assert store.put(content) == name and store.get(name) == content
    with pytest.raises(ArchiveError, match="is missing"):
        store.get(sha256("never stored"))
    with pytest.raises(ArchiveError, match="no SHA-256"):
        store.get("../../etc/passwd")


def test_all_runs_of_a_database_keep_their_files_in_one_place(pair: Any) -> None:
    one, two = pair
    assert isinstance(one.blobs, DatabaseBlobs)
    two.close()
    with pytest.raises(ConfigError, match=r"keeps its files in database, --blobs says memory://x"):
        Archive.open(two.place, blobs="memory://x")
    for given in ("s3://key:secret@bucket/a", "https://host/a?token=5"):
        with pytest.raises(
            ConfigError, match="--blobs carries a name, a key or a query"
        ) as refused:
            blobs_place(given)
        assert "secret" not in str(refused.value)
    with pytest.raises(ConfigError, match="--blobs nonsense://x cannot be used"):
        UrlBlobs("nonsense://x")


def test_a_password_is_used_and_never_shown_or_stored(postgres: str) -> None:
    secret = "correct-horse-battery"
    url = postgres.replace("se_rl@", f"se_rl:{secret}@")
    place = stored_url(use_database(f"{url}&run=quiet"))
    with Archive.open(f"{url}&run=quiet") as archive:
        archive.append("said", "said", {"text": f"the server said {secret}"})
        shown = f"{archive.place} {archive!r} {archive._engine!r} {archive.find('said')} {place}"
    assert secret not in shown and secret not in scrub(f"failed for {url}")
    with Archive.open(place, read_only=True) as archive:  # in this process it is remembered
        assert str(archive._engine.url.password) == secret
    with pytest.raises(ConfigError, match=r"put it into PGPASSWORD or ~/\.pgpass"):
        Archive.open(f"{postgres}&password={secret}&run=x")


@pytest.mark.parametrize(
    "mistake, words",
    [
        (
            "postgresql://se_rl@/postgres?host=/nowhere&run=a",
            "cannot be reached; start its server",
        ),
        ("{postgres}", "names the run ''; write [?]run=NAME"),
        ("{postgres}&run=a/b", "names the run 'a/b'"),
        ("{elsewhere}&run=a", "is not there; create its database: createdb"),
    ],
)
def test_what_cannot_be_opened_is_said_in_one_line(postgres: str, mistake: str, words: str) -> None:
    elsewhere = postgres.replace("/postgres?", "/nothing?")
    with pytest.raises((ArchiveError, ConfigError), match=words) as refused:
        Archive.open(mistake.format(postgres=postgres, elsewhere=elsewhere))
    assert "\n" not in str(refused.value)


def test_a_folder_keeps_the_address_of_its_archive(postgres: str, tmp_path: Path) -> None:
    secret = "another-long-password"
    url = postgres.replace("se_rl@", f"se_rl:{secret}@")
    use_database(url)
    with RunFolder(tmp_path / "my run!") as folder:
        folder.use_archive(url)
        first = folder.archive
        assert re.search(r"[?&]run=my-run-[0-9a-f]{8}$", str(first)) and folder.holds_run
        folder.use_archive(postgres)  # the same database: the run goes on
        assert folder.archive == first and secret not in folder.address.read_text()
        folder.bind({})
        with pytest.raises(
            ConfigError, match=r"keeps its archive in postgresql.*leave --archive out"
        ):
            folder.use_archive("postgresql://elsewhere/db")
    with RunFolder(tmp_path / "own") as folder:
        folder.database.touch()
        folder.bind({})
        with pytest.raises(ConfigError, match=r"keeps its archive in .*archive\.sqlite; leave"):
            folder.use_archive(postgres)


def test_a_strangers_folder_opens_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path)
    folder.address.write_text("postgresql://me:theirs@stranger.example/db?run=x")
    monkeypatch.delenv(VARIABLE, raising=False)
    words = (
        r"keeps its archive in postgresql://me@stranger\.example/db; if that is yours, set SE_RL_"
    )
    with pytest.raises(ConfigError, match=words):
        _ = folder.archive
    monkeypatch.setenv(VARIABLE, "postgresql://me:mine-is-longer@stranger.example/db")
    assert folder.archive == "postgresql://me@stranger.example/db?run=x"
    for odd in ("", "file:///etc/passwd", "x" * 10_000, "postgresql://h/d?password=1&run=x"):
        folder.address.write_text(odd)
        with pytest.raises((ConfigError, OSError)):
            _ = folder.archive


def test_doctor_says_whether_the_database_is_reachable_or_how_to_mend_it(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, postgres)
    assert re.fullmatch(r"PostgreSQL \d+.*, reachable", doctor._database().found)
    for url, found, mend in (
        (postgres.replace("/postgres?", "/none?"), "is not there", "createdb"),
        ("postgresql://me@/db?host=/nowhere", "cannot be reached", "systemctl start postgresql"),
        ("", "none named", f"export {VARIABLE}=postgresql://"),
    ):
        monkeypatch.setenv(VARIABLE, url)
        row = doctor._database()
        assert not row.ok and row.optional and found in row.found and mend in row.mend
