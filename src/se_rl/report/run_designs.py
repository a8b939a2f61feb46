"""What a run's archive says of its designs: how each ended, what it gained, where it came from, how it differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from se_rl.records.archive import Archive, ArchiveError
from se_rl.records.entries import DEFAULT, NAIVE, Candidate, Evaluation, Event
from se_rl.report.design_rows import OverDefault, best_design


class Design(NamedTuple):
    """A design as the page shows it: `gain` with its error `se` is in bps over the default at the highest rung where both
    were trained with the same seeds; `state` is one of default, scored, waiting, not valid, training failed, repeat."""

    number: int
    candidate: Candidate
    state: str
    gain: float | None = None
    se: float | None = None
    rung: int = -1
    reason: str = ""

    @property
    def proposed(self) -> bool:
        """Whether the search brought it; the default and the naive one stand beside it."""
        return self.candidate.iteration > 0

    @property
    def label(self) -> str:
        """What it is, on one line."""
        what = self.candidate.module or ("several modules" if self.proposed else "")
        return " · ".join(
            part for part in (self.candidate.id, self.candidate.operator, what) if part
        )


class Run(NamedTuple):
    """What the archive says; `events` are by kind, `instructions` the texts by id, `best` is the id of the best design."""

    archive: Archive
    started: Mapping[str, Any]
    designs: list[Design]
    evaluations: dict[str, list[Evaluation]]
    events: dict[str, list[Event]]
    instructions: dict[str, str]
    best: str

    def design(self, name: str) -> Design | None:
        """The first proposal of that id."""
        return next((design for design in self.designs if design.candidate.id == name), None)

    def text(self, sha: str) -> str | None:
        """A stored text; None where the file is lost or damaged, which must not cost the rest of the page."""
        return (
            self.archive.blob(sha).decode(errors="replace")
            if sha and self.archive.has_blob(sha)
            else None
        )


def read_run(archive: Archive, results: Mapping[str, Any] | None) -> Run:
    """Everything of the archive that the page needs, with the best design as the results, or else the search, name it."""
    events: dict[str, list[Event]] = defaultdict(list)
    for event in archive.events():
        events[event.kind].append(event)
    evaluations: dict[str, list[Evaluation]] = defaultdict(list)
    for evaluation in archive.evaluations():
        evaluations[evaluation.candidate].append(evaluation)
    candidates = [c for c in archive.candidates() if c.operator != NAIVE]
    scoring = OverDefault(archive)
    dropped = {
        event.payload["candidate"]: str(event.payload["reason"]) for event in events["dropped"]
    }
    designs = []
    for number, candidate in enumerate(candidates):
        own = evaluations[candidate.id]
        gains = _gains(scoring, own)
        designs.append(
            judge(number, candidate, own, gains=gains, dropped=dropped.get(candidate.id, ""))
        )
    started = events["run_started"][0].payload if events["run_started"] else {}
    texts = {instruction.id: instruction.text for instruction in archive.instructions()}
    start = next((c.id for c in candidates if c.operator == DEFAULT), "")
    best = str((results or {}).get("best") or best_design(archive) or start)
    return Run(archive, started, designs, dict(evaluations), dict(events), texts, best)


def judge(
    number: int,
    candidate: Candidate,
    own: Sequence[Evaluation],
    *,
    gains: Mapping[int, Mapping[str, Any]],
    dropped: str,
) -> Design:
    """How a design ended; `gains` are its estimates over the default by rung."""
    if candidate.operator == DEFAULT:
        return Design(
            number, candidate, "default", 0.0, 0.0, max((e.rung for e in own if e.ok), default=0)
        )
    if candidate.twin:
        return Design(number, candidate, "repeat", reason=f"repeats {candidate.twin}")
    if candidate.reason:
        return Design(number, candidate, "not valid", reason=candidate.reason)
    last = [e for e in own if e.rung == max(each.rung for each in own)]
    if last and not any(e.ok for e in last):
        return Design(number, candidate, "training failed", reason=last[-1].reason)
    if not gains:
        return Design(number, candidate, "waiting", reason=dropped)
    rung = max(gains)
    return Design(
        number, candidate, "scored", gains[rung]["mean"], gains[rung]["se"], rung, dropped
    )


def _gains(scoring: OverDefault, own: Sequence[Evaluation]) -> dict[int, dict[str, Any]]:
    """Estimates by rung; none where a file of scores is lost, which must not cost the rest of the page."""
    try:
        return dict(scoring.by_rung(own))
    except ArchiveError:
        return {}


def lineage(designs: Sequence[Design], best: str) -> list[str]:
    """Ids from the best design back to the start, by first parents, oldest first."""
    parents = {design.candidate.id: design.candidate.parents for design in reversed(designs)}
    line = [best] if best in parents else []
    while line and (above := parents.get(line[-1])) and above[0] not in line:
        line.append(above[0])
    return line[::-1]


def side_by_side(left: str, right: str) -> Iterator[tuple[str, str | None, str | None]]:
    """Lines of two texts beside each other as (kind, left, right); kind is same or changed, None where a side has no line."""
    old, new = left.splitlines(), right.splitlines()
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        kind = "same" if tag == "equal" else "changed"
        for row in range(max(b - a, d - c)):
            yield kind, old[a + row] if a + row < b else None, new[c + row] if c + row < d else None
