"""`se-rl suite` in the terminal: the pools first, then every task."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from se_rl.report.console import say, stdout_console, text_table
from se_rl.report.numbers import DASH, interval, number, signed
from se_rl.scoring.suite_effects import PooledEffect, SuiteResult, TaskEffect

POOL_COLUMNS = ("design", "tasks", "effect", "95 % CI", "ahead", "behind")
TASK_COLUMNS = ("task", "design", "seeds", "effect", "95 % CI", "difference", "scale", "unit")
MEANING = (
    "effect: the paired difference to the default over the task's scale, the deviation of what the "
    "default gains on a single order; pooled with tasks as the unit"
)


def print_suite(result: SuiteResult, *, console: Console | None = None) -> None:
    """Print a suite, and say how far it is."""
    console = console or stdout_console()
    console.print(text_table("over all tasks", POOL_COLUMNS, map(_pool, result.pools)))
    console.print(text_table("task by task", TASK_COLUMNS, map(_task, result.effects)))
    for one in result.effects:
        if one.reason:
            say(console, f"{one.task}, {one.design}: {one.reason}", style="dim")
    say(console, MEANING, style="dim")
    if result.made < result.planned:
        say(console, f"{result.made} of {result.planned} trainings gave a figure", style="dim")


def _pool(one: PooledEffect) -> tuple[Any, ...]:
    return (
        one.design,
        one.tasks,
        signed(one.effect, 3),
        interval(one.ci95, 3),
        one.ahead,
        one.behind,
    )


def _task(one: TaskEffect) -> tuple[Any, ...]:
    if one.reason:
        return one.task, one.design, one.seeds, DASH, DASH, DASH, DASH, one.unit
    return (
        one.task,
        one.design,
        one.seeds,
        signed(one.effect, 3),
        interval(one.ci95, 3),
        signed(one.difference, 3),
        number(one.scale, 3),
        one.unit,
    )
