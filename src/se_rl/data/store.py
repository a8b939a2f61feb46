"""Our own file of bars: parquet rows (symbol, date, minute, OHLC, volume, amount, best quotes) that
`read_bars` reads back.

What the rows cannot say stands in the file's metadata; `told_by` reads it, and the few words that
other files use.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.data.calendar import CONTINUOUS, LABELS, TIME_ZONES, SessionGrid
from se_rl.data.market_data import PRICE_FIELDS, DataError, MarketData, SplitDates

_GRID = "se_rl_grid"
_SPLIT = "se_rl_split"
_ADJUSTED = {"adjusted": True, "none": False}


def write_bars(data: MarketData, path: Path, *, notes: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Write the printed bars (flat filler is left out: reading puts it back), whole or not at all;
    returns all notes.

    Symbols come back sorted by name. Rows hold the best quote of printed bars; a note says what of
    a book that leaves out.
    """
    import pyarrow.parquet as pq

    if data.grid.exchange == CONTINUOUS:
        raise DataError(
            f"{data.provenance.name} fits no exchange's hours, so it has no sessions to store; "
            "use the file by its path"
        )
    notes = (*data.provenance.notes, *notes, *_left_out(data))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as stream:
            pq.write_table(
                _table(data).replace_schema_metadata(_words(data, notes)),
                stream,
                compression="zstd",
            )
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return notes


def told_by(meta: Mapping[str, str], name: str) -> dict[str, Any]:
    """What a file's metadata says of its bars, as the last fields of `Columns` (`bar_label` and
    on)."""
    adjust = meta.get("adjust", "").split(" ")[0]
    return {
        "bar_label": _label(meta.get("bar_label", "")),
        "grid": _grid(meta[_GRID], name) if _GRID in meta else None,
        "adjusted": _ADJUSTED.get(adjust),
        "synthetic": meta.get("synthetic") == "true",
        "notes": _notes(meta["notes"]) if "notes" in meta else (),
        "split": _split(meta[_SPLIT], name) if _SPLIT in meta else None,
    }


def _table(data: MarketData) -> Any:
    import pyarrow as pa

    symbol, day, bar = np.nonzero(data.traded)
    columns: dict[str, Any] = {
        "symbol": pa.DictionaryArray.from_arrays(symbol.astype(np.int32), list(data.symbols)),
        "date": data.dates[day],
        "minute": np.asarray(data.grid.minutes, np.int32)[bar],
    }
    columns |= {
        name: values[data.traded]
        for name in (*PRICE_FIELDS, "volume", "amount", "bid", "ask")
        if (values := getattr(data, name)) is not None
    }
    if data.bid_sizes is not None and data.ask_sizes is not None:
        columns |= {
            "bsz": data.bid_sizes[data.traded][:, 0],
            "asz": data.ask_sizes[data.traded][:, 0],
        }
    return pa.table(columns)


def _left_out(data: MarketData) -> tuple[str, ...]:
    """What of the book the rows do not hold: levels beyond the best, and quotes that moved without
    a print."""
    notes: tuple[str, ...] = ()
    if data.bid_sizes is not None and (levels := data.bid_sizes.shape[-1]) > 1:
        notes += (f"of {levels} levels of the book only the best is stored",)
    if data.bid is None or data.ask is None:
        return notes
    known = data.traded & np.isfinite(data.bid) & np.isfinite(data.ask)
    newest = np.maximum.accumulate(np.where(known, np.arange(len(data.grid)), -1), axis=2)
    moved = np.zeros(data.shape, dtype=bool)
    for quote in (data.bid, data.ask):
        restored = np.where(
            newest >= 0, np.take_along_axis(quote, np.maximum(newest, 0), axis=2), np.nan
        )
        moved |= (restored != quote) & ~(np.isnan(restored) & np.isnan(quote))
    return notes + (
        (f"{int(moved.sum()):,} quotes of bars without a print are not stored",)
        if moved.any()
        else ()
    )


def _words(data: MarketData, notes: tuple[str, ...]) -> dict[str, str]:
    words = {_GRID: json.dumps(asdict(data.grid)), "notes": json.dumps(notes)}
    if data.provenance.split is not None:
        words[_SPLIT] = json.dumps(asdict(data.provenance.split))
    if data.provenance.adjusted is not None:
        words["adjust"] = "adjusted" if data.provenance.adjusted else "none"
    return {**words, "synthetic": "true"} if data.provenance.synthetic else words


def _label(text: str) -> str | None:
    """The labelling that a file states in words."""
    if "opening print" in text:
        return "open+end"
    return next((label for label in ("start", "end") if text.startswith(label)), None)


def _grid(text: str, name: str) -> SessionGrid:
    """The very grid that the bars were written from: labels alone cannot tell a thin session from a
    shorter one."""
    try:
        grid = SessionGrid(**json.loads(text))
        minutes = [int(minute) for minute in grid.minutes]
        known = grid.exchange in TIME_ZONES and grid.label in LABELS and int(grid.bar_minutes) > 0
    except (ValueError, TypeError):
        known, minutes = False, []
    if (
        not known
        or not minutes
        or sorted({*minutes}) != minutes
        or not 0 <= minutes[0] <= minutes[-1] <= 1440
    ):
        raise DataError(
            f"{name} states the session grid {text[:60]!r}, which cannot be; "
            "import its source again"
        )
    return SessionGrid(grid.exchange, grid.bar_minutes, grid.label, tuple(minutes))


def _notes(text: str) -> tuple[str, ...]:
    """The notes of a JSON list; any other text is one note."""
    try:
        notes = json.loads(text)
    except ValueError:
        notes = text
    return tuple(
        " ".join(str(note).split()) for note in (notes if isinstance(notes, list) else [text])
    )


def _split(text: str, name: str) -> SplitDates:
    """How the set's owner wants its days split."""
    try:
        split = json.loads(text)
        numbers = [split[key] for key in ("train_until", "valid_until", "gap")]
        if all(type(number) is int and number >= 0 for number in numbers):
            return SplitDates(*numbers)
    except (ValueError, TypeError, KeyError):
        pass
    raise DataError(
        f"{name} states the split {text[:60]!r}, which cannot be; import its source again"
    )
