"""Designs as rows: what was tried, how far it came, how it stands over the default, what became of
it.

A row is made from a run's record here, or from its events as they happen. Scores and errors are
those that the search stored: nothing is computed a second time. Every text in a row may be hostile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from se_rl.bounded_reading import plain_json
from se_rl.records.entries import DEFAULT, REFERENCES, Candidate, Evaluation, Event, StoredStanding

if TYPE_CHECKING:
    from se_rl.records.archive import Archive

SHORT = 6
"""Letters of a design's name that people see; a beginning is enough for `se-rl show`."""
NEW_BEST = "new best"
BEST = "best"
REWARDS = ("reward_static", "reward_dynamic")


@dataclass(frozen=True)
class DesignRow:
    """One design: `score` ± `se` is its stored standing over the default at `rung`, `gain` that
    over its parent, in bps.
    """

    id: str
    iteration: int | None
    operator: str
    module: str
    parents: tuple[str, ...]
    rung: int | None
    score: float
    se: float
    gain: float
    verdict: str
    stored: bool | None = None

    @property
    def is_scored(self) -> bool:
        """Whether it has a standing."""
        return math.isfinite(self.score)


def blank_row(name: str) -> DesignRow:
    """A design of which nothing is known yet."""
    return DesignRow(name, None, "", "", (), None, math.nan, math.nan, math.nan, "")


def design_rows(archive: Archive) -> list[DesignRow]:
    """Every design of the record in order of proposal, each as it stands at the highest rung that
    it reached.
    """
    best = best_design(archive)
    highest = highest_standings(archive.standings().values())
    trained: dict[str, list[Evaluation]] = {}
    for evaluation in archive.evaluations():
        trained.setdefault(evaluation.candidate, []).append(evaluation)
    fates = {}
    for event in archive.events("dropped", "promoted"):
        fates[str(event.payload.get("candidate"))] = _fate(event)
    rows = []
    for candidate in archive.candidates():
        if candidate.operator in REFERENCES:
            continue
        own = trained.get(candidate.id, [])
        verdict = _verdict(candidate, own, best=best, fate=fates.get(candidate.id, ""))
        rows.append(_row(candidate, highest.get(candidate.id), verdict))
    return rows


def highest_standings(standings: Iterable[StoredStanding]) -> dict[str, StoredStanding]:
    """Each design's standing at the highest rung that it reached."""
    highest: dict[str, StoredStanding] = {}
    for standing in standings:
        known = highest.get(standing.candidate)
        if known is None or known.rung <= standing.rung:
            highest[standing.candidate] = standing
    return highest


def best_design(archive: Archive) -> str:
    """The best design as the run last stored it ("" before the first iteration has ended)."""
    for event in reversed(archive.events("iteration", "finished")):
        if event.payload.get("best"):
            return str(event.payload["best"])
    return ""


def curves(archive: Archive, evaluations: Sequence[Evaluation]) -> Mapping[str, list[float]]:
    """The rewards during a design's longest training, world by world."""
    stored = [evaluation for evaluation in evaluations if evaluation.curve]
    if not stored:
        return {}
    longest = max(stored, key=lambda evaluation: (evaluation.rung, -evaluation.seed))
    rows = plain_json(archive.text(longest.curve))
    found = {}
    for name in REWARDS:
        values = [row[name] for row in rows if isinstance(row.get(name), int | float)]
        finite = [float(value) for value in values if math.isfinite(value)]
        if finite:
            found[name] = finite
    return found


def prompt_of(archive: Archive, candidate: Candidate) -> list[dict[str, str]]:
    """The messages that a model answered with this design; none where no model wrote it."""
    if not candidate.prompt or not archive.has_blob(candidate.prompt):
        return []
    messages = []
    for message in plain_json(archive.text(candidate.prompt)):
        messages.append({"role": str(message["role"]), "content": str(message["content"])})
    return messages


def verdict_of(reason: str | None, twin: str | None) -> str:
    """What can be said of a design before any training."""
    if reason:
        return f"invalid: {reason}"
    return f"repeat of {str(twin)[:SHORT]}" if twin else ""


def _row(candidate: Candidate, standing: StoredStanding | None, verdict: str) -> DesignRow:
    if candidate.twin or standing is None:
        rung, score, se, gain = None, math.nan, math.nan, None
    else:
        rung, score, se, gain = standing.rung, standing.score, standing.se, standing.gain
    return DesignRow(
        candidate.id,
        candidate.iteration,
        candidate.operator,
        candidate.module,
        candidate.parents,
        rung,
        score,
        se,
        math.nan if gain is None else gain,
        verdict,
    )


def _fate(event: Event) -> str:
    if event.kind == "dropped":
        return f"dropped: {event.payload.get('reason', '')}"
    return f"reached rung {event.payload.get('rung', '?')}"


def _verdict(
    candidate: Candidate, evaluations: Sequence[Evaluation], *, best: str, fate: str
) -> str:
    if candidate.reason or candidate.twin:
        return verdict_of(candidate.reason, candidate.twin)
    if candidate.id == best:
        return BEST
    if candidate.operator == DEFAULT:
        return "the default"
    if evaluations and not any(evaluation.ok for evaluation in evaluations):
        return f"failed: {evaluations[-1].reason}"
    return fate or ("scored" if evaluations else "not trained")
