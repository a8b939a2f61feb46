"""The end of a run: the test set is opened, once, and everything that the run found becomes its
results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from se_rl import __version__
from se_rl.config import to_dict
from se_rl.core import final_tables
from se_rl.core.final_tables import SimulatedTables, TestTable
from se_rl.records.archive import Archive
from se_rl.records.entries import key_of
from se_rl.records.fraud import FraudCheck
from se_rl.records.plain import from_plain
from se_rl.records.results import (
    NAIVE_METHOD,
    OURS,
    STRONG,
    DataFacts,
    DesignCounts,
    ModelUse,
    RunResults,
    RunTimes,
    SealUsed,
    SeedsUsed,
)
from se_rl.records.results_file import NoResults, read_results
from se_rl.records.run_folder import RunFolder
from se_rl.sandbox.lockdown import SandboxError
from se_rl.scoring import final_test
from se_rl.scoring.play import Open
from se_rl.scoring.score import Scores

if TYPE_CHECKING:
    from se_rl.core.run import Run


def write_up(
    run: Run,
    reason: str,
    finalists: Sequence[str],
    *,
    champion: str,
    naive: str,
    checks: Mapping[str, FraudCheck],
    notes: Sequence[str] = (),
) -> RunResults:
    """Open the test set for the chosen design and state what the run found.

    A design whose policy fails on the test days is not chosen after all: the default takes its
    place, with a note.
    """
    ladder, pool = run.search.ladder, run.training_pool
    policies = _policies(run, {OURS: champion, STRONG: ladder.default.id, NAIVE_METHOD: naive})
    save_policy(run, champion)
    openings = run.archive.open_test(
        key=key_of("test"), data_hash=run.facts["sha256"], candidate=champion
    )
    run.say("opening the test days")
    try:
        table = pool.with_retries(
            lambda: final_tables.history_table(
                run.config,
                policies,
                seal=run.seal,
                benchmark=run.benchmark,
                say=run.say,
            )
        )
    except SandboxError as error:
        if champion == ladder.default.id:
            raise
        note = f"design {champion} was chosen, but its policy failed on the test days: {error}"
        return write_up(
            run,
            reason,
            finalists,
            champion=ladder.default.id,
            naive=naive,
            checks=checks,
            notes=(note,),
        )
    results = _results(run, table, champion=champion, simulated=_simulated(run, policies))
    results = replace(
        results,
        stop_reason=reason,
        test_openings=openings,
        finalists=final_test.finalists_table(ladder, finalists),
        fraud_checks=checks,
        notes=(*_frauds(checks), *notes, *table.notes),
    )
    verdict = final_test.verdict(results, ladder.climbed[champion], ladder.default.id)
    return replace(results, verdict=verdict)


def _frauds(checks: Mapping[str, FraudCheck]) -> list[str]:
    """A line for every finalist that the fraud check threw out."""
    found = []
    for name, check in checks.items():
        if not check.passed:
            found.append(f"design {name} failed the fraud check: {check.reason}")
    return found


def _results(
    run: Run, table: TestTable, *, champion: str, simulated: SimulatedTables
) -> RunResults:
    """The record of everything but the words: tables, choice, costs and origin."""
    ladder, config, used = run.search.ladder, run.config, run.budget.usage()
    selection = final_test.selection(ladder, champion, proposed=run.search.proposed)
    is_default = champion == ladder.default.id
    scores = final_test.final_scores(
        _trainings(table, simulated),
        ladder.rule,
        cells=simulated.cells,
        days=table.days,
        is_default=is_default,
    )
    facts = {**run.facts, "test_days": table.days, "orders": table.orders}
    return RunResults(
        final_metrics=final_test.final_metrics(table.methods, scores, is_default=is_default),
        best=champion,
        baselines=table.methods,
        dynamic=simulated.methods,
        designs=DesignCounts(**run.search.counts()),
        spa_p=selection.spa_p_over_twap,
        selection=selection,
        learning=final_test.learning(ladder, champion),
        seeds=SeedsUsed(config.seed, tuple(config.rungs.last.training_seeds)),
        seal=SealUsed(run.seal.origin, run.seal.text),
        isolation=_isolation(run),
        llm=ModelUse(
            config.designer,
            run.designers.adapter or "",
            calls=used.calls,
            tokens_in=used.tokens_in,
            tokens_out=used.tokens_out,
            usd=used.usd,
        ),
        data=from_plain(DataFacts, facts),
        config=to_dict(config),
        checks=table.checks,
        scores=scores.over_TWAP,
        score_by_day=scores.by_day,
        by_day=table.by_day,
        paths=table.paths,
        version=__version__,
        code_hash=run.code,
        times=RunTimes(round(used.minutes, 2)),
    )


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


def _policies(run: Run, methods: dict[str, str]) -> final_tables.Policies:
    """The policies of each design's last rung, one per training seed; a design that failed there
    has none.
    """
    ladder, pool, last = run.search.ladder, run.training_pool, run.config.rungs.last
    found: dict[str, list[Open]] = {}
    for method, name in methods.items():
        by_seed = ladder.trainings.at(name, last)
        for seed in final_test.seeds_of(by_seed):
            trained = pool.policy(ladder.climbed[name], by_seed[seed])
            found.setdefault(method, []).append(pool.opened(trained))
    return found


def _isolation(run: Run) -> str:
    """The levels of isolation that designs ran under."""
    levels = {evaluation.isolation for evaluation in run.search.ladder.trainings}
    return ", ".join(sorted(levels))


def save_policy(run: Run, name: str) -> None:
    """The best design's policy of the first training seed, for `se-rl evaluate`: seeds are not
    chosen.
    """
    from se_rl.rl.policy_file import save_locked

    by_seed = run.search.ladder.trainings.at(name, run.config.rungs.last)
    evaluation = by_seed[final_test.seeds_of(by_seed)[0]]
    trained = run.training_pool.policy(run.search.ladder.climbed[name], evaluation)
    facts = {
        "name": name,
        "world": run.config.worlds,
        "trained_on": run.facts["name"],
        "horizons": {"static": run.config.horizons, "dynamic": run.config.dynamic_horizons},
        "seed": evaluation.seed,
        "neutral": {world: asdict(value) for world, value in run.markets.neutral().items()},
    }
    save_locked(run.folder.policy, trained, facts)


def finished_results(folder: RunFolder, archive: Archive) -> RunResults | None:
    """The results of a finished run; None where there is none, or where a file of it was lost and
    must be made anew.
    """
    if archive.find("finished") is None or not _is_whole(archive):
        return None
    if not (folder.report.exists() and folder.policy.exists()):
        return None
    try:
        return read_results(folder.results)
    except NoResults:
        return None


def _is_whole(archive: Archive) -> bool:
    """Whether every file that the archive names is there and undamaged."""
    return all(archive.has_blob(name) for name in set(_blobs(archive)))


def _blobs(archive: Archive) -> Iterator[str]:
    """The name of every file that the archive rests on."""
    for evaluation in archive.evaluations():
        if evaluation.ok:
            yield from (evaluation.arrays, evaluation.policy, evaluation.curve)
    for adapter in archive.adapters():
        yield adapter.weights
    for call in archive.calls():
        yield call.reply
    for candidate in archive.candidates():
        yield from candidate.modules.values()
        if candidate.prompt:
            yield candidate.prompt
