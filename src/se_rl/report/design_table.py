"""Rows of designs in the terminal: a table that fits its width, or one plain line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.table import Table
from rich.text import Text

from se_rl.report.design_rows import BEST, NEW_BEST, SHORT, DesignRow
from se_rl.report.numbers import signed, with_error
from se_rl.sandbox.calls import printable

COLUMNS = (
    "design",
    "it",
    "operator",
    "module",
    "parent",
    "rung",
    "over default",
    "gain",
    "verdict",
)
WIDE_ONLY = ("operator", "parent", "gain")
"""Columns that a narrow terminal does without."""
NUMBERS = ("it", "rung", "over default", "gain")
WIDE = 100


def design_table(rows: Iterable[DesignRow], *, width: int) -> Table:
    """The rows as a table: a narrow one has fewer columns, and the verdict is cut to
    what is left.
    """
    shown = list(rows)
    cells = [_cells(row) for row in shown]
    columns = [name for name in COLUMNS if width >= WIDE or name not in WIDE_ONLY]
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    taken = 0
    for name in columns:
        table.add_column(name, justify="right" if name in NUMBERS else "left", no_wrap=True)
        if name != "verdict":
            taken += 1 + max([len(name), *(len(one[name]) for one in cells)])
    for row, one in zip(shown, cells, strict=True):
        texts = [Text(one[name]) for name in columns]
        texts[-1].truncate(max(width - taken, len("verdict")), overflow="ellipsis")
        table.add_row(*texts, style=_style(row))
    return table


def design_line(row: DesignRow) -> str:
    """A row as one plain line."""
    cells = _cells(row)
    origin = f"of {cells['parent']}" if cells["parent"] else ""
    what = " ".join(filter(None, (cells["operator"], cells["module"], origin)))
    facts = [f"design {cells['design']}" + (f" ({what})" if what else "")]
    if cells["rung"]:
        facts.append(f"rung {cells['rung']}")
    if row.is_scored:
        facts.append(f"{score_text(row)} bps over the default")
    if signed(row.gain) != signed(None):
        facts.append(f"gain {cells['gain']}")
    return f"{', '.join(facts)}: {cells['verdict']}"


def score_text(row: DesignRow) -> str:
    """A design's score with its standard error."""
    return with_error(row.score, row.se)


def _cells(row: DesignRow) -> Mapping[str, str]:
    values = (
        str(row.id)[:SHORT],
        row.iteration,
        row.operator,
        row.module,
        " + ".join(str(parent)[:SHORT] for parent in row.parents),
        row.rung,
        score_text(row),
        signed(row.gain),
        row.verdict,
    )
    cells = {}
    for name, value in zip(COLUMNS, values, strict=True):
        cells[name] = "" if value is None else printable(value, 300)
    return cells


def _style(row: DesignRow) -> str:
    if row.verdict.startswith(("invalid", "failed")):
        return "red"
    if row.verdict in (NEW_BEST, BEST):
        return "bold green"
    return "dim" if row.stored else ""
