"""A bank of designs: hundreds of them trained at the search's rung, many also longer, shorter and again.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/design_bank.py --out FILE.jsonl
        [--resume FILE.jsonl] [--accepted champions.jsonl] [--seconds 540] [--designs 640]
        [--preset quick] [--workers 16]
    python benchmarks/design_bank.py --grow 300 --out FILE.jsonl [--resume FILE.jsonl]
    python benchmarks/design_bank.py --pack FILE.jsonl

Designs are edits of the default at distance 1 to 6, edits of the combination that most searches end
at, random ones, champions of searches, and chains of accepted edits. All are trained with seed 0,
single edits also at the last rung with seeds 2 and 4; a third of all designs in every way: with
seed 1, at the last rung twice, and for a third of the work with seed 3, so that no two readings of
a design share a seed. That third is in turn two single edits, the best so far, and one in no order.
Each is scored and held against the default of the same seed on the same orders. One line a training
is written when it is done; `--resume` goes on with what a file lacks, raw lines or a packed bank (.parquet),
and copies the rest to `--out`.
`--grow` adds so many designs near today's default to the package's bank, every one of them held
against the bank's own default, trained anew. `--pack` makes the package's own bank of such a file,
and its page in docs/results.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TextIO

import numpy as np

from se_rl.modules.design_bank.readings import BankHead, BankLine, PlannedDesign
from se_rl.modules.design_bank.storage import BANK_FILE, load_bank, read_bank, write_bank
from se_rl.modules.kinds import KINDS
from se_rl.records.settings import RunConfig, preset
from se_rl.scoring.score import ScoreRule, Scores
from se_rl_benchmarks.bank_figures import bank_figures
from se_rl_benchmarks.bank_lines import INCOMPARABLE, bank_score, line_text, read_lines, write_lines
from se_rl_benchmarks.bank_page import write_page
from se_rl_benchmarks.bank_plan import (
    DEFAULT_DESIGN,
    Chains,
    accepted,
    chain_designs,
    near_today,
    planned,
)
from se_rl_benchmarks.many_trainings import Job, Outcome, Workshop, run_jobs
from se_rl_benchmarks.search_results import champions_of

CHAINS = 16
"""Chains of accepted edits side by side."""
EVERY = 3
"""Of so many designs one is trained in every way."""


@dataclass(frozen=True)
class Way:
    """One way to train a design: where it is scored, for how much of the work, with which seed."""

    rung: int
    times: float
    seed: int


SEARCH = Way(1, 1.0, 0)
LAST = Way(2, 3.0, 2)
OTHERS = (Way(1, 1.0, 1), LAST, Way(1, 1.0 / 3.0, 3))
"""A second seed, the last rung, and a short screen."""
LAST_AGAIN = Way(2, 3.0, 4)


class Bank:
    """What is trained and what is still to do; `file` gets a line for each training.

    `base` is the default that all designs are held against, where it is no longer today's: its
    modules that have changed since.
    """

    def __init__(
        self,
        workshop: Workshop,
        lines: Sequence[BankLine],
        file: TextIO,
        *,
        designs: int,
        champions: Iterable[PlannedDesign] = (),
        base: Mapping[str, str] | None = None,
    ) -> None:
        config = workshop.config
        self.base = base or {}
        self.work = config.work
        self.rule = ScoreRule.of(config)
        self.cells = workshop.cells
        self.steps = chain_designs(designs)
        known = {line.design.id: line.design for line in lines}
        for one in champions:
            known.setdefault(one.id, one)
        self.planned = planned(config.modules, designs, seed=0, known=known.values())
        self.chains = Chains(config.modules, CHAINS, known=[one.id for one in self.planned])
        self.designs = {DEFAULT_DESIGN.id: DEFAULT_DESIGN}
        self.done: dict[tuple[str, int], BankLine] = {}
        self._file = file
        self._defaults: dict[int, Scores] = {}
        self._waiting: list[Outcome] = []
        for line in lines:
            self._book(line)

    def jobs(self) -> Iterator[Job]:
        """What is to be trained, by importance; chains depend on what was kept before."""
        for way in (
            SEARCH,
            *OTHERS,
            LAST_AGAIN,
        ):  # in every call: all others are held against its orders
            yield self._job(DEFAULT_DESIGN, way)
        single = [design for design in self.planned if design.kind == "scan"]
        for way in (LAST, LAST_AGAIN, SEARCH):  # what one choice does in a long training counts
            for design in single:
                yield from self._missing(design, way)
        for design in self.planned:
            yield from self._missing(design, SEARCH)
        chained = [one for one in self.designs.values() if one.kind == "chain"]
        rng = np.random.default_rng([1, len(chained)])
        for _ in range(self.steps - len(chained)):
            step = self.chains.step(rng)
            if step is not None:
                chained.append(step)
                yield from self._missing(step, SEARCH)
        every = [*self.planned, *chained]
        for design in self._chosen(every, -(-len(every) // EVERY)):
            for way in (*OTHERS, LAST_AGAIN):
                yield from self._missing(design, way)

    def _chosen(self, every: Sequence[PlannedDesign], count: int) -> list[PlannedDesign]:
        """So many, in turn: two single edits, the best search training, and one in no order."""
        rest = sorted((one for one in every if one.kind != "scan"), key=lambda one: one.id)
        single = [one.id for one in every if one.kind == "scan"]
        best = [one.id for one in sorted(rest, key=self._gain, reverse=True)]
        chosen: dict[str, None] = {}
        for place, one in enumerate(rest):
            turn = (*single[2 * place : 2 * place + 2], best[place], one.id)
            chosen |= dict.fromkeys(turn)
        return [self.designs[name] for name in chosen][:count]

    def _gain(self, design: PlannedDesign) -> float:
        """What a design gained in its search training; nothing is behind all."""
        line = self.done.get((design.id, SEARCH.seed))
        return line.score.gain if line and line.score else -inf

    def keep(self, outcome: Outcome) -> None:
        """Write a line, as soon as the default of the same seed is there to be held against."""
        job = outcome.job
        if job.design == DEFAULT_DESIGN.id:
            if outcome.reason:
                sys.exit(f"the default gave no score ({outcome.reason}); run se-rl doctor")
            self._defaults[job.seed] = outcome.scores
        self._waiting.append(outcome)
        ready = [one for one in self._waiting if one.job.seed in self._defaults]
        self._waiting = [one for one in self._waiting if one.job.seed not in self._defaults]
        for one in ready:
            line = self._line(one)
            if (line.design.id, line.seed) not in self.done:
                self._book(line)
                self._file.write(line_text(line))
                self._file.flush()

    def _line(self, outcome: Outcome) -> BankLine:
        job = outcome.job
        score, reason = None, outcome.reason
        if not reason:
            default = self._defaults[job.seed]
            score = bank_score(outcome.scores, default, self.rule, cells=self.cells)
            reason = "" if score else INCOMPARABLE
        design = self.designs[job.design]
        seconds = round(outcome.seconds, 3)
        return BankLine(design, job.rung, job.work, job.seed, seconds, score, reason)

    def _book(self, line: BankLine) -> None:
        self.designs[line.design.id] = line.design
        self.done[line.design.id, line.seed] = line
        if line.score and line.seed == SEARCH.seed and line.design.kind != "default":
            self.chains.book(line.design, line.score.gain)

    def _missing(self, design: PlannedDesign, way: Way) -> Iterator[Job]:
        self.designs[design.id] = design
        if (design.id, way.seed) not in self.done:
            yield self._job(design, way)

    def _job(self, design: PlannedDesign, way: Way) -> Job:
        sources = {**self.base, **design.sources}
        return Job(design.id, way.times * self.work, way.seed, sources, rung=way.rung)


class GrowingBank(Bank):
    """The package's bank with designs near today's default, the default itself among them."""

    def __init__(
        self, workshop: Workshop, lines: Sequence[BankLine], file: TextIO, *, more: int
    ) -> None:
        known = load_bank()
        changed = {}
        for module, text in known.head.default.items():
            if text != KINDS[module].default_source:
                changed[module] = text
        super().__init__(workshop, lines, file, designs=0, base=changed)
        self.near = near_today(known.head, more, seed=0)

    def jobs(self) -> Iterator[Job]:
        """Search trainings of all, a second seed of every third, long ones of every sixth."""
        for way in (SEARCH, OTHERS[0], LAST):  # in every call: all others are held against these
            yield self._job(DEFAULT_DESIGN, way)
        for design in self.near:
            yield from self._missing(design, SEARCH)
        for design in self.near[::3]:
            yield from self._missing(design, OTHERS[0])
        for design in self.near[::6]:
            yield from self._missing(design, LAST)


def head_of(config: RunConfig, name: str) -> BankHead:
    """What all trainings of a bank share."""
    default = {module: KINDS[module].default_source for module in config.modules}
    return BankHead(name, config.data, config.scenario, config.work, config.modules, default)


def earlier(options: argparse.Namespace, head: BankHead) -> list[BankLine]:
    """The trainings of the bank to go on with; none for a new one."""
    if options.resume is None:
        if options.out.exists():
            sys.exit(f"{options.out} exists; go on with --resume {options.out}, or choose another")
        return []
    stored, lines = read_lines(options.resume)
    if stored != head:
        sys.exit(
            f"{options.resume} was made with {stored.preset} on {stored.data} ({stored.scenario}, "
            f"work {stored.work:g}), or by another default; begin a new bank without --resume"
        )
    return lines


def searched_champions(place: Path | None, data: str) -> list[PlannedDesign]:
    """What searches on this set ended at, by a file of theirs."""
    if place is None:
        return []
    return [accepted(one.sources) for one in champions_of(place) if one.found_on == data]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("out/bank.jsonl"))
    parser.add_argument("--resume", type=Path, help="a bank to go on with")
    parser.add_argument("--grow", type=int, default=0, help="designs near today's default to add")
    parser.add_argument("--accepted", type=Path, help="champions of searches to train, too")
    parser.add_argument("--pack", type=Path, help="make the package's bank of this file, no more")
    parser.add_argument("--seconds", type=float, default=540.0, help="stop after so many, in all")
    parser.add_argument("--designs", type=int, default=640)
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--data", default="nasdaq100")
    parser.add_argument("--scenario", choices=("single", "multi"), default="single")
    parser.add_argument("--work", type=float, help="of a search training, instead of the preset's")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what fits into the time."""
    options = parsed(arguments)
    if options.pack is not None:
        print(pack(options.pack, BANK_FILE, Path("docs/results")))
        return 0
    until = time.monotonic() + options.seconds
    config = preset(options.preset, data=options.data, scenario=options.scenario)
    if options.work is not None:
        config = replace(config, work=options.work)
    head = load_bank().head if options.grow else head_of(config, options.preset)
    lines = earlier(options, head)
    if options.grow and not lines:
        lines = list(load_bank().lines)
    write_lines(options.out, head, lines)
    workshop = Workshop(config)
    with options.out.open("a") as file:
        champions = searched_champions(options.accepted, config.data)
        bank: Bank
        if options.grow:
            bank = GrowingBank(workshop, lines, file, more=options.grow)
        else:
            bank = Bank(workshop, lines, file, designs=options.designs, champions=champions)
        left = until - time.monotonic()
        run_jobs(workshop, bank.jobs(), bank.keep, seconds=left, workers=options.workers)
        print(told(bank))
    return 0


def pack(source: Path, place: Path, folder: Path) -> str:
    """Store raw lines as the bank in a place, and write its page; says how large it is."""
    head, lines = read_lines(source)
    write_bank(place, head, lines)
    bank = read_bank(place)
    weights = preset(head.preset, data=head.data, scenario=head.scenario).weights
    write_page(folder, head, bank_figures(bank, weights))
    size = place.stat().st_size / 1000.0
    return f"{len(bank.designs)} designs, {len(bank.lines)} trainings, {size:.0f} kB in {place}"


def told(bank: Bank) -> str:
    """How much of the bank is done."""
    counts = []
    for way in (SEARCH, *OTHERS, LAST_AGAIN):
        done = [line for line in bank.done.values() if line.seed == way.seed]
        failed = sum(line.score is None for line in done)
        seconds = sum(line.seconds for line in done) / max(1, len(done))
        counts.append(
            f"rung {way.rung}, {way.times * bank.work:.3g} units, seed {way.seed}: "
            f"{len(done)} designs, {failed} failed, {seconds:.1f} s each"
        )
    return "\n".join(counts)


if __name__ == "__main__":
    sys.exit(main())
