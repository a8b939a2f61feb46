"""Rows of bars become MarketData: refused or repaired row by row, then put on the session grid.

`bars_from_columns` is the one road; files (data/readers.py) and dataframes (data/columns.py) only
differ in how they get to `Columns`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from se_rl.data.calendar import CONTINUOUS, SessionGrid, infer_grid, session_grid
from se_rl.data.columns import INFER_ALL, Columns, ReadOptions, frame_columns
from se_rl.data.market_data import PRICE_FIELDS, Array, DataError, MarketData, Provenance
from se_rl.data.row_defects import Mask, refuse_defects, repair_rows

if TYPE_CHECKING:
    import pandas as pd

Index = npt.NDArray[np.int64]
EARLY_CLOSE_SHARE = 0.2
"""A session without any print in this last share of the grid closed early; if all do, the grid is
cut (`on_grid`)."""


def bars_from_columns(
    columns: Columns, options: ReadOptions = INFER_ALL, *, provenance: Provenance
) -> MarketData:
    """MarketData on the session grid from rows: strict unless `options.repair`; the notes say what
    was left out."""
    if options.repair:
        columns = repair_rows(columns)
    else:
        refuse_defects(columns, provenance.name)
    if not len(columns):
        raise DataError(f"{provenance.name} has no usable rows; check the file and its columns")
    adjusted = columns.adjusted if options.adjusted is None else options.adjusted
    notes, synthetic = provenance.notes + columns.notes, provenance.synthetic or columns.synthetic
    provenance = replace(
        provenance, adjusted=adjusted, synthetic=synthetic, notes=notes, split=columns.split
    )
    grid = choose_grid(columns, options)
    if grid is None:
        return _one_session(columns, options, provenance)
    data = on_grid(columns, grid, provenance=provenance)
    return data if grid is columns.grid else without_early_closes(data)


def bars_from_frame(
    frame: pd.DataFrame, options: ReadOptions = INFER_ALL, *, name: str = "frame"
) -> MarketData:
    """MarketData from a dataframe of OHLCV bars: a DatetimeIndex, or long with symbol and timestamp
    columns.

    Column names are case-insensitive. Rows that follow no exchange's hours become one continuous
    session.
    """
    return bars_from_columns(
        frame_columns(frame, options, name=name), options, provenance=Provenance(name)
    )


def choose_grid(columns: Columns, options: ReadOptions) -> SessionGrid | None:
    """The session grid that options, source and labels agree on; None where the rows follow no
    exchange's hours."""
    if options.exchange == CONTINUOUS:
        return None
    if columns.grid is not None and not (
        options.exchange or options.bar_minutes or options.bar_label
    ):
        return columns.grid
    minutes, stated_minutes = columns.label_minutes, options.bar_minutes or columns.bar_minutes
    labels = np.unique(minutes[minutes <= 1440])
    gaps, counts = np.unique(np.diff(labels), return_counts=True)
    step = stated_minutes or (int(gaps[counts.argmax()]) if len(gaps) else 1)
    inferred = infer_grid(minutes, bar_minutes=step) or infer_grid(
        minutes, bar_minutes=stated_minutes
    )
    # `on_grid` refuses a stated bar length that misfits known hours
    fitting = inferred or infer_grid(minutes)
    if np.mean(minutes > 1440) > 0.01:
        inferred = fitting = None
    exchange = options.exchange or (fitting.exchange if fitting else None)
    if exchange is None:
        return None
    length = stated_minutes or (inferred.bar_minutes if inferred else step)
    label = inferred.label if inferred else columns.bar_label or "start"
    grid = session_grid(exchange, bar_minutes=length, label=options.bar_label or label)
    if options.bar_label or columns.bar_label in (None, grid.label):
        return grid
    # The source's own word decides only where the labels leave it open: "end of bar" files may
    # carry an opening print.
    stated = session_grid(exchange, bar_minutes=length, label=columns.bar_label)
    fits_stated = np.sum(columns.located(stated) >= 0)
    fits_grid = np.sum(columns.located(grid) >= 0)
    return stated if fits_stated >= fits_grid else grid


def _one_session(columns: Columns, options: ReadOptions, provenance: Provenance) -> MarketData:
    """All rows of each symbol, in order, as one continuous session: for rows that follow no
    exchange's hours."""
    columns = columns.take(np.argsort(columns.code, kind="stable"))
    counts = np.bincount(columns.code, minlength=len(columns.symbols))
    symbols = tuple(s for s, count in zip(columns.symbols, counts, strict=True) if count)
    shape = (len(symbols), 1, len(columns) // len(symbols))
    times = columns.clock[: shape[2]]
    if len(set(counts[counts > 0])) > 1 or np.any(columns.clock.reshape(shape) != times):
        raise DataError(
            f"{provenance.name} fits no exchange's hours and its {len(symbols)} symbols differ in "
            "their timestamps; "
            "give the exchange, or one symbol, or rows at shared times only"
        )
    gaps, number = np.unique(np.diff(times), return_counts=True)
    step = (
        options.bar_minutes
        or columns.bar_minutes
        or (int(gaps[number.argmax()] // 60_000_000) if len(gaps) else 1)
    )
    grid = SessionGrid(CONTINUOUS, max(step, 1), "start", tuple(range(shape[2])))
    arrays, notes = _filled(columns, np.arange(len(columns)), shape)
    reason = "fits the hours of no exchange: all rows of a symbol are one continuous session"
    provenance = replace(provenance, notes=(*provenance.notes, reason, *notes))
    return MarketData(
        symbols, columns.date[:1].astype(np.int32), grid, **arrays, provenance=provenance
    )


def on_grid(columns: Columns, grid: SessionGrid, *, provenance: Provenance) -> MarketData:
    """Rows without defects re-indexed to the grid; the notes count the bars outside its hours, left
    out.

    A grid inferred or chosen is cut to the labels there are where every session starts late or ends
    early.
    """
    place = columns.located(grid)
    notes = provenance.notes
    if outside := int(np.sum(place < 0)):
        _refuse_misfit(columns, grid, place, provenance.name)
        columns, place = columns.take(place >= 0), place[place >= 0]
        notes += (f"{outside:,} bars outside the hours of {grid.exchange} dropped",)
    used = np.bincount(columns.code, minlength=len(columns.symbols)) > 0
    if outside and not used.all():
        notes += (f"{int(np.sum(~used))} symbols without a bar inside the hours dropped",)
    own_grid = grid is columns.grid
    if not own_grid:
        grid, place, cut = _cut(grid, place)
        notes += cut
    days = np.bincount(columns.date - columns.date.min()) > 0
    dates = (np.flatnonzero(days) + columns.date.min()).astype(np.int32)
    day = (np.cumsum(days) - 1)[columns.date - columns.date.min()]
    shape = (int(used.sum()), len(dates), len(grid))
    cell = ((np.cumsum(used) - 1)[columns.code] * len(dates) + day) * len(grid) + place
    arrays, quote_notes = _filled(columns, cell, shape)
    symbols = tuple(s for s, u in zip(columns.symbols, used, strict=True) if u)
    if not own_grid:  # a file of ours brings the notes of its first reading along
        notes += quote_notes
    return MarketData(symbols, dates, grid, **arrays, provenance=replace(provenance, notes=notes))


def _cut(grid: SessionGrid, place: Index) -> tuple[SessionGrid, Index, tuple[str, ...]]:
    """The grid from the first to the last label in use, with the places on it, where an edge of it
    is never in use."""
    first, last, edge = (
        int(place.min()),
        int(place.max()),
        max(int(EARLY_CLOSE_SHARE * len(grid)), 1),
    )
    if first < edge and last >= len(grid) - edge:
        return grid, place, ()
    used = grid.minutes[first : last + 1]
    clock = " to ".join(f"{minute // 60:02d}:{minute % 60:02d}" for minute in (used[0], used[-1]))
    note = f"no session prints outside {clock}: the grid has these {len(used)} of {len(grid)} bars"
    return replace(grid, minutes=used), place - first, (note,)


def _refuse_misfit(columns: Columns, grid: SessionGrid, place: Index, name: str) -> None:
    """Dropping is for bars outside the hours; bars between the labels mean that the grid is the
    wrong one."""
    between = (place < 0) & (columns.minute > grid.minutes[0]) & (columns.minute < grid.minutes[-1])
    if place.max() < 0:
        raise DataError(
            f"no bar of {name} lies in the hours of {grid.exchange}, first {columns.describe(0)}; "
            "give the exchange or the time zone of the timestamps"
        )
    if between.mean() > 0.01:
        raise DataError(
            f"{int(between.sum()):,} bars of {name} lie between {grid.exchange}'s "
            f"{grid.bar_minutes}-minute labels, "
            f"first {columns.describe(int(between.argmax()))}; "
            "give the right exchange, bar_minutes or bar_label"
        )


def _filled(
    columns: Columns, cell: Index, shape: tuple[int, ...]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The dense arrays, missing bars flat at the last close (before the first bar of the day: at
    its open)."""

    def dense(values: Array, empty: float) -> Array:
        full = np.full(shape, empty)
        full.reshape(-1)[cell] = values
        return full

    traded = np.zeros(shape, dtype=bool)
    traded.reshape(-1)[cell] = True
    arrays: dict[str, Any] = {name: dense(getattr(columns, name), np.nan) for name in PRICE_FIELDS}
    newest, first = _newest(traded), traded.argmax(axis=2)[..., None]
    price = np.where(
        newest >= 0,
        np.take_along_axis(arrays["close"], np.maximum(newest, 0), axis=2),
        np.take_along_axis(arrays["open"], first, axis=2),
    )
    for name in PRICE_FIELDS:
        np.copyto(arrays[name], price, where=~traded)
    arrays |= {
        name: dense(v, 0.0)
        for name in ("volume", "amount")
        if (v := getattr(columns, name)) is not None
    }
    arrays["traded"] = traded
    if columns.bid is None or columns.ask is None:
        return arrays, ()
    quoted = (dense(columns.bid, 0.0) > 0) & (dense(columns.ask, 0.0) > 0)
    newest = _newest(quoted)
    quotes = {
        "bid": columns.bid,
        "ask": columns.ask,
        "bid_sizes": columns.bid_size,
        "ask_sizes": columns.ask_size,
    }
    for name, values in quotes.items():
        if values is not None:
            last = np.take_along_axis(dense(values, 0.0), np.maximum(newest, 0), axis=2)
            sized = name.endswith("sizes")
            carried = np.where(
                newest >= 0, last, 0.0 if sized else np.nan
            )  # a later quote is not known yet
            arrays[name] = carried[..., None] if sized else carried
    return arrays, _quote_notes(traded, quoted, newest)


def _quote_notes(traded: Mask, quoted: Mask, newest: Index) -> tuple[str, ...]:
    """How many bars and sessions lack a quote of their own."""
    missing, ever = traded & ~quoted, quoted.any(axis=2, keepdims=True)
    counts = {
        "bars without a quote carry the last one": np.sum(missing & (newest >= 0)),
        "bars before the first quote of their session have none": np.sum(
            missing & (newest < 0) & ever
        ),
        "sessions of a symbol have no quote at all": np.sum(
            traded.any(axis=2, keepdims=True) & ~ever
        ),
    }
    return tuple(f"{count:,} {what}" for what, count in counts.items() if count)


def _newest(known: Mask) -> Index:
    """At each bar the position of the newest known bar of its session, -1 before the first."""
    return np.maximum.accumulate(np.where(known, np.arange(known.shape[2]), -1), axis=2)


def early_closes(data: MarketData) -> Mask:
    """[session]: no symbol printed in the last share EARLY_CLOSE_SHARE of the grid."""
    tail = len(data.grid) - int(EARLY_CLOSE_SHARE * len(data.grid))
    return np.asarray(~data.traded[:, :, tail:].any(axis=(0, 2)))


def without_early_closes(data: MarketData) -> MarketData:
    """The data less the sessions that end early, with a note.

    Unchanged where no session is full.
    """
    early = early_closes(data)
    if not early.any() or early.all():
        return data
    named = ", ".join(str(d) for d in data.dates[early][:5]) + (", ..." if early.sum() > 5 else "")
    kept = data.select(dates=data.dates[~early])
    kept = kept.select(
        symbols=[kept.symbols[i] for i in np.flatnonzero(kept.has_session.any(axis=1))]
    )
    notes = (*data.provenance.notes, f"{int(early.sum())} sessions that end early dropped: {named}")
    return replace(kept, provenance=replace(data.provenance, notes=notes))
