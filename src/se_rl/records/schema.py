"""The archive's database: tables in SQL that SQLite and Postgres both speak, how it is opened, what
can go wrong.

`event` is the journal: its payloads hold the whole records. The other tables hold what one searches
by, each row beside the event it was written with, in one transaction.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

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
    QueuePool,
    String,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from se_rl.config import ConfigError
from se_rl.records.sqlite_reading import BUSY_SECONDS, ReadOnlyFile, odd_table, too_large


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
    "interrupted": "takes too long to read; restore it from a copy, or give another folder",
    "too big": "holds a row that is too long; restore it from a copy, or give another folder",
    "unable to open": "cannot be opened; see that its folder is there and may be read and written",
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

for _verb in ("UPDATE", "DELETE"):
    _refusal = (
        f"BEFORE {_verb} ON event BEGIN SELECT RAISE(ABORT, 'events are only ever appended'); END"
    )
    _trigger = DDL(f"CREATE TRIGGER event_refuses_{_verb.lower()} {_refusal}")
    event.listen(EVENT, "after_create", _trigger.execute_if(dialect="sqlite"))


def open_engine(url_or_path: str | Path, *, read_only: bool = False) -> tuple[Engine, str]:
    """What connects to a database, and the name to call it by: a path, or a URL without its
    password.
    """
    text = str(url_or_path)
    if "://" not in text:
        return _sqlite(Path(url_or_path), read_only), text
    try:
        url = make_url(text)
        return create_engine(url), url.render_as_string()
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError) as error:
        what = f"{text.partition('://')[0]}://..."
        raise ConfigError(
            f"{what} opens no archive ({error}); mend the URL, install its driver, or give a path"
        ) from None


def _sqlite(path: Path, read_only: bool) -> Engine:
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is not a regular file; give the folder of a run")
    if read_only:
        return _read_only(path)
    address = f"{path.absolute().as_uri()}?mode=rwc"

    def connect() -> sqlite3.Connection:
        made = sqlite3.connect(
            address, uri=True, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False
        )
        made.execute("PRAGMA foreign_keys = ON")
        made.execute("PRAGMA synchronous = FULL")
        tables = [name for (name,) in made.execute("SELECT name FROM sqlite_master")]
        if not tables or META.name in tables:  # a stranger's database is left as it is
            made.execute("PRAGMA journal_mode = WAL")
        return made

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool)
    # left to itself the driver makes tables outside transactions
    event.listen(engine, "begin", lambda made: made.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _read_only(path: Path) -> Engine:
    """An engine that writes nothing; disposing of it removes what was copied."""
    if not path.is_file():
        raise ConfigError(f"there is no archive {path}; give the folder of a run")
    if too_large(path):
        raise ArchiveError(f"{path} is larger than any archive of se-rl; give the folder of a run")
    file = ReadOnlyFile(path)
    engine = create_engine("sqlite://", creator=file.connect, poolclass=QueuePool)

    def begin(connection: Connection) -> None:
        file.allow_time()
        connection.exec_driver_sql("BEGIN")

    event.listen(engine, "begin", begin)
    event.listen(engine, "engine_disposed", lambda _: file.close())
    return engine


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


def prepare(connection: Connection, place: str) -> None:
    """Make the tables in an empty database, bring an older one up to date; refuse a newer one and
    what is not ours.
    """
    names = inspect(connection).get_table_names()
    if not names:
        METADATA.create_all(connection)
        connection.execute(META.insert().values(schema_version=SCHEMA_VERSION, created=time.time()))
        return
    version = stored_version(connection, place)
    for older in range(version, SCHEMA_VERSION):
        if older not in MIGRATIONS:
            raise ArchiveError(
                f"{place} has schema {older}, which this se-rl no longer reads; use an older se-rl"
            )
        MIGRATIONS[older](connection)
    if version < SCHEMA_VERSION:
        connection.execute(META.update().values(schema_version=SCHEMA_VERSION))


def stored_version(connection: Connection, place: str) -> int:
    """The schema a database was written with; a newer one is refused, and so is a database without
    one.
    """
    version = None
    if META.name in inspect(connection).get_table_names():
        version = connection.execute(select(META.c.schema_version)).scalar()
    if not isinstance(version, int):
        raise ArchiveError(f"{place} is a database, but no archive of se-rl; give another place")
    if version > SCHEMA_VERSION:
        words = f"(schema {version}, this one reads {SCHEMA_VERSION})"
        raise ArchiveError(f"{place} was written by a newer se-rl {words}; update se-rl")
    return version
