"""Every design and instruction of a search so far; what is new is stored and announced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace

from se_rl.core.operators import Proposed
from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, Candidate, EventListener, Instruction, key_of
from se_rl.records.secrets import scrub


def changed_modules(candidate: Candidate) -> tuple[str, ...]:
    """The modules that a proposal is about: the one that it changed, or all that it has."""
    return (candidate.module,) if candidate.module else tuple(candidate.modules)


class KnownDesigns:
    """Designs by name with their sources, and the instructions that asked for them.

    `proposed` counts all proposals but the default, `repeated` those that were not new, `by_module`
    the proposals for each module.
    """

    def __init__(self, archive: Archive, *, on_event: EventListener) -> None:
        self.archive = archive
        self.on_event = on_event
        self.candidates: dict[str, Candidate] = {}
        self.sources: dict[str, Mapping[str, str]] = {}
        self.instructions: dict[str, Instruction] = {}
        self.proposed = 0
        self.repeated = 0
        self.by_module = Counter[str]()

    def record(self, one: Proposed, *, call: str = "") -> Proposed:
        """Store a proposal; one that repeats an earlier design is counted, and not trained again.

        `call` is the model call that brought it.
        """
        candidate = one.candidate
        if candidate.operator != DEFAULT:
            self.proposed += 1
            self.by_module.update(changed_modules(candidate))
        if candidate.id in self.candidates:
            return self._record_repeat(one)
        prompt = self.archive.put_blob(scrub(one.prompt).encode()) if one.prompt else ""
        candidate = replace(candidate, prompt=prompt, call=call)
        self.candidates[candidate.id] = candidate
        self.sources[candidate.id] = one.sources
        is_new = self.archive.add_candidate(candidate, one.sources)
        self.on_event("proposed", asdict(candidate), stored=not is_new)
        return replace(one, candidate=candidate)

    def add_instruction(self, instruction: Instruction) -> Instruction:
        """Store an instruction."""
        self.instructions[instruction.id] = instruction
        is_new = self.archive.add_instruction(instruction)
        self.on_event("instruction", asdict(instruction), stored=not is_new)
        return instruction

    def versions(self, module: str) -> list[str]:
        """All sources of a module, in the order of proposal."""
        return [sources[module] for sources in self.sources.values() if module in sources]

    def _record_repeat(self, one: Proposed) -> Proposed:
        self.repeated += 1
        candidate = replace(one.candidate, twin=one.candidate.id)
        key = key_of(
            "repeated",
            candidate.iteration,
            candidate.operator,
            candidate.module,
            candidate.place,
            self.proposed,
        )
        payload = {**asdict(candidate), "behaviour": []}
        is_new = self.archive.append("repeated", key, payload)
        self.on_event("repeated", payload, stored=not is_new)
        return replace(one, candidate=candidate)
