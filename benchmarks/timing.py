"""What all benchmarks share: one result, one clock, and the machine it was measured on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field

Say = Callable[[str], None]
"""Takes a line about what is being measured now."""


def silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Measurement:
    """One benchmark: our figure, those of peers in the same run, and ours over each of theirs."""

    name: str
    unit: str
    value: float
    peers: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    detail: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Machine:
    """Where a benchmark ran."""

    processor: str
    cores: int
    python: str

    @classmethod
    def here(cls) -> Machine:
        """The machine of this process, with the cores it may use."""
        cores = os.cpu_count() or 1
        if hasattr(os, "sched_getaffinity"):
            cores = len(os.sched_getaffinity(0))
        processor = platform.processor() or platform.machine()
        return cls(processor, cores, platform.python_version())


def ratios_to(value: float, peers: dict[str, float]) -> dict[str, float]:
    """Our figure over each peer's."""
    return {name: value / theirs for name, theirs in peers.items()}


def best_rate(work: Callable[[], int], seconds: float) -> float:
    """Units of work per CPU second, the best of as many repeats as fit; the first call warms up."""
    work()
    best = 0.0
    end = time.perf_counter() + seconds
    while True:
        started = time.process_time()
        units = work()
        elapsed = time.process_time() - started
        best = max(best, units / max(elapsed, 1e-9))
        if time.perf_counter() >= end:
            return best
