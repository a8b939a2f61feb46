"""Files and dataframes of bars become `Columns`, whatever their layout; `read_bars` takes a file all the way.

Three layouts are known by their columns: date + minute (integer prices named `*_e4`, or plain ones), timestamped
bars, and wide price-only parquet with one column a ticker.
"""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from se_rl.data.cache import cached
from se_rl.data.calendar import CHINA, LABELS, TIME_ZONES, US, SessionGrid, infer_grid, session_grid
from se_rl.data.market_data import PRICE_FIELDS, Array, DataError, MarketData, Provenance

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SYMBOL_NAMES, TIME_NAMES = ("symbol", "ticker", "code"), ("timestamp", "datetime", "time", "date")
WIDE_FIRST_DATE = "2016-07-26"
"""First day of the price-only NASDAQ-100 set (DA-RNN), whose rows carry no time at all."""

_QUOTES = {"bid": "bid", "bid_size": "bsz", "ask": "ask", "ask_size": "asz"}
_DIGIT_FORMATS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S", 17: "%Y%m%d%H%M%S%f"}
_EPOCH_UNITS: dict[int, Any] = {10: "s", 13: "ms", 16: "us", 19: "ns"}


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a source does not say about itself; None means inferred. `repair` mends rows and counts what it did."""

    exchange: str | None = None
    bar_minutes: int | None = None
    bar_label: str | None = None
    time_zone: str | None = None
    adjusted: bool | None = None
    symbol: str | None = None
    repair: bool = False

    def __post_init__(self) -> None:
        if self.exchange is not None and self.exchange not in TIME_ZONES:
            raise DataError(f"exchange {self.exchange!r} is unknown; use one of {', '.join(TIME_ZONES)}")
        if self.bar_label is not None and self.bar_label not in LABELS:
            raise DataError(f"bar label {self.bar_label!r} is unknown; use one of {', '.join(LABELS)}")
        if self.bar_minutes is not None and self.bar_minutes < 1:
            raise DataError(f"a bar of {self.bar_minutes} minutes cannot be; use 1 or more")
        try:
            ZoneInfo(self.time_zone or "UTC")
        except (KeyError, ValueError, OSError):
            raise DataError(f"time zone {self.time_zone!r} is unknown; use a name such as America/New_York") from None


INFER_ALL = ReadOptions()
"""The default options: strict, everything inferred."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Bars as they stand in a source, one row each. `code` indexes `symbols`; `date` is yyyymmdd (0: none).

    `minute` is minutes after midnight, exchange time (with a fraction where the source has seconds). A bid or ask of 0
    is no quote. `bar_label`, `bar_minutes` and `adjusted` are what the source says of itself.
    """

    symbols: tuple[str, ...]
    code: npt.NDArray[np.integer]
    date: npt.NDArray[np.integer]
    minute: npt.NDArray[Any]
    open: Array
    high: Array
    low: Array
    close: Array
    volume: Array | None = None
    amount: Array | None = None
    bid: Array | None = None
    ask: Array | None = None
    bid_size: Array | None = None
    ask_size: Array | None = None
    bar_label: str | None = None
    bar_minutes: int | None = None
    adjusted: bool | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.date)

    @cached_property
    def time(self) -> npt.NDArray[np.int64]:
        """One whole number that orders rows as time does (date, then microseconds of the day)."""
        return self.date.astype(np.int64) * 86_400_000_000 + np.rint(self.minute * 60e6).astype(np.int64)

    @property
    def clock(self) -> npt.NDArray[np.int64]:
        """Microseconds since 1970 on the source's own clock: unlike `time`, differences are durations."""
        days = _days(self.date.astype(np.int64)).astype(np.int64)
        return days * 86_400_000_000 + np.rint(self.minute * 60e6).astype(np.int64)

    @property
    def label_minutes(self) -> npt.NDArray[np.int64]:
        """The minute of each row as a table index: 1441 (beyond every label) where it is no whole minute of a day."""
        whole = (self.minute >= 0) & (self.minute <= 1440) & (self.minute == np.floor(self.minute))
        return np.where(whole, self.minute, 1441).astype(np.int64)

    def take(self, rows: npt.NDArray[Any]) -> Columns:
        """The same columns for some rows, by index or mask."""
        arrays = {f.name: v[rows] for f in fields(self) if isinstance(v := getattr(self, f.name), np.ndarray)}
        return replace(self, **arrays)

    def describe(self, row: int) -> str:
        """A row as a person finds it: symbol, date, clock time and row number."""
        hour, minute = divmod(int(self.minute[row]), 60)
        return f"{_one_line(self.symbols[self.code[row]])} {self.date[row]} {hour:02d}:{minute:02d} (row {row + 1})"

    def located(self, grid: SessionGrid) -> npt.NDArray[np.int64]:
        """The grid position of each row, -1 for a row that is no bar of the grid."""
        return np.append(grid.positions, -1)[self.label_minutes]


def with_symbols(names: npt.ArrayLike, code: npt.NDArray[Any]) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Sorted distinct symbol names and the codes that go with them, from any names and codes."""
    symbols, rank = np.unique(np.asarray(names, dtype=str), return_inverse=True)
    return tuple(str(s) for s in symbols), rank[code]


def read_bars(path: Path, options: ReadOptions = INFER_ALL) -> MarketData:
    """Bars of a CSV or parquet file as checked MarketData, from the cache where this very content was read before."""
    from se_rl.data.frames import bars_from_columns  # stands above this file: it needs Columns

    path = Path(path)
    content = _content(path)
    digest = hashlib.sha256(content).hexdigest()

    def build() -> MarketData:
        columns = _columns(content, path, options)
        return bars_from_columns(columns, options, provenance=Provenance(path.stem, sha256=digest))

    return cached(f"{digest}:{path.stem}:{options}", build)


def read_columns(path: Path, options: ReadOptions = INFER_ALL) -> Columns:
    """The rows of a CSV or parquet file as they stand, unchecked."""
    return _columns(_content(Path(path)), Path(path), options)


def _content(path: Path) -> bytes:
    if path.is_dir():
        raise DataError(f"{path} is a folder; give one CSV or parquet file")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); check the path") from None
    if not content.strip():
        raise DataError(f"{path} is empty; give a CSV or parquet file with rows")
    return content


def _columns(content: bytes, path: Path, options: ReadOptions) -> Columns:
    import pyarrow as pa

    try:
        table = _parquet(content) if _is_parquet(content, path) else _csv(content)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is damaged or no table ({_one_line(error)}); write it anew") from None
    if not table.num_rows:
        raise DataError(f"{path} has no rows; give a file with bars")
    meta = {k.decode(): v.decode(errors="replace") for k, v in (table.schema.metadata or {}).items()}
    lower = table.rename_columns(_lower_names(table.column_names, path.name))
    integers = all(pa.types.is_integer(field.type) for field in table.schema)
    if "price_scale" in meta and integers and all(name.isupper() for name in table.column_names):
        return _wide(table, float(meta["price_scale"]), meta.get("first_date", WIDE_FIRST_DATE))
    if {"date", "minute"} <= set(lower.column_names):
        columns = _stacked(lower, options, path)
    else:
        columns = frame_columns(table.to_pandas(), replace(options, symbol=options.symbol or path.stem), name=path.name)
    adjusted = False if meta.get("adjust", "").startswith("none") else None
    return replace(columns, bar_label=_told_label(meta.get("bar_label", "")), adjusted=adjusted)


def _is_parquet(content: bytes, path: Path) -> bool:
    if content[:4] == b"PAR1":
        return True
    if path.suffix.lower() in (".parquet", ".pq") or b"\0" in content[:65536]:
        raise DataError(f"{path} is neither parquet nor text (it begins {content[:8]!r}); give a CSV or parquet file")
    return False


def _parquet(content: bytes) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet

    return pa.parquet.ParquetFile(pa.BufferReader(content)).read()


def _csv(content: bytes) -> pa.Table:
    """The table of a text file; symbols and clock times stay text, so that 000001 and 09:30 keep their zeros."""
    import pyarrow as pa
    import pyarrow.csv

    head = content[:65536].split(b"\n", 1)[0].decode("utf-8-sig").strip()
    delimiter = max(",;\t", key=head.count)
    names = next(csv.reader([head], delimiter=delimiter))
    text = SYMBOL_NAMES if "minute" in head.lower() else SYMBOL_NAMES + TIME_NAMES
    return pa.csv.read_csv(
        pa.BufferReader(content),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter),
        convert_options=pa.csv.ConvertOptions(
            column_types={name: pa.string() for name in names if name.strip().lower() in text}
        ),
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
    _require([name for name, values in prices.items() if values is None], table.column_names, path.name)
    date, minute = _numbers(table, "date"), _numbers(table, "minute")
    timeless = np.isnan(date) | np.isnan(minute)
    date, minute = np.where(timeless, 0, date), np.where(timeless, 0, minute)
    others = {name: column(name) for name in ("volume", "amount")}
    others |= {name: column(source) for name, source in _QUOTES.items()}
    if options.time_zone is not None:
        import pandas as pd

        stamps = _days(date.astype(np.int64)) + np.rint(minute * 60e6).astype("m8[us]")
        date, minute = _exchange_clock(pd.DatetimeIndex(stamps), options)
    symbols, code = _symbols(table, options.symbol or path.stem)
    rows: dict[str, Any] = prices | others
    columns = Columns(symbols=symbols, code=code, date=date.astype(np.int32), minute=minute, **rows)
    return _one_frequency(columns, table, options, path) if "freq_min" in table.column_names else columns


def _one_frequency(columns: Columns, table: pa.Table, options: ReadOptions, path: Path) -> Columns:
    """The rows of one bar length, where the file says each row's length."""
    lengths = _numbers(table, "freq_min")
    there = [int(length) for length in np.unique(lengths[~np.isnan(lengths)])]
    wanted = options.bar_minutes or (there[0] if len(there) == 1 else None)
    if wanted not in there:
        seen = " and ".join(str(length) for length in there)
        raise DataError(f"{path} has bars of {seen} minutes; choose one by bar_minutes (seen: {options.bar_minutes})")
    return replace(columns.take(lengths == wanted), bar_minutes=wanted)


def _symbols(table: pa.Table, default: str) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    name = next((name for name in SYMBOL_NAMES if name in table.column_names), None)
    if name is None:
        return (default,), np.zeros(table.num_rows, dtype=np.int64)
    import pyarrow as pa

    column = table[name].combine_chunks()
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    if coded.null_count:
        raise DataError(f"{coded.null_count:,} rows have no {name}; fill the column or leave it out")
    return with_symbols(coded.dictionary.to_pylist(), np.from_dlpack(coded.indices))


def _numbers(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """A column of numbers, NaN where it is null; without nulls it needs no pandas, whose import costs half a second."""
    import pyarrow as pa

    column = table[name].combine_chunks()
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise DataError(f"column {name} holds {column.type}, first {column[0].as_py()!r}; it must hold numbers")
    return column.to_numpy(zero_copy_only=False) if column.null_count else np.from_dlpack(column)


def _wide(table: pa.Table, scale: float, first_date: str) -> Columns:
    """One column a ticker, a row a minute: sessions of 390 rows on consecutive business days, price only."""
    grid = session_grid(US)
    days = table.num_rows // len(grid)
    if not days:
        raise DataError(f"{table.num_rows} rows of prices are no session of {len(grid)}; give at least one whole day")
    notes: tuple[str, ...] = (
        f"no times in the file: rows are taken as sessions of {len(grid)} minutes from {first_date}",
    )
    if left := table.num_rows % len(grid):
        notes += (f"the last {left} rows, part of a session, dropped",)
    rows, tickers = days * len(grid), table.num_columns
    dates = np.busday_offset(first_date, np.arange(days), roll="forward")
    yyyymmdd = np.char.replace(dates.astype(str), "-", "").astype(np.int32)
    price = np.concatenate([_numbers(table, name)[:rows] / scale for name in table.column_names])
    symbols, code = with_symbols(table.column_names, np.repeat(np.arange(tickers), rows))
    date, minute = np.tile(np.repeat(yyyymmdd, len(grid)), tickers), np.tile(grid.minutes, days * tickers)
    ohlc: dict[str, Any] = dict.fromkeys(PRICE_FIELDS, price)
    return Columns(symbols=symbols, code=code, date=date, minute=minute, **ohlc, bar_label=grid.label, notes=notes)


def frame_columns(frame: pd.DataFrame, options: ReadOptions = INFER_ALL, *, name: str = "frame") -> Columns:
    """The rows of a dataframe as they stand, unchecked: OHLC[V] with a time index or time columns [and symbols]."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"{name} is a {type(frame).__name__}; give a pandas DataFrame of bars")
    if not len(frame):
        raise DataError(f"{name} has no rows; give a frame with bars")
    indexed = isinstance(frame.index, pd.DatetimeIndex)
    named = any(name is not None for name in frame.index.names)
    flat = frame.reset_index() if named and not indexed else frame
    flat = flat.set_axis(_lower_names(flat.columns, name), axis=1)
    timed = [column for column in TIME_NAMES if column in flat]
    missing = [column for column in PRICE_FIELDS if column not in flat]
    _require(missing if indexed or timed else ["timestamp", *missing], list(flat.columns), name)
    stamps = pd.DatetimeIndex(frame.index) if indexed else _stamps(flat, timed, options.repair)
    date, minute = _exchange_clock(stamps, options)
    numbers = ("volume", "amount", "bid", "ask", "bid_size", "ask_size")
    rows: dict[str, Any] = {c: _float_column(flat[c], options.repair) for c in PRICE_FIELDS + numbers if c in flat}
    label = next((column for column in SYMBOL_NAMES if column in flat), None)
    if label is None:
        return Columns(
            symbols=(options.symbol or name,),
            code=np.zeros(len(flat), dtype=np.int64),
            date=date,
            minute=minute,
            **rows,
        )
    code, names = pd.factorize(flat[label])
    if np.any(code < 0):
        raise DataError(f"{int(np.sum(code < 0)):,} rows of {name} have no {label}; fill the column or leave it out")
    symbols, code = with_symbols([str(n) for n in names], code)
    return Columns(symbols=symbols, code=code, date=date, minute=minute, **rows)


def _stamps(flat: pd.DataFrame, timed: list[str], repair: bool) -> pd.DatetimeIndex:
    """Timestamps from the best time column there is, or from date + time; unreadable ones raise unless `repair`."""
    import pandas as pd

    values = flat[timed[0]]
    if pd.api.types.is_datetime64_any_dtype(values):
        return pd.DatetimeIndex(values)
    text = values.astype("string").str.strip().str.replace("/", "-")
    first = text.dropna().iloc[0] if text.notna().any() else ""
    if timed == ["time", "date"] and not (first.isdigit() and len(first) > 8):
        text = flat["date"].astype("string").str.strip().str.replace("/", "-").str.slice(0, 10) + " " + text
        first = text.dropna().iloc[0] if text.notna().any() else ""
    if first.isdigit() and len(first) in _EPOCH_UNITS:
        number: Any = pd.to_numeric(text, errors="coerce").astype("Int64")
        stamps = pd.to_datetime(number, unit=_EPOCH_UNITS[len(first)], utc=True, errors="coerce")
    else:
        form = _DIGIT_FORMATS.get(len(first), "ISO8601") if first.isdigit() else "ISO8601"
        aware = first[10:].find("+") >= 0 or first[10:].find("-") >= 0 or first.endswith("Z")
        stamps = pd.to_datetime(text, format=form, utc=aware, errors="coerce")
    lost = stamps.isna().to_numpy()
    if lost.any() and not repair:
        seen = _one_line(text.iloc[int(lost.argmax())])
        raise DataError(f"row {int(lost.argmax()) + 1} has the time {seen!r}; write times as 2025-01-02 09:30")
    return pd.DatetimeIndex(stamps)


def _exchange_clock(stamps: pd.DatetimeIndex, options: ReadOptions) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Date and minute in exchange time; an unnamed exchange is the one whose hours the moments fit, else UTC."""
    if stamps.tz is None and options.time_zone is None:
        return _clock(stamps)
    if stamps.tz is None:
        try:
            stamps = stamps.tz_localize(options.time_zone)
        except ValueError as error:  # a clock time that the zone skips or has twice
            raise DataError(
                f"a time is not clear in {options.time_zone} ({_one_line(error)}); give UTC times"
            ) from None
    for exchange in (options.exchange,) if options.exchange else (US, CHINA):
        date, minute = _clock(stamps.tz_convert(TIME_ZONES[exchange]))
        if options.exchange:
            return date, minute
        grid = infer_grid(np.floor(minute).astype(np.int64))
        if grid is not None and grid.exchange == exchange:
            return date, minute
    return _clock(stamps.tz_convert("UTC"))


def _clock(stamps: pd.DatetimeIndex) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    known = ~np.asarray(stamps.isna())
    time = stamps.tz_localize(None).to_numpy().astype("M8[us]")
    time = np.where(known, time, np.datetime64(0, "us"))
    day = time.astype("M8[D]")
    month = day.astype("M8[M]").astype(np.int64)
    date = (month // 12 + 1970) * 10000 + (month % 12 + 1) * 100 + (day - day.astype("M8[M]")).astype(np.int64) + 1
    micros = (time - day).astype(np.int64)
    whole = not np.any(micros % 60_000_000)
    return np.where(known, date, 0).astype(np.int32), micros // 60_000_000 if whole else micros / 60e6


def _days(date: npt.NDArray[np.int64]) -> npt.NDArray[np.datetime64]:
    months = (date // 10000 - 1970) * 12 + date // 100 % 100 - 1
    return months.astype("M8[M]").astype("M8[D]") + (date % 100 - 1).astype("m8[D]")


def _float_column(values: pd.Series[Any], repair: bool) -> Array:
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    lost = np.isnan(numbers) & values.notna().to_numpy()
    if lost.any() and not repair:
        row = int(lost.argmax())
        raise DataError(
            f"column {values.name} row {row + 1} holds {_one_line(values.iloc[row])!r}; it must hold numbers"
        )
    return numbers


def _lower_names(names: Any, source: str) -> list[str]:
    lower = [_one_line(name).lower() for name in names]
    twice = next((name for name in lower if lower.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{source} has column {twice!r} twice (case does not count); rename or drop one")
    return lower


def _require(missing: list[str], found: list[str], source: str) -> None:
    if missing:
        seen = ", ".join(found[:8]) + (f", ... ({len(found)} in all)" if len(found) > 8 else "")
        raise DataError(f"{source} lacks the columns {', '.join(missing)} (found {seen}); rename yours to match")


def _told_label(text: str) -> str | None:
    """The labelling that a file's metadata states in words."""
    if "opening print" in text:
        return "open+end"
    return next((label for label in ("start", "end") if text.startswith(label)), None)


def _one_line(value: object) -> str:
    """A value from outside, fit for a one-line message."""
    return " ".join(str(value).split())[:120]
