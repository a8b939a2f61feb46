"""`se-rl compare` in the terminal: what may be said, each run, the groups over their seeds, and the
tests between them.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console

from se_rl.report.console import say, stdout_console, text_table
from se_rl.report.numbers import interval, number, p_value, signed
from se_rl.scoring.compared_runs import ComparedRun
from se_rl.scoring.comparison import Comparison, GroupDifference, GroupResult

RUN_COLUMNS = (
    "seed",
    "designs",
    "outcome",
    "valid",
    "test PA",
    "PA over default",
    "score over default",
    "95 % CI",
)
GROUP_COLUMNS = ("runs", "accepted", "score", "95 % CI", "by seed", "PA")
TEST_COLUMNS = ("groups", "difference", "95 % CI", "p")


def print_comparison(comparison: Comparison, *, console: Console | None = None) -> None:
    """Print runs side by side, what may be said of them first."""
    console = console or stdout_console()
    say(console, comparison.sentence, style="bold")
    by = ", ".join(comparison.by)
    console.print(text_table("runs, bps", ("run", by, *RUN_COLUMNS), map(_run, comparison.runs)))
    groups = map(_group, comparison.groups)
    console.print(text_table("groups over the default, bps", (by, *GROUP_COLUMNS), groups))
    if comparison.tests:
        tests = map(_test, comparison.tests)
        console.print(text_table("differences between groups in score, bps", TEST_COLUMNS, tests))
    fair = "" if comparison.equal_budget else "; the runs' BUDGETS DIFFER: this is no fair test"
    say(console, comparison.basis, style="dim")
    say(
        console,
        f"SPA p that none of the {comparison.family} beats the default on the shared "
        f"test days: {p_value(comparison.spa_p)}{fair}",
        style="dim",
    )


def _run(run: ComparedRun) -> tuple[Any, ...]:
    return (
        run.name,
        run.group,
        run.seed,
        run.designs.proposed,
        run.outcome,
        signed(run.score_valid),
        number(run.final.PA),
        signed(run.over_default.mean),
        signed(run.score_over_default.mean),
        interval(run.score_over_default.ci95),
    )


def _group(one: GroupResult) -> tuple[Any, ...]:
    return (
        one.group,
        one.runs,
        "" if one.rival else one.accepted,
        signed(one.mean),
        interval(one.ci95),
        ", ".join(map(signed, one.by_seed)),
        signed(one.over_default),
    )


def _test(test: GroupDifference) -> tuple[str, ...]:
    names = f"{test.a} - {test.b}"
    return names, signed(test.difference), interval(test.ci95), p_value(test.p)
