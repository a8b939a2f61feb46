"""Edits and their parents as real trainings: what a designer's edits gain where nothing is guessed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import isfinite
from pathlib import Path
from statistics import mean

import numpy as np

from se_rl.core.operators import hashes
from se_rl.data.catalog import DataSet
from se_rl.records.entries import design_id
from se_rl.records.settings import RunConfig
from se_rl.scoring.score import ScoreRule, contributions
from se_rl.scoring.statistics import clustered_mean
from se_rl_benchmarks.many_trainings import Job, Outcome, Workshop, run_jobs

SEEDS = (2, 4)
"""Of the trainings of a parent and of its edits: the gain is the mean over those that both have."""


@dataclass(frozen=True)
class RealEdit:
    """An edit that a designer wrote, its parent's name and sources, and what was expected of it."""

    designer: str
    module: str
    parent: str
    parent_sources: Mapping[str, str]
    source: str
    expected: float

    @property
    def child_sources(self) -> Mapping[str, str]:
        """The edited design."""
        return {**self.parent_sources, self.module: self.source}

    @property
    def key(self) -> tuple[str, str]:
        """Parent and child, by what they hold."""
        return name_of(self.parent_sources), name_of(self.child_sources)


@dataclass(frozen=True)
class RealReading:
    """One training of one design: its score in bps over TWAP, None where it failed."""

    design: str
    seed: int
    score: float | None
    seconds: float
    reason: str = ""


def name_of(sources: Mapping[str, str]) -> str:
    """A design's name."""
    return design_id(hashes(sources))


def read_edits(place: Path) -> list[RealEdit]:
    """The edits of a file."""
    return [RealEdit(**json.loads(line)) for line in place.read_text().splitlines()]


def read_readings(place: Path) -> list[RealReading]:
    """The trainings of a file; a last line that was cut off is left out."""
    if not place.exists():
        return []
    texts = place.read_text().splitlines(keepends=True)
    return [RealReading(**json.loads(text)) for text in texts if text.endswith("\n")]


def first_edits(edits: Sequence[RealEdit], n: int) -> list[RealEdit]:
    """Up to so many edits of each designer for each parent."""
    counted: Counter[tuple[str, str, str]] = Counter()
    found = []
    for edit in edits:
        whose = (edit.designer, edit.parent, edit.module)
        counted[whose] += 1
        if counted[whose] <= n:
            found.append(edit)
    return found


def differences(
    edits: Sequence[RealEdit], gains: Mapping[tuple[str, str], float]
) -> dict[str, dict[str, object]]:
    """How far designers are apart: mean gains of the edits of one parent, over parents that both have."""
    own: dict[str, dict[str, list[float]]] = {}
    for edit in edits:
        if edit.key in gains:
            parents = own.setdefault(edit.designer, {})
            parents.setdefault(f"{edit.parent} {edit.module}", []).append(gains[edit.key])
    found: dict[str, dict[str, object]] = {}
    for first, second in combinations(own, 2):
        both = sorted(own[first].keys() & own[second].keys())
        apart = [mean(own[second][one]) - mean(own[first][one]) for one in both]
        if apart:
            told = clustered_mean(np.array(apart), np.arange(len(apart)))
            found[f"{second} - {first}"] = {
                "parents": len(apart),
                "mean": told.mean,
                "ci95": told.ci95,
                "p": told.p_value,
            }
    return found


def jobs_of(
    edits: Sequence[RealEdit], done: Sequence[RealReading], *, work: float
) -> Iterator[Job]:
    """What is still to train, seed by seed and designers in turn: each parent before its edits."""
    seen = {(one.design, one.seed) for one in done}
    by_designer: dict[str, list[RealEdit]] = {}
    for edit in edits:
        by_designer.setdefault(edit.designer, []).append(edit)
    longest = max(map(len, by_designer.values()), default=0)
    for seed in SEEDS:
        for place in range(longest):
            for own in by_designer.values():
                for edit in own[place : place + 1]:
                    for sources in (edit.parent_sources, edit.child_sources):
                        name = name_of(sources)
                        if (name, seed) not in seen:
                            seen.add((name, seed))
                            yield Job(name, work, seed, sources)


def gains_of(
    edits: Sequence[RealEdit], readings: Sequence[RealReading]
) -> dict[tuple[str, str], float]:
    """Child less parent in bps, over the seeds that both were trained with."""
    scores: dict[tuple[str, int], float] = {}
    for one in readings:
        if one.score is not None:
            scores[one.design, one.seed] = one.score
    found: dict[tuple[str, str], float] = {}
    for edit in edits:
        parent, child = edit.key
        gains = []
        for seed in SEEDS:
            if (parent, seed) in scores and (child, seed) in scores:
                gains.append(scores[child, seed] - scores[parent, seed])
        if gains:
            found[edit.key] = sum(gains) / len(gains)
    return found


def real_gains(
    edits: Sequence[RealEdit],
    config: RunConfig,
    place: Path,
    *,
    seconds: float,
    workers: int,
    work: float,
    dataset: DataSet | None = None,
) -> dict[tuple[str, str], float]:
    """Train what fits into the time, a line each into a file, and tell what is known then.

    Parent and child are scored on the same orders of the last rung. `dataset` are bars that are
    here already.
    """
    done = read_readings(place)
    workshop = Workshop(config, dataset=dataset)
    rule = ScoreRule.of(workshop.config)

    with place.open("a") as file:

        def keep(outcome: Outcome) -> None:
            score = None
            if not outcome.reason:
                made = contributions([outcome.scores], rule, cells=workshop.cells).score
                score = made if isfinite(made) else None
            job = outcome.job
            line = RealReading(job.design, job.seed, score, outcome.seconds, outcome.reason)
            done.append(line)
            file.write(json.dumps(asdict(line)) + "\n")
            file.flush()

        jobs = jobs_of(edits, done, work=work)
        run_jobs(workshop, jobs, keep, seconds=seconds, workers=workers)
    return gains_of(edits, done)
