"""A run against the design bank: the whole loop, its trainings pretended, and results that are none.

No policy exists, so nothing is checked for fraud, played or saved, and the sealed days stay sealed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from se_rl.config import ConfigError
from se_rl.core.final_tables import TestTable
from se_rl.core.write_up import SearchEnd, run_results
from se_rl.executors.training_pool import TrainingPool
from se_rl.modules.design_bank.storage import load_bank
from se_rl.records.archive import Archive
from se_rl.records.plain import from_plain
from se_rl.records.results import PRETENDED_SEARCH, DataFacts, RunResults
from se_rl.records.settings import RunConfig
from se_rl.scoring.bank_evaluator import BankEvaluator, PretendedTrainings
from se_rl.scoring.evaluator import Evaluator

if TYPE_CHECKING:
    from se_rl.core.run import Run

NO_DAYS = "no days"
NO_TABLE = TestTable({}, 0, 0, (), {}, {})


def evaluator_of(config: RunConfig, pool: TrainingPool, archive: Archive) -> Evaluator:
    """Who scores designs: the pool that trains them, or the surrogate of the design bank."""
    if config.against == "trainings":
        return pool
    bank = load_bank()
    if bank.head.scenario != config.scenario:
        raise ConfigError(
            f"the design bank has no designs of the scenario {config.scenario}; "
            f"use --scenario {bank.head.scenario}, or leave --against bank out"
        )
    return BankEvaluator(PretendedTrainings(bank, config.weights), archive.sources, config.seed)


def pretended_results(run: Run, reason: str) -> RunResults:
    """The last rung against the surrogate, and what the search came to there."""
    ladder = run.search.ladder
    finalists = ladder.finals()
    champion = ladder.champion(finalists)
    end = SearchEnd(reason, finalists, naive="", checks={})
    results = run_results(run, end, NO_TABLE, champion=champion)
    standing = ladder.longest(champion)
    found = "no design stood out above the default"
    if champion != ladder.default.id and standing is not None:
        found = f"design {champion} reads {standing.score:+.2f} bps over the default"
    return replace(
        results,
        outcome=PRETENDED_SEARCH,
        measured_on=NO_DAYS,
        data=from_plain(DataFacts, dict(run.facts)),
        verdict=f"{PRETENDED_SEARCH.capitalize()}: {found}; nothing was trained, no day was opened.",
    )
