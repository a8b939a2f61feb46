"""Files of bars become `Columns`, whatever their layout; `read_bars` takes a file all the way to
MarketData.

Three layouts are known by their columns: date + minute (integer prices named `*_e4`, or plain
ones), timestamped bars, and wide price-only parquet with one column a ticker.
"""

from __future__ import annotations

import csv
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from se_rl.data.cache import cached
from se_rl.data.calendar import US, session_grid
from se_rl.data.columns import (
    INFER_ALL,
    SYMBOL_NAMES,
    TIME_NAMES,
    Columns,
    ReadOptions,
    calendar_days,
    exchange_clock,
    frame_columns,
    lower_names,
    one_line,
    require_columns,
    with_symbols,
)
from se_rl.data.file_content import bare_name, file_content, is_two_headed, two_headed
from se_rl.data.frame_layouts import our_names
from se_rl.data.frames import bars_from_columns
from se_rl.data.market_data import PRICE_FIELDS, Array, DataError, MarketData, Provenance
from se_rl.data.store import told_by

if TYPE_CHECKING:
    import pyarrow as pa

WIDE_FIRST_DATE = "2016-07-26"
"""First day of the price-only NASDAQ-100 set (DA-RNN), whose rows carry no time at all."""

_QUOTES = {"bid": "bid", "bid_size": "bsz", "ask": "ask", "ask_size": "asz"}


def read_bars(path: Path, options: ReadOptions = INFER_ALL) -> MarketData:
    """Bars of a CSV or parquet file as checked MarketData, from the cache where this very content
    was read before."""
    path = Path(path)
    content = file_content(path)
    digest = hashlib.sha256(content).hexdigest()

    def build() -> MarketData:
        columns = _columns(content, path, options)
        provenance = Provenance(bare_name(path), sha256=digest)
        return bars_from_columns(columns, options, provenance=provenance)

    return cached(f"{digest}:{bare_name(path)}:{options}", build)


def read_columns(path: Path, options: ReadOptions = INFER_ALL) -> Columns:
    """The rows of a CSV or parquet file as they stand, unchecked."""
    return _columns(file_content(Path(path)), Path(path), options)


def _columns(content: bytes, path: Path, options: ReadOptions) -> Columns:
    import pyarrow as pa

    if is_two_headed(content):
        return frame_columns(two_headed(content, path), options, name=path.name)
    try:
        table = _parquet(content) if _is_parquet(content, path) else _csv(content, options, path)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{path} is damaged or no table ({one_line(error)}); write it anew"
        ) from None
    if not table.num_rows:
        raise DataError(f"{path} has no rows; give a file with bars")
    meta = {
        k.decode(): v.decode(errors="replace") for k, v in (table.schema.metadata or {}).items()
    }
    if options.columns:  # not always: renaming forgets which column was a frame's index
        table = table.rename_columns(our_names(table.column_names, options.columns, path.name))
    options = replace(options, columns=(), symbol=options.symbol or bare_name(path))
    lower = table.rename_columns(lower_names(table.column_names, path.name))
    integers = all(pa.types.is_integer(field.type) for field in table.schema)
    if "price_scale" in meta and integers and all(name.isupper() for name in table.column_names):
        return _wide(table, float(meta["price_scale"]), meta.get("first_date", WIDE_FIRST_DATE))
    if {"date", "minute"} <= set(lower.column_names):
        columns = _stacked(lower, options, path)
    else:
        columns = frame_columns(table.to_pandas(), options, name=path.name)
    return replace(columns, **told_by(meta, path.name))


def _is_parquet(content: bytes, path: Path) -> bool:
    if content[:4] == b"PAR1":
        return True
    if path.suffix.lower() in (".parquet", ".pq") or b"\0" in content[:65536]:
        raise DataError(
            f"{path} is neither parquet nor text (it begins {content[:8]!r}); "
            "give a CSV or parquet file"
        )
    return False


def _parquet(content: bytes) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet

    return pa.parquet.ParquetFile(pa.BufferReader(content)).read()


def _csv(content: bytes, options: ReadOptions, path: Path) -> pa.Table:
    """The table of a text file; symbols and clock times stay text, so that 000001 and 09:30 keep
    their zeros."""
    import pyarrow as pa
    import pyarrow.csv

    head = content[:65536].split(b"\n", 1)[0].decode("utf-8-sig").strip()
    delimiter = max(",;\t", key=head.count)
    names = next(csv.reader([head], delimiter=delimiter))
    text = SYMBOL_NAMES if "minute" in head.lower() else SYMBOL_NAMES + TIME_NAMES
    as_text = {}
    for name, ours in zip(names, our_names(names, options.columns, path.name), strict=True):
        if ours.strip().lower() in text:
            as_text[name] = pa.string()
    return pa.csv.read_csv(
        pa.BufferReader(content),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter),
        convert_options=pa.csv.ConvertOptions(column_types=as_text),
    )


def _stacked(table: pa.Table, options: ReadOptions, path: Path) -> Columns:
    """Rows of (symbol,) date, minute and prices, as integers of 1e-4 (`open_e4`) or plain."""

    def column(name: str) -> Array | None:
        scaled = f"{name}_e4" in table.column_names
        if not scaled and name not in table.column_names:
            return None
        values = _numbers(table, f"{name}_e4" if scaled else name)
        return values / 1e4 if scaled else values.astype(np.float64)

    prices = {name: column(name) for name in PRICE_FIELDS}
    require_columns(
        [name for name, values in prices.items() if values is None], table.column_names, path.name
    )
    date, minute = _numbers(table, "date"), _numbers(table, "minute")
    timeless = np.isnan(date) | np.isnan(minute)
    date, minute = np.where(timeless, 0, date), np.where(timeless, 0, minute)
    others = {name: column(name) for name in ("volume", "amount")}
    others |= {name: column(source) for name, source in _QUOTES.items()}
    if options.time_zone is not None:
        import pandas as pd

        stamps = calendar_days(date.astype(np.int64)) + np.rint(minute * 60e6).astype("m8[us]")
        date, minute = exchange_clock(pd.DatetimeIndex(stamps), options)
    symbols, code = _symbols(table, options.symbol or bare_name(path))
    rows: dict[str, Any] = prices | others
    columns = Columns(symbols=symbols, code=code, date=date.astype(np.int32), minute=minute, **rows)
    return (
        _one_frequency(columns, table, options, path)
        if "freq_min" in table.column_names
        else columns
    )


def _one_frequency(columns: Columns, table: pa.Table, options: ReadOptions, path: Path) -> Columns:
    """The rows of one bar length, where the file says each row's length."""
    lengths = _numbers(table, "freq_min")
    there = [int(length) for length in np.unique(lengths[~np.isnan(lengths)])]
    wanted = options.bar_minutes or (there[0] if len(there) == 1 else None)
    if wanted not in there:
        seen = " and ".join(str(length) for length in there)
        raise DataError(
            f"{path} has bars of {seen} minutes; "
            f"choose one by bar_minutes (seen: {options.bar_minutes})"
        )
    return replace(columns.take(lengths == wanted), bar_minutes=wanted)


def _symbols(table: pa.Table, default: str) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    name = next((name for name in SYMBOL_NAMES if name in table.column_names), None)
    if name is None:
        return (default,), np.zeros(table.num_rows, dtype=np.int64)
    import pyarrow as pa

    column = table[name].combine_chunks()
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    if coded.null_count:
        raise DataError(
            f"{coded.null_count:,} rows have no {name}; fill the column or leave it out"
        )
    return with_symbols(coded.dictionary.to_pylist(), np.from_dlpack(coded.indices))


def _numbers(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """A column of numbers, NaN where it is null; without nulls it needs no pandas, whose import
    costs half a second."""
    import pyarrow as pa

    column = table[name].combine_chunks()
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise DataError(
            f"column {name} holds {column.type}, first {column[0].as_py()!r}; it must hold numbers"
        )
    return column.to_numpy(zero_copy_only=False) if column.null_count else np.from_dlpack(column)


def _wide(table: pa.Table, scale: float, first_date: str) -> Columns:
    """One column a ticker, a row a minute: sessions of 390 rows on consecutive business days, price
    only."""
    grid = session_grid(US)
    days = table.num_rows // len(grid)
    if not days:
        raise DataError(
            f"{table.num_rows} rows of prices are no session of {len(grid)}; "
            "give at least one whole day"
        )
    notes: tuple[str, ...] = (
        f"no times in the file: rows are taken as sessions of {len(grid)} minutes from "
        f"{first_date}",
    )
    if left := table.num_rows % len(grid):
        notes += (f"the last {left} rows, part of a session, dropped",)
    rows, tickers = days * len(grid), table.num_columns
    dates = np.busday_offset(first_date, np.arange(days), roll="forward")
    yyyymmdd = np.char.replace(dates.astype(str), "-", "").astype(np.int32)
    price = np.concatenate([_numbers(table, name)[:rows] / scale for name in table.column_names])
    symbols, code = with_symbols(table.column_names, np.repeat(np.arange(tickers), rows))
    date, minute = (
        np.tile(np.repeat(yyyymmdd, len(grid)), tickers),
        np.tile(grid.minutes, days * tickers),
    )
    ohlc: dict[str, Any] = dict.fromkeys(PRICE_FIELDS, price)
    return Columns(
        symbols=symbols,
        code=code,
        date=date,
        minute=minute,
        **ohlc,
        bar_label=grid.label,
        notes=notes,
    )
