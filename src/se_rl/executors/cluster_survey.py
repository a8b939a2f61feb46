"""What the nodes of a cluster say of themselves, for people who want to know before they run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict

from se_rl.config import ConfigError
from se_rl.executors.node_report import NodeReport, this_node
from se_rl.executors.registry import RAY, prepare_ray

ANSWER_SECONDS = 60.0
"""How long a cluster may take to answer; Ray itself goes on asking for minutes."""


def survey() -> Sequence[NodeReport]:
    """The nodes of the cluster that this machine belongs to; ConfigError where there is none."""
    prepare_ray()
    code = f"from {__name__} import print_reports; print_reports()"
    try:
        asked = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=ANSWER_SECONDS, text=True
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"the cluster does not answer within {ANSWER_SECONDS:.0f} s") from None
    if asked.returncode:
        raise ConfigError(asked.stderr.strip().split("\n")[-1].partition("ConfigError: ")[2])
    return [NodeReport(**facts) for facts in json.loads(asked.stdout.split("\n")[-2])]


def print_reports() -> None:
    """In a process of its own: ask every node, print their reports as JSON."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from se_rl.executors.ray_cluster import cluster_nodes, connect

    connect(RAY)
    ask = ray.remote(num_cpus=0, max_retries=0)(this_node)
    asked = []
    for node in cluster_nodes():
        there = NodeAffinitySchedulingStrategy(node.id, soft=False)
        asked.append(ask.options(scheduling_strategy=there).remote())
    print(json.dumps([asdict(report) for report in ray.get(asked)]))
