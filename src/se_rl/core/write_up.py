"""The end of a run: everything that it found becomes its results. The test set is opened, once,
where a design took the default's place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from se_rl import __version__
from se_rl.bounded_reading import plain_json
from se_rl.config import to_dict
from se_rl.core import final_tables
from se_rl.core.final_tables import SimulatedTables, TestTable
from se_rl.core.kit_use import kit_use
from se_rl.core.run_policy import save_policy
from se_rl.core.stopping import CONVERGED
from se_rl.data.understanding import WITHOUT_VOLUME
from se_rl.records.archive import Archive
from se_rl.records.entries import key_of
from se_rl.records.files import write_parquet
from se_rl.records.fraud import FraudCheck
from se_rl.records.plain import from_plain
from se_rl.records.results import (
    NAIVE_METHOD,
    NO_IMPROVEMENT,
    NO_VALID_DESIGN,
    OURS,
    OWN_PROCESS,
    STRONG,
    VALIDATION_DAYS,
    DataFacts,
    DesignCounts,
    ModelUse,
    RunResults,
    RunTimes,
    SealUsed,
    SeedsUsed,
)
from se_rl.records.training_rows import WorldWeights, longest_training
from se_rl.sandbox.lockdown import SandboxError
from se_rl.scoring import final_test
from se_rl.scoring.play import Open
from se_rl.scoring.score import Scores

if TYPE_CHECKING:
    from se_rl.core.run import Run


@dataclass(frozen=True)
class SearchEnd:
    """How a search ended: why it stopped, who finished the last rung, and what the check for fraud
    found; `naive` is the design with a naive reward, a reference in the tables.
    """

    reason: str
    finalists: Sequence[str]
    naive: str
    checks: Mapping[str, FraudCheck]


def write_up(run: Run, end: SearchEnd, *, champion: str) -> RunResults:
    """State what the run found; the test set is opened where a design took the default's place.

    A design whose policy fails on the test days is not chosen after all: the default is kept, with
    a note.
    """
    ladder = run.search.ladder
    if champion == ladder.default.id:
        return _kept_default(run, end)
    policies = _policies(run, {OURS: champion, STRONG: ladder.default.id, NAIVE_METHOD: end.naive})
    policies |= run.rivals.policies  # trained before any test day is seen
    save_policy(run, champion)
    openings = run.archive.open_test(
        key=key_of("test"), data_hash=run.facts["sha256"], candidate=champion
    )
    run.say("opening the test days")
    try:
        table = _history_table(run, policies, split="test")
    except SandboxError as error:
        note = f"design {champion} was chosen, but its policy failed on the test days: {error}"
        return _kept_default(run, end, notes=(note,))
    simulated = _simulated(run, policies)
    scores = final_test.final_scores(
        _trainings(table, simulated),
        ladder.rule,
        rivals=tuple(run.rivals.policies),
        cells=simulated.cells,
        days=table.days,
    )
    facts = {**run.facts, "test_days": table.days, "orders": table.orders}
    results = replace(
        run_results(run, end, table, champion=champion),
        final_metrics=final_test.final_metrics(table.methods, scores),
        dynamic=simulated.methods,
        test_openings=openings,
        data=from_plain(DataFacts, facts),
        scores=scores.over_TWAP,
        rivals=scores.rivals,
        score_by_day=scores.by_day,
    )
    return replace(results, verdict=final_test.verdict(results))


def _kept_default(run: Run, end: SearchEnd, notes: Sequence[str] = ()) -> RunResults:
    """No design took the default's place: its table is that of the validation days, and days that
    are sealed stay so.
    """
    default = run.search.ladder.default.id
    policies = _policies(run, {STRONG: default, NAIVE_METHOD: end.naive})
    policies |= run.rivals.policies
    save_policy(run, default)
    run.say("no design is ahead of the default: the test days stay sealed")
    table = _history_table(run, policies, split="valid")
    results = run_results(run, end, table, champion=default)
    results = replace(
        results,
        final_metrics=final_test.kept_metrics(table.methods),
        outcome=NO_IMPROVEMENT if results.designs.scored else NO_VALID_DESIGN,
        measured_on=VALIDATION_DAYS,
        stop_reason=end.reason.replace(CONVERGED, NO_IMPROVEMENT),
        test_openings=run.archive.test_openings(),
        data=from_plain(DataFacts, {**run.facts, "orders": table.orders}),
        notes=(*notes, *results.notes),
    )
    return replace(results, verdict=final_test.verdict(results))


def _frauds(checks: Mapping[str, FraudCheck]) -> list[str]:
    """A line for every finalist that the fraud check threw out."""
    found = []
    for name, check in checks.items():
        if not check.passed:
            found.append(f"design {name} failed the fraud check: {check.reason}")
    return found


def _left_out(run: Run) -> list[str]:
    """A line for every module that a multi-agent run's budget left no design for."""
    found = []
    for name, use in run.search.module_use().items():
        if not use.proposed and run.config.scenario == "multi":
            short = f"{run.search.proposed} proposals were too few for all modules"
            found.append(f"{name} was not designed: {short}; raise --iterations or --siblings")
    return found


def _without_volume(run: Run) -> list[str]:
    """What the run did instead where its bars have no volume."""
    return [] if run.markets.data.train.volume is not None else [WITHOUT_VOLUME]


def _history_table(
    run: Run, policies: final_tables.Policies, *, split: Literal["valid", "test"]
) -> TestTable:
    pool = run.training_pool
    table = pool.with_retries(
        lambda: final_tables.history_table(
            run.config,
            policies,
            seal=run.seal,
            benchmark=run.benchmark,
            split=split,
            say=run.say,
        )
    )
    write_parquet(run.folder.orders, dict(table.per_order))
    return table


def run_results(run: Run, end: SearchEnd, table: TestTable, *, champion: str) -> RunResults:
    """What every run states, whichever days its table rests on: choice, costs and origin."""
    ladder, config, used = run.search.ladder, run.config, run.budget.usage()
    selection = final_test.selection(ladder, champion, proposed=run.search.proposed)
    return RunResults(
        best=champion,
        baselines=table.methods,
        designs=DesignCounts(**run.search.counts()),
        modules=run.search.module_use(),
        module_credits=run.search.credits.found(),
        stop_reason=end.reason,
        spa_p=selection.spa_p_over_twap,
        selection=selection,
        finalists=final_test.finalists_table(ladder, end.finalists),
        fraud_checks=end.checks,
        learning=final_test.learning(ladder, champion),
        world_weights=_world_weights(run.archive, champion),
        seeds=SeedsUsed(config.seed, tuple(config.rungs.last.training_seeds)),
        seal=SealUsed(run.seal.origin, run.seal.text),
        isolation=_isolation(run),
        trainings=_trainings_by_place(run),
        llm=ModelUse(
            config.designer,
            run.designers.adapter or "",
            calls=used.calls,
            tokens_in=used.tokens_in,
            tokens_out=used.tokens_out,
            usd=used.usd,
        ),
        kit=kit_use(run.search),
        config=to_dict(config),
        notes=(
            *_frauds(end.checks),
            *_left_out(run),
            *_without_volume(run),
            *run.rivals.notes,
            *table.notes,
        ),
        checks=table.checks,
        by_day=table.by_day,
        paths=table.paths,
        order_details=table.order_details,
        version=__version__,
        code_hash=run.code,
        times=RunTimes(round(used.minutes, 2)),
    )


def _world_weights(archive: Archive, name: str) -> WorldWeights:
    """alpha's path in the longest training of a design."""
    longest = longest_training(archive.evaluations(name))
    if longest is None:
        return WorldWeights()
    return WorldWeights.of_rows(plain_json(archive.text(longest.curve)))


def _trainings(table: TestTable, simulated: SimulatedTables) -> dict[str, list[Scores]]:
    """What every training seed of each learned method earned in both worlds."""
    found: dict[str, list[Scores]] = {}
    for name, history in table.scores.items():
        dynamic = simulated.scores.get(name) or ({},) * len(history)
        found[name] = [{**a, **b} for a, b in zip(history, dynamic, strict=True)]
    return found


def _simulated(run: Run, policies: final_tables.Policies) -> SimulatedTables:
    if run.config.worlds == "static":
        return SimulatedTables()
    fresh = run.training_pool.validation.test_markets()
    return run.training_pool.with_retries(
        lambda: final_tables.market_tables(
            fresh,
            policies,
            grid=run.markets.grid,
            say=run.say,
        )
    )


def _policies(run: Run, methods: dict[str, str]) -> dict[str, Sequence[Open]]:
    """The policies of each design's last rung, one per training seed; a design that failed there
    has none.
    """
    ladder, pool, last = run.search.ladder, run.training_pool, run.config.rungs.last
    found: dict[str, Sequence[Open]] = {}
    for method, name in methods.items():
        by_seed = ladder.trainings.at(name, last)
        opened = []
        for seed in final_test.seeds_of(by_seed):
            opened.append(pool.opened(pool.policy(ladder.climbed[name], by_seed[seed])))
        if opened:
            found[method] = opened
    return found


def _trainings_by_place(run: Run) -> dict[str, int]:
    """How many trainings had a process of their own, and how many shared a device."""
    return dict(Counter(one.device or OWN_PROCESS for one in run.search.ladder.trainings))


def _isolation(run: Run) -> str:
    """The levels of isolation that designs ran under."""
    levels = {evaluation.isolation for evaluation in run.search.ladder.trainings}
    return ", ".join(sorted(levels))
