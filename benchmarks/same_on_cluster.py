"""The same runs on this machine and on a Ray cluster of three nodes: are they equal bit for bit?

    python benchmarks/same_on_cluster.py

A `tiny` run, and one of `quick` with fewer designs, days and work, each with both executors. All that
they store is compared (designs, scores per order, weights, results) but times and machines. Whatever
differs is named, and the exit code is 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from se_rl_benchmarks.killed_runs import record_of
from se_rl_benchmarks.local_cluster import LocalCluster
from se_rl_benchmarks.markdown_tables import table

NODES = 3
RUNS = {
    "tiny": "--preset tiny --arm local",
    "reduced quick": "--preset quick --arm local --iterations 1 --work 1 --scored-days 20",
}


def seconds_of(words: str, out: Path, environment: Mapping[str, str]) -> float:
    """Make one run in its folder; the seconds that it took."""
    started = time.monotonic()
    command = [sys.executable, "-m", "se_rl", "run", *words.split(), "--seal", "same"]
    done = subprocess.run([*command, "--out", str(out)], env=environment, capture_output=True)
    if done.returncode:
        sys.exit(f"{words}: exit code {done.returncode}: {done.stderr.decode()[-300:].strip()}")
    return time.monotonic() - started


def main() -> int:
    """Make all runs and compare them."""
    rows, differing = [], 0
    with tempfile.TemporaryDirectory() as place, LocalCluster(nodes=NODES) as cluster:
        for name, words in RUNS.items():
            here, there = Path(place, name, "local"), Path(place, name, "ray")
            alone = seconds_of(words, here, os.environ)
            spread = seconds_of(f"{words} --executor ray", there, cluster.environment)
            own, others = record_of(here), record_of(there)
            faults = [part for part in own if own[part] != others.get(part)]
            differing += len(faults)
            counted = str(len(own["evaluations"]))
            verdict = f"differ in {', '.join(faults)}" if faults else "equal"
            rows.append([name, counted, f"{alone:.0f}", f"{spread:.0f}", verdict])
            print(f"{name}: {verdict}", file=sys.stderr, flush=True)
    print(table(["run", "evaluations", "seconds here", "seconds on Ray", "bit for bit"], rows))
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
