"""`se-rl show RUN DESIGN`: one design with its lineage, its scores, the words that made it, and its
source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from se_rl.config import ConfigError
from se_rl.records.archive import Archive
from se_rl.records.entries import Candidate, Evaluation, StoredStanding
from se_rl.records.gains import Gain
from se_rl.records.plain import to_plain
from se_rl.report.console import heading, say, source, stdout_console, text_table
from se_rl.report.design_rows import DesignRow, curves, design_rows, prompt_of
from se_rl.report.design_table import design_table
from se_rl.report.numbers import interval, number, signed
from se_rl.report.show_run import open_record

SPARKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 60
TRAINING_COLUMNS = ("rung, seed", "over default", "scores over TWAP, bps", "work", "isolation")


@dataclass(frozen=True)
class TrainingRow:
    """One training of a design; `over_default` is its score over the default's training of the same
    seed.
    """

    rung: int
    seed: int
    status: str
    reason: str
    scores: Mapping[str, float]
    over_default: float
    work: float
    seconds: float
    isolation: str
    attempts: int


@dataclass(frozen=True)
class DesignView:
    """A design with everything that led to it; `rungs` holds its standing at every
    rung by number.
    """

    row: DesignRow
    folder: str
    model: str
    adapter: str
    lineage: tuple[DesignRow, ...]
    evaluations: tuple[TrainingRow, ...]
    rungs: Mapping[str, Gain]
    instructions: Mapping[str, str]
    prompt: tuple[Mapping[str, str], ...]
    curve: Mapping[str, Sequence[float]]
    sources: Mapping[str, str]


def show_design(folder: Path, id_prefix: str) -> DesignView:
    """Read one design of a run's record, by the beginning of its id."""
    with open_record(folder) as archive:
        candidate = archive.candidate(id_prefix)
        rows = {row.id: row for row in design_rows(archive)}
        if candidate.id not in rows:
            what = f"{candidate.id} is the {candidate.operator}, a rival that the search did not design"
            raise ConfigError(f"{what}; `se-rl show {folder}` lists the designs")
        evaluations = archive.evaluations(candidate.id)
        standings = {}
        for (name, rung), standing in archive.standings().items():
            if name == candidate.id:
                standings[rung] = standing
        ancestors = [one.id for one in reversed(archive.lineage(candidate.id))]
        return DesignView(
            row=rows[candidate.id],
            folder=str(folder),
            model=candidate.model,
            adapter=candidate.adapter,
            lineage=tuple(rows[name] for name in ancestors),
            evaluations=_trainings(evaluations, standings),
            rungs={str(rung): _gain(standings[rung]) for rung in sorted(standings)},
            instructions=_instructions(archive, candidate),
            prompt=tuple(prompt_of(archive, candidate)),
            curve=curves(archive, evaluations),
            sources=archive.sources(candidate),
        )


def design_json(design: DesignView) -> Mapping[str, Any]:
    """The same for machines: the row's own keys beside the others."""
    plain = to_plain(design)
    return plain.pop("row") | plain


def print_design(design: DesignView, *, console: Console | None = None) -> None:
    """Print a design; its sources come last, as they are long."""
    console = console or stdout_console()
    row = design.row
    say(console, f"design {row.id}: {row.verdict}", style="bold")
    writer = " + ".join(filter(None, (design.model, design.adapter)))
    what = " ".join(filter(None, (row.operator, row.module)))
    say(console, f"{what}, iteration {row.iteration}{f', by {writer}' if writer else ''}")
    heading(console, "lineage, from the default on")
    console.print(design_table(design.lineage, width=console.width))
    if design.evaluations:
        rows = map(_training_cells, design.evaluations)
        console.print(text_table("trainings", TRAINING_COLUMNS, rows))
    for rung, gain in design.rungs.items():
        error = f"{signed(gain.mean)} ± {number(gain.se)} bps over the default"
        say(console, f"rung {rung}, all seeds: {error} {interval(gain.ci95)}")
    for name, values in design.curve.items():
        ends = f"{number(values[0])} to {number(values[-1])}"
        say(console, f"{name:16} {sparkline(values)} {ends}")
    _print_words(console, design)


def _print_words(console: Console, design: DesignView) -> None:
    """The instructions, the prompt and the sources."""
    for kind, text in design.instructions.items():
        say(console, f"{kind} instruction: {text}" if text else "")
    for message in design.prompt:
        heading(console, f"prompt, {message.get('role', '?')}")
        source(console, str(message.get("content", "")), "text")
    for name, text in design.sources.items():
        heading(console, name)
        source(console, text, "python")
    if not design.sources:
        say(console, "every module is the default one", style="dim")


def sparkline(values: Sequence[float], *, width: int = SPARK_WIDTH) -> str:
    """A curve in one line: the mean of each stretch, between the lowest and the highest."""
    stretches = np.array_split(values, min(width, len(values)))
    means = np.array([stretch.mean() for stretch in stretches])
    span = float(np.ptp(means)) or 1.0
    levels = (means - means.min()) / span * (len(SPARKS) - 1)
    return "".join(SPARKS[round(level)] for level in levels)


def _instructions(archive: Archive, candidate: Candidate) -> Mapping[str, str]:
    texts = {instruction.id: instruction.text for instruction in archive.instructions()}
    return {"macro": texts.get(candidate.macro, ""), "micro": texts.get(candidate.micro, "")}


def _gain(standing: StoredStanding) -> Gain:
    return Gain(standing.score, standing.se, standing.ci95)


def _trainings(
    evaluations: Sequence[Evaluation], standings: Mapping[int, StoredStanding]
) -> tuple[TrainingRow, ...]:
    """Every training in order of rung and seed, with its part of the stored standing."""
    rows = []
    for e in sorted(evaluations, key=lambda e: (e.rung, e.seed)):
        standing = standings.get(e.rung)
        by_seed: dict[int, float] = {}
        if standing is not None and e.ok:
            by_seed = dict(zip(standing.training_seeds, standing.by_seed, strict=False))
        row = TrainingRow(
            e.rung,
            e.seed,
            e.status,
            e.reason,
            e.scores,
            by_seed.get(e.seed, math.nan),
            e.work,
            e.seconds,
            e.isolation,
            e.attempts,
        )
        rows.append(row)
    return tuple(rows)


def _training_cells(training: TrainingRow) -> tuple[Any, ...]:
    scores = f"{training.status}: {training.reason}"
    if training.status == "ok":
        scores = ", ".join(f"{name} {signed(value)}" for name, value in training.scores.items())
    return (
        f"{training.rung}, {training.seed}",
        signed(training.over_default),
        scores,
        number(training.work, 1),
        training.isolation,
    )
