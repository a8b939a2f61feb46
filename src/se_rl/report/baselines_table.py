"""`se-rl baselines` in the terminal: what each method earned, over TWAP, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from se_rl.records.results import BOUND, TWAP
from se_rl.report.console import stdout_console, warn_synthetic
from se_rl.report.numbers import interval, number, p_value

WIDE = 145
WIDE_ONLY = ("tracking error", "buy", "sell", "PA-std", "GLR", "AFI")
"""Columns that a narrow terminal does without; `--json` and the page have them all."""
DYNAMIC_COLUMNS = (
    "method",
    "cost, bps",
    "saved, bps",
    "95 % CI",
    "saved",
    "passive",
    "forced",
    "seed SD",
)


def print_baselines(results: Mapping[str, Any]) -> None:
    """The table of baselines for a person, and below it that of simulated markets where there is
    one.
    """
    console = stdout_console()
    warn_synthetic(console, synthetic=results["data"]["synthetic"])
    console.print(_history_table(results, console))
    for line in _small_print(results):
        console.print(line, style="dim", highlight=False)
    for kind, rows in results.get("dynamic", {}).items():
        console.print(_dynamic_table(kind, rows, results["learned"]))


def _history_table(results: Mapping[str, Any], console: Console) -> Table:
    data = results["data"]
    title = (
        f"{data['name']}, {data['split']} split: {results['orders']:,} orders (buy and sell), "
        f"{results['symbols']} symbols, {results['days']} days, {results['horizon']} bars"
    )
    table = Table(title=title, title_justify="left")
    rows = {name: _cells(name, row) for name, row in results["methods"].items()}
    columns = [name for name in rows[TWAP] if console.width >= WIDE or name not in WIDE_ONLY]
    for column in columns:
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for name, cells in rows.items():
        if name == BOUND:
            table.add_section()
        style = "dim" if name == BOUND else None
        table.add_row(*(cells[column] for column in columns), style=style)
    return table


def _dynamic_table(kind: str, rows: Mapping[str, Any], learned: Mapping[str, Any]) -> Table:
    """The simulated market's table: costs in bps of the arrival price, lower is better."""
    title = (
        f"simulated market, {kind}: {learned['participation']:.0%} of volume in "
        f"{learned['dynamic_horizon']} steps, {rows[TWAP]['orders']:,} fresh orders, "
        f"{learned['seeds']} seeds"
    )
    table = Table(title=title, title_justify="left")
    for column in DYNAMIC_COLUMNS:
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
    schedule = rows["grid constant"]["schedule"]
    table.caption = f"grid constant: {schedule}; news taken out of every cost; SIMULATED"
    table.caption_justify = "left"
    return table


def _cells(name: str, row: Mapping[str, Any]) -> Mapping[str, str]:
    """One row of the table by column."""
    over = row["over_TWAP"]
    return {
        "method": f"{name} *" if name == BOUND else name,
        "PA": number(row["PA"]),
        "over TWAP": number(over["mean"]),
        "95 % CI": interval(over["ci95"]),
        "specific": number(row["over_TWAP_specific"]["mean"]),
        "score": number(row["score"]["mean"]),
        "tracking error": number(row["tracking_error"], 1),
        "buy": number(row["by_side"]["buy"]["PA"]),
        "sell": number(row["by_side"]["sell"]["PA"]),
        "PA-std": number(row["PA_std"], 1),
        "WR": number(row["WR"], 3),
        "GLR": number(row["GLR"]),
        "AFI": number(row["AFI"], 3),
        "capture": number(100 * row["capture"], 1, suffix=" %"),
    }


def _small_print(results: Mapping[str, Any]) -> Iterator[str]:
    """What stands below the table."""
    costs = results["costs"]
    cap = f", cap {costs['cap']:g} of volume" if costs["cap"] else ""
    yield (
        f"bps against the window's {results['benchmark'].upper()}; intervals by day clusters "
        f"({results['days']} days); half-spread {costs['half_spread_bps']:g} bps, "
        f"fee {costs['fee_bps']:g} bps{cap}"
    )
    detectable = math.nan
    real = [row for name, row in results["methods"].items() if name != BOUND]
    if real:
        detectable = max(row["over_TWAP"]["detectable"] for row in real)
    yield (
        f"SPA p that no method of this table beats TWAP on these days: "
        f"{p_value(results['spa']['p_value'])}; "
        f"effects below {number(detectable)} bps cannot be shown on these days"
    )
    yield f"{len(results['checks'])} self-checks passed; * knows the future: a bound, not a policy"
    if results["ridge_fitted_on"]:
        yield f"XS ridge fitted on train days of {', '.join(results['ridge_fitted_on'])}"
    for note in results["notes"]:
        yield f"note: {note}"
