"""What is wrong with a file of bars: errors are what `read_bars` refuses, warnings are what a person should look at."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from se_rl.data.calendar import SessionGrid, infer_grid
from se_rl.data.frames import (
    DEFECTS,
    Mask,
    choose_grid,
    early_closes,
    on_grid,
    repair_rows,
    row_defects,
)
from se_rl.data.market_data import DataError, MarketData, Provenance
from se_rl.data.readers import INFER_ALL, Columns, ReadOptions, read_columns

REPAIR = "`se-rl data import FILE --repair`"
DAY_VOLUME_LIMIT, DAY_VOLUME_WINDOW, DAY_VOLUME_LEAST = 3.0, 20, 5
SPIKE_SHARE, SPIKE_MEDIANS = 0.1, 50.0
"""A spike inside the session holds more than this share of its day and more than this many median bars."""
EDGE_LIMIT = 1.5
"""How much busier than the first (last) label a neighbour must be to say that the opening (close) sits there."""
MISSING_LIMIT = 0.25
AMOUNT_LIMIT, OVERNIGHT_LIMIT = 0.01, 0.11


@dataclass(frozen=True)
class Finding:
    """One kind of fault: its severity (`error`, `warning`, `info`), how often, where first, how to mend it."""

    kind: str
    severity: str
    count: int
    example: str
    mend: str


def check_bars(path: Path, options: ReadOptions = INFER_ALL) -> list[Finding]:
    """All faults of a file, errors first; an empty list is a clean file. Works on files that `read_bars` refuses."""
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
    for look in (_day_volume, _spikes, _early, _missing_minutes, _calendar, _overnight):
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
        example = f"first {columns.describe(int(outside.argmax()))}, {grid.exchange} {grid.label}-labelled"
        yield Finding(
            "out_of_hours",
            "warning",
            int(outside.sum()),
            example,
            "they are left out; else set bar_label",
        )


def _shifted_hours(columns: Columns) -> Iterator[Finding]:
    """Rows that fit no exchange as they stand but all do when moved: the time zone or the label is off."""
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
    """The opening and the closing minute are the busiest of their neighbourhood; else the labels are moved.

    Labels one bar outside the grid count too: that is where an auction goes when the label kind is wrong.
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
        example = f"the {what} volume sits on {_clock(busiest)}, not {_clock(min(right))} ({grid.label}-labelled)"
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
        example = f"amount/volume {price[row]:.4f} outside [{columns.low[row]:g}, {columns.high[row]:g}], first "
        mend = "volume in lots or an amount in another unit? put both in shares and money"
        yield Finding("amount", "warning", int(off.sum()), example + columns.describe(row), mend)


def _day_volume(data: MarketData) -> Iterator[Finding]:
    if data.volume is None:
        return
    days = np.where(data.has_session, data.volume.sum(axis=2), np.nan)
    high = np.zeros(days.shape, dtype=bool)
    for day in range(DAY_VOLUME_LEAST, days.shape[1]):
        before = days[:, max(0, day - DAY_VOLUME_WINDOW) : day]
        known = np.sum(~np.isnan(before), axis=1) >= DAY_VOLUME_LEAST
        high[known, day] = days[known, day] > DAY_VOLUME_LIMIT * np.nanmedian(before[known], axis=1)
    yield from _sessions(
        data,
        high,
        "day_volume",
        f"volume over {DAY_VOLUME_LIMIT:g} x its 20-day median",
        "news or bad volume?",
    )


def _spikes(data: MarketData) -> Iterator[Finding]:
    """Bars inside the session (the first and last carry the auctions) that dwarf their day."""
    if data.volume is None or len(data.grid) < 3:
        return
    day = data.volume.sum(axis=2, keepdims=True)
    median = np.nanmedian(
        np.where(data.has_session[..., None], data.volume, 0.0), axis=2, keepdims=True
    )
    spike = (
        (data.volume > SPIKE_SHARE * day) & (data.volume > SPIKE_MEDIANS * median) & (median > 0)
    )
    spike[:, :, [0, -1]] = False
    if spike.any():
        symbol, session, bar = np.argwhere(spike)[0]
        example = (
            f"first {data.symbols[symbol]} {data.dates[session]} {_clock(data.grid.minutes[bar])}: "
        )
        example += (
            f"{data.volume[symbol, session, bar]:,.0f} of the day's {day[symbol, session, 0]:,.0f}"
        )
        yield Finding(
            "bar_volume",
            "warning",
            int(spike.sum()),
            example,
            "a block print? set it to the day's median",
        )


def _early(data: MarketData) -> Iterator[Finding]:
    early = early_closes(data)
    if early.any() and not early.all():
        example = f"no print in the last fifth of {_few(data.dates[early])}"
        yield Finding(
            "early_close",
            "warning",
            int(early.sum()),
            example,
            "read_bars leaves them out unless the file states its own hours",
        )


def _missing_minutes(data: MarketData) -> Iterator[Finding]:
    missing = np.where(data.has_session, np.sum(~data.traded, axis=2), 0)
    if not missing.any():
        return
    share = missing.sum() / (data.has_session.sum() * len(data.grid))
    symbol, session = np.unravel_index(missing.argmax(), missing.shape)
    example = f"{share:.1%} of all minutes; most: {data.symbols[symbol]} {data.dates[session]} lacks {missing.max()}"
    severity = "warning" if share > MISSING_LIMIT else "info"
    yield Finding(
        "missing_minutes",
        severity,
        int(missing.sum()),
        example,
        "filled flat at the last close with volume 0",
    )


def _calendar(data: MarketData) -> Iterator[Finding]:
    """Days that the exchange was open and the file lacks, and days of the file that it was not."""
    first, last = (
        f"{d // 10000}-{d // 100 % 100:02d}-{d % 100:02d}" for d in (data.dates[0], data.dates[-1])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the calendar package is behind pandas' deprecations
        import exchange_calendars

        try:
            calendar = exchange_calendars.get_calendar(data.grid.exchange, start=first, end=last)
            sessions, short = calendar.sessions, calendar.early_closes
        except ValueError as error:
            seen = f"{' '.join(str(error).split())[:120]}"
            yield Finding(
                "calendar", "info", len(data.dates), f"days not checked ({seen})", "none needed"
            )
            return
    open_days, short_days = (
        np.array([int(day.strftime("%Y%m%d")) for day in days]) for days in (sessions, short)
    )
    # Prints after an early close hide it from the reader, which only sees that the day goes on.
    hidden = np.intersect1d(short_days, data.dates[~early_closes(data)])
    missing, strange = np.setdiff1d(open_days, data.dates), np.setdiff1d(data.dates, open_days)
    if len(missing):
        yield Finding(
            "missing_days",
            "warning",
            len(missing),
            _few(missing),
            "get these days, or mind the gap",
        )
    if len(hidden):
        example = f"the exchange closed early on {_few(hidden)}, yet later bars are there"
        yield Finding("early_close", "warning", len(hidden), example, "leave these sessions out")
    if len(strange):
        yield Finding(
            "closed_days",
            "warning",
            len(strange),
            _few(strange),
            "the exchange was closed: check the dates",
        )


def _overnight(data: MarketData) -> Iterator[Finding]:
    """Moves from a symbol's last close to the next session's first open."""
    rows = np.arange(len(data.symbols))
    opens = np.take_along_axis(data.open, data.first_bar[..., None], axis=2)[..., 0]
    moved, last = np.zeros(data.has_session.shape, dtype=bool), np.full(len(rows), np.nan)
    for day in range(len(data.dates)):
        live = data.has_session[:, day]
        moved[:, day] = live & (np.abs(opens[:, day] / last - 1) > OVERNIGHT_LIMIT)
        last = np.where(live, data.close[:, day, -1], last)
    yield from _sessions(
        data,
        moved,
        "overnight",
        f"overnight move over {OVERNIGHT_LIMIT:.0%}",
        "an unadjusted split?",
    )


def _sessions(data: MarketData, found: Mask, kind: str, what: str, mend: str) -> Iterator[Finding]:
    """One warning for the symbol-sessions found, naming the first."""
    if found.any():
        symbol, session = np.argwhere(found)[0]
        names = len(np.flatnonzero(found.any(axis=1)))
        example = f"{what}: {names} symbols, first {data.symbols[symbol]} {data.dates[session]}"
        yield Finding(kind, "warning", int(found.sum()), example, mend)


def _few(dates: npt.NDArray[np.integer]) -> str:
    return ", ".join(str(d) for d in dates[:5]) + (", ..." if len(dates) > 5 else "")


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
