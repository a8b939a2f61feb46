"""Kill small runs at random moments, and see that nothing is lost, nothing is scored twice and the results are the same.

    python benchmarks/kill_campaign.py --main 300 --workers 200 --jobs 14

First two runs are left alone: one with random designs, one with a small model that writes and learns. Then runs of both
kinds lose their main process (kill -9; the same command goes on in the same folder) or processes of their locked room (the
main process goes on). Whatever differs from the runs left alone is told, and the exit code is 1.
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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RUN = Path(__file__).resolve().parents[1] / "tests" / "core" / "tiny_run.py"
GONE_SECONDS = 10.0
"""How long after its parent's death a process may live."""
WORKER_KILLS = 2
"""Per run: a training is tried three times, so that no two kills can make a design fail."""
VARIES = ("seconds", "attempts")
"""What two trainings of the same design may differ in."""


@dataclass
class Kind:
    """A kind of run: its settings, and once it was left alone, its record and how long it took."""

    name: str
    settings: dict[str, Any]
    record: dict[str, Any] = field(default_factory=dict)
    life_seconds: float = 60.0


@dataclass
class Report:
    """What became of one run: kills by the last thing heard before them, and all that is not as it should be."""

    name: str
    kills: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    starts: int = 0
    left_files: int = 0


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
    """One process of a run, in a session of its own; what it says goes to a file beside the folder."""

    def __init__(self, folder: Path, kind: Kind, home: Path) -> None:
        sys.path.append(str(RUN.parent))
        from tiny_run import environment

        self.log, self.errors = (folder.with_suffix(end).open("a") for end in (".log", ".err"))
        self.said_before = folder.with_suffix(".log").stat().st_size
        command = [sys.executable, str(RUN), str(folder), json.dumps(kind.settings)]
        self.process = subprocess.Popen(
            command, stdout=self.log, stderr=self.errors, env=environment(home), start_new_session=True
        )

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended within this time."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        self.log.close()
        self.errors.close()
        return True

    def heard(self) -> str:
        """The last thing that this very process said."""
        with Path(self.log.name).open() as said:
            said.seek(self.said_before)
            lines = said.read().split("\n")[:-1]
        return lines[-1].split()[0] if lines else "nothing yet"

    def kill(self) -> list[int]:
        """SIGKILL, and those of its descendants that outlive it by too much; it is stopped first, to know them all."""
        os.kill(self.process.pid, signal.SIGSTOP)
        sessions = {self.process.pid, *descendants(self.process.pid)}
        self.process.kill()
        self.wait()
        return outliving(sessions)


def processes() -> dict[int, tuple[int, int]]:
    """Parent and session of every process that is not dead already."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:  # it has just ended
                continue
            if state not in "ZX":
                found[int(entry.name)] = int(parent), int(session)
    return found


def descendants(pid: int) -> list[int]:
    """Children of a process, and theirs, the eldest generation first."""
    alive, line = processes(), [pid]
    for elder in line:
        line += [child for child, (parent, _) in alive.items() if parent == elder]
    return line[1:]


def outliving(sessions: set[int]) -> list[int]:
    """Processes of these sessions that are still there after a while."""
    end = time.monotonic() + GONE_SECONDS
    while left := [pid for pid, (_, session) in processes().items() if session in sessions]:
        if time.monotonic() > end:
            return left
        time.sleep(0.02)
    return []


def record_of(folder: Path) -> dict[str, Any]:
    """All that a run has stored, less what no two runs have in common; reading checks every row and file."""
    from se_rl.records.archive import Archive

    with Archive.open(folder / "archive.sqlite", read_only=True) as archive:
        evaluations = archive.evaluations()
        record = {
            "events": sorted(event.key for event in archive.events()),
            "candidates": [asdict(c) for c in archive.candidates()],
            "evaluations": sorted((_plain(e) for e in evaluations), key=_place),
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


def _plain(evaluation: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(evaluation).items() if name not in VARIES}


def _place(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["candidate"], row["rung"], row["seed"]


def acknowledged(log: Path) -> Iterator[tuple[str, str]]:
    """Evaluations that processes of a run have told of: which, and whether they were new."""
    for line in log.read_text().split("\n")[:-1]:
        kind, which, is_new = line.split()
        if kind == "evaluated":
            yield which, is_new


def differences(folder: Path, kind: Kind) -> list[str]:
    """What a finished run differs in from the one that was left alone."""
    own, faults = record_of(folder), []
    for name, expected in kind.record.items():
        if own.get(name) != expected:
            faults.append(f"{name} differ from the run that was left alone")
    places = Counter(_place(row) for row in own["evaluations"])
    faults += [f"evaluation {place} stands {n} times" for place, n in places.items() if n > 1]
    new = Counter(which for which, is_new in acknowledged(folder.with_suffix(".log")) if is_new == "new")
    return faults + [f"evaluation {which} was made {n} times" for which, n in new.items() if n > 1]


def lost(folder: Path, before: set[str]) -> tuple[set[str], list[str]]:
    """Keys of what stands in the archive after a kill, and what was there or acknowledged before and is not now."""
    if not (folder / "archive.sqlite").exists():
        return set(), [f"{len(before)} events are gone"] if before else []
    try:
        own = record_of(folder)
    except Exception as error:
        if not before and "no archive of se-rl" in str(error):  # killed before its tables were made
            return set(), []
        return before, [f"the archive cannot be read after a kill: {error}"]
    stands = {"/".join(map(str, _place(row))) for row in own["evaluations"]}
    told = {which for which, _ in acknowledged(folder.with_suffix(".log"))}
    keys = set(own["events"])
    return keys, [f"{what} is gone" for what in sorted(before - keys) + sorted(told - stands)]


def kill_main(folder: Path, kind: Kind, home: Path, *, budget: Budget, rng: random.Random) -> Report:
    """A run that loses its main process again and again until it is done, or no kills are left."""
    report, keys = Report(folder.name), set[str]()
    while True:
        report.starts += 1
        child = Child(folder, kind, home)
        if child.wait(rng.uniform(0.0, kind.life_seconds)) or not budget.take():
            child.wait()
            return finish(report, child, folder, kind)
        report.kills[child.heard()] += 1
        report.faults += [f"process {pid} outlived the run" for pid in child.kill()]
        keys, faults = lost(folder, keys)
        report.faults += faults


def kill_workers(folder: Path, kind: Kind, home: Path, *, budget: Budget, rng: random.Random) -> Report:
    """A run whose locked room loses processes, now a worker, now the server, while the main process goes on."""
    report, child = Report(folder.name, starts=1), Child(folder, kind, home)
    moments = sorted(rng.uniform(0.0, kind.life_seconds) for _ in range(WORKER_KILLS))
    started = time.monotonic()
    for moment in moments:
        if child.wait(max(0.0, started + moment - time.monotonic())):
            break
        is_server = rng.random() < 1 / 3
        while not child.wait(0.005):
            if chosen := _of_room(child.process.pid, is_server):
                if budget.take():
                    os.kill(rng.choice(chosen), signal.SIGKILL)
                    report.kills[f"{'server' if is_server else 'worker'}, {child.heard()}"] += 1
                break
    child.wait()
    return finish(report, child, folder, kind)


def _of_room(pid: int, is_server: bool) -> list[int]:
    alive = processes()
    servers = [child for child, (parent, _) in alive.items() if parent == pid]
    return servers if is_server else [child for child, (parent, _) in alive.items() if parent in servers]


def finish(report: Report, child: Child, folder: Path, kind: Kind) -> Report:
    """Hold a run that ended by itself against the one that was left alone; its folder goes unless there are faults."""
    if child.process.returncode != 0:
        said = folder.with_suffix(".err").read_text().strip().split("\n")[-1]
        report.faults.append(f"exit code {child.process.returncode}: {said}")
    else:
        report.faults += differences(folder, kind)
        report.left_files = sum(path.name.startswith(".") for path in folder.rglob("*"))
    if not report.faults:
        shutil.rmtree(folder)
    return report


def leave_alone(kind: Kind, out: Path) -> None:
    """The run that all others are held against."""
    folder, started = out / f"alone_{kind.name}", time.monotonic()
    child = Child(folder, kind, out / "home")
    child.wait()
    if child.process.returncode != 0:
        raise SystemExit(f"the run that is left alone failed; see {folder.with_suffix('.err')}")
    kind.life_seconds, kind.record = time.monotonic() - started, record_of(folder)


def campaign(out: Path, main: int, workers: int, *, jobs: int, seed: int) -> list[Report]:
    """All runs, `jobs` at a time, until the kills are made."""
    sys.path.append(str(RUN.parent))
    from tiny_run import make_data, make_model

    make_data(out / "home")
    kinds = [Kind("random", {}), Kind("model", make_model(out / "model"))]
    for kind in kinds:
        leave_alone(kind, out)
        say(f"left alone: {kind.name}, {kind.life_seconds:.0f} s, {len(kind.record['evaluations'])} evaluations")
    reports: list[Report] = []
    with ThreadPoolExecutor(jobs) as pool:
        for what, kills in ((kill_main, main), (kill_workers, workers)):
            budget, number = Budget(kills), 0
            while budget.left > 0:
                batch = []
                for _ in range(jobs):
                    number, kind, rng = number + 1, kinds[number % 2], random.Random(f"{seed} {what.__name__} {number}")
                    folder = out / f"{what.__name__}_{number}_{kind.name}"
                    batch.append(pool.submit(what, folder, kind, out / "home", budget=budget, rng=rng))
                for done in as_completed(batch):
                    reports.append(done.result())
                    say(
                        f"{reports[-1].name}: {reports[-1].kills.total()} kills, {max(0, budget.left)} to go",
                        reports[-1].faults,
                    )
    return reports


def say(line: str, faults: Sequence[str] = ()) -> None:
    """Tell what is going on."""
    print("\n".join([line, *(f"  FAULT: {fault}" for fault in faults)]), file=sys.stderr, flush=True)


def summary(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """A row per kind of kill."""
    rows = []
    for name in ("kill_main", "kill_workers"):
        own = [report for report in reports if report.name.startswith(name)]
        kills = sum((report.kills for report in own), Counter[str]())
        rows.append({
            "killed": name.removeprefix("kill_"), "kills": kills.total(), "runs": len(own),
            "starts": sum(report.starts for report in own), "faults": sum(len(report.faults) for report in own),
            "unfinished files": sum(report.left_files for report in own), "last heard": dict(kills.most_common()),
        })  # fmt: skip
    return rows


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--main", type=int, default=6, help="kills of main processes")
    parser.add_argument("--workers", type=int, default=4, help="kills in locked rooms")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and the victims")
    parser.add_argument("--out", type=Path, help="where the runs go; those with faults stay there")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    options = parser.parse_args()
    out = options.out or Path(tempfile.mkdtemp(prefix="kill-"))
    out.mkdir(parents=True, exist_ok=True)
    rows = summary(campaign(out, options.main, options.workers, jobs=options.jobs, seed=options.seed))
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        names = [name for name in rows[0] if name != "last heard"]
        print(
            "\n".join(
                "| " + " | ".join(map(str, row)) + " |" for row in [names, *([r[n] for n in names] for r in rows)]
            )
        )
        print(*(f"{row['killed']}: {row['last heard']}" for row in rows), sep="\n")
    return int(any(row["faults"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
