"""The executors by name: one line adds another."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Protocol

from se_rl.config import ConfigError
from se_rl.executors.local import LockedProcesses
from se_rl.executors.policy_scoring import PolicyScorer
from se_rl.executors.protocol import Executor

LOCAL = "local"
"""The executor of a run unless it is told otherwise."""
RAY = "ray"
"""The cluster that this machine belongs to, or RAY_ADDRESS names; `ray://HOST:PORT` is another."""


class ExecutorFactory(Protocol):
    """Makes an executor for a run; `scorer.sandbox.inputs` is what all of its trainings share."""

    def __call__(self, scorer: PolicyScorer, *, workers: int) -> Executor: ...


EXECUTORS: dict[str, ExecutorFactory] = {LOCAL: LockedProcesses}
"""The executors that need nothing but their name; Ray has addresses."""


def open_executor(
    name: str, scorer: PolicyScorer, *, workers: int, say: Callable[[str], None] = lambda _: None
) -> Executor:
    """The executor of this name with `workers` trainings at once; `say` hears what it meets."""
    if is_cluster(name):
        prepare_ray()
        from se_rl.executors.ray_executor import RayExecutor

        return RayExecutor(scorer, workers=workers, cluster=name, say=say)
    if name not in EXECUTORS:
        known = ", ".join([*EXECUTORS, RAY, f"{RAY}://HOST:PORT"])
        raise ConfigError(f"executor {name!r} is unknown; use one of {known}")
    return EXECUTORS[name](scorer, workers=workers)


def prepare_ray() -> None:
    """Before ray is imported: refuse to go on without it, and keep it quiet."""
    if find_spec("ray") is None:
        raise ConfigError('the executor ray needs the package ray; pip install "se-rl[ray]"')
    # or it would print what nodes die of to our standard output, which may be somebody's JSON
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")


def is_cluster(name: str) -> bool:
    """Whether an executor of this name works on a cluster."""
    return name == RAY or name.startswith(f"{RAY}://")
