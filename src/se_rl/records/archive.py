"""The archive of a run: an append-only journal with tables to search it by, and files named by what they hold.

SQLite in the run folder, or a Postgres database of its own by URL. Whatever was acknowledged is on the disk; a key is
written once, so that a run which starts again finds what it has done instead of doing it twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Engine, Select, Table, func, select

from se_rl.config import ConfigError
from se_rl.records.entries import (
    Adapter,
    Candidate,
    Evaluation,
    Event,
    Instruction,
    ModelCall,
    StoredStanding,
    key_of,
    sha256,
)
from se_rl.records.files import FULL, write_bytes
from se_rl.records.schema import (
    ADAPTER,
    AGAIN,
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
    open_engine,
    prepare,
    stored_version,
    transaction,
)

__all__ = ["Archive", "ArchiveError"]

Record = TypeVar("Record", Candidate, Evaluation, ModelCall, Instruction, Adapter)
Row = tuple[Table, Mapping[str, Any]]


class Archive:
    """What a run has stored. One process writes (the lock of its `RunFolder` sees to it), any number of them read."""

    def __init__(self, engine: Engine, blobs: Path, place: str, *, read_only: bool = False) -> None:
        self._engine, self.blobs, self.place, self.read_only = engine, blobs, place, read_only

    @classmethod
    def open(
        cls, url_or_path: str | Path, *, blobs: Path | None = None, read_only: bool = False
    ) -> Archive:
        """The archive in this SQLite file or behind this URL, made where there is none.

        `blobs` is by default the folder of that name beside the file. One of an older se-rl is brought up to date.
        """
        engine, place = open_engine(url_or_path, read_only=read_only)
        if blobs is None and "://" in str(url_or_path):
            raise ConfigError(f"the archive {place} needs a folder for its files; give blobs")
        archive = cls(
            engine, blobs or Path(url_or_path).parent / "blobs", place, read_only=read_only
        )
        try:
            return archive._checked(url_or_path)
        except BaseException:
            archive.close()
            raise

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, kind: str, key: str, payload: Mapping[str, Any]) -> bool:
        """Write one event; False where its key stands already, and nothing changes then."""
        return self._write(kind, key, payload)

    def find(self, key: str) -> dict[str, Any] | None:
        """The payload of the event with this key."""
        found = self._read(select(EVENT).where(EVENT.c.key == key))
        return dict(found[0].payload) if found else None

    def events(self, *kinds: str, since: int = 0) -> list[Event]:
        """Events after number `since` in order, of these kinds or of all."""
        wanted = [EVENT.c.kind.in_(kinds)] if kinds else []
        return self._read(select(EVENT).where(EVENT.c.seq > since, *wanted).order_by(EVENT.c.seq))

    def put_blob(self, content: bytes) -> str:
        """Store these bytes; returns their name. A damaged file of that name is mended."""
        name = sha256(content)
        if self.read_only:
            raise ArchiveError(f"{self.place} is open for reading only; nothing can be stored")
        if not self.has_blob(name):
            try:
                write_bytes(self._blob_path(name), content)
            except OSError as error:
                full = error.errno in FULL
                why = (
                    "have no room left on their disk; make room"
                    if full
                    else f"cannot be written ({error.strerror})"
                )
                raise ArchiveError(f"the files in {self.blobs} {why}, {AGAIN}") from error
        return name

    def blob(self, sha: str) -> bytes:
        """The bytes of this name, checked against it."""
        try:
            content = self._blob_path(sha).read_bytes()
        except OSError as error:
            raise self._lost(sha, f"is missing ({error.strerror})") from error
        if sha256(content) != sha:
            raise self._lost(sha, "is damaged")
        return content

    def has_blob(self, sha: str) -> bool:
        """Whether the bytes of this name are there and whole."""
        try:
            self.blob(sha)
        except ArchiveError:
            return False
        return True

    def add_candidate(self, c: Candidate, sources: Mapping[str, str]) -> bool:
        """Store a design and the text of its modules by code_type; modules that an earlier design had may be left out."""
        for code_type, text in sources.items():
            if c.modules.get(code_type) != self.put_blob(text.encode()):
                raise ValueError(
                    f"the source of {code_type} is not the one that design {c.id} names"
                )
        parents = (
            (LINEAGE, {"child": c.id, "place": i, "parent": parent})
            for i, parent in enumerate(c.parents)
        )
        known = self._modules(c.modules.values())
        new = sorted({(sha, code_type) for code_type, sha in c.modules.items()} - known)
        modules = (
            (MODULE_VERSION, {"hash": sha, "kind": kind, "candidate": c.id}) for sha, kind in new
        )
        return self._write(
            "proposed", f"proposed {c.id}", vars(c), (CANDIDATE, {}), *parents, *modules
        )

    def add_evaluation(self, e: Evaluation, *, key: str) -> bool:
        """Store what one training and its scoring gave."""
        return self._write("evaluated", key, vars(e), (EVALUATION, {"key": key}))

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
        found = [c for c in known if c.id == id_prefix] or [
            c for c in known if c.id.startswith(id_prefix)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(c.id for c in found[:3]) + (", ..." if len(found) > 3 else "")
            raise ConfigError(
                f"{id_prefix!r} begins the ids of {len(found)} designs ({names}); write more of one"
            )
        raise ConfigError(
            f"there is no design {id_prefix!r} among {len(known)} in {self.place}; se-rl show lists them"
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
        """How each design stands at each rung, by (candidate, rung): the latest of every standing stored."""
        found: dict[tuple[str, int], StoredStanding] = {}
        for event in self.events("standing"):
            one = StoredStanding(**{name: _frozen(v) for name, v in event.payload.items()})
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
        return self.blob(sha).decode()

    def sources(self, c: Candidate) -> dict[str, str]:
        """The text of each of a design's modules by code_type."""
        return {code_type: self.source(sha) for code_type, sha in c.modules.items()}

    def _checked(self, url_or_path: str | Path) -> Archive:
        """This archive, found whole and of a version we read; an older one is first opened for writing once."""
        with self._transaction() as connection:
            if connection.dialect.name == "sqlite":
                said = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
                if said != "ok":
                    raise ArchiveError(f"{self.place} {DAMAGED}")
            if not self.read_only:
                prepare(connection, self.place)
            older = stored_version(connection, self.place) < SCHEMA_VERSION
        if older:
            Archive.open(url_or_path, blobs=self.blobs).close()
        return self

    def _transaction(self) -> AbstractContextManager[Connection]:
        return transaction(self._engine, self.place)

    def _write(self, kind: str, key: str, payload: Mapping[str, Any], *rows: Row) -> bool:
        """One event and its rows, whose columns are filled by name from the payload or from what each brings along."""
        text = json.dumps(payload, default=_plain)
        at = time.time()
        with self._transaction() as connection:
            standing = connection.execute(select(EVENT.c.kind).where(EVENT.c.key == key)).scalar()
            if standing not in (None, kind):
                raise ValueError(
                    f"key {key} is that of an event {standing!r} and cannot be one of {kind!r} too"
                )
            if standing:
                return False
            digest = key_of(at, kind, key, text)
            values = {"at": at, "kind": kind, "key": key, "payload": text, "digest": digest}
            seq = connection.execute(
                EVENT.insert().values(values).returning(EVENT.c.seq)
            ).scalar_one()
            for table, own in rows:
                known = {"seq": seq, **json.loads(text), **own}
                connection.execute(
                    table.insert().values({c.name: known[c.name] for c in table.columns})
                )
        return True

    def _read(self, statement: Select[Any]) -> list[Event]:
        with self._transaction() as connection:
            rows = connection.execute(statement).all()
        for row in rows:
            if not _is_whole(row):
                raise ArchiveError(
                    f"{self.place} {DAMAGED} (event {row.seq} is not as it was written)"
                )
        return [Event(row.seq, row.at, row.kind, row.key, json.loads(row.payload)) for row in rows]

    def _records(self, kind: type[Record], table: Table, *where: Any) -> list[Record]:
        statement = (
            select(EVENT)
            .join(table, table.c.seq == EVENT.c.seq)
            .where(*where)
            .order_by(EVENT.c.seq)
        )
        return [
            kind(**{k: _frozen(v) for k, v in found.payload.items()})
            for found in self._read(statement)
        ]

    def _modules(self, hashes: Iterable[str]) -> set[tuple[str, str]]:
        with self._transaction() as connection:
            wanted = MODULE_VERSION.c.hash.in_(list(hashes))
            return {
                (row.hash, row.kind)
                for row in connection.execute(select(MODULE_VERSION).where(wanted))
            }

    def _blob_path(self, sha: str) -> Path:
        return self.blobs / sha[:2] / sha[2:]

    def _lost(self, sha: str, what: str) -> ArchiveError:
        mend = f"delete {self._blob_path(sha)} and run the same command again, which makes it anew"
        return ArchiveError(f"blob {sha[:12]} {what}; {mend}")


def _is_whole(row: Any) -> bool:
    try:
        return key_of(row.at, row.kind, row.key, row.payload) == row.digest
    except (TypeError, ValueError):  # damage can change a column's very type
        return False


def _plain(value: Any) -> Any:
    """What JSON does not know: read-only mappings, and the numbers and arrays of numpy."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be stored in the archive; give plain data")


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
