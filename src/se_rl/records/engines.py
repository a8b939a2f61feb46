"""How the database of an archive is opened: SQLite in a file, or Postgres behind a URL."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event

from se_rl.config import ConfigError
from se_rl.records.postgres import is_url, open_postgres
from se_rl.records.schema import META, ArchiveError
from se_rl.records.sqlite_reading import BUSY_SECONDS, ReadOnlyFile, too_large


def open_engine(url_or_path: str | Path, *, read_only: bool = False) -> tuple[Engine, str]:
    """What connects to a database, and the name to call it by: a path, or a URL without its
    password.
    """
    if is_url(url_or_path):
        return open_postgres(str(url_or_path), read_only=read_only)
    return _sqlite(Path(url_or_path), read_only), str(url_or_path)


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
