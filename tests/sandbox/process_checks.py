"""The means to look at processes from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process still runs (one that nobody has collected yet does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether a condition comes true; the bound only ends a broken test."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def children(pid: int) -> list[int]:
    """The running children of a process."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if alive(int(child))]
