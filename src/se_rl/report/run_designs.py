"""What a run's archive says of its designs: how each ended, how it stands, where it came from."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from se_rl.modules.kinds import KINDS
from se_rl.records.archive import Archive, ArchiveError
from se_rl.records.entries import DEFAULT, REFERENCES, Candidate, Evaluation, Event, StoredStanding
from se_rl.records.gains import UNKNOWN, Bounds
from se_rl.records.iterations import IterationSummary
from se_rl.records.plain import from_plain
from se_rl.records.results import DataFacts, RunResults
from se_rl.report.design_rows import best_design, highest_standings
from se_rl.report.page_numbers import around, interval, signed

HOVER_CHARACTERS = 160
"""Letters of a text that a chart shows beside the mouse."""


@dataclass(frozen=True)
class Design:
    """A design as the page shows it, with its stored standing at the highest rung that it reached.

    `beside_parent` is its standing at the highest rung where its parent stands too. `state` is one
    of default, scored, waiting, not valid, training failed, repeat.
    """

    number: int
    candidate: Candidate
    state: str
    standing: StoredStanding | None = None
    reason: str = ""
    beside_parent: StoredStanding | None = None

    @property
    def gain(self) -> float | None:
        """What it scores over the default, in bps; None without a score."""
        return self.standing.score if self.standing else None

    @property
    def se(self) -> float | None:
        """The standard error of that."""
        return self.standing.se if self.standing else None

    @property
    def ci95(self) -> Bounds:
        """The 95 % interval of what it scores over the default."""
        return self.standing.ci95 if self.standing else UNKNOWN

    @property
    def rung(self) -> int:
        """The rung that it is scored at; -1 without a score."""
        return self.standing.rung if self.standing else -1

    @property
    def proposed(self) -> bool:
        """Whether the search brought it; the default and the naive one stand beside it."""
        return self.candidate.iteration > 0

    @property
    def label(self) -> str:
        """What it is, on one line."""
        what = self.candidate.module or ("several modules" if self.proposed else "")
        return " · ".join(filter(None, (self.candidate.id, self.candidate.operator, what)))


@dataclass(frozen=True)
class RunRecord:
    """Everything of a run's folder that the page needs; `results` is None while the run is under
    way.

    `events` are by kind, `instructions` the texts by id, `best` is the id of the best design.
    """

    archive: Archive
    started: Mapping[str, Any]
    designs: Sequence[Design]
    evaluations: Mapping[str, Sequence[Evaluation]]
    events: Mapping[str, Sequence[Event]]
    instructions: Mapping[str, str]
    best: str
    results: RunResults | None = None

    @property
    def data(self) -> DataFacts:
        """The data that the run uses."""
        if self.results is not None:
            return self.results.data
        return from_plain(DataFacts, self.started.get("data") or {})

    @property
    def iterations(self) -> list[IterationSummary]:
        """The outer iterations that have ended."""
        events = self.events.get("iteration", [])
        return [from_plain(IterationSummary, event.payload) for event in events]

    def design(self, name: str) -> Design | None:
        """The first proposal of that id."""
        return next((design for design in self.designs if design.candidate.id == name), None)

    def text(self, sha: str) -> str | None:
        """A stored text; None where the file is lost or damaged, which must not cost the rest of
        the page.
        """
        try:
            return self.archive.source(sha) if sha else None
        except ArchiveError:
            return None


def read_run(archive: Archive, results: RunResults | None) -> RunRecord:
    """Read the archive; the best design is the one that the results, or else the search, name."""
    events: dict[str, list[Event]] = defaultdict(list)
    for event in archive.events():
        events[event.kind].append(event)
    evaluations: dict[str, list[Evaluation]] = defaultdict(list)
    for evaluation in archive.evaluations():
        evaluations[evaluation.candidate].append(evaluation)
    dropped = {}
    for event in events["dropped"]:
        dropped[event.payload["candidate"]] = str(event.payload["reason"])
    stored = archive.standings().values()
    standings = highest_standings(stored)
    beside_parents = highest_standings([one for one in stored if one.gain is not None])
    candidates = [
        candidate for candidate in archive.candidates() if candidate.operator not in REFERENCES
    ]
    designs = []
    for number, candidate in enumerate(candidates):
        design = design_of(
            number,
            candidate,
            evaluations=evaluations.get(candidate.id, []),
            standing=standings.get(candidate.id),
            dropped=dropped.get(candidate.id, ""),
        )
        if design.state == "scored":
            design = replace(design, beside_parent=beside_parents.get(candidate.id))
        designs.append(design)
    first = next((c.id for c in candidates if c.operator == DEFAULT), "")
    best = (results.best if results else "") or best_design(archive) or first
    return RunRecord(
        archive,
        events["run_started"][0].payload if events["run_started"] else {},
        designs,
        dict(evaluations),
        dict(events),
        {instruction.id: instruction.text for instruction in archive.instructions()},
        best,
        results,
    )


def design_of(
    number: int,
    candidate: Candidate,
    *,
    evaluations: Sequence[Evaluation],
    standing: StoredStanding | None,
    dropped: str,
) -> Design:
    """How a design ended, from its trainings and its stored standing."""
    if candidate.operator == DEFAULT:
        return Design(number, candidate, "default", standing)
    if candidate.twin:
        return Design(number, candidate, "repeat", reason=f"repeats {candidate.twin}")
    if candidate.reason:
        return Design(number, candidate, "not valid", reason=candidate.reason)
    highest = max((e.rung for e in evaluations), default=0)
    last = [e for e in evaluations if e.rung == highest]
    if last and not any(e.ok for e in last):
        return Design(number, candidate, "training failed", reason=last[-1].reason)
    if standing is None:
        return Design(number, candidate, "waiting", reason=dropped)
    return Design(number, candidate, "scored", standing, dropped)


def credits_in_words(design: Design) -> str:
    """What the design's protocol or market is worth; "" where neither was judged."""
    known = design.standing.credits if design.standing else {}
    parts = []
    for module, (credit, error) in known.items():
        counterpart = KINDS[module].counterpart if module in KINDS else None
        against = f" against {counterpart.name}" if counterpart else ""
        parts.append(f"{module} {signed(credit)} {interval(around(credit, error))} bps{against}")
    return ", ".join(parts)


def lineage(designs: Sequence[Design], best: str) -> list[str]:
    """Ids from the best design back to the start, by first parents, oldest first."""
    parents = {design.candidate.id: design.candidate.parents for design in reversed(designs)}
    line = [best] if best in parents else []
    while line and (above := parents.get(line[-1])) and above[0] not in line:
        line.append(above[0])
    return line[::-1]


def as_hover(text: str) -> str:
    """Text that plotly shows as it stands: no tags, no templates, not endless."""
    line = " ".join(text.split())
    if len(line) > HOVER_CHARACTERS:
        line = line[: HOVER_CHARACTERS - 1] + "…"
    return html.escape(line)
