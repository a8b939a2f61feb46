"""Operators that ask no model: a swap, drawn edits, the scan, chains, pairs, random designs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from se_rl.core.bandit import StepChoice
from se_rl.core.operators import Plan, Proposed, new_design
from se_rl.modules.edits import drawn_edit, merged
from se_rl.modules.kinds import KINDS
from se_rl.records.entries import Candidate

EDIT_TRIES = 20
"""Draws for each new edit before a module counts as used up."""


def swap(plan: Plan, donors: Sequence[tuple[Candidate, Mapping[str, str]]]) -> list[Proposed]:
    """The parent with each donor's module in place of its own.

    A donor without one gives the default's.
    """
    made = []
    for place, (donor, theirs) in enumerate(donors):
        sources = dict(plan.parent_sources)
        sources.pop(plan.module, None)
        if plan.module in theirs:
            sources[plan.module] = theirs[plan.module]
        candidate = new_design(
            sources,
            "crossover",
            (plan.parent.id, donor.id),
            plan.module,
            plan.iteration,
            place=place,
        )
        made.append(Proposed(candidate, sources, plan.choice))
    return made


def draw_edits(
    plan: Plan, n: int, *, rng: np.random.Generator, avoid: Collection[str] = ()
) -> list[Proposed]:
    """n edits of the parent's module drawn without a model; fewer where no more are new.

    Where those near the parent are used up, one more choice is made anew.
    """
    known = {plan.shown, *avoid}
    made: list[Proposed] = []
    for tries in range(2 * EDIT_TRIES * n):
        changes = plan.changes + tries // (EDIT_TRIES * n)
        source = drawn_edit(plan.shown, plan.module, rng, changes=changes)
        if source is not None and source not in known:
            known.add(source)
            made.append(_with_module(plan, source, place=len(made), operator="edit"))
        if len(made) == n:
            break
    return made


def scan(plan: Plan, source: str, *, place: int) -> Proposed:
    """The default with one choice of a module made otherwise."""
    return _with_module(plan, source, place=place, operator="scan")


def chained(default: Candidate, sources: Mapping[str, str], *, place: int) -> Proposed:
    """The default with a chain of edits, in one module or in several."""
    modules = list(sources)
    named = modules[0] if len(modules) == 1 else ""
    candidate = new_design(sources, "chain", (default.id,), named, 1, place=place)
    choice: StepChoice = {"module": modules[0], "operator": "chain", "model": "none"}
    return Proposed(candidate, sources, choice)


def combine(
    one: Candidate,
    other: Candidate,
    sources: Mapping[str, Mapping[str, str]],
    *,
    iteration: int,
    place: int,
) -> Proposed | None:
    """The default with the choices of both designs; None where that cannot be written."""
    mine, theirs = sources[one.id], sources[other.id]
    whole: dict[str, str] = {**theirs, **mine}
    for module in mine.keys() & theirs.keys():
        both = merged(KINDS[module].default_source, mine[module], theirs[module], module)
        if both is None:
            return None
        whole[module] = both
    candidate = new_design(
        whole,
        "combine",
        (one.id, other.id),
        other.module,
        iteration,
        place=place,
    )
    choice: StepChoice = {"module": other.module, "operator": "combine", "model": "none"}
    return Proposed(candidate, whole, choice)


def _with_module(plan: Plan, source: str, *, place: int, operator: str) -> Proposed:
    """The parent with another version of the plan's module, which no model wrote."""
    sources = {**plan.parent_sources, plan.module: source}
    candidate = new_design(
        sources,
        operator,
        (plan.parent.id,),
        plan.module,
        plan.iteration,
        place=place,
    )
    return Proposed(candidate, sources, plan.choice)


def drawn(
    modules: Sequence[str],
    default: Candidate,
    iteration: int,
    place: int,
    rng: np.random.Generator,
    *,
    always: Collection[str] = (),
) -> Proposed:
    """A random design: one to all of the modules from their grammars, `always` these."""
    chosen = [name for name in modules if rng.random() < 0.5 or name in always]
    if not chosen:
        chosen = [modules[int(rng.integers(len(modules)))]]
    sources = {name: KINDS[name].random_source(rng) for name in chosen}
    candidate = new_design(
        sources,
        "random",
        (default.id,),
        chosen[0] if len(chosen) == 1 else "",
        iteration,
        place=place,
    )
    choice = {"module": chosen[0], "operator": "random", "model": "none"}
    return Proposed(candidate, sources, choice)
