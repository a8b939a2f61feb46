"""How many writes a second an archive takes: SQLite in a file, and PostgreSQL on a server of its own.

    python benchmarks/archive_writes.py

Every write is acknowledged, and by then on the disk. An `evaluation` is a record with its row in
the tables, which is what a search writes most; `with its files` adds the three blobs that come with
it. With `--writers` as many runs write to one server at once; the rate is of all together.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, Candidate, Evaluation, key_of
from se_rl_benchmarks.postgres_server import NoServer, postgres_server

FILE_BYTES = (40_000, 60_000, 4_000)
"""Scores per order, weights and curve of a small training, about."""
SCORES = {"score": 0.5, "static": 1.0, "static_total": 1.25, "dynamic": -0.25}


@dataclass(frozen=True)
class WriteRate:
    """Writes of one kind to one place, and the seconds they took."""

    writes: int
    seconds: float


def write_for(place: str, seconds: float, *, files: bool) -> WriteRate:
    """Store evaluations for so many seconds."""
    rng = np.random.default_rng(0)
    with Archive.open(place) as archive:
        archive.add_candidate(Candidate("root", {}, DEFAULT), {})
        started = time.perf_counter()
        number = 0
        while time.perf_counter() < started + seconds:
            made = Evaluation("root", 0, number, "ok", scores=SCORES, work=1.0, seconds=10.0)
            if files:
                own = place.encode() + number.to_bytes(4)
                names = [archive.put_blob(own + rng.bytes(size)) for size in FILE_BYTES]
                made = replace(made, arrays=names[0], policy=names[1], curve=names[2])
            archive.add_evaluation(made, key=key_of(place, number))
            number += 1
        return WriteRate(number, time.perf_counter() - started)


def rate(places: list[str], seconds: float, *, files: bool) -> float:
    """Evaluations a second of as many processes as places, all together."""
    work = partial(write_for, seconds=seconds, files=files)
    with ProcessPoolExecutor(len(places), mp_context=get_context("spawn")) as pool:
        done = list(pool.map(work, places))
    return sum(one.writes / one.seconds for one in done)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="per figure")
    parser.add_argument("--writers", type=int, default=4, metavar="N")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the disk to write to")
    options = parser.parse_args()
    print("| archive | writers | evaluations/s | with its files/s |")
    print("| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(dir=options.out) as folder:
        for name in ("plain", "files"):
            (Path(folder) / name).mkdir()
        places = [f"{folder}/{name}/archive.sqlite" for name in ("plain", "files")]
        _print_row("SQLite", [[place] for place in places], options.seconds)
    try:
        with postgres_server(durable=True, parent=options.out) as url:
            for writers in dict.fromkeys((1, options.writers)):
                runs = [
                    [f"{url}&run={kind}-{writers}-{number}" for number in range(writers)]
                    for kind in ("plain", "files")
                ]
                _print_row("PostgreSQL", runs, options.seconds)
    except NoServer as why:
        print(f"PostgreSQL was not measured: {why}", file=sys.stderr)
    return 0


def _print_row(name: str, places: list[list[str]], seconds: float) -> None:
    plain, with_files = places
    rates = [rate(plain, seconds, files=False), rate(with_files, seconds, files=True)]
    print(f"| {name} | {len(plain)} | {rates[0]:,.0f} | {rates[1]:,.0f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
