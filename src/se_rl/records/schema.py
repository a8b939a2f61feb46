"""The archive's database: tables in SQL that SQLite and Postgres both speak, their version, and what
can go wrong.

`event` is the journal: its payloads hold the whole records. The other tables hold what one searches
by, each row beside the event it was written with, in one transaction.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    Connection,
    Double,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    event,
    inspect,
    select,
)
from sqlalchemy.exc import SQLAlchemyError

from se_rl.records.sqlite_reading import odd_table


class ArchiveError(RuntimeError):
    """The archive cannot be read or written: one line that says what is wrong and how
    to mend it.
    """


SCHEMA_VERSION = 1
MIGRATIONS: dict[int, Callable[[Connection], None]] = {}
"""By version: what turns a database of that version into one of the next."""

AGAIN = "then run the same command again: nothing that was stored is lost"
DAMAGED = "is damaged; restore it from a copy, or choose another --out"
_FAULTS = {  # what a database says, and what that means for a user
    "is full": f"has no room left on its disk; make room, {AGAIN}",
    "disk I/O": (
        "could not be read or written (disk I/O error); "
        f"see that the disk has space and works, {AGAIN}"
    ),
    "not a database": (
        "is damaged or no archive of se-rl; restore it from a copy, or choose another --out"
    ),
    "malformed": DAMAGED,
    "locked": "is in use by another process; wait for it or choose another --out",
    "readonly": "may not be written; change its permissions, or choose another --out",
    "read-only": "may not be written: it is open for reading only",
    "interrupted": "takes too long to read; restore it from a copy, or give another folder",
    "too big": "holds a row that is too long; restore it from a copy, or give another folder",
    "unable to open": "cannot be opened; see that its folder is there and may be read and written",
    "No space left": f"has no room left on its disk; make room, {AGAIN}",
    "password": "refuses the login; put the password into PGPASSWORD or ~/.pgpass",
    "permission denied": "may not be written by this role; grant it CREATE on the database",
    "FATAL:  database": "is not there; create its database: createdb NAME",
    "connection": (
        f"cannot be reached; start its server (systemctl start postgresql) or mend the URL, {AGAIN}"
    ),
}

METADATA = MetaData()
_Long = BigInteger().with_variant(
    Integer, "sqlite"
)  # SQLite numbers rows only in a column that is called INTEGER


def _name(title: str) -> Column[str]:
    return Column(title, String, primary_key=True)


def _text(title: str, target: str | None = None) -> Column[str]:
    return Column(title, String, *([ForeignKey(target)] if target else []), nullable=False)


def _count(title: str) -> Column[int]:
    return Column(title, _Long, nullable=False)


def _seq() -> Column[int]:
    return Column("seq", _Long, ForeignKey("event.seq"), nullable=False, unique=True)


META = Table(
    "meta", METADATA, Column("schema_version", Integer, primary_key=True), Column("created", Double)
)
EVENT = Table(
    "event",
    METADATA,
    Column("seq", _Long, primary_key=True, autoincrement=True),
    Column("at", Double, nullable=False),
    _text("kind"),
    Column("key", String, nullable=False, unique=True),
    Column("payload", Text, nullable=False),
    _text("digest"),  # of the four columns before it
)
CANDIDATE = Table(
    "candidate",
    METADATA,
    _name("id"),
    _seq(),
    *map(_text, ("operator", "module", "call", "macro", "micro", "model", "adapter", "twin")),
    *map(_count, ("iteration", "place")),
)
LINEAGE = Table(
    "lineage",
    METADATA,
    Column("child", String, ForeignKey("candidate.id"), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    _text("parent", "candidate.id"),
)
MODULE_VERSION = Table(
    "module_version",
    METADATA,
    _name("hash"),
    _name("kind"),
    _text("candidate", "candidate.id"),  # the first design that had it
)
EVALUATION = Table(
    "evaluation",
    METADATA,
    _name("key"),
    _seq(),
    _text("candidate", "candidate.id"),
    *map(_count, ("rung", "seed")),
    *map(_text, ("status", "arrays", "policy", "curve")),
)
INSTRUCTION = Table(
    "instruction",
    METADATA,
    _name("id"),
    _seq(),
    *map(_text, ("kind", "operator")),
    _count("iteration"),
)
ADAPTER = Table(
    "adapter",
    METADATA,
    _name("id"),
    _seq(),
    *map(_text, ("parent", "weights")),
    _count("iteration"),
)
MODEL_CALL = Table(
    "model_call",
    METADATA,
    _name("key"),
    _seq(),
    *map(_text, ("model", "adapter", "reply")),
    *map(_count, ("proposals", "tokens_in", "tokens_out")),
    Column("usd", Double, nullable=False),
    Column("seconds", Double, nullable=False),
)
TEST_USE = Table(
    "test_use", METADATA, _name("key"), _seq(), *map(_text, ("data_hash", "candidate"))
)

_APPENDED = "events are only ever appended"
for _verb in ("UPDATE", "DELETE"):
    _refusal = f"BEFORE {_verb} ON event BEGIN SELECT RAISE(ABORT, '{_APPENDED}'); END"
    _trigger = DDL(f"CREATE TRIGGER event_refuses_{_verb.lower()} {_refusal}")
    event.listen(EVENT, "after_create", _trigger.execute_if(dialect="sqlite"))
for _statement in (
    "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{_APPENDED}'; END $$",
    "CREATE TRIGGER event_refuses_change BEFORE UPDATE OR DELETE OR TRUNCATE ON event "
    "EXECUTE FUNCTION refuse_change()",
):
    event.listen(EVENT, "after_create", DDL(_statement).execute_if(dialect="postgresql"))


@dataclass(frozen=True)
class TableSet:
    """Tables that are made together; `meta` has one row, with their version."""

    meta: Table
    version: int
    migrations: dict[int, Callable[[Connection], None]]


RUN_TABLES = TableSet(META, SCHEMA_VERSION, MIGRATIONS)


def check_tables(connection: Connection, place: str) -> None:
    """Refuse a SQLite archive whose tables are not plain tables with the columns that are read."""
    expected = {}
    for table in METADATA.sorted_tables:
        expected[table.name] = [column.name for column in table.columns]
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    odd = odd_table(raw, expected)
    if odd:
        raise ArchiveError(f"{place} is no archive of se-rl ({odd}); give another place")


@contextmanager
def transaction(engine: Engine, place: str) -> Iterator[Connection]:
    """All of it or nothing; what the database cannot do is told in a user's words."""
    try:
        with engine.begin() as connection:
            yield connection
    except (SQLAlchemyError, sqlite3.Error) as error:
        said = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        told = next(
            (words for sign, words in _FAULTS.items() if sign in said), f"cannot be used: {said}"
        )
        raise ArchiveError(f"{place} {told}") from error


def prepare(
    connection: Connection, place: str, tables: TableSet = RUN_TABLES, **facts: Any
) -> None:
    """Make the tables in an empty database, bring older ones up to date; refuse newer ones and what
    is not ours.

    `facts` are stored beside the version when the tables are made.
    """
    if not inspect(connection).get_table_names(tables.meta.schema):
        tables.meta.metadata.create_all(connection)
        first = {"schema_version": tables.version, "created": time.time(), **facts}
        connection.execute(tables.meta.insert().values(first))
        return
    version = stored_version(connection, place, tables)
    for older in range(version, tables.version):
        if older not in tables.migrations:
            raise ArchiveError(
                f"{place} has schema {older}, which this se-rl no longer reads; use an older se-rl"
            )
        tables.migrations[older](connection)
    if version < tables.version:
        connection.execute(tables.meta.update().values(schema_version=tables.version))


def stored_version(connection: Connection, place: str, tables: TableSet = RUN_TABLES) -> int:
    """The schema that tables were written with; a newer one is refused, and so is a database without
    one.
    """
    version = None
    if tables.meta.name in inspect(connection).get_table_names(tables.meta.schema):
        version = connection.execute(select(tables.meta.c.schema_version)).scalar()
    if not isinstance(version, int):
        raise ArchiveError(f"{place} is a database, but no archive of se-rl; give another place")
    if version > tables.version:
        words = f"(schema {version}, this one reads {tables.version})"
        raise ArchiveError(f"{place} was written by a newer se-rl {words}; update se-rl")
    return version
