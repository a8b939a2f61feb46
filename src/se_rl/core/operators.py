"""Step 1 of Algorithm 1: new designs from a parent, by one operator on one module.

edit       the parent's module with one to three choices made otherwise
draft      a new module, the parent's is not shown: a fresh start
rewrite    a different idea, the parent's module is shown as tried: a fresh start
repair     a failed module with the reason, mended
crossover  another design's module, swapped in: no model is asked
scan       the default with one choice made otherwise: what the first iteration tries
chain      the default with several choices made otherwise, by what the design bank expects
combine    the choices of two promising designs together: what each later iteration begins with
random     a whole design drawn from the grammar: a control that asks no model either
migrant    the leader of another search on the same archive, taken over as it is
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

from se_rl.core.bandit import StepChoice
from se_rl.llm.backends import Proposal
from se_rl.llm.editing import EditTask, TriedEdit, write_edits
from se_rl.llm.generator import Attempt, DesignGenerator
from se_rl.llm.prompts import Scored, default_micro
from se_rl.modules.kinds import KINDS
from se_rl.records.entries import Candidate, Instruction, design_id, sha256

ASKED = ("edit", "draft", "rewrite", "repair")
"""Operators that ask a model; the arm `local` draws its edits instead."""
OPERATORS = (*ASKED, "crossover")
ADDED = {
    "rewrite": "Try another idea than the designs shown.",
    "repair": "This design failed ({reason}). Mend exactly this.",
}
"""What an operator adds to the micro instruction."""
MOST_REASON = 200
"""Letters of a failure's reason that a prompt shows."""


@dataclass(frozen=True)
class Proposed:
    """A new design, not yet trained: its record, its sources, and what it takes to learn from it.

    `choice` is what the bandit chose, `proposal` the model's answer, `prompt` the chat that asked
    for it (JSON).
    """

    candidate: Candidate
    sources: Mapping[str, str]
    choice: StepChoice
    proposal: Proposal | None = field(default=None, repr=False)
    prompt: str = ""

    @property
    def trainable(self) -> bool:
        """Whether it is valid and new."""
        return not self.candidate.reason and not self.candidate.twin


@dataclass(frozen=True)
class Plan:
    """What to try: start from a parent, change a module by an operator, with these words.

    `score` is the parent's in bps; `failed` is a source that failed and the reason, to repair. An
    edit makes `changes` choices anew; `edits` are earlier ones of this module and their gains.
    """

    iteration: int
    choice: StepChoice
    parent: Candidate
    parent_sources: Mapping[str, str]
    macro: Instruction | None = None
    micro: Instruction | None = None
    history: Sequence[Scored] = ()
    score: float = 0.0
    failed: tuple[str, str] | None = None
    changes: int = 1
    edits: Sequence[TriedEdit] = ()

    @property
    def module(self) -> str:
        """The code_type to change."""
        return self.choice["module"]

    @property
    def operator(self) -> str:
        """How to change it."""
        return self.choice["operator"]

    @property
    def shown(self) -> str:
        """The module's source in the parent."""
        return self.parent_sources.get(self.module) or KINDS[self.module].default_source

    @property
    def edit_task(self) -> EditTask:
        """What a model is asked where the operator is an edit."""
        return EditTask(
            self.module,
            self.shown,
            self.score,
            self.changes,
            macro=self.macro.text if self.macro else None,
            micro=self.micro.text if self.micro else None,
            tried=self.edits,
        )


class PromptWords(TypedDict):
    """What a prompt says beside the contract."""

    macro: str | None
    micro: str
    parent: Scored | None
    history: list[Scored]


def ask(
    plan: Plan, generator: DesignGenerator, n: int, *, seed: int, avoid: Sequence[str] = ()
) -> list[Proposed]:
    """n designs written by a language model; `avoid` are sources that it shall not write again."""
    if plan.operator == "edit":
        attempts = write_edits(generator, plan.edit_task, n, seed=seed, avoid=avoid)
    else:
        attempts = generator.generate(
            plan.module, n, seed=seed, avoid=[*avoid, plan.shown], **prompt_words(plan)
        )
    made = []
    for place, attempt in enumerate(attempts):
        made.append(proposed(plan, attempt, place=place, operator=plan.operator))
    return made


def prompt_words(plan: Plan) -> PromptWords:
    """What the prompt says beside the contract."""
    shown = Scored(plan.shown, {"score_bps": plan.score})
    history = list(plan.history)
    parent = None
    if plan.operator == "rewrite":  # the parent must be among the few designs that a prompt shows
        others = [one for one in history if one.source != plan.shown]
        history = [*others[: max(1, len(history) - 1)], shown]
    reason = ""
    if plan.operator == "repair" and plan.failed is not None:
        source, reason = plan.failed
        parent = Scored(source)
    micro = plan.micro.text if plan.micro else default_micro(plan.module)
    added = ADDED.get(plan.operator, "").format(reason=reason[:MOST_REASON])
    return {
        "macro": plan.macro.text if plan.macro else None,
        "micro": f"{micro} {added}".strip(),
        "parent": parent,
        "history": history,
    }


def proposed(plan: Plan, attempt: Attempt, *, place: int, operator: str) -> Proposed:
    """A written module, in its parent's design."""
    proposal = attempt.proposal
    text = attempt.source or (proposal.text if proposal else "")
    sources = {**plan.parent_sources, plan.module: text}
    chat = json.dumps(proposal.request.messages) if proposal and proposal.request else ""
    behaviour = attempt.validation.behaviour.tolist() if attempt.validation else []
    candidate = replace(
        new_design(sources, operator, (plan.parent.id,), plan.module, plan.iteration, place=place),
        macro=plan.macro.id if plan.macro else "",
        micro=plan.micro.id if plan.micro else "",
        model=proposal.model if proposal else "",
        adapter=(proposal.adapter or "") if proposal else "",
        reason=_fault(attempt),
        behaviour=tuple(round(float(v), 5) for v in behaviour),
    )
    return Proposed(candidate, sources, plan.choice, proposal, chat)


def new_design(
    sources: Mapping[str, str],
    operator: str,
    parents: tuple[str, ...],
    module: str,
    iteration: int,
    *,
    place: int,
) -> Candidate:
    """The record of a design that is made of these sources."""
    modules = hashes(sources)
    return Candidate(design_id(modules), modules, operator, parents, module, iteration, place=place)


def hashes(sources: Mapping[str, str]) -> dict[str, str]:
    """The names of a design's modules."""
    return {name: sha256(text) for name, text in sorted(sources.items())}


def _fault(attempt: Attempt) -> str:
    """Why an attempt may not be trained; "" where it may."""
    if attempt.is_valid:
        return ""
    return attempt.faults[-1] if attempt.faults else "no answer"
