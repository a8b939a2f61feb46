"""`se-rl compare` in the terminal: what may be said, each run, the arms over their seeds, and the
tests between them.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console

from se_rl.report.console import say, stdout_console, text_table
from se_rl.report.numbers import interval, number, p_value, signed
from se_rl.scoring.comparison import ArmDifference, ArmResult, ComparedRun, Comparison

RUN_COLUMNS = (
    "run",
    "arm",
    "seed",
    "data",
    "designs",
    "valid",
    "test PA",
    "PA over default",
    "score over default",
    "95 % CI",
)
ARM_COLUMNS = ("arm", "runs", "score", "95 % CI", "by seed", "PA")
TEST_COLUMNS = ("arms", "difference", "95 % CI", "p")


def print_comparison(comparison: Comparison, *, console: Console | None = None) -> None:
    """Print runs side by side, what may be said of them first."""
    console = console or stdout_console()
    say(console, comparison.sentence, style="bold")
    console.print(text_table("runs, bps", RUN_COLUMNS, map(_run, comparison.runs)))
    arms = map(_arm, comparison.groups)
    console.print(text_table("arms over the default, bps", ARM_COLUMNS, arms))
    if comparison.tests:
        tests = map(_test, comparison.tests)
        console.print(text_table("differences between arms in score, bps", TEST_COLUMNS, tests))
    fair = "" if comparison.equal_budget else "; the runs' BUDGETS DIFFER: this is no fair test"
    say(console, comparison.basis, style="dim")
    say(console, f"SPA p that no arm beats TWAP: {p_value(comparison.spa_p)}{fair}", style="dim")


def _run(run: ComparedRun) -> tuple[Any, ...]:
    return (
        run.name,
        run.arm,
        run.seed,
        run.data,
        run.designs.proposed,
        signed(run.score_valid),
        number(run.final.PA),
        signed(run.over_default.mean),
        signed(run.score_over_default.mean),
        interval(run.score_over_default.ci95),
    )


def _arm(arm: ArmResult) -> tuple[Any, ...]:
    by_seed = ", ".join(map(signed, arm.by_seed))
    pa = signed(arm.over_default)
    return arm.arm, arm.runs, signed(arm.mean), interval(arm.ci95), by_seed, pa


def _test(test: ArmDifference) -> tuple[str, ...]:
    names = f"{test.a} - {test.b}"
    return names, signed(test.difference), interval(test.ci95), p_value(test.p)
