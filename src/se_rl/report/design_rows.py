"""Designs as rows: what was tried, how far it came, what it scored over the default, what became of it.

A row is plain data, made from a run's record here or from its events as they happen; every text in it may be hostile.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from rich.table import Table
from rich.text import Text

from se_rl.records.entries import DEFAULT, NAIVE, Candidate, Evaluation
from se_rl.report.terminal import number
from se_rl.sandbox.calls import printable
from se_rl.scoring.standing import standing

if TYPE_CHECKING:
    from se_rl.records.archive import Archive

Arrays = Mapping[str, npt.NDArray[np.float64]]
Estimate = dict[str, Any]
"""A `mean` in bps with its standard error `se` and its normal interval `ci95`."""
SHORT = 6
"""Letters of a design's name that people see; a beginning is enough for `se-rl show`."""
WIDE_ONLY, NUMBERS = ("operator", "parent", "gain"), ("it", "rung", "over default", "gain")
"""Columns that a narrow terminal does without, and those that are set to the right."""
NEW_BEST, BEST = "new best", "best"


def design_rows(archive: Archive) -> list[dict[str, Any]]:
    """Every design of the record in order of proposal, each scored at the highest rung that it reached."""
    candidates = [c for c in archive.candidates() if c.operator != NAIVE]
    best, scoring = best_design(archive), OverDefault(archive)
    trained: dict[str, list[Evaluation]] = {}
    for evaluation in archive.evaluations():
        trained.setdefault(evaluation.candidate, []).append(evaluation)
    scores = {name: scoring.by_rung(evaluations) for name, evaluations in trained.items()}
    fates = {
        str(e.payload.get("candidate")): _fate(e.kind, e.payload)
        for e in archive.events("dropped", "promoted")
    }
    rows = []
    for c in candidates:
        mine = {} if c.twin else scores.get(c.id, {})
        rung = max(mine, default=None)
        score, se = (None, None) if rung is None else (mine[rung]["mean"], mine[rung]["se"])
        gain = _gain(mine, scores.get(c.parents[0], {})) if c.parents else None
        verdict = _verdict(c, trained.get(c.id, []), best=best, fate=fates.get(c.id, ""))
        row = {"id": c.id, "iteration": c.iteration, "operator": c.operator, "module": c.module}
        row |= {
            "parents": list(c.parents),
            "rung": rung,
            "score": score,
            "se": se,
            "gain": gain,
            "verdict": verdict,
        }
        rows.append(row)
    return rows


def best_design(archive: Archive) -> str:
    """The best design as the run last said ("" before the first iteration has ended)."""
    said = [event.payload.get("best") for event in archive.events("iteration", "finished")]
    return str(next((best for best in reversed(said) if best), ""))


class OverDefault:
    """Scores over the record's default, order by order, in the run's weighting of the worlds, in bps.

    The standard error is by days and by simulated episodes: it speaks of these trainings, not of other training seeds.
    """

    def __init__(self, archive: Archive) -> None:
        config = next(
            (event.payload.get("config") or {} for event in archive.events("run_started")), {}
        )
        share = {"static": 1.0, "dynamic": 0.0}.get(
            config.get("worlds", "both"), config.get("static_share", 0.6)
        )
        self._weights = {"static": share, "dynamic": 1.0 - share}
        origin = next((c.id for c in archive.candidates() if c.operator == DEFAULT), "")
        self._default = {(e.rung, e.seed): e for e in archive.evaluations(origin) if e.ok}
        self._arrays = lru_cache(maxsize=64)(
            lambda sha: _load(archive.blob(sha))
        )  # the default's are wanted each time

    def by_rung(self, evaluations: Sequence[Evaluation]) -> dict[int, Estimate]:
        """The score of one design at each rung where it can be paired."""
        rungs = sorted({e.rung for e in evaluations})
        found = {rung: self.of([e for e in evaluations if e.rung == rung]) for rung in rungs}
        return {rung: score for rung, score in found.items() if score}

    def of(self, evaluations: Sequence[Evaluation]) -> Estimate | None:
        """Mean and error over trainings that the default went through with the same rung and seed; None without any."""
        pairs = [
            (e, self._default[e.rung, e.seed])
            for e in evaluations
            if e.ok and (e.rung, e.seed) in self._default
        ]
        if not pairs:
            return None
        own, default = ([self._arrays(e.arrays) for e in side] for side in zip(*pairs, strict=True))
        found = standing("", 0, own, default, weights=self._weights, regimes={}, seed_sd=0.0)
        if not math.isfinite(found.score):
            return None
        return {"mean": found.score, "se": found.se, "ci95": list(found.ci95)}


def _load(content: bytes) -> Arrays:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def curves(archive: Archive, evaluations: Sequence[Evaluation]) -> dict[str, list[float]]:
    """The rewards during the longest training, world by world."""
    longest = max(
        (e for e in evaluations if e.curve), key=lambda e: (e.rung, -e.seed), default=None
    )
    rows = json.loads(archive.blob(longest.curve)) if longest else []
    found = {}
    for name in ("reward_static", "reward_dynamic"):
        values = [row[name] for row in rows if isinstance(row.get(name), int | float)]
        found[name] = [float(value) for value in values if math.isfinite(value)]
    return {name: values for name, values in found.items() if values}


def prompt_of(archive: Archive, candidate: Candidate) -> list[dict[str, str]]:
    """The messages that a model answered with this design; none where no model wrote it."""
    readable = candidate.prompt and archive.has_blob(candidate.prompt)
    return list(json.loads(archive.blob(candidate.prompt))) if readable else []


def _gain(mine: Mapping[int, Estimate], theirs: Mapping[int, Estimate]) -> float | None:
    """The score less the parent's at the highest rung that both reached."""
    common = max(set(mine) & set(theirs), default=None)
    return None if common is None else mine[common]["mean"] - theirs[common]["mean"]


def _fate(kind: str, payload: Mapping[str, Any]) -> str:
    return (
        f"dropped: {payload.get('reason', '')}"
        if kind == "dropped"
        else f"reached rung {payload.get('rung', '?')}"
    )


def _verdict(c: Candidate, evaluations: Sequence[Evaluation], *, best: str, fate: str) -> str:
    if c.reason or c.twin:
        return verdict_of(c.reason, c.twin)
    if c.id == best or c.operator == DEFAULT:
        return BEST if c.id == best else "the default"
    if evaluations and not any(e.ok for e in evaluations):
        return f"failed: {evaluations[-1].reason}"
    return fate or ("scored" if evaluations else "not trained")


def verdict_of(reason: str | None, twin: str | None) -> str:
    """What can be said of a design before any training."""
    return f"invalid: {reason}" if reason else f"repeat of {str(twin)[:SHORT]}" if twin else ""


def design_table(rows: Iterable[Mapping[str, Any]], *, width: int) -> Table:
    """The rows as a table that fits the width: a narrow one has fewer columns, and the verdict is cut to what is left."""
    rows = list(rows)
    cells = [_cells(row) for row in rows]
    columns = [name for name in _cells({}) if width >= 100 or name not in WIDE_ONLY]
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in NUMBERS else "left", no_wrap=True)
    taken = sum(1 + max([len(name), *(len(one[name]) for one in cells)]) for name in columns[:-1])
    for row, one in zip(rows, cells, strict=True):
        texts = [Text(one[name]) for name in columns]
        texts[-1].truncate(max(width - taken, len("verdict")), overflow="ellipsis")
        table.add_row(*texts, style=_style(row))
    return table


def design_line(row: Mapping[str, Any]) -> str:
    """A row as one plain line."""
    cells = _cells(row)
    origin = f"of {cells['parent']}" if cells["parent"] else ""
    what = " ".join(part for part in (cells["operator"], cells["module"], origin) if part)
    facts = [f"design {cells['design']}" + (f" ({what})" if what else "")]
    facts += [f"rung {cells['rung']}"] if cells["rung"] else []
    facts += (
        [f"{cells['over default']} bps over the default"] if row.get("score") is not None else []
    )
    facts += [f"gain {cells['gain']}"] if row.get("gain") is not None else []
    return f"{', '.join(facts)}: {cells['verdict']}"


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    cells = {
        "design": str(row.get("id", "?"))[:SHORT],
        "it": row.get("iteration"),
        "operator": row.get("operator"),
        "module": row.get("module"),
        "parent": " + ".join(str(parent)[:SHORT] for parent in row.get("parents") or ()),
        "rung": row.get("rung"),
        "over default": score_text(row),
        "gain": signed(row.get("gain")),
        "verdict": row.get("verdict"),
    }
    return {name: "" if value is None else printable(value, 300) for name, value in cells.items()}


def _style(row: Mapping[str, Any]) -> str:
    verdict = str(row.get("verdict"))
    if verdict.startswith(("invalid", "failed")):
        return "red"
    return "bold green" if verdict in (NEW_BEST, BEST) else "dim" if row.get("stored") else ""


def score_text(row: Mapping[str, Any]) -> str:
    """A score with its standard error."""
    se = row.get("se")
    return signed(row.get("score")) + (
        f" ± {number(se)}" if isinstance(se, int | float) and math.isfinite(se) else ""
    )


def signed(value: Any, decimals: int = 2) -> str:
    """A difference with its sign; a dash where there is none."""
    text = number(value, decimals) if isinstance(value, int | float) else "–"
    return text if text[0] in "-–" or float(text) == 0 else f"+{text}"
