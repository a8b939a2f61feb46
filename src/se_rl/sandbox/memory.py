"""Anonymous files in memory: how bytes pass between parent, server and worker without a path and
without a pipe."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterable

ADD_SEALS, SEAL, SHRINK, GROW, WRITE = 1033, 1, 2, 4, 8
"""The kernel's numbers: Python knows their names on Linux only, and this module is imported
everywhere."""


def sealed(chunks: Iterable[bytes | memoryview]) -> int:
    """A descriptor of a memory file that holds these bytes and that nobody can ever change
    again.
    """
    file = os.memfd_create("sealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    for chunk in chunks:
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(file, rest) :]
    fcntl.fcntl(file, ADD_SEALS, SEAL | SHRINK | GROW | WRITE)
    return file


def blank(size: int) -> int:
    """A descriptor of a memory file of zeros to write into, whose size is fixed."""
    file = os.memfd_create("blank", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, max(size, 1))
    fcntl.fcntl(file, ADD_SEALS, SEAL | SHRINK | GROW)
    return file


def mapped(file: int, *, writable: bool = False) -> mmap.mmap:
    """The whole file in memory. Writable: shared with all who map it so. Else its pages are
    read-only, and whoever makes them writable by force gets copies of his own (private: older
    kernels refuse to share what is sealed)."""
    size = os.fstat(file).st_size
    if writable:
        return mmap.mmap(file, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    return mmap.mmap(file, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
