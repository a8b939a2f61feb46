"""What designers wrote, by iteration, and how the finalists learned: tables over finished runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, NAIVE
from se_rl.records.settings import RunConfig
from se_rl_benchmarks.markdown_tables import Row, interval, signed

RUNGS = RunConfig().rungs
Screened = dict[int, list[float]]
"""Scores of one run's designs at the screen, by the iteration that they were written in."""


def designers_table(
    runs: Sequence[Mapping[str, Any]], places: Sequence[Path]
) -> tuple[Row, list[Row]]:
    """How good designs are when they are written: whether a designer becomes better at it."""
    by_arm: dict[str, list[Screened]] = {}
    for run, place in zip(runs, places, strict=True):
        by_arm.setdefault(run["arm"], []).append(screened(place))
    iterations = sorted(set(chain.from_iterable(chain.from_iterable(by_arm.values()))))
    head = ["arm", "designs", *(f"iteration {n}: mean (best)" for n in iterations)]
    rows = [_designers_row(arm, by_arm[arm], iterations) for arm in by_arm]
    return [*head, "mean by run", "median", "above 0"], rows


def _designers_row(arm: str, runs: Sequence[Screened], iterations: Sequence[int]) -> Row:
    """One arm: mean and best of each iteration, then all its designs together."""
    cells = []
    every: list[float] = []
    for number in iterations:
        scores = list(chain.from_iterable(run.get(number, []) for run in runs))
        every += scores
        cells.append(f"{_mean(scores)} ({signed(max(scores))})" if scores else "-")
    by_run = " ".join(_mean(list(chain.from_iterable(run.values()))) for run in runs)
    above = f"{sum(score > 0 for score in every)} of {len(every)}"
    return [arm, str(len(every)), *cells, by_run, signed(float(np.median(every))), above]


def _mean(scores: Sequence[float]) -> str:
    return signed(float(np.mean(scores)))


def screened(place: Path) -> Screened:
    """Read one run's scores at the screen."""
    found: Screened = {}
    with Archive.open(place / "archive.sqlite", read_only=True) as archive:
        standings = archive.standings()
        for one in archive.candidates():
            if one.operator in (DEFAULT, NAIVE) or one.twin:
                continue
            scores = found.setdefault(one.iteration, [])
            standing = standings.get((one.id, RUNGS.screen.index))
            if standing:
                scores.append(standing.score)
    return found


def finalists_table(
    runs: Sequence[Mapping[str, Any]],
    results: Sequence[Mapping[str, Any]],
    places: Sequence[Path],
) -> tuple[Row, list[Row]]:
    """Every finalist at each budget: who learns fast, and what is left of it at three times it."""
    work = results[0]["config"]["work"]
    head = ["arm", "seed", "design", *(f"{work * k:g} units" for k in (1 / 3, 1, 3))]
    rows: list[Row] = []
    for run, result, place in zip(runs, results, places, strict=True):
        for one in [*result["finalists"], *stopped(place)]:
            row = [run["arm"], str(run["seed"]), one["candidate"]]
            row += [signed(one["rungs"].get(str(rung))) for rung in range(3)]
            row += [interval(one["ci95"]), str(len(one["by_seed"]))]
            row += [signed(one["by_world"].get(world)) for world in ("static", "dynamic")]
            rows.append(row)
    return [*head, "95 %", "trainings", "history", "simulated"], rows


def stopped(place: Path) -> list[dict[str, Any]]:
    """Designs of one run that were stopped in the last rung, in the form of its finalists."""
    rows = []
    with Archive.open(place / "archive.sqlite", read_only=True) as archive:
        standings = archive.standings()
        for event in archive.events("dropped"):
            name = event.payload["candidate"]
            last = standings.get((name, RUNGS.last.index))
            if event.payload["rung"] != RUNGS.last.index or last is None:
                continue
            rungs = {}
            for rung in RUNGS:
                if (name, rung.index) in standings:
                    rungs[str(rung.index)] = standings[name, rung.index].score
            own = {
                "candidate": name,
                "rungs": rungs,
                "ci95": list(last.ci95),
                "by_seed": list(last.by_seed),
                "by_world": {},
            }
            rows.append(own)
    return rows
