"""What a machine says of itself before it may train: its lock, its processor, its code and libraries."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from se_rl.records.code_hash import code_hash
from se_rl.sandbox.lockdown import isolation_level

LIBRARIES = ("numpy", "numba", "torch")
"""What the bits of a training depend on beside our own code."""


@dataclass(frozen=True)
class NodeReport:
    """One machine; `lock_reason` says why its isolation is not better, `code` is our code's digest."""

    host: str
    processor: str
    cores: int
    isolation: str
    lock_reason: str
    code: str
    versions: Mapping[str, str]

    def refused_by(self, here: NodeReport, *, unsafe: bool) -> str:
        """Why it may not train for a run that was started `here`; "" where it may."""
        if self.isolation not in ("strong", "standard") and not unsafe:
            return f"isolation is {self.isolation}, standard is needed ({self.lock_reason})"
        if self.code != here.code:
            return f"its se-rl is other code ({self.code[:8]}, here {here.code[:8]})"
        for name, wanted in here.versions.items():
            if self.versions[name] != wanted:
                return f"its {name} is {self.versions[name]}, here {wanted}: bits would differ"
        return ""


def this_node() -> NodeReport:
    """The machine that this process runs on."""
    isolation = isolation_level()
    libraries = {name: version(name) for name in LIBRARIES}
    return NodeReport(
        platform.node(),
        _processor(),
        os.cpu_count() or 1,
        isolation.level,
        isolation.why,
        code_hash(),
        {"python": platform.python_version(), **libraries},
    )


def _processor() -> str:
    """The name of the processor, where the system tells it."""
    about = Path("/proc/cpuinfo")
    for line in about.read_text().splitlines() if about.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
