"""What people see in the terminal: progress, tables, benchmarks. Plain lines when piped."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE_ONLY = ("buy", "sell", "PA-std", "GLR", "AFI")
"""Columns that a narrow terminal does without; `--json` and the page have them all."""


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show what is being done, on stderr: a spinner in a terminal, one line per stage when piped, nothing when quiet."""
    console = Console(stderr=True)
    if quiet:
        yield lambda _: None
        return
    if not console.is_terminal:
        yield lambda text: print(f"... {text}", file=sys.stderr, flush=True)
        return
    started = time.monotonic()
    with console.status("starting") as status:

        def say(text: str) -> None:
            status.update(f"{text} [dim]({time.monotonic() - started:.0f} s)[/dim]")

        yield say


def baselines_table(results: dict[str, Any]) -> None:
    """The table of baselines for a person: what each method earned, over TWAP, with intervals."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    data, days = results["data"], results["days"]
    if data["synthetic"]:
        console.print(
            Text(" SYNTHETIC DATA: no market ever printed these prices ", style="black on yellow")
        )
    title = f"{data['name']}, {data['split']} split: {results['orders']:,} orders (buy and sell), {results['symbols']} symbols"
    table = Table(title=f"{title}, {days} days, {results['horizon']} bars", title_justify="left")
    rows = {name: _cells(name, row) for name, row in results["methods"].items()}
    columns = [column for column in rows["TWAP"] if console.width >= 125 or column not in WIDE_ONLY]
    for column in columns:
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for name, cells in rows.items():
        bound = name == "foresight bound"
        if bound:
            table.add_section()
        table.add_row(*(cells[column] for column in columns), style="dim" if bound else None)
    console.print(table)
    for line in _reading(results):
        console.print(line, style="dim", highlight=False)
    for kind, rows in results.get("dynamic", {}).items():
        console.print(_dynamic_table(kind, rows, results["learned"]))


def _dynamic_table(kind: str, rows: dict[str, Any], learned: dict[str, Any]) -> Table:
    """The simulated market's table: costs in bps of the arrival price, lower is better."""
    title = f"simulated market, {kind}: {learned['participation']:.0%} of volume in {learned['dynamic_horizon']} steps"
    table = Table(
        title=f"{title}, {rows['TWAP']['orders']:,} fresh orders, {learned['seeds']} seeds",
        title_justify="left",
    )
    for column in (
        "method",
        "cost, bps",
        "saved, bps",
        "95 % CI",
        "saved",
        "passive",
        "forced",
        "seed SD",
    ):
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for name, row in rows.items():
        table.add_row(
            name,
            number(row["cost_bps"]),
            number(row["saved_bps"]),
            interval(row["saved_ci95"]),
            number(100 * row["saved_share"], 1, suffix=" %"),
            number(row["passive"]),
            number(row["forced"], 3),
            number(row["seed_sd"]) if "seed_sd" in row else "",
        )
    table.caption = f"grid constant: {rows['grid constant']['schedule']}; news taken out of every cost; SIMULATED"
    table.caption_justify = "left"
    return table


def _cells(name: str, row: dict[str, Any]) -> dict[str, str]:
    """One row of the table by column."""
    over = row["over_TWAP"]
    return {
        "method": f"{name} *" if name == "foresight bound" else name,
        "PA": number(row["PA"]),
        "over TWAP": number(over["mean"]),
        "95 % CI": interval(over["ci95"]),
        "specific": number(row["over_TWAP_specific"]["mean"]),
        "buy": number(row["by_side"]["buy"]["PA"]),
        "sell": number(row["by_side"]["sell"]["PA"]),
        "PA-std": number(row["PA_std"], 1),
        "WR": number(row["WR"], 3),
        "GLR": number(row["GLR"]),
        "AFI": number(row["AFI"], 3),
        "capture": number(100 * row["capture"], 1, suffix=" %"),
    }


def _reading(results: dict[str, Any]) -> list[str]:
    """The small print under the table."""
    costs, spa = results["costs"], results["spa"]
    cap = f", cap {costs['cap']:g} of volume" if costs["cap"] else ""
    detectable = max(
        (
            r["over_TWAP"]["detectable"]
            for n, r in results["methods"].items()
            if n != "foresight bound"
        ),
        default=math.nan,
    )
    lines = [
        f"bps against the window's {results['benchmark'].upper()}; intervals by day clusters ({results['days']} days); "
        f"half-spread {costs['half_spread_bps']:g} bps, fee {costs['fee_bps']:g} bps{cap}",
        f"SPA p that no method beats TWAP: {p_value(spa['p_value'])}; "
        f"effects below {number(detectable)} bps cannot be shown on these days",
        f"{len(results['checks'])} self-checks passed; * knows the future: a bound, not a policy",
    ]
    if results["ridge_fitted_on"]:
        lines.append(f"XS ridge fitted on train days of {', '.join(results['ridge_fitted_on'])}")
    return lines + [f"note: {note}" for note in results["notes"]]


def print_rows(title: str, rows: list[dict[str, Any]]) -> None:
    """Any list of flat records as a table."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    if not rows:
        console.print(f"{title}: none")
        return
    table = Table(title=title, title_justify="left")
    for column in rows[0]:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(
            *(Text("yes" if v is True else "no" if v is False else str(v)) for v in row.values())
        )
    console.print(table)


def print_bench(result: dict[str, Any]) -> None:
    """A benchmark: our figure, each peer's, and the ratio."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    table = Table(title=f"{result['name']} ({result['unit']})", title_justify="left")
    for column in ("who", "value", "ours / peer"):
        table.add_column(column, justify="left" if column == "who" else "right")
    table.add_row("se-rl", f"{result['value']:,.0f}", "1")
    for peer, value in result["peers"].items():
        table.add_row(peer, f"{value:,.0f}", f"{result['ratios'][peer]:,.1f}x")
    console.print(table)
    for key, value in {**result["detail"], **result["machine"]}.items():
        console.print(f"{key}: {value}", style="dim", highlight=False)


def print_card(card: dict[str, Any]) -> None:
    """The realism card: each fact beside its band, then the tests and the best constant policies."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    table = Table(
        title=f"Simulated market: {card['passed']} of {len(card['facts'])} facts in their bands",
        title_justify="left",
    )
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


def number(value: float | None, decimals: int = 2, *, suffix: str = "") -> str:
    """A figure with fixed decimals; an undefined one is a dash, and -0.00 is 0.00."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:.{decimals}f}"
    return (text.lstrip("-") if float(text) == 0 else text) + suffix


def p_value(p: float | None) -> str:
    """A p to three places, never a bare zero."""
    return "< 0.001" if p is not None and p < 0.001 else number(p, 3)


def interval(bounds: list[float] | tuple[float, float]) -> str:
    """[low, high]."""
    return (
        "–"
        if not all(math.isfinite(b) for b in bounds)
        else f"[{number(bounds[0])}, {number(bounds[1])}]"
    )
