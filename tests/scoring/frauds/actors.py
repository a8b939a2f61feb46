"""Forged policies: what a design could answer once it had full Python in its process.

They answer through the parent's own checks (`campaign.ForgedServer`), as a locked process would.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from frauds.fraud import SINCE_OPEN, TIME_LEFT, WINDOWS, Fraud

Numbers = npt.NDArray[np.float32]
Answer = Callable[["Forger", Numbers], Any]


class Forger:
    """A process that answers as `answer` says; `kept` is its memory."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.kept: dict[Any, Any] = {}
        self.calls = 0

    def __call__(self, seen: Numbers) -> Any:
        self.calls += 1
        return self.answer(self, seen)


def left(seen: Numbers, steps: int = 13) -> npt.NDArray[np.float64]:
    """TWAP's ratio of what is left, from the time left."""
    return 1.0 / np.maximum(1.0, np.rint(seen[:, TIME_LEFT].astype(np.float64) * steps))


def _pair(ratio: Any, seen: Numbers, offset: Any = 0.0) -> npt.NDArray[Any]:
    both = np.empty((len(seen), 2))
    both[:, 0] = ratio
    both[:, 1] = offset
    return both


def _ahead(_: Forger, seen: Numbers) -> Any:
    half = len(seen) // 2
    if half == 0 or half % WINDOWS:
        return _pair(left(seen), seen)
    grid = seen[:half, SINCE_OPEN].reshape(-1, WINDOWS)
    move = np.zeros_like(grid)
    move[:, :-1] = np.diff(grid, axis=1)
    both = np.concatenate([move.ravel(), -move.ravel()])
    return _pair(left(seen) * np.clip(1.0 - 3.0 * both, 0.0, 3.0), seen)


def _nearest(_: Forger, seen: Numbers) -> Any:
    """Finds the row that goes on where this one is: same past returns, later clock."""
    later = seen[None, :, 29] - seen[:, None, 29]
    far = np.abs(seen[None, :, 26] - seen[:, None, 26]) + 1e3 * ((later < 0.05) | (later > 0.3))
    place = far.argmin(axis=1)
    known = far.min(axis=1) < 1e3
    move = np.where(known, seen[place, SINCE_OPEN] - seen[:, SINCE_OPEN], 0.0)
    return _pair(left(seen) * np.clip(1.0 - move, 0.0, 3.0), seen)


def _memory(self: Forger, seen: Numbers) -> Any:
    key = round(float(seen[0, TIME_LEFT]) * 1000)
    kept = [k for k in self.kept if k <= key - 250 and len(self.kept[k]) == len(seen)]
    move = self.kept[max(kept)] - seen[:, SINCE_OPEN] if kept else np.zeros(len(seen))
    self.kept[key] = seen[:, SINCE_OPEN].copy()
    return _pair(left(seen) * np.clip(1.0 - 3.0 * move, 0.0, 3.0), seen)


def _losers_wait(_: Forger, seen: Numbers) -> Any:
    return _pair(np.where(seen[:, SINCE_OPEN] < 0.0, 0.0, 1.0), seen, 20.0)


def _winners_wait(_: Forger, seen: Numbers) -> Any:
    return _pair(np.where(seen[:, SINCE_OPEN] > 0.0, 0.0, 1.0), seen, 20.0)


def _doubling(_: Forger, seen: Numbers) -> Any:
    return _pair(np.clip(left(seen) * 2.0 ** np.clip(-seen[:, SINCE_OPEN] * 4, -4, 4), 0, 1), seen)


def _one_nan(_: Forger, seen: Numbers) -> Any:
    both = _pair(left(seen), seen)
    both[len(both) // 2, 0] = np.nan
    return both


def _nan_when_losing(_: Forger, seen: Numbers) -> Any:
    return _pair(np.where(seen[:, SINCE_OPEN] < -0.5, np.nan, left(seen)), seen)


def _half_written(_: Forger, seen: Numbers) -> Any:
    return _pair(left(seen), seen)[: len(seen) // 2]


def _raises(_: Forger, seen: Numbers) -> Any:
    raise RuntimeError("\x1b[2J" + "x" * 300_000)


def _random(self: Forger, seen: Numbers) -> Any:
    return _pair(np.random.default_rng(self.calls).random(len(seen)), seen)


def _limits_alone(_: Forger, seen: Numbers) -> Any:
    return _pair(left(seen), seen, np.round(10.0 * np.tanh(seen[:, SINCE_OPEN].mean())))


def _by_the_clock(_: Forger, seen: Numbers) -> Any:
    return _pair(left(seen) * (1.0 + time.perf_counter_ns() // 1000 % 2), seen)


def _by_addresses(self: Forger, seen: Numbers) -> Any:
    return _pair(left(seen) * (1.0 + id(self) // 64 % 5), seen)


def _by_chance(_: Forger, seen: Numbers) -> Any:
    drawn = np.frombuffer(os.urandom(len(seen)), np.uint8)
    return _pair(left(seen) * drawn / 128.0, seen)


def _first_step_by_row(_: Forger, seen: Numbers) -> Any:
    return _pair(np.arange(len(seen)) % 2, seen)


def _past_groups(self: Forger, seen: Numbers) -> Any:
    self.kept.setdefault("rows", []).append(float(seen[0, SINCE_OPEN]))
    return _pair(left(seen) * (1.0 + np.tanh(np.std(self.kept["rows"]))), seen)


def _hash_of_all(_: Forger, seen: Numbers) -> Any:
    return _pair(left(seen) * (1.0 + zlib.crc32(seen.tobytes()) % 100 / 100.0), seen)


def _hash_of_row(_: Forger, seen: Numbers) -> Any:
    drawn = [zlib.crc32(row.tobytes()) % 100 / 50.0 for row in seen]
    return _pair(left(seen) * np.array(drawn), seen)


_TRICKS: dict[str, tuple[Answer, str]] = {
    "look-ahead in numpy": (_ahead, "batch"),
    "nearest row": (_nearest, ""),
    "memory in numpy": (_memory, "twice"),
    "losers wait": (_losers_wait, ""),
    "winners wait": (_winners_wait, ""),
    "doubling up": (_doubling, ""),
    "all at once": (lambda _, seen: _pair(1.0, seen), ""),
    "all by force": (lambda _, seen: _pair(0.0, seen), ""),
    "force with far limits": (lambda _, seen: _pair(1.0, seen, 1e9), ""),
    "limits through the book": (lambda _, seen: _pair(left(seen), seen, -1e9), ""),
    "negative ratios": (lambda _, seen: _pair(-1.0, seen), ""),
    "ratios of 1e30": (lambda _, seen: _pair(1e30, seen), ""),
    "tiny ratios": (lambda _, seen: _pair(1e-38, seen), ""),
    "random ratios": (_random, ""),
    "limits by the others": (_limits_alone, ""),
    "by the clock": (_by_the_clock, ""),
    "by addresses in memory": (_by_addresses, ""),
    "by the system's chance": (_by_chance, ""),
    "every second row at once": (_first_step_by_row, ""),
    "by the spread of the past": (_past_groups, ""),
    "a hash of the whole batch": (_hash_of_all, ""),
    "a hash of its own row": (_hash_of_row, ""),
    "just above all of it": (lambda _, seen: _pair(np.nextafter(1.0, 2.0), seen), ""),
    "nothing, below zero": (lambda _, seen: _pair(-0.0, seen, -20.0), ""),
    "not a number": (lambda _, seen: _pair(np.nan, seen), ""),
    "one not a number": (_one_nan, ""),
    "no number when losing": (_nan_when_losing, ""),
    "infinite": (lambda _, seen: _pair(np.inf, seen), ""),
    "minus infinite limits": (lambda _, seen: _pair(left(seen), seen, -np.inf), ""),
    "float overflow": (lambda _, seen: _pair(1e300, seen), ""),
    "half an answer": (_half_written, ""),
    "an error of 300 KB": (_raises, ""),
}


def _all() -> tuple[Fraud, ...]:
    found = []
    for name, (answer, control) in _TRICKS.items():

        def made(answer: Answer = answer) -> Forger:
            return Forger(answer)

        found.append(Fraud(f"forged: {name}", "forged answers", actor=made, control=control))
    return tuple(found)


ACTORS = _all()
