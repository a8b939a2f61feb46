"""Files named by what they hold: a blob's name is the SHA-256 of its bytes, so a damaged one is
noticed.
"""

from __future__ import annotations

import errno
import re
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

    def get(self, name: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        """The bytes of this name, checked against it."""
        try:
            content = read_regular(self.path(name), most_bytes=most_bytes)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EFBIG, errno.ELOOP):  # a stranger's doing
                raise ArchiveError(
                    f"blob {name[:12]} in {self.folder} is refused: {error.strerror}; "
                    "use a folder whose files are whole"
                ) from error
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
        """Where the bytes of this name lie; a name that is no SHA-256 could lead anywhere."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ArchiveError(
                f"the archive beside {self.folder} names a blob that is no SHA-256; "
                "restore it from a copy"
            )
        return self.folder / name[:2] / name[2:]

    def _lost(self, name: str, what: str) -> ArchiveError:
        mend = f"delete {self.path(name)} and run the same command again, which makes it anew"
        return ArchiveError(f"blob {name[:12]} {what}; {mend}")
