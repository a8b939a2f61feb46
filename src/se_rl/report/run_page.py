"""A run as one HTML page: a verdict for 30 seconds, the evidence for 10 minutes; rewritten after
each outer iteration.

Only the run's folder is read. Before the run has ended there is no `results.json`, and the page
says what is known so far. The page asks the network for nothing, and what a model wrote reaches it
as text alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from se_rl.records.archive import Archive
from se_rl.records.gains import ScoreSummary
from se_rl.records.method_rows import MethodRow, SimulatedRow
from se_rl.records.results import BOUND, OURS, PRETENDED_SEARCH, RunResults
from se_rl.records.results_file import NoResults, read_results
from se_rl.records.run_folder import RunFolder
from se_rl.report import run_charts as charts
from se_rl.report import run_details as details
from se_rl.report.evolution_chart import evolution
from se_rl.report.numbers import p_value
from se_rl.report.order_charts import order_charts, simulated_order
from se_rl.report.page import finite, render
from se_rl.report.page_numbers import around, excludes_zero, interval, minus, plain, signed
from se_rl.report.replay_chart import replay
from se_rl.report.run_days import all_curves, day_gains, training_rows
from se_rl.report.run_designs import RunRecord, lineage, read_run
from se_rl.report.run_edits import edit_gains, edit_rows, part_table
from se_rl.report.run_verdict import read_verdict

UNLOCKED = ("none", "weak", "unsafe")
"""Words in a level of isolation that say that a model's source ran outside the sandbox."""


def run_page(folder: Path, *, live: str = "") -> str:
    """The page of the run in `folder`, from its archive and, where the run has ended, its results.

    A page that is served names its version in `live`, and asks the server for a newer one.
    """
    place = RunFolder(folder)
    try:
        results = read_results(place.results)
    except NoResults:
        results = None
    with Archive.open(place.archive, read_only=True) as archive:
        page = render(
            "run.jinja",
            filters={
                "signed": signed,
                "plain": plain,
                "interval": interval,
                "minus": minus,
                "around": around,
            },
            tests={"off_zero": excludes_zero},
            live=live,
            **_context(read_run(archive, results)),
        )
    return page.encode(errors="replace").decode()  # half a surrogate pair cannot be written


def _context(run: RunRecord) -> Mapping[str, Any]:
    """What the template is given."""
    results = run.results or RunResults()
    best, prompts = run.design(run.best), details.prompts(run)
    edits, parts = edit_rows(run.designs), part_table(run.designs)
    dynamic = {
        size: dict(sorted(rows.items(), key=_rank)) for size, rows in results.dynamic.items()
    }
    training = [*charts.training(training_rows(run, run.best)), *charts.learning(results.learning)]
    return {
        "r": results,
        "data": run.data,
        "verdict": read_verdict(run),
        "subtitle": _subtitle(run),
        "tiles": _tiles(run),
        "banners": _banners(run),
        "ours": OURS,
        "bound": BOUND,
        "methods": sorted(results.baselines.items(), key=_rank),
        "scores": _scores(results),
        "cells": _cells(results),
        "dynamic": dynamic,
        "sizes": _method_names(dynamic),
        "best": best,
        "line": lineage(run.designs, run.best),
        "designs": run.designs,
        "panels": finite(details.panels(run, prompts)),
        "asked": details.asked(run, best) if best else [],
        "prompt": prompts.get(best.candidate.prompt, "") if best else "",
        "edits": edits,
        "edit_chart": finite(edit_gains(edits)),
        "parts": parts,
        "has_part_errors": any(
            design.standing.part_se for design in run.designs if design.standing
        ),
        "evolution": finite(evolution(run.designs, run.best, run.iterations)),
        "training": finite(training),
        "curves": finite(all_curves(run)),
        "days": finite(day_gains(results)),
        "orders": finite(order_charts(results.order_details)),
        "simulated_order": finite(simulated_order(details.simulated_replay(run))),
        "impact": finite(charts.impact(dynamic)),
        "progress": finite(charts.progress(run.iterations)),
        "replays": finite(_replays(run)),
        "iterations": run.iterations,
        "credits": details.credits(run),
        "failures": details.failures(run),
        "cost": details.cost(run),
        "kit": details.kit(run),
        "provenance": details.provenance(run),
        "config_yaml": _yaml(results.config or run.started.get("config") or {}),
    }


def _rank(method: tuple[str, MethodRow | SimulatedRow]) -> tuple[bool, bool, float]:
    """Our design first, then by what was earned; a bound that knows the future comes last."""
    name, row = method
    earned = row.over_TWAP.mean if isinstance(row, MethodRow) else row.saved_bps
    return BOUND in name, name != OURS, -(earned or 0.0)


def _scores(results: RunResults) -> list[tuple[str, ScoreSummary]]:
    """The learned methods' scores over TWAP, and ours over the default."""
    rows = list(results.scores.items())
    if rows:
        rows.append(("best design over the default", results.final_metrics.score_over_default))
    return rows


def _cells(results: RunResults) -> Sequence[str]:
    """The cells of simulated orders; one that is all of them needs no column."""
    names: dict[str, None] = {}
    for score in results.scores.values():
        names |= dict.fromkeys(score.cells)
    return list(names) if len(names) > 1 else []


def _method_names(dynamic: Mapping[str, Mapping[str, SimulatedRow]]) -> Sequence[str]:
    names: dict[str, None] = {}
    for rows in dynamic.values():
        names |= dict.fromkeys(rows)
    return list(names)


def _replays(run: RunRecord) -> list[Mapping[str, Any]]:
    made: list[Mapping[str, Any]] = []
    for name, order in details.executions(run).items():
        made.append({"name": name, "figure": replay(order), "order": order})
    return made


def _subtitle(run: RunRecord) -> str:
    proposed = sum(design.proposed for design in run.designs)
    parts = [
        f"designer {details.designer(run)}",
        f"seed {run.started.get('seed', '')}",
        f"{run.data.symbols} symbols" if run.data.symbols else "",
        f"{proposed} designs in {len(run.iterations)} outer iterations",
        "" if run.results else "still running: written anew after each outer iteration",
    ]
    return " · ".join(filter(None, parts))


def _tiles(run: RunRecord) -> list[tuple[str, str, str]]:
    """The few figures beside the verdict: label, value, meaning."""
    states = [design.state for design in run.designs if design.proposed]
    lost = len(states) - states.count("scored") - states.count("waiting")
    tiles = [
        ("designs", f"{len(states):,}", "proposed by the designer, repeats and failures included"),
        ("scored", f"{states.count('scored'):,}", "trained and scored at least at the first rung"),
        ("no score", f"{lost:,}", "not valid, failed or repeated"),
    ]
    results = run.results
    if results is None:
        return tiles
    return [
        *tiles,
        (
            "SPA p, validation: none beats TWAP",
            p_value(results.spa_p),
            f"test of the {results.selection.scored} scored designs together on validation: how "
            "likely such scores are if none of them beats TWAP, the choice among them counted",
        ),
        (
            "SPA p, validation: none beats the default",
            p_value(results.selection.spa_p_over_default),
            "the same test against the default design",
        ),
        ("seeds", str(len(results.seeds.trainings)), "trainings of each finalist"),
        (
            "test openings",
            str(results.test_openings),
            "how often the sealed days were looked at; only the first look is unbiased, and a "
            "search that kept the default has none",
        ),
    ]


def _banners(run: RunRecord) -> list[str]:
    """What must be seen before any figure."""
    banners = []
    if (run.started.get("config") or {}).get("against") == "bank":
        banners.append(f"{PRETENDED_SEARCH.upper()}: nothing was trained, no day was opened")
    if run.data.synthetic:
        banners.append("SYNTHETIC DATA: no market ever printed these prices")
    levels = {str(run.started.get("isolation", ""))}
    for evaluations in run.evaluations.values():
        levels |= {evaluation.isolation for evaluation in evaluations}
    if run.results is not None:
        levels.add(run.results.isolation)
    unsafe = [level for level in sorted(levels) if any(word in level for word in UNLOCKED)]
    if unsafe:
        isolation = "; ".join(unsafe)
        banners.append(f"UNSAFE RUN: source of a language model ran with isolation {isolation}")
    openings = run.archive.test_openings()
    if run.results is not None:
        openings = run.results.test_openings or openings
    if openings > 1:
        banners.append(f"TEST DAYS OPENED {openings} TIMES: they are sealed no more")
    return banners


def _yaml(config: Mapping[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(json.loads(json.dumps(config)), sort_keys=False, allow_unicode=True)
