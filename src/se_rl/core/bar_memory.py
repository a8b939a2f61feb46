"""Bars that were read before are not read again: what a policy keeps between two calls.

A desk asks bar after bar with the same frame, a few rows longer. The rows that were there before
are compared with what was read then, to the bit; where all are the same, only the new ones are
read. Everything else is read from the first row, so an answer never depends on what was asked
before.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from se_rl.core.live_bars import (
    NAME,
    LiveBars,
    ReadBars,
    bar_length,
    code_of,
    has_printed,
    labelled_bar,
    labels_on,
    late_print,
    read_bars,
)
from se_rl.core.parent_order import ParentOrder
from se_rl.data.calendar import SessionGrid
from se_rl.data.columns import Columns, ReadOptions, exchange_clock, frame_columns
from se_rl.data.features import FeatureScales
from se_rl.data.frames import bars_from_columns
from se_rl.data.known import HISTORY_SESSIONS, Known, SessionsBefore
from se_rl.data.market_data import DataError, Provenance
from se_rl.data.seen_rows import FrameArrays, clock_moment, frame_stamps
from se_rl.rl.policy_origin import PolicyOrigin

if TYPE_CHECKING:
    import pandas as pd

Index = npt.NDArray[np.int64]
Codes = npt.NDArray[np.integer]
Mask = npt.NDArray[np.bool_]


class BarMemory:
    """Reads the bars so far for a policy, and remembers the rows of the last call."""

    def __init__(self, origin: PolicyOrigin) -> None:
        self._origin = origin
        self._seen: SeenDay | None = None

    def read(self, frame: pd.DataFrame, order: ParentOrder) -> LiveBars:
        """What an order may know of a frame of bars: the same as if it had never been seen."""
        stamps = frame_stamps(frame)
        if stamps is not None and self._seen is not None:
            with contextlib.suppress(DataError):  # said below, of the rows as the user numbers them
                live = self._read_on(self._seen, frame, stamps, order)
                if live is not None:
                    return live
        self._seen = None
        read = read_bars(frame, order, self._origin)
        if stamps is not None and read.live.known.data.grid == self._origin.bars.grid:
            now = read.live.start + len(order.filled)
            self._seen = seen_day(frame, stamps, read, now)
        return read.live

    def _read_on(
        self, seen: SeenDay, frame: pd.DataFrame, stamps: pd.DatetimeIndex, order: ParentOrder
    ) -> LiveBars | None:
        """The bars where the frame is the one that was seen, with new rows; else None."""
        start = seen.past.beginning(stamps, order)
        if start is None:
            return None
        grown = seen.grown(frame, stamps, now=start + len(order.filled))
        if grown is None:
            return None
        live = grown.live(order.symbol, start)
        self._seen = grown
        return live


@dataclass(frozen=True, eq=False)
class SessionsSeen:
    """The rows before an order's day that matter to it, and what came of them.

    `first` and `opening` are the times of the first row that matters and of the day's first minute,
    as `kind` of stamps has them. `code` has the symbol of each row, `last` the last row of each
    symbol, `before` what the rows say of each of `symbols`.
    """

    grid: SessionGrid
    scales: FeatureScales
    kind: object
    day: int
    first: int
    opening: int
    rows: FrameArrays
    code: Codes
    last: Columns
    symbols: tuple[str, ...]
    before: SessionsBefore

    def beginning(self, stamps: pd.DatetimeIndex, order: ParentOrder) -> int | None:
        """The position of the order's first bar, None where it is not clear on this day."""
        if stamps.dtype != self.kind:
            return None
        if order.start is not None:
            day, start = labelled_bar(order.start, self.grid)
        else:
            date, minute = exchange_clock(stamps[[int(stamps.argmax())]], self._options)
            place = int(self.grid.positions[int(minute[0])])
            if place < 0 or minute[0] != int(minute[0]):
                return None
            day, start = int(date[0]), place + 1 - len(order.filled)
        now = start + len(order.filled)
        return start if day == self.day and start >= 0 and now < len(self.grid) else None

    def columns_of(self, frame: pd.DataFrame, like: Columns) -> Columns | None:
        """The rows of a frame with the codes of `like`; None where a symbol is unknown there."""
        columns = frame_columns(frame, self._options, name=NAME)
        if not set(columns.symbols) <= set(self.symbols):
            return None
        known = {symbol: code for code, symbol in enumerate(like.symbols)}
        code = np.array([known[symbol] for symbol in columns.symbols])[columns.code]
        return replace(columns, symbols=like.symbols, code=code)

    def known_from(self, rows: Columns) -> Known:
        """What is known of the day from its rows so far."""
        rows = replace(rows, grid=self.grid)
        data = bars_from_columns(rows, provenance=Provenance(NAME))
        place = [self.symbols.index(symbol) for symbol in data.symbols]
        before = SessionsBefore(self.before.variance[place], self.before.volume[place])
        return Known(data, self.scales, before=before)

    @property
    def _options(self) -> ReadOptions:
        return ReadOptions(exchange=self.grid.exchange)


@dataclass(frozen=True, eq=False)
class SeenDay:
    """The rows of an order's day that were read, and those of the sessions before it.

    `newest` is the time of the last row, `code` the symbol of each row in the order of the frame,
    `columns` are the rows in the order in which they came, `labels` the minutes that label bars.
    """

    past: SessionsSeen
    newest: int
    rows: FrameArrays
    code: Codes
    columns: Columns
    labels: Index

    @cached_property
    def known(self) -> Known:
        """What is known of the day, of the symbols that have printed."""
        return self.past.known_from(self.columns)

    def live(self, symbol: str | None, start: int) -> LiveBars:
        """The day as an order in a symbol sees it that begins in bar `start`."""
        past = self.past
        code = code_of(self.columns, symbol)
        known = None
        if not has_printed(self.columns, past.grid, code):
            late = late_print(past.last, past.grid, code=code, day=past.day)
            known = past.known_from(self.columns.joined(late))
        return LiveBars(known or self.known, self.columns.symbols[code], start)

    def grown(self, frame: pd.DataFrame, stamps: pd.DatetimeIndex, now: int) -> SeenDay | None:
        """The day with a frame's rows up to bar `now`; None where it is not the same, with new rows."""
        past = self.past
        end = clock_moment(stamps, past.grid.exchange, past.day, minute=past.grid.minutes[now])
        before, today = _rows_between(stamps.asi8, past.first, past.opening, end)
        is_new = stamps.asi8[today] > self.newest
        arrays = FrameArrays.of(frame, stamps)
        old = today[~is_new]
        if not (arrays.holds(before, past.rows) and arrays.holds(old, self.rows)):
            return None
        if not is_new.any():
            return self
        added = past.columns_of(frame.iloc[today[is_new]], self.columns)
        if added is None or not self._in_order(added, before, today, is_new):
            return None
        labels = np.union1d(self.labels, labels_on(added, past.grid))
        length = bar_length(labels, past.grid)
        if length != past.grid.bar_minutes or (added.located(past.grid) < 0).any():
            return None
        code = np.empty(len(today), np.int64)
        code[~is_new] = self.code
        code[is_new] = added.code
        return replace(
            self,
            newest=int(stamps.asi8[today].max()),
            rows=arrays.rows(today),
            code=code,
            columns=self.columns.joined(added),
            labels=labels,
        )

    def _in_order(self, added: Columns, before: Index, today: Index, is_new: Mask) -> bool:
        """Whether each new row stands below all older rows of its symbol."""
        lowest = np.full(len(self.columns.symbols), -1)
        lowest[self.past.code] = before  # of several rows of a symbol the last one counts
        lowest[self.code] = np.maximum(today[~is_new], lowest[self.code])
        return bool((today[is_new] > lowest[added.code]).all())


def seen_day(
    frame: pd.DataFrame, stamps: pd.DatetimeIndex, read: ReadBars, now: int
) -> SeenDay | None:
    """What was read of a frame up to bar `now`; None where new rows could change how it is read."""
    columns, known = read.columns, read.live.known
    grid = known.data.grid
    labels = labels_on(columns, grid)
    if now >= len(grid) or bar_length(labels, grid) != grid.bar_minutes:
        return None
    day = int(known.data.dates[0])
    first_day, first = 0, int(np.iinfo(np.int64).min)
    if len(read.sessions) == HISTORY_SESSIONS:  # else sessions further back would count as well
        first_day = int(read.sessions[0])
        first = clock_moment(stamps, grid.exchange, first_day)
    opening = clock_moment(stamps, grid.exchange, day)
    end = clock_moment(stamps, grid.exchange, day, minute=grid.minutes[now])
    before, today = _rows_between(stamps.asi8, first, opening, end)
    own_day = columns.take(columns.date == day)
    earlier = columns.take((columns.date >= first_day) & (columns.date < day))
    if len(earlier) != len(before) or len(own_day) != len(today):
        return None
    arrays = FrameArrays.of(frame, stamps)
    past = SessionsSeen(
        grid=grid,
        scales=known.scales,
        kind=stamps.dtype,
        day=day,
        first=first,
        opening=opening,
        rows=arrays.rows(before),
        code=earlier.code,
        last=earlier.take(_last_of_each(earlier)),
        symbols=known.data.symbols,
        before=read.before,
    )
    return SeenDay(
        past=past,
        newest=int(stamps.asi8[today].max(initial=opening - 1)),
        rows=arrays.rows(today),
        code=own_day.code,
        columns=own_day,
        labels=labels,
    )


def _rows_between(times: Index, first: int, opening: int, end: int) -> tuple[Index, Index]:
    """The rows of the sessions before a day, and of the day up to its end, by position."""
    rows = np.flatnonzero((times >= first) & (times < end))
    is_today = times[rows] >= opening
    return rows[~is_today], rows[is_today]


def _last_of_each(columns: Columns) -> Index:
    """The row of each symbol that has the latest time."""
    by_symbol = np.lexsort((columns.time, columns.code))
    code = columns.code[by_symbol]
    return by_symbol[np.flatnonzero(np.diff(code, append=-1))]
