"""Searches that share one PostgreSQL archive are killed at random moments: is anything lost or made
twice?

    python benchmarks/shared_kills.py --kills 100

A small search of each of two seeds is left alone first, with an archive of its own. Then rounds of
four, two of each seed, run at once on one database of a server of their own; their main processes
are killed (kill -9; the same command resumes) until all kills are made. Each search must end with
the records and results of the one left alone, and every evaluation must have been made by one
search only: the others take it. Whatever differs is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from se_rl.records.archive import Archive
from se_rl.records.postgres import VARIABLE
from se_rl.records.shared_tables import SHARED_EVALUATION
from se_rl_benchmarks.kill_campaign import Budget, Report, kill_main, leave_alone, say
from se_rl_benchmarks.killed_runs import TINY, Kind
from se_rl_benchmarks.postgres_server import postgres_server

SEARCHES = 4


@dataclass
class Round:
    """Searches on one database: what became of them, and how many evaluations were made and had."""

    reports: list[Report]
    had: int
    made: int
    double: int

    @property
    def kills(self) -> int:
        """Kills of this round."""
        return sum(report.kills.total() for report in self.reports)


def shared_round(kinds: Sequence[Kind], out: Path, budget: Budget, *, seed: str) -> Round:
    """Four searches at once on a new database, killed while the budget lasts."""
    with postgres_server() as url, ThreadPoolExecutor(SEARCHES) as pool:
        os.environ[VARIABLE] = url
        running = []
        own = [kinds[number % len(kinds)] for number in range(SEARCHES)]
        for number, kind in enumerate(own):
            rng = random.Random(f"{seed} {number}")
            folder = out / f"{seed}_{number}"
            running.append(pool.submit(kill_main, folder, kind, budget=budget, rng=rng))
        reports = [one.result() for one in running]
        made = _made(url)
    had = sum(len(kind.record["evaluations"]) for kind in own)
    return Round(reports, had, made.total(), sum(times - 1 for times in made.values()))


def _made(url: str) -> Counter[str]:
    """How many searches have made each evaluation of a database."""
    with (
        Archive.open(f"{url}&run=onlooker") as onlooker,
        onlooker._transaction() as connection,
    ):
        return Counter(row.key for row in connection.execute(SHARED_EVALUATION.select()))


def campaign(out: Path, kills: int, *, seed: int) -> list[Round]:
    """Rounds until all kills are made."""
    TINY.make_data(out / "home")
    kinds = []
    for number in (0, 1):
        kind = Kind(f"seed{number}", {"seed": number}, out / "home")
        kinds.append(leave_alone(kind, out))
    budget = Budget(kills)
    rounds: list[Round] = []
    while budget.left > 0:
        done = shared_round(kinds, out, budget, seed=f"{seed}_{len(rounds)}")
        rounds.append(done)
        faults = [fault for report in done.reports for fault in report.faults]
        shared = f"{done.made} evaluations made, {done.had - done.made} of {done.had} shared"
        say(f"round {len(rounds)}: {done.kills} kills, {shared}, {done.double} double", faults)
    return rounds


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=8, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--out", type=Path, help="where the runs go; those with faults stay there")
    options = parser.parse_args()
    out = options.out or Path(tempfile.mkdtemp(prefix="shared-kills-"))
    os.environ.pop(VARIABLE, None)
    rounds = campaign(out, options.kills, seed=options.seed)
    faults = sum(len(report.faults) for done in rounds for report in done.reports)
    double = sum(done.double for done in rounds)
    had, made = sum(done.had for done in rounds), sum(done.made for done in rounds)
    print("| searches | kills | faults | evaluations | made | shared | made twice |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    row = (SEARCHES * len(rounds), sum(done.kills for done in rounds), faults, had, made)
    print("| " + " | ".join(map(str, (*row, had - made, double))) + " |")
    return int(faults + double > 0)


if __name__ == "__main__":
    sys.exit(main())
