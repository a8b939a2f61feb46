"""`se-rl show`, `se-rl compare` and the end of `se-rl run`: a run, a design, results and comparisons for people.

`show_*` reads a run folder and gives plain data; `print_*` prints such data, plainly when piped.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from se_rl.records.archive import Archive
from se_rl.records.entries import Evaluation
from se_rl.records.run_folder import RunFolder
from se_rl.report.design_rows import (
    BEST,
    OverDefault,
    curves,
    design_rows,
    design_table,
    prompt_of,
    score_text,
    signed,
)
from se_rl.report.terminal import interval, number
from se_rl.sandbox.calls import printable

SPARKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 60
SYNTHETIC = " SYNTHETIC DATA: no market ever printed these prices "
SHOWN_DESIGNS = 40
"""Designs that a terminal is given; `--json` has them all."""


def show_run(folder: Path) -> dict[str, Any]:
    """A run at a glance: where it stands, its best design, and every design by score."""
    with _opened(folder) as archive:
        rows, calls, openings = design_rows(archive), archive.calls(), archive.test_openings()
        kinds = ("run_started", "iteration", "finished", "estimate")
        started, iteration, finished, estimate = (_last(archive, kind) for kind in kinds)
        repeated = len(archive.events("repeated"))
    return {
        "folder": str(folder),
        "status": f"finished: {finished['stop_reason']}" if finished else "not finished",
        **{key: started.get(key) for key in ("data", "llm", "seed", "isolation", "version")},
        "iteration": iteration.get("iteration", 0),
        "iterations": (started.get("config") or {}).get("iterations"),
        "best": next((row["id"] for row in rows if row["verdict"] == BEST), ""),
        "text": iteration.get("text", "") or estimate.get("text", ""),
        "counts": _counts([row for row in rows if row["iteration"]], repeated),
        "calls": {
            key: sum(getattr(c, key) for c in calls)
            for key in ("proposals", "tokens_in", "tokens_out", "usd")
        },
        "test_openings": openings,
        "designs": sorted(
            rows, key=lambda row: -math.inf if row["score"] is None else row["score"], reverse=True
        ),
    }


def print_run(run: Mapping[str, Any], *, console: Console | None = None) -> None:
    """What `show_run` found."""
    console = console or _console()
    _banner(console, run.get("data"))
    data, llm = run.get("data") or {}, run.get("llm")
    model = llm.get("name") if isinstance(llm, Mapping) else llm
    of = f" of {run['iterations']}" if run.get("iterations") else ""
    _say(console, f"{run['folder']}: {run['status']}", style="bold")
    _say(
        console,
        f"{data.get('name')}, {model}, seed {run.get('seed')}; iteration {run['iteration']}{of}",
    )
    best = next((row for row in run["designs"] if row["id"] == run["best"]), None)
    _say(
        console,
        f"best: {best['id']} {score_text(best)} bps over the default" if best else "best: none yet",
    )
    _say(console, run.get("text"))
    console.print(design_table(run["designs"][:SHOWN_DESIGNS], width=console.width))
    more = len(run["designs"]) - SHOWN_DESIGNS
    counts = ", ".join(f"{count} {name}" for name, count in run["counts"].items())
    _say(
        console,
        (f"{more} more with --json; " if more > 0 else "") + f"designs: {counts}",
        style="dim",
    )
    cost = run["calls"]
    tokens = f"{cost['tokens_in']:,} tokens in, {cost['tokens_out']:,} out, {cost['usd']:.2f} USD"
    _say(
        console,
        f"{tokens}; test openings: {run['test_openings']}; ± by days and episodes",
        style="dim",
    )


def show_design(folder: Path, id: str) -> dict[str, Any]:
    """One design, by the beginning of its id: sources, lineage, every score, and the words that made it."""
    with _opened(folder) as archive:
        c, rows = archive.candidate(id), {row["id"]: row for row in design_rows(archive)}
        evaluations, scoring = archive.evaluations(c.id), OverDefault(archive)
        texts = {i.id: i.text for i in archive.instructions() if i.id in (c.macro, c.micro)}
        return rows[c.id] | {
            "folder": str(folder),
            "model": c.model,
            "adapter": c.adapter,
            "lineage": [rows[one.id] for one in reversed(archive.lineage(c.id))],
            "evaluations": [
                _scored(scoring, e) for e in sorted(evaluations, key=lambda e: (e.rung, e.seed))
            ],
            "rungs": {str(rung): found for rung, found in scoring.by_rung(evaluations).items()},
            "instructions": {kind: texts.get(getattr(c, kind), "") for kind in ("macro", "micro")},
            "prompt": prompt_of(archive, c),
            "curve": curves(archive, evaluations),
            "sources": archive.sources(c),
        }


def print_design(design: Mapping[str, Any], *, console: Console | None = None) -> None:
    """What `show_design` found; sources come last, as they are long."""
    console = console or _console()
    _say(console, f"design {design['id']}: {design['verdict']}", style="bold")
    by = " + ".join(part for part in (design["model"], design["adapter"]) if part)
    what = " ".join(part for part in (design["operator"], design["module"]) if part)
    _say(console, f"{what}, iteration {design['iteration']}{f', by {by}' if by else ''}")
    _heading(console, "lineage, from the default on")
    console.print(design_table(design["lineage"], width=console.width))
    if design["evaluations"]:
        columns = (
            "rung, seed",
            "over default",
            "95 % CI",
            "scores over TWAP, bps",
            "work",
            "isolation",
        )
        console.print(
            _table(
                "trainings, with intervals by days and simulated episodes",
                columns,
                [_training(e) for e in design["evaluations"]],
            )
        )
    for rung, found in design["rungs"].items():
        _say(
            console,
            f"rung {rung}, all seeds: {signed(found['mean'])} bps over the default {_ci(found)}",
        )
    for name, values in design["curve"].items():
        _say(console, f"{name:16} {sparkline(values)} {number(values[0])} to {number(values[-1])}")
    for kind, text in design["instructions"].items():
        _say(console, f"{kind} instruction: {text}" if text else "")
    for message in design["prompt"]:
        _heading(console, f"prompt, {message.get('role', '?')}")
        _source(console, str(message.get("content", "")), "text")
    for name, text in design["sources"].items():
        _heading(console, name)
        _source(console, text, "python")
    if not design["sources"]:
        _say(console, "every module is the default one", style="dim")


def sparkline(values: Sequence[float], *, width: int = SPARK_WIDTH) -> str:
    """A curve in one line: the mean of each stretch, between the lowest and the highest."""
    means = np.array(
        [stretch.mean() for stretch in np.array_split(values, min(width, len(values)))]
    )
    span = float(np.ptp(means)) or 1.0
    return "".join(
        SPARKS[round(level)] for level in (means - means.min()) / span * (len(SPARKS) - 1)
    )


def _opened(folder: Path) -> Archive:
    return Archive.open(RunFolder(folder).archive, read_only=True)


def _last(archive: Archive, kind: str) -> dict[str, Any]:
    return next((dict(event.payload) for event in reversed(archive.events(kind))), {})


def _counts(designed: Sequence[Mapping[str, Any]], repeated: int) -> dict[str, int]:
    """Designs by what became of them; those that repeat an earlier one have no row."""
    verdicts = [str(row["verdict"]).partition(":")[0] for row in designed]
    scored = sum(row["score"] is not None for row in designed)
    counts = {
        "proposed": len(designed) + repeated,
        "valid": len(designed) - verdicts.count("invalid"),
        "scored": scored,
    }
    return counts | {
        "failed": verdicts.count("invalid") + verdicts.count("failed"),
        "repeated": repeated,
    }


def _scored(scoring: OverDefault, e: Evaluation) -> dict[str, Any]:
    facts = {
        key: value
        for key, value in asdict(e).items()
        if key not in ("candidate", "arrays", "policy", "curve")
    }
    return facts | {"over_default": scoring.of([e])}


def _training(e: Mapping[str, Any]) -> tuple[Any, ...]:
    means = ", ".join(f"{name} {signed(value)}" for name, value in e["scores"].items())
    told = means if e["status"] == "ok" else f"{e['status']}: {e['reason']}"
    over = e["over_default"]
    return (
        f"{e['rung']}, {e['seed']}",
        signed(_mean(over)),
        _ci(over),
        told,
        number(e["work"], 1),
        e["isolation"],
    )


def _mean(found: Mapping[str, Any] | None) -> float | None:
    return (found or {}).get("mean")


def _ci(found: Mapping[str, Any] | None, key: str = "ci95") -> str:
    bounds = (found or {}).get(key) or [None, None]
    return "–" if None in bounds else interval(bounds)


def _table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, strong: str = "\0"
) -> Table:
    """A table of plain cells, numbers to the right; rows whose name begins with `strong` stand out."""
    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", overflow="fold")
    for row in rows:
        cells = [Text("–" if cell is None else printable(cell, 300)) for cell in row]
        table.add_row(*cells, style="bold" if str(row[0]).startswith(strong) else None)
    return table


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 140)


def _banner(console: Console, data: Mapping[str, Any] | None) -> None:
    if data and data.get("synthetic"):
        console.print(Text(SYNTHETIC, style="black on yellow"))


def _say(console: Console, text: Any, *, style: str = "") -> None:
    """One line of text that may be hostile; nothing for none."""
    if text:
        console.print(Text(printable(text, 2000), style=style), soft_wrap=True)


def _heading(console: Console, text: str) -> None:
    console.print(Text(f"\n{printable(text)}", style="bold underline"))


def _source(console: Console, text: str, language: str) -> None:
    """Source in colours, or as it is when piped; letters that are not printable are shown as such."""
    safe = "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    if console.is_terminal:
        console.print(
            Syntax(safe, language, theme="ansi_dark", background_color="default", word_wrap=True)
        )
    else:
        print(safe, file=console.file)
