"""A Ray cluster: how it is reached, and which nodes it has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import ray

from se_rl.config import ConfigError
from se_rl.executors.registry import RAY
from se_rl.sandbox.calls import printable

START = "ray start --head"
"""The command that makes this machine the first node of a cluster."""
TRIES = 4
PAUSE_SECONDS = 3.0
NOT_READY = "Initialization failure from server"
"""A cluster that answers, but whose busy machine was too slow to begin a process for us."""


@dataclass(frozen=True)
class ClusterNode:
    """A node that is alive: its name in the cluster, its host, and its cores."""

    id: str
    host: str
    cores: int


def connect(executor: str) -> bool:
    """Reach the cluster of an executor's name; whether this was needed: `ray.shutdown` undoes it."""
    if ray.is_initialized():
        return False
    address = "auto" if executor == RAY else executor
    for tries_left in reversed(range(TRIES)):
        try:
            ray.init(address=address, configure_logging=False, log_to_driver=False)
            break
        except (ConnectionError, ValueError, RuntimeError) as error:
            if tries_left and NOT_READY in str(error):
                time.sleep(PAUSE_SECONDS)
                continue
            raise ConfigError(
                f"no Ray cluster answers at {address} ({_essence(error)}); start one with "
                f"`{START}`, or give its address as --executor ray://HOST:10001"
            ) from None
    return True


def _essence(error: Exception) -> str:
    """The sentence of an error that says why: its first, or the end of a server's own account."""
    lines = str(error).strip().split("\n")
    return printable(lines[-1] if NOT_READY in lines[0] else lines[0].partition(". ")[0])


def cluster_nodes() -> Sequence[ClusterNode]:
    """The nodes that are alive now."""
    found = []
    for node in ray.nodes():
        if node["Alive"]:
            cores = int(node["Resources"].get("CPU", 0))
            found.append(ClusterNode(node["NodeID"], node["NodeManagerHostname"], cores))
    return sorted(found, key=lambda node: node.id)


def cluster_cores(executor: str) -> int:
    """Cores of all nodes: the evaluations at once where nobody says otherwise."""
    was_needed = connect(executor)
    cores = sum(node.cores for node in cluster_nodes())
    if was_needed:
        ray.shutdown()
    return cores
