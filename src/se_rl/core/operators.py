"""Step 1 of Algorithm 1: new designs from a parent, by one operator on one module.

draft      a new module, the parent's not shown           tweak      the parent's module, improved
rewrite    a different idea, the parent's shown as tried  simplify   the parent's module with less in it
repair     a failed module with the reason, mended        crossover  another design's module, swapped in: no model asked
random     drawn from the grammar: the control that asks no model either
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from se_rl.llm.backends import Proposal
from se_rl.llm.generator import Attempt, DesignGenerator
from se_rl.llm.prompts import Scored, default_micro
from se_rl.modules.default_sources import default_source
from se_rl.modules.grammar import random_design
from se_rl.records.entries import Candidate, Instruction, design_id, sha256

ASKED = ("draft", "tweak", "rewrite", "simplify", "repair")
OPERATORS = (*ASKED, "crossover")
ADDED = {
    "rewrite": "Try another idea than the designs shown.",
    "simplify": "Remove what does not help: of two equal designs the shorter one wins.",
    "repair": "This design failed ({reason}). Mend exactly this.",
}
"""What an operator adds to the micro instruction."""


@dataclass(frozen=True)
class Proposed:
    """A new design, not yet trained: its record, its sources by module, and what it takes to learn from it."""

    candidate: Candidate
    sources: Mapping[str, str]
    arm: Mapping[str, str]
    proposal: Proposal | None = field(default=None, repr=False)
    prompt: str = ""

    @property
    def trainable(self) -> bool:
        """Whether it is valid and new."""
        return not self.candidate.reason and not self.candidate.twin


@dataclass(frozen=True)
class Plan:
    """What to try: start from a parent, change a module by an operator, with these words and this history."""

    iteration: int
    arm: Mapping[str, str]
    parent: Candidate
    parent_sources: Mapping[str, str]
    macro: Instruction | None = None
    micro: Instruction | None = None
    history: Sequence[Scored] = ()
    score: float = 0.0
    failed: tuple[str, str] | None = None

    @property
    def module(self) -> str:
        """The code_type to change."""
        return self.arm["module"]

    @property
    def shown(self) -> str:
        """The module's source in the parent."""
        return self.parent_sources.get(self.module) or default_source(self.module)


def ask(
    plan: Plan, generator: DesignGenerator, n: int, *, seed: int, avoid: Sequence[str] = ()
) -> list[Proposed]:
    """n designs written by a language model."""
    operator, words = plan.arm["operator"], prompt_words(plan)
    attempts = generator.generate(plan.module, n, seed=seed, avoid=[*avoid, plan.shown], **words)
    return [
        proposed(plan, attempt, place=i, operator=operator) for i, attempt in enumerate(attempts)
    ]


def prompt_words(plan: Plan) -> dict[str, Any]:
    """What the prompt says beside the contract."""
    operator, history = plan.arm["operator"], list(plan.history)
    parent = (
        Scored(plan.shown, {"score_bps": plan.score}) if operator in ("tweak", "simplify") else None
    )
    if operator == "rewrite":  # the parent must be among the few designs that a prompt has room for
        others = [one for one in history if one.source != plan.shown][: max(1, len(history) - 1)]
        history = [*others, Scored(plan.shown, {"score_bps": plan.score})]
    reason = ""
    if operator == "repair" and plan.failed is not None:
        parent, reason = Scored(plan.failed[0]), plan.failed[1]
    micro = plan.micro.text if plan.micro else default_micro(plan.module)
    micro = f"{micro} {ADDED.get(operator, '').format(reason=reason[:200])}".strip()
    return {
        "macro": plan.macro.text if plan.macro else None,
        "micro": micro,
        "parent": parent,
        "history": history,
    }


def proposed(plan: Plan, attempt: Attempt, *, place: int, operator: str) -> Proposed:
    """A written module, in its parent's design."""
    reason = "" if attempt.is_valid else (attempt.faults[-1] if attempt.faults else "no answer")
    proposal = attempt.proposal
    text = attempt.source or (proposal.text if proposal else "")
    sources = {**plan.parent_sources, plan.module: text}
    chat = json.dumps(proposal.request.messages) if proposal and proposal.request else ""
    behaviour = attempt.validation.behaviour.tolist() if attempt.validation else []
    candidate = Candidate(
        design_id(hashes(sources)),
        hashes(sources),
        operator,
        (plan.parent.id,),
        plan.module,
        plan.iteration,
        place=place,
        macro=plan.macro.id if plan.macro else "",
        micro=plan.micro.id if plan.micro else "",
        model=proposal.model if proposal else "",
        adapter=(proposal.adapter or "") if proposal else "",
        reason=reason,
        behaviour=tuple(round(float(v), 5) for v in behaviour),
    )
    return Proposed(candidate, sources, plan.arm, proposal, chat)


def swap(plan: Plan, donors: Sequence[tuple[Candidate, Mapping[str, str]]]) -> list[Proposed]:
    """The parent with each donor's module in the place of its own; a donor without one gives the default's."""
    made = []
    for place, (donor, theirs) in enumerate(donors):
        sources = {name: text for name, text in plan.parent_sources.items() if name != plan.module}
        sources |= {plan.module: theirs[plan.module]} if plan.module in theirs else {}
        candidate = Candidate(
            design_id(hashes(sources)),
            hashes(sources),
            "crossover",
            (plan.parent.id, donor.id),
            plan.module,
            plan.iteration,
            place=place,
        )
        made.append(Proposed(candidate, sources, plan.arm))
    return made


def drawn(
    modules: Sequence[str], default: Candidate, iteration: int, place: int, rng: np.random.Generator
) -> Proposed:
    """A random design: one to all of the modules from their grammars."""
    chosen = [name for name in modules if rng.random() < 0.5] or [
        modules[int(rng.integers(len(modules)))]
    ]
    sources = {name: random_design(name, rng) for name in chosen}
    changed = chosen[0] if len(chosen) == 1 else ""
    candidate = Candidate(
        design_id(hashes(sources)),
        hashes(sources),
        "random",
        (default.id,),
        changed,
        iteration,
        place=place,
    )
    return Proposed(
        candidate, sources, {"module": chosen[0], "operator": "random", "model": "none"}
    )


def hashes(sources: Mapping[str, str]) -> dict[str, str]:
    """The names of a design's modules."""
    return {name: sha256(text) for name, text in sorted(sources.items())}
