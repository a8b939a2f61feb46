"""A PostgreSQL server of one's own in a temporary folder, for tests and campaigns.

It listens on a Unix socket alone. Debian's package `postgresql` has the programs.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class NoServer(RuntimeError):
    """Why no server can be started here."""


@contextmanager
def postgres_server(*, durable: bool = False, parent: Path | None = None) -> Iterator[str]:
    """The URL of an empty database on a server that lives as long as the context.

    A `durable` one flushes what it has acknowledged, as any server does that is not for tests;
    `parent` is the folder that its own is made in.
    """
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="se-rl-postgres-", dir=parent))
    try:
        who = _account(folder)
        _call(programs / "initdb", "-D", folder / "data", *_FIRST, cwd=folder, **who)
        control = (programs / "pg_ctl", "-D", folder / "data", "-w")
        told = f"-h '' -k {folder}" + ("" if durable else " -F")
        _call(*control, "-l", folder / "log", "-o", told, "start", cwd=folder, **who)
        try:
            yield f"postgresql://se_rl@/postgres?host={folder}"
        finally:
            _call(*control, "-m", "immediate", "stop", cwd=folder, **who)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_FIRST = ("-U", "se_rl", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    place = (found or [Path(shutil.which("initdb") or "/none")])[-1].parent
    if not (place / "postgres").is_file():
        raise NoServer("no PostgreSQL server on this machine; apt-get install postgresql")
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise NoServer('the driver psycopg is missing; pip install "se-rl[postgres]"') from None
    return place


def _account(folder: Path) -> dict[str, Any]:
    """Whom the server runs as: it refuses to be run by root."""
    if os.getuid() != 0:
        return {}
    account = pwd.getpwnam("nobody")
    os.chown(folder, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _call(*words: str | Path, **how: Any) -> None:
    done = subprocess.run(words, capture_output=True, text=True, **how)
    if done.returncode != 0:
        raise NoServer(f"{Path(words[0]).name} failed: {done.stderr.strip()[-300:]}")
