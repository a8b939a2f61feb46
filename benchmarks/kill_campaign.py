"""Kill small runs at random moments, and see that nothing is lost, nothing is scored twice and the
results are the same.

    python benchmarks/kill_campaign.py --main 300 --workers 200 --jobs 14

First two runs are left alone: one with random designs, one with a small model that writes and
learns. Then runs of both kinds lose their main process (kill -9; the same command goes on in the
same folder) or processes of their sandbox (the main process goes on): so many kills each, `jobs`
runs at a time. Moments and victims are drawn by `seed`: after how much of what a run tells, evenly,
and up to a second later; so they fall everywhere in a run, however busy the machine is. Whatever
differs from the runs left alone is told, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

RUN = Path(__file__).resolve().parents[1] / "tests" / "core" / "tiny_run.py"
sys.path.append(str(RUN.parent))
TINY = import_module(RUN.stem)
GONE_SECONDS, HANGS_SECONDS = 10.0, 1800.0
"""How long a process may live after its parent's death, and a run that nobody kills any more."""
MAIN_KILLS, WORKER_KILLS = 10, 6
"""Per run, at most."""
APART = 3
"""Evaluations that must end between a kill in the sandbox and the next but one: a training is tried
three times, so that two kills cannot make a design fail, and a third shall not meet the same
training."""


@dataclass
class Kind:
    """A kind of run: its settings and home, and once it was left alone, its record and how much it tells."""

    name: str
    settings: dict[str, Any]
    home: Path
    record: dict[str, Any] = field(default_factory=dict)
    told: int = 1

    def moment(self, rng: random.Random) -> tuple[int, float]:
        """When to kill: after so many events, and so many seconds more."""
        return rng.randrange(self.told), rng.random()


@dataclass
class Report:
    """What became of one run: kills by the last thing heard before them, and all that is not as it should be."""

    name: str
    kills: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Budget:
    """Kills that are still to be made, shared by all who kill."""

    def __init__(self, kills: int) -> None:
        self.left, self._lock = kills, threading.Lock()

    def take(self) -> bool:
        """Whether one more may be made."""
        with self._lock:
            self.left -= 1
            return self.left >= 0


class Child:
    """One process of a run, in a session of its own; what it says goes to files beside the folder."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.folder, self.log = folder, folder.with_suffix(".log")
        command = [sys.executable, str(RUN), str(folder), json.dumps(kind.settings)]
        with self.log.open("a") as said, folder.with_suffix(".err").open("a") as errors:
            self._before = said.tell()
            self.process = subprocess.Popen(
                command,
                stdout=said,
                stderr=errors,
                env=TINY.environment(kind.home),
                start_new_session=True,
            )

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended within this time."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def ends_before(self, moment: tuple[int, float]) -> bool:
        """Wait for a moment; whether the process ended first."""
        events, seconds = moment
        while len(self.heard()) <= events:
            if self.wait(0.02):
                return True
        return self.wait(seconds)

    def heard(self) -> list[str]:
        """The kinds of events that this very process has told of, after "start"."""
        lines = self.log.read_bytes()[self._before :].decode().split("\n")[:-1]
        return ["start", *(line.split()[0] for line in lines)]

    def kill(self) -> list[int]:
        """SIGKILL, and who of its descendants outlives it by too much; it is stopped first, to know them all."""
        os.kill(self.process.pid, signal.SIGSTOP)
        sessions = {
            self.process.pid,
            *descendants(self.process.pid)[0],
        }  # each server begins one of its own
        self.process.kill()
        self.wait()
        end = time.monotonic() + GONE_SECONDS
        while left := [pid for pid, (_, session) in processes().items() if session in sessions]:
            if time.monotonic() > end:
                return left
            time.sleep(0.02)
        return []


def processes() -> dict[int, tuple[int, int]]:
    """Parent and session of every process that is not dead already."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent, _, session = (
                    (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                )
            except OSError:  # it has just ended
                continue
            if state not in "ZX":
                found[int(entry.name)] = int(parent), int(session)
    return found


def descendants(pid: int) -> tuple[list[int], list[int]]:
    """Servers of sandboxs, which are a process's children, and their workers."""
    alive = processes()
    servers = [child for child, (parent, _) in alive.items() if parent == pid]
    return servers, [child for child, (parent, _) in alive.items() if parent in servers]


def record_of(folder: Path) -> dict[str, Any]:
    """All that a run has stored, less what no two runs have in common; every row and file is checked on the way."""
    from se_rl.records.archive import Archive

    with Archive.open(folder / "archive.sqlite", read_only=True) as archive:
        evaluations = archive.evaluations()
        record: dict[str, Any] = {
            "events": sorted(event.key for event in archive.events()),
            "candidates": [asdict(c) for c in archive.candidates()],
            "evaluations": sorted(
                (asdict(replace(e, seconds=0.0, attempts=0)) for e in evaluations), key=_place
            ),
            "adapters": [asdict(a) for a in archive.adapters()],
            "calls": sorted(call.key for call in archive.calls()),
            "test_openings": archive.test_openings(),
        }
        for sha in {sha for e in evaluations for sha in (e.arrays, e.policy, e.curve) if sha}:
            archive.blob(sha)
    if (folder / "results.json").exists():
        results = json.loads((folder / "results.json").read_text())
        record["results"] = {name: value for name, value in results.items() if name != "times"}
    return record


def _place(row: dict[str, Any]) -> str:
    return "{candidate}/{rung}/{seed}".format(**row)


def acknowledged(log: Path) -> list[tuple[str, bool]]:
    """Evaluations that processes of a run have told of: which, and whether they had just been made."""
    words = (line.split() for line in log.read_text().split("\n")[:-1])
    return [(which, is_new == "new") for kind, which, is_new in words if kind == "evaluated"]


def differences(folder: Path, kind: Kind) -> list[str]:
    """What a finished run differs in from the one that was left alone, and what it did twice."""
    own = record_of(folder)
    faults = [
        f"{name} not as in the run left alone"
        for name in kind.record
        if own.get(name) != kind.record[name]
    ]
    stands = Counter(_place(row) for row in own["evaluations"])
    made = Counter(which for which, is_new in acknowledged(folder.with_suffix(".log")) if is_new)
    faults += [f"evaluation {which} stands {n} times" for which, n in stands.items() if n > 1]
    return faults + [f"evaluation {which} was made {n} times" for which, n in made.items() if n > 1]


def lost(folder: Path, before: set[str]) -> tuple[set[str], list[str]]:
    """Keys of what stands in the archive after a kill, and what stood or was acknowledged before and is gone."""
    told = {which for which, _ in acknowledged(folder.with_suffix(".log"))}
    try:
        own = record_of(folder)
    except Exception as error:
        fresh = not before and not told  # killed before there was an archive, or its tables
        return before, [] if fresh else [f"the archive cannot be read after a kill: {error}"]
    keys, stands = set(own["events"]), {_place(row) for row in own["evaluations"]}
    return keys, [f"{what} is gone" for what in sorted(before - keys) + sorted(told - stands)]


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
    """A run whose sandbox loses processes, now a worker, now the server, while the main process goes on."""
    report, child, ended = Report(folder.name), Child(folder, kind), list[int]()
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
    """Let a run end by itself and hold it against the one left alone; its folder stays where there are faults."""
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
    """The run that all others are held against."""
    started, child = time.monotonic(), Child(out / f"alone_{kind.name}", kind)
    child.wait()
    if child.process.returncode != 0:
        raise SystemExit(
            f"the run that is left alone failed; see {child.folder.with_suffix('.err')}"
        )
    kind.told, kind.record = len(child.heard()), record_of(child.folder)
    say(
        f"left alone: {kind.name}, {time.monotonic() - started:.0f} s, {len(kind.record['evaluations'])} evaluations"
    )
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


def say(line: str, faults: Sequence[str] = ()) -> None:
    """Tell what is going on."""
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
    for name, usual in {"main": 6, "workers": 4, "jobs": 1, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=usual, metavar="N")
    parser.add_argument("--out", type=Path, help="where the runs go; those with faults stay there")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    options = parser.parse_args()
    out = options.out or Path(tempfile.mkdtemp(prefix="kill-"))
    if out.exists() and any(out.iterdir()):
        parser.error(f"{out} is not empty; give another --out")
    reports = campaign(out, options.main, options.workers, jobs=options.jobs, seed=options.seed)
    rows = [summary(reports, name) for name in ("main", "workers")]
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([*row.values()] for row in rows)]
    table = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
    print(json.dumps(rows, indent=2) if options.json else table)
    return int(any(row["faults"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
