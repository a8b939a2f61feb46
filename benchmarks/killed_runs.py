"""Small runs that may be killed: their processes, what they stored, and how it differs.

`kill_campaign.py` kills many of them; tests/core/test_resume.py kills a few.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from se_rl.records.archive import Archive
from se_rl.records.run_folder import RunFolder

RUN = Path(__file__).resolve().parents[1] / "tests" / "core" / "tiny_run.py"
sys.path.append(str(RUN.parent))
TINY = import_module(RUN.stem)
GONE_SECONDS = 10.0
"""How long a process may live after its parent's death."""
Record = dict[str, Any]
"""All that a run has stored, as plain data."""


@dataclass
class Kind:
    """A kind of run: its settings and home, and the record of the one that was left alone.

    `variables` are those of its processes beside the usual ones.
    """

    name: str
    settings: dict[str, Any]
    home: Path
    record: Record = field(default_factory=dict)
    told: int = 1
    executor: str = "local"
    variables: Mapping[str, str] = field(default_factory=dict)

    def moment(self, rng: random.Random) -> tuple[int, float]:
        """When to kill: after so many events, and so many seconds more."""
        return rng.randrange(self.told), rng.random()


class Child:
    """One process of a run in a session of its own; its output goes to files beside the folder."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.folder = folder
        self.log = folder.with_suffix(".log")
        command = [sys.executable, str(RUN), str(folder), json.dumps(kind.settings), kind.executor]
        with self.log.open("a") as said, folder.with_suffix(".err").open("a") as errors:
            self._before = said.tell()
            self.process = subprocess.Popen(
                command,
                stdout=said,
                stderr=errors,
                env=TINY.environment(kind.home) | dict(kind.variables),
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
        """The kinds of events that this very process has reported, after "start"."""
        lines = self.log.read_bytes()[self._before :].decode().split("\n")[:-1]
        return ["start", *(line.split()[0] for line in lines)]

    def kill(self) -> list[int]:
        """Send SIGKILL; return the descendants that outlive it by too much.

        The process is stopped first, so that all of them are known.
        """
        os.kill(self.process.pid, signal.SIGSTOP)
        # Each server begins a session of its own.
        sessions = {self.process.pid, *descendants(self.process.pid)[0]}
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
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        state, parent, _, session = words[:4]
        if state not in "ZX":
            found[int(entry.name)] = int(parent), int(session)
    return found


def descendants(pid: int) -> tuple[list[int], list[int]]:
    """The sandbox servers of a process, which are its children, and their workers."""
    alive = processes()
    servers = [child for child, (parent, _) in alive.items() if parent == pid]
    return servers, [child for child, (parent, _) in alive.items() if parent in servers]


def record_of(folder: Path) -> Record:
    """All that a run has stored, less what no two runs have in common (machines among it).

    Every row and file is checked on the way.
    """
    with Archive.open(RunFolder(folder).archive, read_only=True) as archive:
        evaluations = archive.evaluations()
        rows = [asdict(replace(e, seconds=0.0, attempts=0, origin="")) for e in evaluations]
        record: Record = {
            "events": sorted(event.key for event in archive.events() if event.kind != "node"),
            "candidates": [asdict(c) for c in archive.candidates()],
            "evaluations": sorted(rows, key=_place),
            "adapters": [asdict(a) for a in archive.adapters()],
            "calls": sorted(call.key for call in archive.calls()),
            "test_openings": archive.test_openings(),
        }
        for evaluation in evaluations:
            for sha in (evaluation.arrays, evaluation.policy, evaluation.curve):
                if sha:
                    archive.blob(sha)
    if (folder / "results.json").exists():
        results = json.loads((folder / "results.json").read_text())
        record["results"] = {name: value for name, value in results.items() if name != "times"}
    return record


def _place(row: Record) -> str:
    return "{candidate}/{rung}/{seed}".format(**row)


def acknowledged(log: Path) -> list[tuple[str, bool]]:
    """Evaluations that a run has reported: which, and whether they had just been made."""
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
    """Keys that the archive holds after a kill, and what was there or acknowledged and is gone."""
    told = {which for which, _ in acknowledged(folder.with_suffix(".log"))}
    try:
        own = record_of(folder)
    except Exception as error:
        fresh = not before and not told  # killed before there was an archive, or its tables
        return before, [] if fresh else [f"the archive cannot be read after a kill: {error}"]
    keys, stands = set(own["events"]), {_place(row) for row in own["evaluations"]}
    return keys, [f"{what} is gone" for what in sorted(before - keys) + sorted(told - stands)]
