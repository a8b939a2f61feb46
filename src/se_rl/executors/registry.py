"""The executors by name: one line adds another."""

from __future__ import annotations

from typing import Protocol

from se_rl.config import ConfigError
from se_rl.executors.local import LockedProcesses
from se_rl.executors.local_sandbox import LocalSandbox
from se_rl.executors.protocol import Executor

LOCAL = "local"
"""The executor of a run unless it is told otherwise."""


class ExecutorFactory(Protocol):
    """Makes an executor for a run; `sandbox.inputs` is what all of its trainings share."""

    def __call__(self, sandbox: LocalSandbox, *, workers: int) -> Executor: ...


EXECUTORS: dict[str, ExecutorFactory] = {LOCAL: LockedProcesses}


def open_executor(name: str, sandbox: LocalSandbox, *, workers: int) -> Executor:
    """The executor of this name with `workers` trainings at once."""
    if name not in EXECUTORS:
        raise ConfigError(f"executor {name!r} is unknown; use one of {', '.join(EXECUTORS)}")
    return EXECUTORS[name](sandbox, workers=workers)
