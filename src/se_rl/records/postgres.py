"""A Postgres database that holds the archives of many runs.

Each run has a schema of its own, named in the URL (`postgresql://HOST/DATABASE?run=NAME`), with the
same tables as a file of SQLite; what runs share is in one schema beside them. The one connection of
a run that is written holds an advisory lock on it, which ends with the connection, however the
process ends.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from secrets import token_hex
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from se_rl.config import ConfigError
from se_rl.records.entries import sha256
from se_rl.records.schema import ArchiveError, transaction
from se_rl.records.secrets import hide

SHARED_SCHEMA = "se_rl"
"""What all runs of a database share."""
LOCK_SECONDS = 15
"""How long one waits for a run that another process writes: the server may not yet have noticed that
it was killed.
"""
DRIVER = "postgresql+psycopg"
MEND = "write postgresql://USER@HOST/DATABASE, or give no --archive for SQLite"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,55}")
_ALIVE = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
"""So that the server soon lets go of the lock of a machine that is gone."""
_READ_ONLY = "-c default_transaction_read_only=on"
CONNECT_SECONDS = 10
VARIABLE = "SE_RL_ARCHIVE"
"""The URL of the user's own database."""
_KNOWN: dict[URL, str | None] = {}
"""Databases that the user named to this process, and their passwords."""


def is_url(place: str | Path) -> bool:
    """Whether an archive is behind a URL, not in a file."""
    return "://" in str(place)


def schema_of(run: str) -> str:
    """The schema of a run's tables."""
    return f"run_{run}"


def lock_number(*words: str) -> int:
    """The number of an advisory lock."""
    return int.from_bytes(bytes.fromhex(sha256(" ".join(words))[:16]), signed=True)


def use_database(text: str) -> URL:
    """Let this process connect to the database of a URL, from now on with its password."""
    url = _parsed(text)
    if url.password:
        hide(str(url.password))
    if url.password or _bare(url) not in _KNOWN:
        _KNOWN[_bare(url)] = str(url.password) if url.password else None
    return url.set(password=_KNOWN[_bare(url)])


def check_known(text: str, *, named_in: Path) -> str:
    """The place that a run's folder names; refused where the user did not name its database.

    A stranger's folder must not make us log in somewhere.
    """
    if own := os.environ.get(VARIABLE):
        use_database(own)
    url = _parsed(text)
    if _bare(url) not in _KNOWN:
        database = stored_url(_bare(url))
        raise ConfigError(
            f"{named_in} keeps its archive in {database}; if that is yours, set {VARIABLE} to it"
        )
    return stored_url(url)


def is_in(place: str, database: str) -> bool:
    """Whether the archive of a run is in the database of this URL."""
    return _bare(_parsed(place)) == _bare(_parsed(database))


def new_place(database: str, folder: str) -> str:
    """A place for the run of this folder in a database, as it may be stored."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder)[:40].strip("-_.") or "run"
    return stored_url(_parsed(database).update_query_dict({"run": f"{plain}-{token_hex(4)}"}))


def stored_url(url: URL) -> str:
    """A URL as it may be stored and shown: without its password."""
    return url._replace(drivername="postgresql", password=None).render_as_string()


def _parsed(text: str) -> URL:
    """A URL of Postgres."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError(f"{text.partition('://')[0]}://... opens no archive; {MEND}") from None
    if url.drivername not in ("postgresql", "postgres", DRIVER) or not url.database:
        raise ConfigError(f"{url.drivername}://... opens no archive; {MEND}")
    if any("password" in word for word in url.query):
        raise ConfigError(
            "the archive's URL has a password in its query; put it into PGPASSWORD or ~/.pgpass"
        )
    return url.set(drivername=DRIVER)


def _bare(url: URL) -> URL:
    """The database that a URL leads to."""
    return url.difference_update_query(["run"])._replace(password=None)


def run_of(place: str | Path) -> str:
    """The name of the run behind a URL, or of the folder that a file is in."""
    if not is_url(place):
        return Path(place).absolute().parent.name
    run = _parsed(str(place)).query.get("run", "")
    if not isinstance(run, str) or not _NAME.fullmatch(run):
        raise ConfigError(
            f"the archive's URL names the run {run!r}; write ?run=NAME at its end: "
            "letters, digits, - _ and ., 56 at most"
        )
    return run


def open_postgres(text: str, *, read_only: bool) -> tuple[Engine, str]:
    """What connects to a run in Postgres, and the name to call it by."""
    url = use_database(text)
    run = run_of(text)
    path = f'-c search_path="{schema_of(run)}"'
    if read_only:
        path += f" {_READ_ONLY}"
    engine = _engine(
        url, f"{path} {_ALIVE}", application_name=f"se-rl {run}", connections=5 if read_only else 1
    )
    place = stored_url(url)

    # first of all: SQLAlchemy asks a new connection for its schema, which must be there by then
    @event.listens_for(engine, "connect", insert=True)
    def take(raw: Any, _: Any) -> None:
        try:
            _find(raw, run, place) if read_only else _hold(raw, run, place)
        except BaseException:
            raw.close()
            raise

    return engine, place


def server_version(text: str) -> str:
    """The version of the server behind a URL; ArchiveError where it cannot be reached."""
    url = use_database(text)
    engine = _engine(url, _READ_ONLY, application_name="se-rl doctor", connections=1)
    try:
        with transaction(engine, stored_url(url)) as connection:
            return str(connection.exec_driver_sql("SHOW server_version").scalar_one())
    finally:
        engine.dispose()


def _engine(url: URL, options: str, *, application_name: str, connections: int) -> Engine:
    given = url.query.get("options", "")
    try:
        return create_engine(
            url.difference_update_query(["run", "options"]),
            connect_args={
                "options": f"{given} {options}".strip(),
                "application_name": application_name,
                "connect_timeout": CONNECT_SECONDS,
            },
            pool_pre_ping=True,
            pool_size=connections,
            max_overflow=0,
        )
    except ModuleNotFoundError:
        raise ConfigError(
            'the driver of Postgres is not installed; run: pip install "se-rl[postgres]"'
        ) from None


def _find(raw: Any, run: str, place: str) -> None:
    """Refuse to read a run that is not there."""
    found = raw.execute("SELECT to_regnamespace(%s)", [f'"{schema_of(run)}"']).fetchone()
    raw.commit()
    if found[0] is None:
        raise ArchiveError(f"{place}: there is no run {run} in this database; give another place")


def _hold(raw: Any, run: str, place: str) -> None:
    """Make the schemas and take the run for this connection."""
    from psycopg.errors import LockNotAvailable

    raw.execute("SELECT pg_advisory_xact_lock(%s)", [lock_number("schemas")])
    for schema in (SHARED_SCHEMA, schema_of(run)):
        if raw.execute("SELECT to_regnamespace(%s)", [f'"{schema}"']).fetchone()[0] is None:
            raw.execute(f'CREATE SCHEMA "{schema}"')
    raw.commit()
    try:
        raw.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
        raw.execute("SELECT pg_advisory_lock(%s)", [lock_number("run", run)])
        raw.commit()
    except LockNotAvailable:
        raw.rollback()
        raise ArchiveError(
            f"{place} is in use by another process; wait for it or choose another --out"
        ) from None
