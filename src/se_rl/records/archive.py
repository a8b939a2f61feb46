"""The archive of a run: an append-only journal with tables to search it by, and files named by what
they hold.

SQLite in the run folder, or a Postgres database that many runs share (`shared_archive`). Whatever
was acknowledged is on the disk; a key is written once, so that a run which starts again finds what
it has done instead of doing it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Engine, Table, event, func, select

from se_rl.config import ConfigError
from se_rl.records.blobs import MOST_TEXT_BYTES, BlobStore, FolderBlobs
from se_rl.records.engines import open_engine
from se_rl.records.entries import (
    Adapter,
    Candidate,
    Evaluation,
    Event,
    Instruction,
    Leader,
    ModelCall,
    StoredStanding,
)
from se_rl.records.journal import EventJournal, Row
from se_rl.records.plain import RecordError, from_plain
from se_rl.records.postgres import is_url, run_of
from se_rl.records.schema import (
    ADAPTER,
    CANDIDATE,
    DAMAGED,
    EVALUATION,
    EVENT,
    INSTRUCTION,
    LINEAGE,
    MODEL_CALL,
    MODULE_VERSION,
    SCHEMA_VERSION,
    TEST_USE,
    ArchiveError,
    check_tables,
    prepare,
    stored_version,
)
from se_rl.records.sqlite_reading import ReadOnlyFile

__all__ = ["Archive", "ArchiveError"]

Record = TypeVar(
    "Record", Candidate, Evaluation, ModelCall, Instruction, Adapter, StoredStanding, Leader
)


class Archive(EventJournal):
    """What a run has stored: its journal, and the records in it by kind.

    One process writes (the lock of its `RunFolder` sees to it), any number of them read.
    """

    def __init__(
        self, engine: Engine, blobs: BlobStore, place: str, *, read_only: bool = False
    ) -> None:
        super().__init__(engine, place)
        self.read_only = read_only
        self.blobs = blobs

    @classmethod
    def open(
        cls, url_or_path: str | Path, *, blobs: str | Path | None = None, read_only: bool = False
    ) -> Archive:
        """The archive in this SQLite file or behind this URL, made where there is none.

        `blobs` says where its files go: by default into the folder of that name beside the file,
        or into the database. One of an older se-rl is brought up to date.
        """
        engine, place = open_engine(url_or_path, read_only=read_only)
        try:
            if is_url(url_or_path):
                from se_rl.records.shared_archive import SharedArchive

                return SharedArchive.prepared(engine, place, blobs=blobs, read_only=read_only)
            folder = FolderBlobs(Path(blobs or Path(url_or_path).parent / "blobs"))
            archive = Archive(engine, folder, place, read_only=read_only)
            return archive._migrated() if archive._is_older() else archive
        except BaseException:
            engine.dispose()
            raise

    @property
    def run(self) -> str:
        """The name of the run that this is the archive of."""
        return run_of(self.place)

    def put_blob(self, content: bytes) -> str:
        """Store these bytes; returns their name."""
        if self.read_only:
            raise ArchiveError(f"{self.place} is open for reading only; nothing can be stored")
        return self.blobs.put(content)

    def blob(self, sha: str) -> bytes:
        """The bytes of this name, checked against it."""
        return self.blobs.get(sha)

    def has_blob(self, sha: str) -> bool:
        """Whether the bytes of this name are there and whole."""
        return self.blobs.has(sha)

    def add_candidate(self, c: Candidate, sources: Mapping[str, str]) -> bool:
        """Store a design and the text of its modules by code_type.

        Modules that an earlier design had may be left out.
        """
        for code_type, text in sources.items():
            if c.modules.get(code_type) != self.put_blob(text.encode()):
                raise ValueError(
                    f"the source of {code_type} is not the one that design {c.id} names"
                )
        rows: list[Row] = [(CANDIDATE, {})]
        for place, parent in enumerate(c.parents):
            rows.append((LINEAGE, {"child": c.id, "place": place, "parent": parent}))
        known = self._modules(c.modules.values())
        for sha, kind in sorted({(sha, kind) for kind, sha in c.modules.items()} - known):
            rows.append((MODULE_VERSION, {"hash": sha, "kind": kind, "candidate": c.id}))
        return self._write("proposed", f"proposed {c.id}", vars(c), *rows)

    def add_evaluation(self, e: Evaluation, *, key: str) -> bool:
        """Store what one training and its scoring gave."""
        return self._write("evaluated", key, vars(e), (EVALUATION, {"key": key}))

    def made_elsewhere(self, key: str) -> Evaluation | None:
        """The evaluation that another run stored under this key where both can see it."""
        return None

    def claim(self, key: str) -> bool:
        """Whether this run may make the evaluation of this key: no other is making it now."""
        return True

    def release(self, key: str) -> None:
        """Let others make the evaluation of a key that was claimed."""

    def add_call(self, c: ModelCall) -> bool:
        """Store that a model was asked, under the call's own key."""
        return self._write("model_call", c.key, vars(c), (MODEL_CALL, {}))

    def add_instruction(self, i: Instruction) -> bool:
        """Store an instruction."""
        return self._write("instruction", f"instruction {i.id}", vars(i), (INSTRUCTION, {}))

    def add_adapter(self, a: Adapter) -> bool:
        """Store a version of the designer's weights; the weights themselves are a blob."""
        return self._write("adapter", f"adapter {a.id}", vars(a), (ADAPTER, {}))

    def open_test(self, *, key: str, data_hash: str, candidate: str) -> int:
        """Store that the test set was opened; returns how many openings stand now."""
        use = {"data_hash": data_hash, "candidate": candidate}
        self._write("test_opened", key, use, (TEST_USE, {"key": key}))
        return self.test_openings()

    def test_openings(self) -> int:
        """How often the test set was opened."""
        with self._transaction() as connection:
            return connection.execute(select(func.count()).select_from(TEST_USE)).scalar_one()

    def candidates(self) -> list[Candidate]:
        """All designs in the order they were proposed."""
        return self._records(Candidate, CANDIDATE)

    def candidate(self, id_prefix: str) -> Candidate:
        """The design whose id begins like this."""
        known = self.candidates()
        found = [c for c in known if c.id == id_prefix]
        if not found:
            found = [c for c in known if c.id.startswith(id_prefix)]
        if len(found) == 1:
            return found[0]
        if not found:
            raise ConfigError(
                f"there is no design {id_prefix!r} among {len(known)} in {self.place}; "
                "se-rl show lists them"
            )
        names = ", ".join(c.id for c in found[:3]) + (", ..." if len(found) > 3 else "")
        raise ConfigError(
            f"{id_prefix!r} begins the ids of {len(found)} designs ({names}); write more of one"
        )

    def lineage(self, candidate: str) -> list[Candidate]:
        """The design of this id and all it descends from, the youngest first."""
        line = select(CANDIDATE.c.id).where(CANDIDATE.c.id == candidate).cte(recursive=True)
        line = line.union(select(LINEAGE.c.parent).join(line, LINEAGE.c.child == line.c.id))
        return self._records(Candidate, CANDIDATE, CANDIDATE.c.id.in_(select(line.c.id)))[::-1]

    def evaluation(self, key: str) -> Evaluation | None:
        """The evaluation stored under this key."""
        return next(iter(self._records(Evaluation, EVALUATION, EVALUATION.c.key == key)), None)

    def evaluations(self, candidate: str | None = None) -> list[Evaluation]:
        """All evaluations in the order they were stored, or those of one design."""
        wanted = [] if candidate is None else [EVALUATION.c.candidate == candidate]
        return self._records(Evaluation, EVALUATION, *wanted)

    def standings(self) -> dict[tuple[str, int], StoredStanding]:
        """How each design stands at each rung, by (candidate, rung): the latest of every standing
        stored.
        """
        found: dict[tuple[str, int], StoredStanding] = {}
        for stored in self.events("standing"):
            one = self._record(StoredStanding, stored)
            found[one.candidate, one.rung] = one
        return found

    def instructions(self) -> list[Instruction]:
        """All instructions in order."""
        return self._records(Instruction, INSTRUCTION)

    def adapters(self) -> list[Adapter]:
        """All versions of the designer's weights in order."""
        return self._records(Adapter, ADAPTER)

    def calls(self) -> list[ModelCall]:
        """All answered requests to models in order."""
        return self._records(ModelCall, MODEL_CALL)

    def source(self, sha: str) -> str:
        """The text of a module."""
        return self.text(sha).decode(errors="replace")

    def text(self, sha: str) -> bytes:
        """The bytes of a stored text, which is never long."""
        return self.blobs.get(sha, most_bytes=MOST_TEXT_BYTES)

    def sources(self, c: Candidate) -> dict[str, str]:
        """The text of each of a design's modules by code_type."""
        return {code_type: self.source(sha) for code_type, sha in c.modules.items()}

    def _is_older(self) -> bool:
        """Whether an archive of an older version is only read; one that is written is brought up to
        date. A damaged one is refused.
        """
        with self._transaction() as connection:
            if connection.dialect.name == "sqlite":
                check_tables(connection, self.place)
                said = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
                if said != "ok":
                    raise ArchiveError(f"{self.place} {DAMAGED}")
            if not self.read_only:
                prepare(connection, self.place)
            return stored_version(connection, self.place) < SCHEMA_VERSION

    def _migrated(self) -> Archive:
        """An older file that is only read: brought up to date in a copy, its folder left alone."""
        copied = ReadOnlyFile(Path(self.place))
        try:
            Archive.open(copied.copy()).close()
            engine, _ = open_engine(copied.path, read_only=True)
        except BaseException:
            copied.close()
            raise
        self.close()
        event.listen(engine, "engine_disposed", lambda _: copied.close())
        return Archive(engine, self.blobs, self.place, read_only=True)

    def _records(self, kind: type[Record], table: Table, *where: Any) -> list[Record]:
        statement = (
            select(EVENT)
            .join(table, table.c.seq == EVENT.c.seq)
            .where(*where)
            .order_by(EVENT.c.seq)
        )
        records = []
        for stored in self._read(statement):
            records.append(self._record(kind, stored))
        return records

    def _record(self, kind: type[Record], stored: Event) -> Record:
        """The record in an event, each field of the type that it states."""
        try:
            from_plain(kind, stored.payload)
            return kind(**{name: _frozen(value) for name, value in stored.payload.items()})
        except (RecordError, TypeError) as error:
            what = f"event {stored.seq} is no {kind.__name__}: {error}"
            raise ArchiveError(f"{self.place} {DAMAGED} ({what})") from None

    def _modules(self, hashes: Iterable[str]) -> set[tuple[str, str]]:
        with self._transaction() as connection:
            wanted = MODULE_VERSION.c.hash.in_(list(hashes))
            return {
                (row.hash, row.kind)
                for row in connection.execute(select(MODULE_VERSION).where(wanted))
            }


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
