"""A run on a cluster of this machine that loses workers, nodes and its main process.

`kill_campaign.py --cluster N` makes so many kills. The run that is left alone trains on this machine
alone: whatever a cluster gives, killed or not, must be the same bits.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from pathlib import Path

from se_rl_benchmarks.killed_runs import Child, Kind, lost
from se_rl_benchmarks.local_cluster import LocalCluster

NODES = 3
KILLS = 8
"""Per run, at most."""
VICTIMS = ("worker", "raylet", "driver")


class KilledRun:
    """One run in its folder: the process that goes on with it, kills by what they met, faults."""

    def __init__(self, folder: Path, kind: Kind, cluster: LocalCluster) -> None:
        self.folder, self.kind, self.cluster = folder, kind, cluster
        self.kills = Counter[str]()
        self.faults: list[str] = []
        self.child = Child(folder, kind)
        self._keys: set[str] = set()

    def kill(self, victim: str, rng: random.Random) -> None:
        """Kill -9 of one process; a node that is gone is replaced, as its operator would."""
        self.kills[f"{victim} after {self.child.heard()[-1]}"] += 1
        if victim == "driver":
            self.faults += [f"process {pid} outlived the run" for pid in self.child.kill()]
            self._keys, faults = lost(self.folder, self._keys)
            self.faults += faults
            self.child = Child(self.folder, self.kind)
            return
        alive = self.cluster.raylets() if victim == "raylet" else self.cluster.workers()
        os.kill(rng.choice(alive), signal.SIGKILL)
        if victim == "raylet":
            self.cluster.add_node()

    def possible(self) -> list[str]:
        """What can be killed right now."""
        none = [] if self.cluster.workers() else ["worker"]
        return [victim for victim in VICTIMS if victim not in none]

    def go_on(self, seconds: float) -> None:
        """Let it end; one that had to give up, since it lost too much, is started again."""
        for _ in range(1 + self.kills.total()):
            if not self.child.wait(seconds):
                self.child.kill()
            if self.child.process.returncode == 0:
                return
            self.child = Child(self.folder, self.kind)


def kill_on_cluster(
    folder: Path, kind: Kind, cluster: LocalCluster, *, most: int, rng: random.Random
) -> KilledRun:
    """A run on a cluster that is killed at random moments, so many times at most."""
    run = KilledRun(folder, kind, cluster)
    for moment in sorted(kind.moment(rng) for _ in range(min(KILLS, most))):
        if run.child.ends_before(moment):
            if run.child.process.returncode == 0:
                break
            run.child = Child(folder, kind)  # it lost its own node, or one task too often
        run.kill(rng.choice(run.possible()), rng)
    return run
