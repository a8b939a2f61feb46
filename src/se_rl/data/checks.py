"""What is wrong with a file of bars: errors are what `read_bars` refuses, warnings are what a
person should look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from se_rl.data.calendar import SessionGrid, infer_grid
from se_rl.data.frames import choose_grid, on_grid
from se_rl.data.market_data import DataError, Provenance
from se_rl.data.readers import INFER_ALL, Columns, ReadOptions, read_columns
from se_rl.data.row_defects import DEFECTS, repair_rows, row_defects
from se_rl.data.session_checks import SESSION_CHECKS, Finding, clock

REPAIR = "`se-rl data import FILE --repair`"
EDGE_LIMIT = 1.5
"""How much busier than the first (last) label a neighbour must be to say that the opening (close)
sits there."""
AMOUNT_LIMIT = 0.01


def check_bars(path: Path, options: ReadOptions = INFER_ALL) -> list[Finding]:
    """All faults of a file, errors first; an empty list is a clean file. Works on files that
    `read_bars` refuses."""
    try:
        columns = read_columns(path, replace(options, repair=True))
    except DataError as error:
        return [Finding("unreadable", "error", 1, str(error), "see the message")]
    findings = list(_row_findings(columns))
    clean = repair_rows(columns)
    if not len(clean):
        return findings
    findings += _volume_column(clean)
    grid = choose_grid(clean, options)
    if grid is None:
        return [*findings, *_shifted_hours(clean), *_amount(clean)]
    try:
        data = on_grid(clean, grid, provenance=Provenance(Path(path).stem))
    except DataError as error:
        return [Finding("grid", "error", 1, str(error), "see the message"), *findings]
    for check in (_out_of_hours, _label_shift):
        findings += check(clean, grid)
    findings += _amount(clean)
    for look in SESSION_CHECKS:
        findings += look(data)
    return sorted(
        findings, key=lambda finding: ("error", "warning", "info").index(finding.severity)
    )


def _row_findings(columns: Columns) -> Iterator[Finding]:
    for kind, rows in row_defects(columns).items():
        if rows.any():
            what, mended = DEFECTS[kind]
            example = f"{what}, first {columns.describe(int(rows.argmax()))}"
            yield Finding(kind, "error", int(rows.sum()), example, f"{REPAIR} ({mended})")


def _volume_column(columns: Columns) -> Iterator[Finding]:
    volume = columns.volume
    if volume is None:
        yield Finding(
            "no_volume",
            "info",
            len(columns),
            "no volume column",
            "VWAP and volume caps cannot be used",
        )
    elif len(volume) > 1 and np.all(volume == volume[0]):
        example = f"volume is {volume[0]:g} on every row"
        yield Finding(
            "constant_volume",
            "warning",
            len(volume),
            example,
            "made up: drop the column or get the real one",
        )


def _out_of_hours(columns: Columns, grid: SessionGrid) -> Iterator[Finding]:
    outside = columns.located(grid) < 0
    if outside.any():
        example = (
            f"first {columns.describe(int(outside.argmax()))}, {grid.exchange} "
            f"{grid.label}-labelled"
        )
        yield Finding(
            "out_of_hours",
            "warning",
            int(outside.sum()),
            example,
            "they are left out; else set bar_label",
        )


def _shifted_hours(columns: Columns) -> Iterator[Finding]:
    """Rows that fit no exchange as they stand but all do when moved: the time zone or the label is
    off."""
    labels, counts = np.unique(columns.label_minutes, return_counts=True)
    minutes = np.repeat(
        labels, -(-counts * 10_000 // len(columns))
    )  # the same shape in few rows: many fits are tried
    fits = []
    for shift in (*range(-840, 841, 30), -15, -5, -1, 1, 5, 15):
        moved = (minutes + shift) % 1440
        grid = infer_grid(moved) if shift and labels[-1] <= 1440 else None
        if grid is not None:
            fits.append((int(np.sum(grid.positions[moved] < 0)), abs(shift), shift, grid.exchange))
    if fits:
        _, _, shift, exchange = min(fits)
        example = f"labels fit {exchange} only when moved by {shift:+d} minutes"
        yield Finding(
            "label_shift", "warning", len(columns), example, "set time_zone, or correct the labels"
        )
        return
    yield Finding(
        "continuous",
        "info",
        len(columns),
        "fits no exchange's hours",
        "name the exchange to cut to its hours",
    )


def _label_shift(columns: Columns, grid: SessionGrid) -> Iterator[Finding]:
    """The opening and the closing minute are the busiest of their neighbourhood; else the labels
    are moved.

    Labels one bar outside the grid count too: that is where an auction goes when the label kind is
    wrong.
    """
    if columns.volume is None:
        return
    volume = np.bincount(columns.label_minutes, weights=columns.volume, minlength=1500)
    step, first, last = grid.bar_minutes, grid.minutes[0], grid.minutes[-1]
    opening = range(first - step, first + 3 * step + 1, step)
    closing = range(last - 3 * step, last + step + 1, step)
    # With an opening print of its own, the first full minute may well be busier than that print.
    allowed = {first, first + step} if grid.label == "open+end" else {first}
    for what, labels, right in (("opening", opening, allowed), ("closing", closing, {last})):
        busiest = max(labels, key=lambda label: volume[label])
        if busiest in right or volume[busiest] <= EDGE_LIMIT * max(volume[list(right)]):
            continue
        example = (
            f"the {what} volume sits on {clock(busiest)}, not {clock(min(right))} "
            f"({grid.label}-labelled)"
        )
        yield Finding(
            "label_shift",
            "warning",
            1,
            example,
            "set bar_label (start, end, open+end) or correct the labels",
        )


def _amount(columns: Columns) -> Iterator[Finding]:
    if columns.amount is None or columns.volume is None:
        return
    price = np.divide(
        columns.amount, columns.volume, out=columns.close.copy(), where=columns.volume > 0
    )
    off = (price < columns.low * (1 - AMOUNT_LIMIT)) | (price > columns.high * (1 + AMOUNT_LIMIT))
    if off.any():
        row = int(off.argmax())
        example = (
            f"amount/volume {price[row]:.4f} outside [{columns.low[row]:g}, "
            f"{columns.high[row]:g}], first "
        )
        mend = "volume in lots or an amount in another unit? put both in shares and money"
        yield Finding("amount", "warning", int(off.sum()), example + columns.describe(row), mend)
