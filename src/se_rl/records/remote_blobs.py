"""Blobs that many machines reach: in the archive's Postgres database, or behind any URL that fsspec
knows.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine, func, select
from sqlalchemy.dialects.postgresql import insert

from se_rl.config import ConfigError
from se_rl.records.blobs import BlobStore, FolderBlobs
from se_rl.records.postgres import is_url
from se_rl.records.schema import AGAIN, ArchiveError, transaction
from se_rl.records.secrets import check_address
from se_rl.records.shared_tables import BLOB

IN_DATABASE = "database"
"""The place of blobs that are rows of the archive itself."""
MOST_IN_DATABASE = (1 << 30) - (1 << 20)
"""A little less than a value of Postgres can hold."""
LOCAL_FILE = "file://"


class DatabaseBlobs(BlobStore):
    """Blobs as rows of a Postgres database, which all of its runs share."""

    def __init__(self, engine: Engine, place: str) -> None:
        super().__init__(place)
        self._engine = engine

    def _read(self, name: str, most_bytes: int) -> bytes:
        row = BLOB.c.name == name
        with transaction(self._engine, self.place) as connection:
            size = connection.execute(select(func.length(BLOB.c.content)).where(row)).scalar()
            if size is None:
                raise self._lost(name, "is missing")
            if size > most_bytes:
                raise self._refused(name, f"it has {size} bytes")
            return bytes(connection.execute(select(BLOB.c.content).where(row)).scalar_one())

    def _write(self, name: str, content: bytes) -> None:
        if len(content) > MOST_IN_DATABASE:
            raise ArchiveError(
                f"a file of {len(content)} bytes does not fit into {self.place}; "
                "begin an archive with --blobs URL"
            )
        row = insert(BLOB).values(name=name, content=content)
        mended = row.on_conflict_do_update(index_elements=[BLOB.c.name], set_={"content": content})
        with transaction(self._engine, self.place) as connection:
            connection.execute(mended)


class UrlBlobs(BlobStore):
    """Blobs behind a URL, one object each."""

    def __init__(self, url: str) -> None:
        import fsspec

        super().__init__(url)
        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            said = str(error).partition("\n")[0]
            raise ConfigError(f"--blobs {url} cannot be used: {said}") from None

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name[:2]}/{name[2:]}"

    def _read(self, name: str, most_bytes: int) -> bytes:
        try:
            size = self._files.size(self._path(name))
            if size is not None and size > most_bytes:
                raise self._refused(name, f"it has {size} bytes")
            return bytes(self._files.cat_file(self._path(name)))
        except FileNotFoundError:
            raise self._lost(name, "is missing") from None
        except OSError as error:
            raise ArchiveError(
                f"{self.place} cannot be read ({error}); mend it, {AGAIN}"
            ) from error

    def _write(self, name: str, content: bytes) -> None:
        path = self._path(name)
        try:
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(path, content)
        except OSError as error:
            raise ArchiveError(
                f"{self.place} cannot be written ({error}); mend it, {AGAIN}"
            ) from error


def blobs_place(given: str | Path | None) -> str:
    """The place of a new archive's blobs as it is stored: "database", a folder or a URL."""
    if given is None:
        return IN_DATABASE
    if not is_url(given) or str(given).startswith(LOCAL_FILE):
        return str(Path(str(given).removeprefix(LOCAL_FILE)).absolute())
    if fault := check_address(str(given)):
        raise ConfigError(
            f"--blobs {fault}; give keys by the variables or files of the service itself"
        )
    return str(given)


def open_blobs(place: str, engine: Engine, name: str) -> BlobStore:
    """The blobs of an archive, by their stored place."""
    if place == IN_DATABASE:
        return DatabaseBlobs(engine, name)
    return UrlBlobs(place) if is_url(place) else FolderBlobs(Path(place))
