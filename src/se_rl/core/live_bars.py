"""The bars so far, as a trained policy must see them: on its own session grid, nothing later.

What is known when bar t opens depends on bars before t alone (`data/known.py`), so the session that
is under way is put on the full grid and read at t.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from se_rl.core.parent_order import ParentOrder
from se_rl.data.bar_inputs import BarInputs, ShownBars
from se_rl.data.calendar import SessionGrid
from se_rl.data.columns import Columns, ReadOptions, exchange_clock, frame_columns
from se_rl.data.features import observations_of
from se_rl.data.frames import bars_from_columns, choose_grid, early_closes
from se_rl.data.known import HISTORY_SESSIONS, Known, SessionsBefore
from se_rl.data.market_data import PRICE_FIELDS, DataError, MarketData, Provenance
from se_rl.data.seen_rows import clock_moment, frame_stamps
from se_rl.environments.task import SIDES, USUAL_SIZE, Orders, check_window
from se_rl.modules.agent_interface import shown_bars
from se_rl.rl.policy_origin import PolicyOrigin

if TYPE_CHECKING:
    import pandas as pd

NAME = "bars"
"""What messages call the frame of bars so far."""
RECENT_DAYS = 14
"""Days of the calendar that nearly always hold the sessions that matter."""


@dataclass(frozen=True, eq=False)
class LiveBars:
    """What is known of all symbols on an order's day; `symbol` and `start` say where the order is."""

    known: Known
    symbol: str
    start: int

    @cached_property
    def data(self) -> MarketData:
        """The order's symbol on its day."""
        return self.known.data.select(symbols=[self.symbol])

    def orders(self, order: ParentOrder) -> Orders:
        """The order as a batch of one, in its share of the usual volume."""
        check_window(self.data, horizon=order.horizon, start=self.start)
        row = np.zeros(1, np.int64)
        start = np.array([self.start])
        quantity = np.array([float(order.quantity)])
        side = np.array([SIDES[order.side]], np.int8)
        usual = self.known.scales.of(self.data).window_volume(row, start, order.horizon)
        size = np.divide(quantity, usual, out=np.array([USUAL_SIZE]), where=usual > 0)
        orders = Orders.of_usual_size(row, start, side, quantity, order.horizon)
        return replace(orders, size=size)

    def volatility(self, bar: int) -> float:
        """What is known of the symbol's volatility when a bar opens, as a share of the price."""
        return float(self.known.sigma[self.known.data.symbol_index(self.symbol), 0, bar])

    def observations(self) -> npt.NDArray[np.float32]:
        """The public fields of the order's symbol on its day [1, bar + 1, field]."""
        place = self.known.data.symbol_index(self.symbol)
        return observations_of(self.known, slice(place, place + 1))

    def further(self, inputs: Sequence[str]) -> ShownBars:
        """What bars tell of these further inputs of the order's symbol on its day."""
        told = shown_bars(inputs, BarInputs(lambda: self.known))
        place = self.known.data.symbol_index(self.symbol) if len(told.columns) else 0
        return told._replace(table=told.table[place : place + 1])


@dataclass(frozen=True, eq=False)
class ReadBars:
    """A frame read from its first row: the bars, the rows behind them, and the full sessions before
    the order's day that were looked at."""

    live: LiveBars
    columns: Columns
    sessions: npt.NDArray[np.int32]
    before: SessionsBefore


def read_bars(frame: pd.DataFrame, order: ParentOrder, origin: PolicyOrigin) -> ReadBars:
    """What an order may know of a frame of bars: rows from its present bar on are left out."""
    recent = _recent_rows(frame, order, origin.bars.exchange)
    if len(recent) < len(frame):
        with contextlib.suppress(DataError):  # what is wrong is said of the whole frame
            read = _read(recent, order, origin)
            if len(read.sessions) == HISTORY_SESSIONS:
                return read
    return _read(frame, order, origin)


def _recent_rows(frame: pd.DataFrame, order: ParentOrder, exchange: str) -> pd.DataFrame:
    """The rows of the last days up to the order's; all where times must be read to be compared."""
    import pandas as pd

    stamps = frame_stamps(frame)
    if stamps is None or not len(stamps):
        return frame
    try:
        last = pd.Timestamp(stamps.max() if order.start is None else order.start)
    except (TypeError, ValueError):
        return frame
    if last is pd.NaT:
        return frame
    day = int(exchange_clock(pd.DatetimeIndex([last]), ReadOptions(exchange=exchange))[0][0])
    first = clock_moment(stamps, exchange, day, days=-RECENT_DAYS)
    end = clock_moment(stamps, exchange, day, days=1)
    return frame.iloc[np.flatnonzero((stamps.asi8 >= first) & (stamps.asi8 < end))]


def _read(frame: pd.DataFrame, order: ParentOrder, origin: PolicyOrigin) -> ReadBars:
    columns = frame_columns(frame, ReadOptions(exchange=origin.bars.exchange), name=NAME)
    grid = _grid_of(columns, origin.bars.grid)
    code = code_of(columns, order.symbol)
    day, start = _beginning(columns, grid, order)
    now = start + len(order.filled)
    end = grid.minutes[now] if now < len(grid) else np.inf
    is_known = (columns.date < day) | ((columns.date == day) & (columns.minute < end))
    columns = columns.take(is_known)
    rows = columns
    if not has_printed(columns.take(columns.date == day), grid, code):
        rows = columns.joined(late_print(columns, grid, code=code, day=day))
    data = bars_from_columns(replace(rows, grid=grid), provenance=Provenance(NAME))
    scales = origin.scales_on(grid)
    sessions = data.dates[~early_closes(data) & (data.dates < day)][-HISTORY_SESSIONS:]
    if len(sessions):
        before = SessionsBefore.after(data.select(dates=sessions), scales)
    else:
        usual = scales.of(data)
        before = SessionsBefore(usual.variance, usual.day_volume)
    today = Known(data.select(dates=[day]), scales, before=before)
    live = LiveBars(today, columns.symbols[code], start)
    return ReadBars(live, columns, sessions, before)


def _grid_of(columns: Columns, trained: SessionGrid) -> SessionGrid:
    """The grid of the training where the labels are those of such bars, else the one they fit."""
    labels = labels_on(columns, trained)
    if len(labels) and bar_length(labels, trained) == trained.bar_minutes:
        return trained
    found = choose_grid(columns, ReadOptions(exchange=trained.exchange))
    if found is None or not (columns.located(found) >= 0).any():
        raise DataError(
            f"{NAME} lie outside the hours of {trained.exchange}, first {columns.describe(0)}; "
            "give times of that exchange, or with their time zone"
        )
    return found


def labels_on(columns: Columns, grid: SessionGrid) -> npt.NDArray[np.int64]:
    """The minutes of the day that label bars of a grid in these rows, in order."""
    return np.unique(columns.label_minutes[columns.located(grid) >= 0])


def bar_length(labels: npt.NDArray[np.int64], trained: SessionGrid) -> int:
    """Minutes from one label to the next, as most of them have it."""
    gaps, count = np.unique(np.diff(labels), return_counts=True)
    return int(gaps[count.argmax()]) if len(gaps) else trained.bar_minutes


def code_of(columns: Columns, symbol: str | None) -> int:
    """The code of an order's symbol, which may be left out where there is only one."""
    names = columns.symbols
    if symbol is None and len(names) == 1:
        return 0
    if symbol in names:
        return names.index(symbol)
    known = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    raise DataError(f"the order's symbol is {symbol!r}; {NAME} have {known}: name one of them")


def _beginning(columns: Columns, grid: SessionGrid, order: ParentOrder) -> tuple[int, int]:
    """The day of the order and the position of its first bar."""
    if order.start is not None:
        return labelled_bar(order.start, grid)
    place = columns.located(grid)
    inside = np.flatnonzero(place >= 0)
    newest = inside[columns.time[inside].argmax()]
    start = int(place[newest]) + 1 - len(order.filled)
    day = int(columns.date[newest])
    if start < 0 or start + len(order.filled) >= len(grid):
        raise DataError(
            f"{NAME} end with {columns.describe(int(newest))}, after which an order with "
            f"{len(order.filled)} bars behind it has no bar to trade in; give its start"
        )
    return day, start


def labelled_bar(start: str | pd.Timestamp, grid: SessionGrid) -> tuple[int, int]:
    """The day of a bar and its position on the grid, from its label."""
    import pandas as pd

    try:
        stamp = pd.DatetimeIndex([pd.Timestamp(start)])
    except (TypeError, ValueError):
        raise DataError(f"start {start!r} is no time; write it as 2025-01-02 09:30") from None
    date, minute = exchange_clock(stamp, ReadOptions(exchange=grid.exchange))
    is_label = minute[0] == int(minute[0])
    place = int(grid.positions[int(minute[0])]) if is_label else -1
    if place < 0:
        raise DataError(
            f"start {start} is the label of no bar of {grid.exchange}; a session has "
            f"{len(grid)} bars of {grid.bar_minutes} min from {_clock(grid.minutes[0])} to "
            f"{_clock(grid.minutes[-1])}"
        )
    return int(date[0]), place


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def has_printed(today: Columns, grid: SessionGrid, code: int) -> bool:
    """Whether a symbol has a bar of the grid among the rows of a day."""
    return bool((today.located(grid)[today.code == code] >= 0).any())


def late_print(columns: Columns, grid: SessionGrid, *, code: int, day: int) -> Columns:
    """One row of a symbol, flat and without volume, in the last bar of the day.

    A symbol that has not printed yet has a session all the same: as in replayed history, where its
    first print lies ahead, nothing of the day is known before it.
    """
    own = np.flatnonzero(columns.code == code)
    if not len(own):
        raise DataError(
            f"{NAME} have none of {columns.symbols[code]} before the order's next bar; give earlier days"
        )
    row = columns.take(own[columns.time[own].argmax()][None])
    row.date[0] = day
    row.minute[0] = grid.minutes[-1]
    for name in PRICE_FIELDS:
        getattr(row, name)[0] = row.close[0]
    for traded in (row.volume, row.amount):
        if traded is not None:
            traded[0] = 0.0
    return row
