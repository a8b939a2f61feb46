"""The first iteration's designed experiment: the default with one choice made otherwise.

With the design bank those come first that its surrogate expects most of after a long training, and
half of the prompts begin where the bank's own experiments lead to: at chains of such edits. Without
it edits are drawn, module by module. What the bank knows comes from published trainings on synthetic
days, and from none of the run's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from se_rl.data.catalog import list_datasets
from se_rl.modules.edits import changes_between, single_edits
from se_rl.modules.kinds import KINDS
from se_rl.records.settings import RunConfig
from se_rl.scoring.prospects import BankForesight, Foresight, nothing_known

ORDERED_BY_BANK = "scan and chains of edits planned by the design bank"
MOST_OF_ONE = 0.5
"""The share of a batch, at most, that one module has where the bank chooses."""
CHAIN = 5
"""Edits of a chain; longer ones were expected to gain more, and did not in trainings."""
OFFERED = 0.5
"""The share of all single edits, drawn anew, out of which each edit of a chain is the best."""
CHAIN_TRIES = 10
"""Draws for each new chain before no other is looked for."""
HISTORY_ELSEWHERE = 0.2
"""How much the bank's word on history counts where prices are not the synthetic ones it was trained
on: searches on Chinese days that heard it in full ended with losses on history."""


class SingleEdit(NamedTuple):
    """The default with another version of one module, one choice away."""

    module: str
    source: str


def planned_scan(config: RunConfig, rng: np.random.Generator) -> list[SingleEdit]:
    """What the scan tries, in its order: as many as the first iteration has designs."""
    edits: dict[str, list[SingleEdit]] = {}
    for module in config.modules:
        found = single_edits(KINDS[module].default_source, module, rng)
        order = rng.permutation(len(found))
        edits[module] = [SingleEdit(module, found[int(place)]) for place in order]
    turns = _in_turn(list(edits.values()))
    most = (config.parents - chained_prompts(config)) * config.siblings
    if not uses_bank(config):
        return turns[:most]
    return _spread(_by_expectation(turns, bank_weights(config)), most)


def chained_prompts(config: RunConfig) -> int:
    """How many prompts of the first iteration begin with chains of edits, the last ones."""
    return config.parents // 2 if uses_bank(config) else 0


def planned_chains(config: RunConfig, n: int, rng: np.random.Generator) -> list[dict[str, str]]:
    """Up to n designs that the bank expects much of, by their sources, each a chain of edits.

    Edits may meet in one choice; what is left of a chain that is a single edit is the scan's.
    """
    made: list[dict[str, str]] = []
    weights = bank_weights(config)
    for _ in range(n * CHAIN_TRIES):
        chain: dict[str, str] = {}
        for _ in range(CHAIN):
            chain = _best_step(chain, config.modules, weights, rng)
        if _distance(chain) > 1 and chain not in made:
            made.append(chain)
        if len(made) == n:
            break
    return made


def _best_step(
    design: Mapping[str, str],
    modules: Sequence[str],
    weights: Mapping[str, float],
    rng: np.random.Generator,
) -> dict[str, str]:
    """The design with the edit that is expected to gain most of those on offer, or as it is."""
    from se_rl.modules.design_bank.surrogate import bank_surrogate, bank_words

    steps = [dict(design)]
    for module in modules:
        source = design.get(module) or KINDS[module].default_source
        for edited in single_edits(source, module, rng):
            if rng.random() < OFFERED:
                steps.append({**design, module: edited})
    words = [bank_words(step) for step in steps]
    expected = bank_surrogate().predict(words).score(weights)
    return steps[int(np.argmax(expected))]


def _distance(design: Mapping[str, str]) -> int:
    """Choices in which a design differs from the default."""
    changed = 0
    for module, source in design.items():
        changed += len(changes_between(KINDS[module].default_source, source, module) or ())
    return changed


def uses_bank(config: RunConfig) -> bool:
    """Whether the bank says what the scan tries first; of history alone it knows synthetic days."""
    knows_worlds = is_synthetic(config.data) or config.weights["dynamic"] > 0.0
    return config.evolves and config.scan and knows_scenario(config) and knows_worlds


def foresight_of(config: RunConfig, sources: Mapping[str, Mapping[str, str]]) -> Foresight:
    """What is known of designs before they are trained: what the bank tells, where it is used."""
    return BankForesight(sources, bank_weights(config)) if uses_bank(config) else nothing_known


def bank_weights(config: RunConfig) -> dict[str, float]:
    """What each part of the bank's word counts in the score that it expects."""
    known = 1.0 if is_synthetic(config.data) else HISTORY_ELSEWHERE
    return config.weights | {"static": known * config.weights["static"]}


def is_synthetic(data: str) -> bool:
    """Whether a set's name stands for synthetic bars, and not for a file or an imported set."""
    made = [row["name"] for row in list_datasets() if row["kind"] == "SYNTHETIC"]
    return data in made and not Path(data).exists()


def knows_scenario(config: RunConfig) -> bool:
    """Whether the bank may be used, and knows the modules of this scenario.

    A search that is scored by the bank must not be told by it what will score.
    """
    if not config.bank_prior or config.against == "bank":
        return False
    from se_rl.modules.design_bank.storage import load_bank

    return load_bank().head.scenario == config.scenario


def _in_turn(by_module: Sequence[Sequence[SingleEdit]]) -> list[SingleEdit]:
    """One of each module after the other, as long as there are any."""
    made: list[SingleEdit] = []
    for place in range(max(map(len, by_module), default=0)):
        made += [edits[place] for edits in by_module if place < len(edits)]
    return made


def _by_expectation(edits: Sequence[SingleEdit], weights: Mapping[str, float]) -> list[SingleEdit]:
    """Those first that are expected to gain most at the last rung; equals stay as they are."""
    from se_rl.modules.design_bank.surrogate import bank_surrogate, bank_words

    words = [bank_words({edit.module: edit.source}) for edit in edits]
    expected = bank_surrogate().predict(words).score(weights)
    order = np.argsort(-np.round(expected, 9), kind="stable")
    return [edits[int(place)] for place in order]


def _spread(edits: Sequence[SingleEdit], most: int) -> list[SingleEdit]:
    """The first of them, no module with more than its share unless nothing else is left."""
    share = max(1, int(MOST_OF_ONE * most))
    made: list[SingleEdit] = []
    left: list[SingleEdit] = []
    for edit in edits:
        taken = sum(one.module == edit.module for one in made)
        (made if taken < share else left).append(edit)
    return [*made, *left][:most]
