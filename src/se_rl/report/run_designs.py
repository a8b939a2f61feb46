"""What a run's archive says of its designs: how each ended, what it gained, where it came from, how it differs."""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from se_rl.modules.contracts import CONTRACTS
from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, Candidate, Evaluation, Event

SCORES = ("score", "static_specific", "static_total", "dynamic")
"""The number of an evaluation that counts: the first of these that it has."""


class Design(NamedTuple):
    """A proposal as the page shows it: `gain` is in bps over the default design at the same rung and seeds, `state` one
    of default, scored, waiting and those of `MARKS`."""

    number: int
    candidate: Candidate
    state: str
    gain: float | None = None
    rung: int = -1
    reason: str = ""

    @property
    def label(self) -> str:
        """What it is, on one line."""
        what = self.candidate.module or ("several modules" if self.candidate.operator != DEFAULT else "")
        return " · ".join(part for part in (self.candidate.id, self.candidate.operator, what) if part)


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
        return self.archive.blob(sha).decode(errors="replace") if sha and self.archive.has_blob(sha) else None


def read_run(archive: Archive, results: Mapping[str, Any] | None) -> Run:
    """Everything of the archive that the page needs, with the best design as the results, or else the search, name it."""
    events: dict[str, list[Event]] = defaultdict(list)
    for event in archive.events():
        events[event.kind].append(event)
    evaluations: dict[str, list[Evaluation]] = defaultdict(list)
    for evaluation in archive.evaluations():
        evaluations[evaluation.candidate].append(evaluation)
    candidates = archive.candidates()
    start = next((c.id for c in candidates if c.operator == DEFAULT), "")
    dropped = {event.payload["candidate"]: str(event.payload["reason"]) for event in events["dropped"]}
    designs = [
        judge(
            number, candidate, evaluations[candidate.id], base=evaluations[start], dropped=dropped.get(candidate.id, "")
        )
        for number, candidate in enumerate(candidates)
    ]
    held = events["iteration"][-1].payload.get("best") if events["iteration"] else None
    best = str((results or {}).get("best") or held or start)
    started = events["run_started"][0].payload if events["run_started"] else {}
    texts = {instruction.id: instruction.text for instruction in archive.instructions()}
    return Run(archive, started, designs, dict(evaluations), dict(events), texts, best)


def judge(
    number: int, candidate: Candidate, own: Sequence[Evaluation], *, base: Sequence[Evaluation], dropped: str
) -> Design:
    """How a proposal ended, and what it gained over the default at the highest rung that both were trained at."""
    if candidate.operator == DEFAULT:
        return Design(number, candidate, "default", 0.0, max((e.rung for e in own if e.ok), default=0))
    if candidate.twin:
        return Design(number, candidate, "repeat", reason=f"repeats {candidate.twin}")
    if candidate.reason:
        return Design(number, candidate, "not valid", reason=candidate.reason)
    last = [e for e in own if e.rung == max(each.rung for each in own)]
    if last and not any(e.ok for e in last):
        return Design(number, candidate, "training failed", reason=last[-1].reason)
    held = {(e.rung, e.seed): score(e) for e in base if e.ok}
    gains: dict[int, list[float]] = defaultdict(list)
    for e in own:
        gain = score(e) - held.get((e.rung, e.seed), math.nan)
        if e.ok and math.isfinite(gain):
            gains[e.rung].append(gain)
    if not gains:
        return Design(number, candidate, "waiting", reason=dropped)
    rung = max(gains)
    return Design(number, candidate, "scored", fmean(gains[rung]), rung, dropped)


def score(evaluation: Evaluation) -> float:
    """The number that an evaluation is ranked by, in bps over TWAP."""
    return next((evaluation.scores[name] for name in SCORES if name in evaluation.scores), math.nan)


def lineage(designs: Sequence[Design], best: str) -> list[str]:
    """Ids from the best design back to the start, by first parents, oldest first."""
    parents = {design.candidate.id: design.candidate.parents for design in reversed(designs)}
    line = [best] if best in parents else []
    while line and (above := parents.get(line[-1])) and above[0] not in line:
        line.append(above[0])
    return line[::-1]


def default_source(code_type: str) -> str:
    """The text of the hand-written default of a module, "" where the default is to do without."""
    path = Path(__file__).parents[1] / "modules" / "defaults.py"
    text = path.read_text(encoding="utf-8")
    if code_type not in CONTRACTS or code_type == "imagination":
        return ""
    nodes = [n for n in ast.parse(text).body if getattr(n, "name", "") == CONTRACTS[code_type].entry]
    return (ast.get_source_segment(text, nodes[0]) or "") if nodes else ""


def side_by_side(left: str, right: str) -> Iterator[tuple[str, str | None, str | None]]:
    """Lines of two texts beside each other as (kind, left, right); kind is same or changed, None where a side has no line."""
    old, new = left.splitlines(), right.splitlines()
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        kind = "same" if tag == "equal" else "changed"
        for row in range(max(b - a, d - c)):
            yield kind, old[a + row] if a + row < b else None, new[c + row] if c + row < d else None
