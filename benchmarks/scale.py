"""Searches on up to 10,000 workers, in virtual time: how busy they are, and what holds them up.

    python benchmarks/scale.py [--cost docs/results/executor_cost.json] [--out docs/results]

The preset `paper` is simulated as it runs: designs are written and checked one after the other, the
main process hands out and takes in evaluations, the archive stores them, a batch ends with its last
training, its best race, and the next batch begins. What an evaluation takes of the main process, and
a design to be checked, is what `executor_cost.py` measured; the archive's time is measured here.
Seconds per work unit and per written design are those of `se-rl run --dry-run`; how much trainings
differ (`VARIATION`) and how often a worker is lost (`HOURS_TO_LOSS`) is assumed. Plans: one search
with the preset's batches; one whose batches fill the cluster; that, with the next batch written
while this one races; a search of the preset's batches for every `WORKERS_EACH` workers, all of them
on one archive.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from se_rl.core.plan import SECONDS_PER_DESIGN, SECONDS_PER_WORK
from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, Candidate, Evaluation
from se_rl.records.files import to_json, write_text
from se_rl.records.settings import preset
from se_rl_benchmarks.markdown_tables import number, table
from se_rl_benchmarks.virtual_time import Clock, Server, Then, when_all

PRESET = "paper"
WORKERS = (2, 16, 100, 1_000, 10_000)
WORKERS_EACH = 16
"""Of one of many searches."""
ITERATIONS = 4
VARIATION = 0.3
"""Standard deviation of trainings' times over their mean."""
HOURS_TO_LOSS = 100.0
WRITES = 300
BLOB_BYTES = 20_000
"""Stored files of an evaluation: scores, weights and curve."""
BUSY = 0.8
"""A server that is busy for this share of the time holds the others up."""
WRITING, CHECKING, HANDING, STORING = (
    "writing designs",
    "checking designs",
    "main process",
    "archive",
)
TRAINING = "training"
SERIAL = (WRITING, CHECKING, HANDING)


@dataclass(frozen=True)
class ServiceTimes:
    """Seconds: a work unit of training with its scoring, and what one design or evaluation takes."""

    work_unit: float
    variation: float
    writing: float
    checking: float
    handing: float
    storing: float


@dataclass(frozen=True)
class SearchPlan:
    """Searches of equal size; `writes_ahead`: the next batch is written while this one races."""

    name: str
    workers: int
    searches: int
    batch: int
    promoted: int
    writes_ahead: bool = False


@dataclass(frozen=True)
class PlanOutcome:
    """How busy workers and servers were, and what held the workers up."""

    plan: str
    workers: int
    searches: int
    designs_each: int
    evaluations_per_second: float
    workers_busy: float
    designer_busy: float
    main_busy: float
    archive_busy: float
    first_bottleneck: str


class SimulatedSearch:
    """One search with a main process of its own; workers and archive are shared."""

    def __init__(
        self, plan: SearchPlan, times: ServiceTimes, clock: Clock, seed: int, shared: SharedServers
    ) -> None:
        self.plan, self.times, self.shared = plan, times, shared
        self.main = Server(clock)
        self._rungs = preset(PRESET).rungs
        self._rng = np.random.default_rng(seed)
        self._iterations = 0
        self._written = self._raced = True
        self._write(self._screen)

    def _write(self, then: Then) -> None:
        """Write and check the designs of a batch, one after the other."""
        ended = when_all(self.plan.batch, then)
        for _ in range(self.plan.batch):
            self.main.serve(WRITING, self.times.writing, lambda: None)
            self.main.serve(CHECKING, self.times.checking, ended)

    def _screen(self) -> None:
        self._iterations += 1
        self._train(self.plan.batch * self._rungs.screen.seeds, self._race)

    def _race(self) -> None:
        goes_on = self._iterations < ITERATIONS
        races = self.plan.promoted * self._rungs.search.seeds
        if goes_on and self.plan.writes_ahead:
            both = when_all(2, self._screen)
            self._train(races, both)
            self._write(both)
        else:
            self._train(races, (lambda: self._write(self._screen)) if goes_on else lambda: None)

    def _train(self, trainings: int, then: Then) -> None:
        ended = when_all(trainings, then)
        for _ in range(trainings):
            self.main.serve(HANDING, self.times.handing / 2, lambda: self._on_a_worker(ended))

    def _on_a_worker(self, ended: Then) -> None:
        """A training on the next free worker; one that is lost is made again."""
        spread = np.log1p(self.times.variation**2)
        mean = self.times.work_unit * self._rungs.screen.work
        seconds = mean * self._rng.lognormal(-spread / 2, np.sqrt(spread))
        lost = self._rng.random() < seconds / (3600.0 * HOURS_TO_LOSS)
        then = (lambda: self._on_a_worker(ended)) if lost else (lambda: self._take_in(ended))
        self.shared.workers.serve("lost" if lost else TRAINING, seconds, then)

    def _take_in(self, ended: Then) -> None:
        store = lambda: self.shared.archive.serve(STORING, self.times.storing, ended)  # noqa: E731
        self.main.serve(HANDING, self.times.handing / 2, store)


@dataclass(frozen=True)
class SharedServers:
    """What all searches share."""

    workers: Server
    archive: Server


def simulate(plan: SearchPlan, times: ServiceTimes) -> PlanOutcome:
    """All searches of a plan from their first design to the end of their last race."""
    clock = Clock()
    shared = SharedServers(Server(clock, plan.workers), Server(clock))
    searches = []
    for seed in range(plan.searches):
        searches.append(SimulatedSearch(plan, times, clock, seed, shared))
    clock.run()
    shares = {STORING: shared.archive.share()}
    for kind in SERIAL:
        shares[kind] = float(np.mean([one.main.share(kind) for one in searches]))
    serial = sum(shares[kind] for kind in SERIAL)
    slowest = max(shares, key=lambda kind: shares[kind])
    first = "ends of batches"
    if max(serial, shares[STORING]) > BUSY:
        first = slowest
    elif shared.workers.share(TRAINING) > BUSY:
        first = "workers (as it should be)"
    elif serial > 1.0 - BUSY:
        first = f"ends of batches and {slowest}"
    return PlanOutcome(
        plan.name,
        plan.workers,
        plan.searches,
        plan.batch,
        shared.workers.spent[TRAINING] / (times.work_unit * preset(PRESET).work) / clock.now,
        shared.workers.share(TRAINING),
        shares[WRITING],
        shares[CHECKING] + shares[HANDING],
        shares[STORING],
        first,
    )


def plans(workers: int) -> list[SearchPlan]:
    """What may be done with so many workers."""
    config = preset(PRESET)
    usual = config.parents * config.siblings
    one = SearchPlan("usual batches", workers, 1, usual, config.promoted)
    seeds = config.rungs.screen.seeds
    wide = max(usual, workers // seeds)
    filled = replace(one, name="full batches", batch=wide, promoted=max(2, wide // 4))
    ahead = replace(filled, name="full batches, written ahead", writes_ahead=True)
    each = max(usual, WORKERS_EACH // seeds)
    many = replace(
        ahead,
        name="many searches",
        searches=max(1, workers // WORKERS_EACH),
        batch=each,
        promoted=each // 4,
    )
    return [one, filled, ahead, many] if workers > WORKERS_EACH else [one, filled, ahead]


def archive_seconds() -> float:
    """What one evaluation takes in an archive of this machine: three files and its row."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with Archive.open(place / "archive.sqlite", blobs=place / "blobs") as archive:
            archive.add_candidate(Candidate("design", {}, DEFAULT), {})
            started = time.monotonic()
            for seed in range(WRITES):
                scores, policy, curve = (archive.put_blob(rng.bytes(BLOB_BYTES)) for _ in "123")
                row = Evaluation("design", 0, seed, "ok", arrays=scores, policy=policy, curve=curve)
                archive.add_evaluation(row, key=f"{seed:032d}")
            return (time.monotonic() - started) / WRITES


def service_times(cost: Path) -> ServiceTimes:
    """The times of the module's docstring."""
    rows = json.loads(cost.read_text())["executors"]
    ray = next(row for row in rows if row["executor"] == "ray")
    return ServiceTimes(
        SECONDS_PER_WORK,
        VARIATION,
        SECONDS_PER_DESIGN,
        ray["validation_seconds"],
        ray["main_seconds"],
        archive_seconds(),
    )


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cost", type=Path, default=Path("docs/results/executor_cost.json"))
    parser.add_argument("--out", type=Path, help="where scale.json goes")
    options = parser.parse_args()
    times = service_times(options.cost)
    found = []
    for workers in WORKERS:
        found += [simulate(plan, times) for plan in plans(workers)]
    if options.out:
        rows = [asdict(one) for one in found]
        write_text(options.out / "scale.json", to_json({"times": asdict(times), "plans": rows}))
    print(f"archive writes a second: {1.0 / times.storing:.0f}; seconds: {times}\n")
    head = [name.replace("_", " ") for name in asdict(found[0])]
    print(table(head, [[_cell(value) for value in asdict(one).values()] for one in found]))
    return 0


def _cell(value: object) -> str:
    return number(value, 3) if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
