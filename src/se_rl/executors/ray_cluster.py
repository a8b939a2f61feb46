"""A Ray cluster: how it is reached, and which nodes it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ray

from se_rl.config import ConfigError
from se_rl.executors.registry import RAY

START = "ray start --head"
"""The command that makes this machine the first node of a cluster."""


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
    try:
        ray.init(address=address, configure_logging=False, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        said = str(error).strip().split("\n")[0].partition(". ")[0]
        raise ConfigError(
            f"no Ray cluster answers at {address} ({said}); start one with `{START}`, or give its "
            "address as --executor ray://HOST:10001"
        ) from None
    return True


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
