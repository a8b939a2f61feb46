"""What each part of the search's kit did in a run, and why a part that did nothing could not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from se_rl.core.scan import (
    HISTORY_ELSEWHERE,
    ORDERED_BY_BANK,
    is_synthetic,
    knows_scenario,
    uses_bank,
)
from se_rl.core.search import Search
from se_rl.core.stopping import PATIENCE, WINDOW
from se_rl.llm.instruction_population import QUIET_ITERATIONS
from se_rl.records.enhancement import KitUse
from se_rl.records.entries import DEFAULT
from se_rl.records.settings import RunConfig

WITH_CARE = (
    f"what it says of history counts for {HISTORY_ELSEWHERE:g}: it was trained on synthetic days"
)
STE_FROM_BANK = "STE's score predictor starts from the design bank"


def kit_use(search: Search) -> KitUse:
    """Count what the kit did, from the journal and what the search remembers."""
    made = [one for one in search.archive.instructions() if one.operator != DEFAULT]
    steps = [event.payload["stats"] for event in search.archive.events("learnt")]
    moved = [step for step in steps if step["moved"]]
    by_ste = sum(step.get("ste") == 1.0 for step in moved)
    counted = KitUse(
        bank=tuple(bank_uses(search.config)),
        new_instructions=len(made),
        reflections=sum(one.operator == "reflection" for one in made),
        replays=search.kit.replays,
        reinforce_steps=len(moved) - by_ste,
        ste_steps=by_ste,
        refused_steps=len(steps) - len(moved),
        stopped_by_rule=search.progress.reached,
    )
    idle = tuple(_idle(search.config, counted, steps))
    return KitUse(**vars(counted) | {"idle": idle})


def bank_uses(config: RunConfig) -> Iterator[str]:
    """What the design bank is used for in a run with these settings."""
    if uses_bank(config):
        yield ORDERED_BY_BANK
        if config.weights["static"] and not is_synthetic(config.data):
            yield WITH_CARE
    if config.levels[1] and config.estimator == "ste" and knows_scenario(config):
        yield STE_FROM_BANK


def _idle(config: RunConfig, used: KitUse, steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each part that did not act."""
    if not used.bank:
        yield f"design bank: {_why_no_bank(config)}"
    prompts, weights = config.levels
    if not prompts:
        yield f"instructions: {_left_out(config)}"
    elif not used.replays:
        needs = f"an instruction must have rested for {QUIET_ITERATIONS} iterations"
        yield f"replay: {needs}, and the run had {config.iterations} at most"
    if prompts and not used.reflections:
        yield "reflection: the model wrote nothing new"
    if not weights:
        yield f"weights: {_left_out(config)}"
    elif not used.reinforce_steps + used.ste_steps:
        reasons = dict.fromkeys(str(step["reason"]) for step in steps)
        yield f"weights: {'; '.join(reasons) or 'no design of the model was scored'}"
    elif not used.ste_steps:
        reasons = dict.fromkeys(str(step["reason"]) for step in steps if step["reason"])
        asked = "the estimator is reinforce"
        yield f"STE: {asked if config.estimator == 'reinforce' else '; '.join(reasons)}"
    if not used.stopped_by_rule:
        needs = f"no improvement in {PATIENCE} iterations, the score still for {WINDOW}"
        yield f"stop rule: it takes {needs}, and the run had {config.iterations} at most"


def _left_out(config: RunConfig) -> str:
    return "left out" if config.arm == "full" else f"not in the arm {config.arm}"


def _why_no_bank(config: RunConfig) -> str:
    if not config.bank_prior:
        return "left out"
    if config.against == "bank":
        return "it scores the designs, so nothing else may use it"
    if not config.evolves:
        return f"not in the arm {config.arm}"
    if not config.scan:
        return "no scan"
    if not knows_scenario(config):
        return f"it has no designs of the scenario {config.scenario}"
    return "of history it knows synthetic days alone"
