"""Designs as the suite takes them: a run's champion, any design of a run, or modules by hand."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from se_rl.core.by_hand import read_modules
from se_rl.core.operators import hashes
from se_rl.core.replay import open_stored_run
from se_rl.core.saved_policy import policy_path
from se_rl.records.entries import DEFAULT, Candidate, design_id
from se_rl.rl.policy_file import policy_facts

BY_HAND = "by hand"


@dataclass(frozen=True)
class SuiteDesign:
    """A design under the name that it was given by; no sources are the default's."""

    name: str
    sources: Mapping[str, str]

    @property
    def candidate(self) -> Candidate:
        """The design as archives know it."""
        modules = hashes(self.sources)
        return Candidate(design_id(modules), modules, BY_HAND if self.sources else DEFAULT)


DEFAULT_DESIGN = SuiteDesign(DEFAULT, {})


def named_design(text: str) -> SuiteDesign:
    """RUN, for the champion of a finished run, or RUN:ID, for any design of it."""
    folder, mark, design = text.rpartition(":")
    if not mark or Path(text).exists():
        return SuiteDesign(text, policy_facts(policy_path(Path(text))).get("design") or {})
    with ExitStack() as stack:
        archive = open_stored_run(stack, Path(folder), read_only=True).archive
        return SuiteDesign(text, archive.sources(archive.candidate(design)))


def design_by_hand(files: Mapping[str, Path]) -> SuiteDesign:
    """A design of module files, refused where the static check refuses one."""
    return SuiteDesign(BY_HAND, read_modules(files))
