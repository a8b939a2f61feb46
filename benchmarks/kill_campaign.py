"""Kills small runs at random moments and checks that nothing is lost or scored twice.

    python benchmarks/kill_campaign.py --main 300 --workers 200 --jobs 14
    python benchmarks/kill_campaign.py --main 0 --workers 0 --cluster 60

Two runs are left alone first: one with random designs, one with a small model that writes and
learns. Then runs of both kinds lose their main process (kill -9; the same command resumes in the
same folder) or processes of their sandbox (the main process goes on): so many kills each, `jobs`
runs at a time. Moments and victims are drawn by `seed`: after how much of what a run reports,
evenly, and up to a second later; so they fall everywhere in a run, however busy the machine is.
With `--cluster` runs on three nodes of a Ray cluster lose workers, nodes and their main process.
Whatever differs from the runs left alone is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from se_rl_benchmarks.killed_cluster import NODES, kill_on_cluster
from se_rl_benchmarks.killed_runs import (
    TINY,
    Child,
    Kind,
    descendants,
    differences,
    lost,
    record_of,
)
from se_rl_benchmarks.local_cluster import LocalCluster

SMALLER = {"seeds": (1, 1, 1), "iterations": 1, "siblings": 3, "worlds": "static"}
"""Settings of the runs on a cluster."""
HANGS_SECONDS = 1800.0
"""How long a run may take that nobody kills any more."""
MAIN_KILLS = 10
WORKER_KILLS = 6
"""Per run, at most."""
APART = 3
"""Evaluations that must end between a kill in the sandbox and the next but one.

A training is tried three times, so that two kills cannot make a design fail; a third must not meet
the same training.
"""


@dataclass
class Report:
    """What became of one run: kills by the last event before them, and everything that is wrong."""

    name: str
    kills: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Budget:
    """Kills that are still to be made, shared by all who kill."""

    def __init__(self, kills: int) -> None:
        self.left = kills
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Whether one more may be made."""
        with self._lock:
            self.left -= 1
            return self.left >= 0


def kill_main(folder: Path, kind: Kind, *, budget: Budget, rng: random.Random) -> Report:
    """A run that loses its main process again and again, until it is let go on to its end."""
    report, keys = Report(folder.name), set[str]()
    for _ in range(MAIN_KILLS):
        child = Child(folder, kind)
        if child.ends_before(kind.moment(rng)) or not budget.take():
            return finish(report, child, kind)
        report.kills[child.heard()[-1]] += 1
        report.faults += [f"process {pid} outlived the run" for pid in child.kill()]
        keys, faults = lost(folder, keys)
        report.faults += faults
    return finish(report, Child(folder, kind), kind)


def kill_workers(folder: Path, kind: Kind, *, budget: Budget, rng: random.Random) -> Report:
    """A run whose sandbox loses workers or servers again and again; the main process goes on."""
    report = Report(folder.name)
    child = Child(folder, kind)
    ended: list[int] = []
    for moment in sorted(kind.moment(rng) for _ in range(WORKER_KILLS)):
        child.ends_before(moment)
        victims = rng.choice([0, 1, 1])
        while not child.wait(0.02):
            told = child.heard().count("evaluated")
            if ended[1:] and told < ended[-2] + APART:
                continue
            if chosen := descendants(child.process.pid)[victims]:
                if budget.take():
                    ended.append(told)
                    os.kill(rng.choice(chosen), signal.SIGKILL)
                    report.kills[f"{('server', 'worker')[victims]} after {child.heard()[-1]}"] += 1
                break
    return finish(report, child, kind)


def finish(report: Report, child: Child, kind: Kind) -> Report:
    """Let a run end by itself and compare it with the one left alone.

    Its folder stays where there are faults.
    """
    if not child.wait(HANGS_SECONDS):
        child.kill()
    if child.process.returncode != 0:
        said = child.folder.with_suffix(".err").read_text().strip().split("\n")[-1]
        report.faults.append(f"exit code {child.process.returncode}: {said}")
        return report
    report.faults += differences(child.folder, kind)
    report.faults += [f"{path.name} was left half written" for path in child.folder.rglob(".*")]
    if not report.faults:
        shutil.rmtree(child.folder)
    return report


def leave_alone(kind: Kind, out: Path) -> Kind:
    """The run that all others are compared with."""
    started = time.monotonic()
    child = Child(out / f"alone_{kind.name}", kind)
    child.wait()
    if child.process.returncode != 0:
        raise SystemExit(
            f"the run that is left alone failed; see {child.folder.with_suffix('.err')}"
        )
    kind.told = len(child.heard())
    kind.record = record_of(child.folder)
    evaluations = len(kind.record["evaluations"])
    seconds = time.monotonic() - started
    say(f"left alone: {kind.name}, {seconds:.0f} s, {evaluations} evaluations")
    return kind


def campaign(out: Path, main: int, workers: int, *, jobs: int, seed: int) -> list[Report]:
    """All runs, `jobs` at a time, until the kills are made."""
    TINY.make_data(out / "home")
    settings = {"random": {}, "model": TINY.make_model(out / "model")}
    kinds = [leave_alone(Kind(name, one, out / "home"), out) for name, one in settings.items()]
    reports: list[Report] = []

    def go_on(what: Any, budget: Budget, numbers: Any) -> None:
        while budget.left > 0:
            number = next(numbers)
            kind, name = kinds[number % 2], f"{what.__name__}_{number}"
            done = what(
                out / f"{name}_{kind.name}",
                kind,
                budget=budget,
                rng=random.Random(f"{seed} {name}"),
            )
            reports.append(done)
            say(
                f"{done.name}: {done.kills.total()} kills, {max(0, budget.left)} to go", done.faults
            )

    for what, kills in ((kill_main, main), (kill_workers, workers)):
        budget, numbers = Budget(kills), count()
        with ThreadPoolExecutor(jobs) as pool:
            for ended in [pool.submit(go_on, what, budget, numbers) for _ in range(jobs)]:
                ended.result()
    return reports


def cluster_campaign(out: Path, kills: int, *, seed: int) -> list[Report]:
    """Runs on a cluster, one after the other, until the kills are made."""
    TINY.make_data(out / "home")
    alone = leave_alone(Kind("small", SMALLER, out / "home"), out)
    reports: list[Report] = []
    with LocalCluster(nodes=NODES) as cluster:
        kind = replace(alone, executor="ray", variables=cluster.environment)
        while kills > 0:
            name = f"kill_cluster_{len(reports)}"
            rng = random.Random(f"{seed} {name}")
            run = kill_on_cluster(out / name, kind, cluster, most=kills, rng=rng)
            run.go_on(HANGS_SECONDS)
            done = finish(Report(name, run.kills, run.faults), run.child, kind)
            reports.append(done)
            kills -= done.kills.total()
            say(f"{name}: {done.kills.total()} kills, {kills} to go", done.faults)
    return reports


def say(line: str, faults: Sequence[str] = ()) -> None:
    """Print what is going on."""
    print(
        "\n".join([line, *(f"  FAULT: {fault}" for fault in faults)]), file=sys.stderr, flush=True
    )


def summary(reports: Sequence[Report], name: str) -> dict[str, Any]:
    """The row of one kind of kill."""
    own = [report for report in reports if report.name.startswith(f"kill_{name}_")]
    kills = sum((report.kills for report in own), Counter[str]())
    counts = {
        "kills": kills.total(),
        "runs": len(own),
        "faults": sum(len(report.faults) for report in own),
    }
    return {
        "killed": name,
        **counts,
        "last heard": ", ".join(f"{what} {n}" for what, n in kills.most_common()),
    }


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, usual in {"main": 6, "workers": 4, "cluster": 0, "jobs": 1, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=usual, metavar="N")
    parser.add_argument("--out", type=Path, help="where the runs go; those with faults stay there")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    options = parser.parse_args()
    out = options.out or Path(tempfile.mkdtemp(prefix="kill-"))
    if out.exists() and any(out.iterdir()):
        parser.error(f"{out} is not empty; give another --out")
    reports: list[Report] = []
    if options.main or options.workers:
        reports += campaign(
            out, options.main, options.workers, jobs=options.jobs, seed=options.seed
        )
    if options.cluster:
        reports += cluster_campaign(out / "cluster", options.cluster, seed=options.seed)
    rows = [summary(reports, name) for name in ("main", "workers", "cluster")]
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([*row.values()] for row in rows)]
    table = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
    print(json.dumps(rows, indent=2) if options.json else table)
    return int(any(row["faults"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
