"""What commands share in the terminal: progress on stderr, and plain tables of records, benchmarks
and the market card.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from se_rl.report.console import stdout_console
from se_rl.report.numbers import number
from se_rl.report.stage import Stage
from se_rl.sandbox.calls import printable


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show what is being done, on stderr: a spinner in a terminal, one line per stage
    when piped.
    """
    console = Console(stderr=True)
    if quiet:
        yield lambda _: None
        return
    if not console.is_terminal:
        yield lambda text: print(f"... {printable(text)}", file=sys.stderr, flush=True)
        return
    stage = Stage("starting")
    with console.status(stage):
        yield stage.begin


def print_rows(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Any list of flat records as a table."""
    console = stdout_console(piped_width=160)
    if not rows:
        console.print(Text(f"{title}: none"))
        return
    table = Table(title=Text(title), title_justify="left")
    for column in rows[0]:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    console.print(table)


def print_bench(result: Mapping[str, Any]) -> None:
    """A benchmark: our figure, each peer's, and the ratio."""
    console = stdout_console(piped_width=120)
    table = Table(title=f"{result['name']} ({result['unit']})", title_justify="left")
    for column in ("who", "value", "ours / peer"):
        table.add_column(column, justify="left" if column == "who" else "right")
    table.add_row("se-rl", f"{result['value']:,.0f}", "1")
    for peer, value in result["peers"].items():
        table.add_row(peer, f"{value:,.0f}", f"{result['ratios'][peer]:,.1f}x")
    console.print(table)
    for key, value in {**result["detail"], **result["machine"]}.items():
        console.print(Text(f"{key}: {printable(value, 2000)}", style="dim"))


def print_card(card: Mapping[str, Any]) -> None:
    """The realism card: each fact beside its band, then the tests and the best
    constant policies.
    """
    console = stdout_console(piped_width=120)
    passed = f"{card['passed']} of {len(card['facts'])} facts in their bands"
    table = Table(title=f"Simulated market: {passed}", title_justify="left")
    for column in ("fact", "value", "SE", "band", ""):
        table.add_column(column, justify="left" if column in ("fact", "") else "right")
    for fact in card["facts"]:
        band = f"{number(fact['low'], 3)} to {number(fact['high'], 3)}"
        mark = Text("yes", style="green") if fact["ok"] else Text("no", style="red")
        table.add_row(fact["name"], number(fact["value"], 3), number(fact.get("se"), 3), band, mark)
    console.print(table)
    for test in card["tests"]:
        mark = Text("passed ", style="green") if test["ok"] else Text("FAILED ", style="red")
        console.print(mark + Text(f"{test['name']}: {test['detail']}"), highlight=False)


def _cell(value: Any) -> Text:
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    return Text(printable(value, 300))
