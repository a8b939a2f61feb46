"""Files named by what they hold: a blob's name is the SHA-256 of its bytes, so a damaged one is
noticed.
"""

from __future__ import annotations

import errno
import re
from abc import ABC, abstractmethod
from pathlib import Path

from se_rl.bounded_reading import read_regular
from se_rl.records.entries import sha256
from se_rl.records.files import FULL, write_bytes
from se_rl.records.schema import AGAIN, ArchiveError

MOST_BYTES = 2 << 30
"""The longest blob that is read: adapters of large models have hundreds of megabytes."""
MOST_TEXT_BYTES = 16 << 20
"""The longest text: sources, chats and training curves."""
_NAME = re.compile("[0-9a-f]{64}")


class BlobStore(ABC):
    """Blobs in some place. Whoever stores one that stands there changes nothing."""

    def __init__(self, place: str) -> None:
        self.place = place

    def put(self, content: bytes) -> str:
        """Store these bytes; returns their name. A damaged file of that name is mended."""
        name = sha256(content)
        if not self.has(name):
            self._write(name, content)
        return name

    def get(self, name: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        """The bytes of this name, checked against it."""
        content = self._read(self._checked(name), most_bytes)
        if sha256(content) != name:
            raise self._lost(name, "is damaged")
        return content

    def has(self, name: str) -> bool:
        """Whether the bytes of this name are there and whole."""
        try:
            self.get(name)
        except ArchiveError:
            return False
        return True

    @abstractmethod
    def _read(self, name: str, most_bytes: int) -> bytes:
        """What is stored under a name; ArchiveError where there is nothing, or too much."""

    @abstractmethod
    def _write(self, name: str, content: bytes) -> None:
        """Store a blob, in the place of a damaged one too."""

    def _checked(self, name: str) -> str:
        """A blob's name; one that is no SHA-256 could lead anywhere."""
        if isinstance(name, str) and _NAME.fullmatch(name):
            return name
        raise ArchiveError(
            f"the archive beside {self.place} names a blob that is no SHA-256; "
            "restore it from a copy"
        )

    def _lost(self, name: str, what: str) -> ArchiveError:
        mend = "run the same command again, which makes it anew"
        return ArchiveError(f"blob {name[:12]} in {self.place} {what}; {mend}")

    def _refused(self, name: str, why: str) -> ArchiveError:
        return ArchiveError(
            f"blob {name[:12]} in {self.place} is refused: {why}; use a folder whose files are whole"
        )


class FolderBlobs(BlobStore):
    """A folder of blobs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.folder = folder

    def path(self, name: str) -> Path:
        """Where the bytes of this name lie."""
        return self.folder / self._checked(name)[:2] / name[2:]

    def _read(self, name: str, most_bytes: int) -> bytes:
        try:
            return read_regular(self.path(name), most_bytes=most_bytes)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EFBIG, errno.ELOOP):  # a stranger's doing
                raise self._refused(name, str(error.strerror)) from error
            raise self._lost(name, f"is missing ({error.strerror})") from error

    def _write(self, name: str, content: bytes) -> None:
        try:
            write_bytes(self.path(name), content)
        except OSError as error:
            why = f"cannot be written ({error.strerror})"
            if error.errno in FULL:
                why = "have no room left on their disk; make room"
            raise ArchiveError(f"the files in {self.folder} {why}, {AGAIN}") from error

    def _lost(self, name: str, what: str) -> ArchiveError:
        mend = f"delete {self.path(name)} and run the same command again, which makes it anew"
        return ArchiveError(f"blob {name[:12]} {what}; {mend}")
