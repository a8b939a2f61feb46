"""The end of `se-rl run` in the terminal: the verdict, the tables of methods, and what stands
behind them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from se_rl.records.gains import ScoreSummary
from se_rl.records.method_rows import MethodRow, SimulatedRow
from se_rl.records.results import OURS, RunResults
from se_rl.report.console import say, stdout_console, text_table, warn_synthetic
from se_rl.report.numbers import interval, money, number, p_value, signed

METHOD_COLUMNS = (
    "method",
    "PA",
    "PA-std",
    "over TWAP",
    "95 % CI",
    "specific",
    "track. error",
    "score",
    "95 % CI",
    "WR",
    "GLR",
    "AFI",
)
SCORE_COLUMNS = (
    "method",
    "score",
    "95 % CI",
    "history",
    "specific",
    "risk",
    "simulated",
    "95 % CI",
)
SIMULATED_COLUMNS = (
    "method, order size",
    "cost, bps",
    "saved, bps",
    "95 % CI",
    "passive",
    "forced",
    "seed SD",
)


def print_results(
    results: RunResults, *, page: str | Path = "", console: Console | None = None
) -> None:
    """Print a finished run: the verdict first, then the tables and the small print."""
    console = console or stdout_console()
    say(console, results.verdict, style="bold")
    warn_synthetic(console, synthetic=results.data.synthetic)
    methods = [_method(name, row) for name, row in results.baselines.items()]
    if methods:
        console.print(
            text_table(f"{results.measured_on}, bps", METHOD_COLUMNS, methods, strong=OURS)
        )
    simulated = []
    for size, rows in results.dynamic.items():
        simulated += [_simulated(f"{name}, {size}", row) for name, row in rows.items()]
    if simulated:
        title = "simulated market, against the arrival price"
        console.print(text_table(title, SIMULATED_COLUMNS, simulated, strong=OURS))
    scores = [_score(name, score) for name, score in results.scores.items()]
    if scores:
        lead = results.final_metrics.score_over_default
        scores.append(_score("best design over the default", lead))
        title = "score: gain less risk over TWAP, bps"
        console.print(text_table(title, SCORE_COLUMNS, scores, strong=OURS))
    for line in _small_print(results):
        say(console, line, style="dim")
    say(console, f"page: {page}" if page else "")


def _method(name: str, row: MethodRow) -> tuple[str, ...]:
    return (
        name,
        number(row.PA),
        number(row.PA_std, 1),
        signed(row.over_TWAP.mean),
        interval(row.over_TWAP.ci95),
        signed(row.over_TWAP_specific.mean),
        number(row.tracking_error, 1),
        signed(row.score.mean if row.score else None),
        interval(row.score.ci95) if row.score else "",
        number(row.WR, 3),
        number(row.GLR),
        number(row.AFI, 3),
    )


def _score(name: str, score: ScoreSummary) -> tuple[str, ...]:
    return (
        name,
        signed(score.score.mean),
        interval(score.score.ci95),
        signed(score.history.mean),
        signed(score.specific.mean),
        signed(-score.risk_cost),
        signed(score.simulated.mean),
        interval(score.simulated.ci95),
    )


def _simulated(name: str, row: SimulatedRow) -> tuple[str, ...]:
    return (
        name,
        number(row.cost_bps),
        signed(row.saved_bps),
        interval(row.saved_ci95),
        number(row.passive),
        number(row.forced),
        number(row.seed_sd),
    )


def _small_print(results: RunResults) -> Iterator[str]:
    """What stands behind the tables, one fact or two a line."""
    gain, specific = results.final_metrics.over_default, results.final_metrics.over_default_specific
    if results.is_accepted:
        yield (
            f"best design {results.best}: price advantage {signed(gain.mean)} bps over the default "
            f"{interval(gain.ci95)} on the test days, specific part {signed(specific.mean)} "
            f"{interval(specific.ci95)}"
        )
    cells = results.final_metrics.score.cells
    if len(cells) > 1:
        said = ", ".join(f"{name} {signed(cell.mean)}" for name, cell in cells.items())
        yield f"simulated orders of the best design by cell, bps saved against TWAP: {said}"
    counts = ", ".join(f"{count} {name}" for name, count in vars(results.designs).items())
    yield f"designs: {counts}; stopped: {results.stop_reason}"
    tried = [f"{name} {use.proposed}" for name, use in results.modules.items()]
    if tried:
        yield f"proposals by module: {', '.join(tried)}"
    for one in results.module_credits:
        yield (
            f"{one.module} of {one.candidate} at rung {one.rung}: {signed(one.credit)} bps "
            f"{interval(one.ci95)} against {one.against}"
        )
    chosen = results.selection
    yield (
        f"selection: {chosen.tried} tried, luck alone lifts the best by about "
        f"{number(chosen.hurdle_bps)} bps; SPA p that none of the {chosen.scored} scored designs "
        f"beats the default on the search's validation days: {p_value(chosen.spa_p_over_default)}"
    )
    trainings = ", ".join(map(str, results.seeds.trainings))
    yield (
        f"seeds: search {results.seeds.search}, trainings {trainings or 'none'}; "
        f"isolation: {results.isolation}; test openings: {results.test_openings}"
    )
    if results.places:
        yield f"trainings by place: {results.places}"
    if results.seal.text:
        yield f"seal: {results.seal.origin} ({results.seal.text})"
    llm = results.llm
    adapter = f", adapter {llm.adapter}" if llm.adapter else ""
    yield (
        f"model: {llm.name}{adapter}; {llm.calls} calls, {llm.tokens_in:,} tokens in, "
        f"{llm.tokens_out:,} out, {money(llm.usd)} USD"
    )
    yield f"kit: {results.kit.words}"
    for reason in results.kit.idle:
        yield f"kit, did not act: {reason}"
    data = results.data
    days = ", ".join(f"{count} {split}" for split, count in data.days.items())
    dates = f"{data.first_date or ''} to {data.last_date or ''}"
    yield f"data: {data.name}, {dates} ({days}), sha256 {data.sha256[:12]}"
    for note in results.notes:
        yield f"note: {note}"
