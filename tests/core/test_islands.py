"""Searches on one archive that trade their leaders: who is shown, who is taken, and that a search stays itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from secrets import token_hex
from types import SimpleNamespace
from typing import Any, cast

import pytest

from se_rl.config import ConfigError
from se_rl.core.islands import Islands
from se_rl.llm.code_validator import ValidationResult
from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, Candidate, design_id, sha256
from se_rl.records.settings import preset
from se_rl.records.shared_archive import SharedArchive

DEFAULT_DESIGN = Candidate(design_id({}), {}, DEFAULT)


@dataclass
class Leading:
    """As much of a search as islands see: its designs, and the score of the one that leads."""

    archive: SharedArchive
    best: str = DEFAULT_DESIGN.id
    score: float = 0.0
    default: Candidate = DEFAULT_DESIGN
    designs: Any = field(default_factory=lambda: SimpleNamespace(candidates={}))

    @property
    def ladder(self) -> Any:
        return SimpleNamespace(longest=lambda _: SimpleNamespace(score=self.score, se=0.1))

    def leads(self, source: str, score: float) -> Candidate:
        modules = {"reward": sha256(source)}
        candidate = Candidate(design_id(modules), modules, "edit", (self.default.id,))
        self.archive.add_candidate(candidate, {"reward": source})
        self.designs.candidates[candidate.id] = candidate
        self.best, self.score = candidate.id, score
        return candidate


def _judge(source: str, code_type: str) -> ValidationResult:
    bad = "import os" in source
    return ValidationResult(not bad, "static", "imports are refused" if bad else "")


@pytest.fixture
def islands(postgres: str) -> Iterator[list[Islands]]:
    """Three searches, the last with another task."""
    name = token_hex(4)
    with ExitStack() as stack:
        made = []
        for number, task in enumerate((name, name, "other")):
            archive = stack.enter_context(Archive.open(f"{postgres}&run={name}-{number}"))
            assert isinstance(archive, SharedArchive)
            archive.add_candidate(DEFAULT_DESIGN, {})
            search = cast(Any, Leading(archive))
            made.append(Islands(archive, search, task=task, validate=_judge))
        yield made


def _search(one: Islands) -> Leading:
    return cast(Any, one.search)


def test_a_leader_is_taken_once_and_again_when_the_search_is_resumed(
    islands: list[Islands],
) -> None:
    one, two, other = islands
    shown = _search(one).leads("def reward(step): return 1.0", 2.0)
    _search(other).leads("def reward(step): return 9.0", 9.0)
    for island in (one, other):
        island.show_leader(1)
    assert two.newcomers(1) == []
    (taken,) = two.newcomers(2)
    assert taken.candidate.id == shown.id and taken.trainable and taken.proposal is None
    assert (taken.candidate.operator, taken.candidate.parents) == ("migrant", (DEFAULT_DESIGN.id,))
    assert taken.sources == {"reward": "def reward(step): return 1.0"}
    two.archive.add_candidate(taken.candidate, taken.sources)
    _search(two).designs.candidates[shown.id] = taken.candidate
    assert two.newcomers(3) == []  # it is known now
    better = _search(one).leads("def reward(step): return 2.0", 3.0)
    one.show_leader(2)
    # resumed: the others have gone on, and this search has begun anew
    again = Islands(two.archive, cast(Any, Leading(two.archive)), task=two.task, validate=_judge)
    assert [c.candidate.id for c in again.newcomers(2)] == [shown.id] and again.newcomers(3) == []
    assert [c.candidate.id for c in again.newcomers(4)] == [better.id]
    met = [event.payload["run"] for event in two.archive.events("migrant")]
    assert met == [one.archive.run, "", one.archive.run]


def test_the_default_is_not_shown_and_refused_source_is_not_trained(islands: list[Islands]) -> None:
    one, two, _ = islands
    one.show_leader(1)
    assert two.newcomers(2) == []
    _search(one).leads("import os", 5.0)
    one.show_leader(2)
    (taken,) = two.newcomers(3)
    assert taken.candidate.reason == "imports are refused" and not taken.trainable


@pytest.mark.parametrize("changes", [{"arm": "random"}, {"arm": "best-of-n"}, {"against": "bank"}])
def test_islands_are_for_searches_that_have_trained_parents(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"islands trade trained parents .* leave --islands out"):
        preset("tiny", islands=True, **changes)
