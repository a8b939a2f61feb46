"""`se-rl show RUN`: a run at a glance, where it stands, its best design, and every
design by score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT
from se_rl.records.plain import from_plain
from se_rl.records.results import DataFacts, DesignCounts
from se_rl.records.run_folder import RunFolder
from se_rl.report.console import say, stdout_console, warn_synthetic
from se_rl.report.design_rows import BEST, DesignRow, design_rows
from se_rl.report.design_table import design_table, score_text
from se_rl.report.numbers import money

SHOWN_DESIGNS = 40
"""Designs that a terminal is given; `--json` has them all."""


@dataclass(frozen=True)
class CallTotals:
    """What all requests to the model took."""

    proposals: int
    tokens_in: int
    tokens_out: int
    usd: float


@dataclass(frozen=True)
class RunGlance:
    """A run at a glance; `designs` are sorted by score, `iterations` is None before the run has
    started.
    """

    folder: str
    status: str
    data: DataFacts
    llm: str
    seed: int | None
    isolation: str
    version: str
    iteration: int
    iterations: int | None
    best: str
    text: str
    counts: DesignCounts
    calls: CallTotals
    test_openings: int
    designs: tuple[DesignRow, ...]


def show_run(folder: Path) -> RunGlance:
    """Read a run's record; it may still be under way."""
    with open_record(folder) as archive:
        rows = design_rows(archive)
        calls = archive.calls()
        openings = archive.test_openings()
        started = _last(archive, "run_started")
        iteration = _last(archive, "iteration")
        finished = _last(archive, "finished")
        estimate = _last(archive, "estimate")
        repeated = len(archive.events("repeated"))
    by_score = sorted(rows, key=lambda row: row.score if row.is_scored else -math.inf, reverse=True)
    return RunGlance(
        folder=str(folder),
        status=f"finished: {finished['stop_reason']}" if finished else "not finished",
        data=from_plain(DataFacts, started.get("data") or {}),
        llm=str(started.get("llm") or ""),
        seed=started.get("seed"),
        isolation=str(started.get("isolation") or ""),
        version=str(started.get("version") or ""),
        iteration=iteration.get("iteration", 0),
        iterations=(started.get("config") or {}).get("iterations"),
        best=next((row.id for row in rows if row.verdict == BEST), ""),
        text=finished.get("text", "") or iteration.get("text", "") or estimate.get("text", ""),
        counts=_counts([row for row in rows if row.iteration], repeated),
        calls=CallTotals(
            sum(call.proposals for call in calls),
            sum(call.tokens_in for call in calls),
            sum(call.tokens_out for call in calls),
            sum(call.usd for call in calls),
        ),
        test_openings=openings,
        designs=tuple(by_score),
    )


def print_run(run: RunGlance, *, console: Console | None = None) -> None:
    """Print a run at a glance."""
    console = console or stdout_console()
    warn_synthetic(console, synthetic=run.data.synthetic)
    of = f" of {run.iterations}" if run.iterations else ""
    say(console, f"{run.folder}: {run.status}", style="bold")
    say(console, f"{run.data.name}, {run.llm}, seed {run.seed}; iteration {run.iteration}{of}")
    best = next((row for row in run.designs if row.id == run.best), None)
    say(console, f"best: {_best(best)}")
    say(console, run.text)
    console.print(design_table(run.designs[:SHOWN_DESIGNS], width=console.width))
    more = len(run.designs) - SHOWN_DESIGNS
    counts = ", ".join(f"{count} {name}" for name, count in vars(run.counts).items())
    hidden = f"{more} more with --json; " if more > 0 else ""
    say(console, f"{hidden}designs: {counts}", style="dim")
    cost = run.calls
    tokens = f"{cost.tokens_in:,} tokens in, {cost.tokens_out:,} out, {money(cost.usd)} USD"
    error = "± is the standard error over orders and training seeds"
    say(console, f"{tokens}; test openings: {run.test_openings}; {error}", style="dim")


def open_record(folder: Path) -> Archive:
    """A run's archive, for reading."""
    return Archive.open(RunFolder(folder).archive, read_only=True)


def _best(row: DesignRow | None) -> str:
    """The best design and its score, in words."""
    if row is None:
        return "none yet"
    if row.operator == DEFAULT:
        return f"{row.id}, the default"
    return f"{row.id} {score_text(row)} bps over the default"


def _last(archive: Archive, kind: str) -> Mapping[str, Any]:
    events = archive.events(kind)
    return events[-1].payload if events else {}


def _counts(proposed: Sequence[DesignRow], repeated: int) -> DesignCounts:
    """Designs by what became of them; those that repeat an earlier one have no row."""
    kinds = [row.verdict.partition(":")[0] for row in proposed]
    invalid = kinds.count("invalid")
    return DesignCounts(
        proposed=len(proposed) + repeated,
        valid=len(proposed) - invalid,
        scored=sum(row.is_scored for row in proposed),
        failed=invalid + kinds.count("failed"),
        repeated=repeated,
    )
