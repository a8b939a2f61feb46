"""Rows of bars as they stand in a source, and dataframes as such rows.

Nothing here is checked against a session grid; data/frames.py refuses, repairs and places the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from se_rl.data.calendar import CHINA, INDIA, TIME_ZONES, US, SessionGrid, infer_grid
from se_rl.data.frame_layouts import long_frame, our_names
from se_rl.data.market_data import PRICE_FIELDS, Array, DataError, SplitDates
from se_rl.data.read_options import INFER_ALL, ReadOptions

if TYPE_CHECKING:
    import pandas as pd

SYMBOL_NAMES = ("symbol", "ticker", "code")
TIME_NAMES = ("timestamp", "datetime", "time", "date")
"""Column names, in lower case, that hold the symbol and the time; the first one found counts."""

_DIGIT_FORMATS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S", 17: "%Y%m%d%H%M%S%f"}
_EPOCH_UNITS: dict[int, Any] = {10: "s", 13: "ms", 16: "us", 19: "ns"}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Bars as they stand in a source, one row each. `code` indexes `symbols`; `date` is yyyymmdd
    (0: none).

    `minute` is minutes after midnight, exchange time (with a fraction where the source has
    seconds). A bid or ask of 0 is no quote. The fields from `bar_label` on are what the source says
    of itself; only our own files say their `grid`.
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
    grid: SessionGrid | None = None
    adjusted: bool | None = None
    synthetic: bool = False
    notes: tuple[str, ...] = ()
    split: SplitDates | None = None

    def __len__(self) -> int:
        return len(self.date)

    @cached_property
    def time(self) -> npt.NDArray[np.int64]:
        """One whole number that orders rows as time does (date, then microseconds of the day)."""
        return self.date.astype(np.int64) * 86_400_000_000 + np.rint(self.minute * 60e6).astype(
            np.int64
        )

    @property
    def clock(self) -> npt.NDArray[np.int64]:
        """Microseconds since 1970 on the source's own clock: unlike `time`, differences are
        durations."""
        days = calendar_days(self.date.astype(np.int64)).astype(np.int64)
        return days * 86_400_000_000 + np.rint(self.minute * 60e6).astype(np.int64)

    @property
    def label_minutes(self) -> npt.NDArray[np.int64]:
        """The minute of each row as a table index: 1441 (beyond every label) where it is no whole
        minute of a day."""
        whole = (self.minute >= 0) & (self.minute <= 1440) & (self.minute == np.floor(self.minute))
        return np.where(whole, self.minute, 1441).astype(np.int64)

    def take(self, rows: npt.NDArray[Any]) -> Columns:
        """The same columns for some rows, by index or mask."""
        arrays = {
            f.name: v[rows]
            for f in fields(self)
            if isinstance(v := getattr(self, f.name), np.ndarray)
        }
        return replace(self, **arrays)

    def joined(self, other: Columns) -> Columns:
        """These rows and those of other columns with the same symbols, after them."""
        arrays = {}
        for f in fields(self):
            if isinstance(values := getattr(self, f.name), np.ndarray):
                both: Any = np.concatenate([values, getattr(other, f.name)])
                arrays[f.name] = both
        return replace(self, **arrays)

    def describe(self, row: int) -> str:
        """A row as a person finds it: symbol, date, clock time and row number."""
        hour, minute = divmod(int(self.minute[row]), 60)
        return (
            f"{one_line(self.symbols[self.code[row]])} {self.date[row]} {hour:02d}:{minute:02d} "
            f"(row {row + 1})"
        )

    def located(self, grid: SessionGrid) -> npt.NDArray[np.int64]:
        """The grid position of each row, -1 for a row that is no bar of the grid."""
        return np.append(grid.positions, -1)[self.label_minutes]


def with_symbols(
    names: npt.ArrayLike, code: npt.NDArray[Any]
) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Sorted distinct symbol names and the codes that go with them, from any names and codes."""
    symbols, rank = np.unique(np.asarray(names, dtype=str), return_inverse=True)
    return tuple(str(s) for s in symbols), rank[code]


def frame_columns(
    frame: pd.DataFrame, options: ReadOptions = INFER_ALL, *, name: str = "frame"
) -> Columns:
    """The rows of a dataframe as they stand, unchecked: OHLC[V] with a time index or time columns
    [and symbols]."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"{name} is a {type(frame).__name__}; give a pandas DataFrame of bars")
    if not len(frame):
        raise DataError(f"{name} has no rows; give a frame with bars")
    frame = long_frame(frame, name)
    indexed = isinstance(frame.index, pd.DatetimeIndex)
    named = any(name is not None for name in frame.index.names)
    flat = frame.reset_index() if named and not indexed else frame
    named_ours = our_names(list(flat.columns), options.columns, name)
    flat = flat.set_axis(lower_names(named_ours, name), axis=1)
    timed = [column for column in TIME_NAMES if column in flat]
    missing = [column for column in PRICE_FIELDS if column not in flat]
    require_columns(
        missing if indexed or timed else ["timestamp", *missing], list(flat.columns), name
    )
    stamps = pd.DatetimeIndex(frame.index) if indexed else _stamps(flat, timed, options.repair)
    date, minute = exchange_clock(stamps, options)
    numbers = ("volume", "amount", "bid", "ask", "bid_size", "ask_size")
    rows: dict[str, Any] = {
        c: _float_column(flat[c], options.repair) for c in PRICE_FIELDS + numbers if c in flat
    }
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
        raise DataError(
            f"{int(np.sum(code < 0)):,} rows of {name} have no {label}; "
            "fill the column or leave it out"
        )
    symbols, code = with_symbols([str(n) for n in names], code)
    return Columns(symbols=symbols, code=code, date=date, minute=minute, **rows)


def _stamps(flat: pd.DataFrame, timed: list[str], repair: bool) -> pd.DatetimeIndex:
    """Timestamps from the best time column there is, or from date + time; unreadable ones raise
    unless `repair` and others can be read."""
    import pandas as pd

    values = flat[timed[0]]
    if pd.api.types.is_datetime64_any_dtype(values):
        return pd.DatetimeIndex(values)
    text = values.astype("string").str.strip().str.replace("/", "-")
    first = text.dropna().iloc[0] if text.notna().any() else ""
    if timed == ["time", "date"] and not (first.isdigit() and len(first) > 8):
        text = (
            flat["date"].astype("string").str.strip().str.replace("/", "-").str.slice(0, 10)
            + " "
            + text
        )
        first = text.dropna().iloc[0] if text.notna().any() else ""
    whole = first.partition(".")[0]
    if len(whole) in _EPOCH_UNITS and whole.isdigit() and first.replace(".", "", 1).isdigit():
        number: Any = pd.to_numeric(text, errors="coerce")
        if whole == first:
            number = number.astype("Int64")
        stamps = pd.to_datetime(number, unit=_EPOCH_UNITS[len(whole)], utc=True, errors="coerce")
    else:
        form = _DIGIT_FORMATS.get(len(first), "ISO8601") if first.isdigit() else "ISO8601"
        aware = first[10:].find("+") >= 0 or first[10:].find("-") >= 0 or first.endswith("Z")
        stamps = pd.to_datetime(text, format=form, utc=aware, errors="coerce")
    lost = stamps.isna().to_numpy()
    if lost.any() and (lost.all() or not repair):
        seen = one_line(text.iloc[int(lost.argmax())])
        raise DataError(
            f"row {int(lost.argmax()) + 1} has the time {seen!r}; write times as 2025-01-02 09:30"
        )
    return pd.DatetimeIndex(stamps)


def exchange_clock(
    stamps: pd.DatetimeIndex, options: ReadOptions
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Date and minute in exchange time; an unnamed exchange is the one whose hours the moments fit,
    else UTC."""
    if stamps.tz is None and options.time_zone is None:
        return _clock(stamps)
    if stamps.tz is None:
        try:
            stamps = stamps.tz_localize(options.time_zone)
        except ValueError as error:  # a clock time that the zone skips or has twice
            raise DataError(
                f"a time is not clear in {options.time_zone} ({one_line(error)}); give UTC times"
            ) from None
    for exchange in (options.exchange,) if options.exchange else (US, CHINA, INDIA):
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
    date = (
        (month // 12 + 1970) * 10000
        + (month % 12 + 1) * 100
        + (day - day.astype("M8[M]")).astype(np.int64)
        + 1
    )
    micros = (time - day).astype(np.int64)
    whole = not np.any(micros % 60_000_000)
    return np.where(known, date, 0).astype(
        np.int32
    ), micros // 60_000_000 if whole else micros / 60e6


def calendar_days(date: npt.NDArray[np.int64]) -> npt.NDArray[np.datetime64]:
    """Days of the calendar from yyyymmdd."""
    months = (date // 10000 - 1970) * 12 + date // 100 % 100 - 1
    return months.astype("M8[M]").astype("M8[D]") + (date % 100 - 1).astype("m8[D]")


def _float_column(values: pd.Series[Any], repair: bool) -> Array:
    import pandas as pd

    if values.dtype == np.float64:  # nothing to read, nothing to lose
        return values.to_numpy(copy=True)
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    lost = np.isnan(numbers) & values.notna().to_numpy()
    if lost.any() and not repair:
        row = int(lost.argmax())
        raise DataError(
            f"column {values.name} row {row + 1} holds {one_line(values.iloc[row])!r}; "
            "it must hold numbers"
        )
    return numbers


def lower_names(names: Any, source: str) -> list[str]:
    """Column names in lower case, refused where two become one."""
    lower = [one_line(name).lower() for name in names]
    twice = next((name for name in lower if lower.count(name) > 1), None)
    if twice is not None:
        raise DataError(
            f"{source} has column {twice!r} twice (case does not count); rename or drop one"
        )
    return lower


def require_columns(missing: list[str], found: list[str], source: str) -> None:
    """Raise for columns that a source lacks, naming those it has."""
    if missing:
        seen = ", ".join(found[:8]) + (f", ... ({len(found)} in all)" if len(found) > 8 else "")
        raise DataError(
            f"{source} lacks the columns {', '.join(missing)} (found {seen}); rename yours, or say "
            "which is which: --column time=NAME"
        )


def one_line(value: object) -> str:
    """A value from outside, fit for a one-line message."""
    return " ".join(str(value).split())[:120]
