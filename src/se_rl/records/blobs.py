"""Files named by what they hold: a blob's name is the SHA-256 of its bytes, so a damaged one is
noticed.
"""

from __future__ import annotations

from pathlib import Path

from se_rl.records.entries import sha256
from se_rl.records.files import FULL, write_bytes
from se_rl.records.schema import AGAIN, ArchiveError


class BlobStore:
    """A folder of blobs. One process writes, any number of them read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, content: bytes) -> str:
        """Store these bytes; returns their name. A damaged file of that name is mended."""
        name = sha256(content)
        if self.has(name):
            return name
        try:
            write_bytes(self.path(name), content)
        except OSError as error:
            why = f"cannot be written ({error.strerror})"
            if error.errno in FULL:
                why = "have no room left on their disk; make room"
            raise ArchiveError(f"the files in {self.folder} {why}, {AGAIN}") from error
        return name

    def get(self, name: str) -> bytes:
        """The bytes of this name, checked against it."""
        try:
            content = self.path(name).read_bytes()
        except OSError as error:
            raise self._lost(name, f"is missing ({error.strerror})") from error
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

    def path(self, name: str) -> Path:
        """Where the bytes of this name lie."""
        return self.folder / name[:2] / name[2:]

    def _lost(self, name: str, what: str) -> ArchiveError:
        mend = f"delete {self.path(name)} and run the same command again, which makes it anew"
        return ArchiveError(f"blob {name[:12]} {what}; {mend}")
