"""A SQLite archive that is only read, and that somebody else may have written.

Nothing is written beside it: a file at rest is opened as immutable, which works on a read-only disk
too, and a leftover write-ahead log is read from a copy. A hostile file cannot run for ever or ask
for much memory: its tables must be plain tables, and every statement has a deadline.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

MOST_ARCHIVE_BYTES = 2 << 30
MOST_ROW_BYTES = 64 << 20
STATEMENT_SECONDS = 60.0
_STEPS = 100_000
"""SQLite's instructions between two looks at the clock."""
BUSY_SECONDS = 30.0
"""How long one who reads or writes SQLite waits for another."""


class ReadOnlyFile:
    """Where a SQLite file is read: in its place, or a private copy in a temporary folder."""

    def __init__(self, path: Path) -> None:
        self._original = path
        self._copied: tempfile.TemporaryDirectory[str] | None = None
        self._deadline = 0.0

    @property
    def path(self) -> Path:
        """The file that is opened."""
        if self._copied is None:
            return self._original
        return Path(self._copied.name) / "archive.sqlite"

    def copy(self) -> Path:
        """Read a private copy from now on, together with what its write-ahead log holds."""
        if self._copied is None:
            self._copied = tempfile.TemporaryDirectory(prefix="se-rl-archive-")
            try:
                for suffix in ("", "-wal"):
                    source = _beside(self._original, suffix)
                    if _is_plain(source):
                        shutil.copyfile(source, _beside(self.path, suffix))
            except BaseException:
                self.close()
                raise
        return self.path

    def connect(self) -> sqlite3.Connection:
        """A connection that writes nothing into the file's folder."""
        has_log = _beside(self.path, "-wal").exists()
        if has_log and self._copied is None and not _beside(self.path, "-shm").exists():
            self.copy()  # no process has it open: reading in place would leave files there
        if not has_log:
            return self._opened("mode=ro&immutable=1")
        try:
            return self._opened("mode=ro")
        except sqlite3.OperationalError:
            if self._copied is not None:
                raise
            self.copy()
            return self._opened("mode=ro")

    def close(self) -> None:
        """Remove the copy."""
        if self._copied is not None:
            self._copied.cleanup()
            self._copied = None

    def allow_time(self) -> None:
        """The statements that follow have their full time from now on."""
        self._deadline = time.monotonic() + STATEMENT_SECONDS

    def _opened(self, how: str) -> sqlite3.Connection:
        made = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{how}",
            uri=True,
            isolation_level=None,
            timeout=BUSY_SECONDS,
            check_same_thread=False,
        )
        try:
            self.allow_time()
            made.set_progress_handler(self._is_late, _STEPS)
            made.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_ROW_BYTES)
            made.execute("PRAGMA trusted_schema = OFF")
            made.execute("PRAGMA cell_size_check = ON")
            made.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except BaseException:
            made.close()
            raise
        return made

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline


def odd_table(connection: sqlite3.Connection, tables: Mapping[str, Sequence[str]]) -> str:
    """What is odd about the first table that is not plain; "" if all are.

    A view, a virtual table or a generated column computes what it gives, for as long as it likes.
    A table that is missing, or that lacks columns, is odd too.
    """
    kinds = {}
    for row in connection.execute("PRAGMA table_list"):
        kinds[row[1]] = row[2]
    for name, columns in tables.items():
        if name not in kinds:
            continue
        if kinds[name] != "table":
            return f"{name} is a {kinds[name]}"
        found = set()
        for row in connection.execute(f'PRAGMA table_xinfo("{name}")'):
            if row[6]:
                return f"{name}.{row[1]} is computed"
            found.add(row[1])
        if not found >= set(columns):
            return f"{name} lacks {min(set(columns) - found)}"
    return ""


def too_large(path: Path) -> bool:
    """Whether an archive is larger than any that is read."""
    return path.stat().st_size > MOST_ARCHIVE_BYTES


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _is_plain(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= MOST_ARCHIVE_BYTES
