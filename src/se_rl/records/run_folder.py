"""The folder of a run: where its files lie, one run in it at a time, and always with the settings
it began with.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from se_rl.bounded_reading import MOST_YAML_BYTES, plain_yaml, read_regular
from se_rl.config import ConfigError
from se_rl.records.files import FULL, sweep, write_text

MOST_ADDRESS_BYTES = 4096
_NOT_SET = "(not set)"


class RunFolder:
    """Paths of a run, and the lock on them: `with RunFolder(out) as folder: ...` while it is
    written to.

    Whoever only reads needs no lock.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock: int | None = None

    @property
    def database(self) -> Path:
        """The file of an archive that is nobody else's."""
        return self.path / "archive.sqlite"

    @property
    def address(self) -> Path:
        """The file that names an archive which is shared with other runs."""
        return self.path / "archive.url"

    @property
    def archive(self) -> str | Path:
        """Where all is that the run stored: its own file, or a URL that the user knows."""
        if not self.address.exists():
            return self.database
        from se_rl.records.postgres import check_known

        stored = read_regular(self.address, most_bytes=MOST_ADDRESS_BYTES)
        return check_known(stored.decode(errors="replace").strip(), named_in=self.path)

    @property
    def holds_run(self) -> bool:
        """Whether there is an archive, or at least its address."""
        return self.database.exists() or self.address.exists()

    def use_archive(self, url: str) -> None:
        """Keep the archive of a new run in this database; that of an old one must be there."""
        from se_rl.records.postgres import is_in, new_place

        if self.address.exists() and is_in(str(self.archive), url):
            return
        if self.config.exists():
            raise ConfigError(
                f"{self.path} keeps its archive in {self.archive}; leave --archive out, "
                "or choose another --out"
            )
        write_text(self.address, new_place(url, self.path.absolute().name))

    @property
    def blobs(self) -> Path:
        """The archive's files, named by what they hold."""
        return self.path / "blobs"

    @property
    def config(self) -> Path:
        """The settings that the run began with."""
        return self.path / "config.yaml"

    @property
    def results(self) -> Path:
        """The final figures."""
        return self.path / "results.json"

    @property
    def report(self) -> Path:
        """The page that shows the run."""
        return self.path / "report.html"

    @property
    def policy(self) -> Path:
        """The best design's trained policy."""
        return self.path / "best.policy"

    @property
    def orders(self) -> Path:
        """One row per order of the final table: prices, PA and leftover of every method."""
        return self.path / "orders.parquet"

    @property
    def lock(self) -> Path:
        """The file that a run holds a lock on; it names the process."""
        return self.path / "run.lock"

    def open(self) -> Self:
        """Take the folder for this process, made where there is none; refused where it is in use or
        not a run's.

        The kernel lets the lock go when the process ends, however it ends. Programs that the
        process starts do not inherit it (close-on-exec, as all descriptors of Python); a bare fork
        would keep it until it ends.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            names = {
                file.name for file in self.path.iterdir()
            }  # looked at once: another run may be making its own
            if names and not names & {self.lock.name, self.database.name}:
                raise ConfigError(
                    f"{self.path} is not empty and holds no run; choose another --out"
                )
            held = _open_lock(self.lock)
        except OSError as error:
            raise ConfigError(
                f"{self.path} cannot hold a run: {error.strerror}; choose another --out"
            ) from None
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(held, 20, 0).decode(errors="replace").strip()
            os.close(held)
            if not isinstance(error, BlockingIOError):
                raise ConfigError(
                    f"{self.path} cannot be locked: {error.strerror}; choose another --out"
                ) from None
            who = f"process {holder}" if holder else "another process"
            raise ConfigError(
                f"{self.path} is in use by {who}; wait for it or choose another --out"
            ) from None
        with suppress(OSError):  # the number is a courtesy: a full disk shall not speak up here
            os.ftruncate(held, 0)
            os.pwrite(held, f"{os.getpid()}\n".encode(), 0)
        self._lock = held
        sweep(self.path)
        return self

    def close(self) -> None:
        """Let the folder go. The lock's file stays: deleting it could take away another run's."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self if self._lock is not None else self.open()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if isinstance(error, OSError) and error.errno in FULL:
            from se_rl.records.schema import AGAIN, ArchiveError

            raise ArchiveError(
                f"{self.path} has no room left on its disk; make room, {AGAIN}"
            ) from error

    def check_config(self, config: Mapping[str, Any]) -> bool:
        """Whether the folder is bound to settings (the run is resumed), which must be these."""
        if not self.config.exists():
            if self.database.exists():
                raise ConfigError(
                    f"{self.path} has an archive but no {self.config.name}; "
                    "restore it or choose another --out"
                )
            return False
        try:
            stored = plain_yaml(read_regular(self.config, most_bytes=MOST_YAML_BYTES))
        except (OSError, ValueError):
            stored = None
        if not isinstance(stored, dict):
            raise ConfigError(f"{self.config} is damaged; restore it or choose another --out")
        self._compare(dict(_leaves(stored)), dict(_leaves(_as_stored(config))))
        return True

    def bind(self, config: Mapping[str, Any]) -> None:
        """Store the settings that the run has begun with; those of a bound folder stay."""
        import yaml

        if not self.config.exists():
            write_text(self.config, yaml.safe_dump(_as_stored(config), sort_keys=False))

    def discard(self) -> None:
        """Delete the archive: what a run left that failed before it had begun."""
        for path in (self.address, *self.path.glob(f"{self.database.name}*")):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.blobs, ignore_errors=True)

    def _compare(self, stored: dict[str, Any], given: dict[str, Any]) -> None:
        """Refuse other settings.

        Another name of the data may be another name of the same file; their content is compared.
        """
        for key in {**given, **stored}:
            if key == "data":
                continue
            old, new = stored.get(key, _NOT_SET), given.get(key, _NOT_SET)
            if old != new:
                what = f"began with {key} {old} and is now given {new}"
                raise ConfigError(f"{self.path} {what}; use the same settings, or another --out")


def _open_lock(path: Path) -> int:
    """The lock's file; a link in its place could lead to a file that must not be written to."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    held = os.open(path, flags, 0o644)
    if stat.S_ISREG(os.fstat(held).st_mode):
        return held
    os.close(held)
    raise OSError(errno.EINVAL, f"{path.name} is not a regular file")


def _as_stored(config: Mapping[str, Any]) -> Any:
    """Settings as a file gives them back: lists, and texts for paths."""
    return json.loads(json.dumps(config, default=str))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every setting by its dotted key, as JSON text: so 1 and 1.0, or two NaN, are told apart or
    not as in a file.
    """
    if not isinstance(value, dict) or not value:
        yield path, json.dumps(value)
        return
    for key, item in value.items():
        yield from _leaves(item, f"{path}.{key}" if path else str(key))
