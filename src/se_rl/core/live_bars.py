"""The bars so far, as a trained policy must see them: on its own session grid, nothing later.

What is known when bar t opens depends on bars before t alone (`data/known.py`), so the session that
is under way is put on the full grid and read at t.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from se_rl.data.calendar import SessionGrid
from se_rl.data.columns import Columns, ReadOptions, exchange_clock, frame_columns
from se_rl.data.features import FeatureScales
from se_rl.data.frames import bars_from_columns, choose_grid, early_closes
from se_rl.data.known import with_history
from se_rl.data.market_data import PRICE_FIELDS, DataError, MarketData, Provenance
from se_rl.environments.task import SIDES, USUAL_SIZE, Orders, check_window, positive_quantity

if TYPE_CHECKING:
    import pandas as pd

NAME = "bars"
"""What messages call the frame of bars so far."""


@dataclass(frozen=True)
class ParentOrder:
    """A parent order under way: `filled` has the shares that each bar so far brought.

    It trades in `horizon` bars; `start` is the label of the first of them (None: the bar after the
    last one that is known, less those that `filled` counts). `symbol` may be left out where the
    bars are those of one symbol.
    """

    side: str
    quantity: float
    horizon: int
    symbol: str | None = None
    start: str | pd.Timestamp | None = None
    filled: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.side not in SIDES:
            raise DataError(f"side {self.side!r} is unknown; use 'buy' or 'sell'")
        positive_quantity(self.quantity)
        if self.horizon < 1:
            raise DataError(f"horizon is {self.horizon}; use 1 bar or more")
        if len(self.filled) > self.horizon:
            raise DataError(
                f"filled has {len(self.filled)} bars and the order {self.horizon}; "
                "give one number for each bar so far"
            )
        if not all(np.isfinite(shares) and shares >= 0 for shares in self.filled):
            raise DataError(f"filled is {self.filled[-3:]}; give shares, 0 or more for each bar")
        if sum(self.filled) > self.quantity * (1 + 1e-9):
            raise DataError(
                f"{sum(self.filled):g} shares are filled of an order of {self.quantity:g}; "
                "check the fills"
            )

    @property
    def left(self) -> float:
        """Shares that are still to be traded."""
        return self.left_before[-1]

    @property
    def left_before(self) -> tuple[float, ...]:
        """Shares left when each bar so far began, and now."""
        traded = np.concatenate([[0.0], np.cumsum(self.filled)])
        return tuple(np.maximum(self.quantity - traded, 0.0).tolist())

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to trade, or no bar to trade in."""
        return len(self.filled) >= self.horizon or self.left <= 1e-9 * self.quantity

    def after(self, shares: float) -> ParentOrder:
        """The order one bar later, in which so many shares were filled."""
        return replace(self, filled=(*self.filled, float(shares)))


@dataclass(frozen=True, eq=False)
class LiveBars:
    """The days that matter to an order, its own day last; `symbol` and `start` say where it is."""

    data: MarketData
    symbol: str
    start: int

    def orders(self, order: ParentOrder, scales: FeatureScales) -> Orders:
        """The order as a batch of one, in its share of the usual volume."""
        data = self.data
        check_window(data, horizon=order.horizon, start=self.start)
        place = np.array([data.symbol_index(self.symbol)])
        start = np.array([self.start])
        quantity = np.array([float(order.quantity)])
        row = place * len(data.dates) + len(data.dates) - 1
        side = np.array([SIDES[order.side]], np.int8)
        usual = scales.of(data).window_volume(place, start, order.horizon)
        size = np.divide(quantity, usual, out=np.array([USUAL_SIZE]), where=usual > 0)
        orders = Orders.of_usual_size(row, start, side, quantity, order.horizon)
        return replace(orders, size=size)


def bars_so_far(frame: pd.DataFrame, order: ParentOrder, trained: SessionGrid) -> LiveBars:
    """What an order may know of a frame of bars: rows from its present bar on are left out."""
    columns = frame_columns(frame, ReadOptions(exchange=trained.exchange), name=NAME)
    grid = _grid_of(columns, trained)
    code = _code_of(columns, order.symbol)
    day, start = _beginning(columns, grid, order)
    now = start + len(order.filled)
    place = columns.located(grid)
    is_known = (columns.date < day) | ((columns.date == day) & (place < now))
    columns = columns.take(is_known)
    if not ((columns.code == code) & (columns.date == day)).any():
        columns = _with_late_print(columns, grid, code=code, day=day)
    columns = replace(columns, grid=grid)
    data = bars_from_columns(columns, provenance=Provenance(NAME))
    kept = data.dates[~early_closes(data) | (data.dates == day)]
    data = with_history(data.select(dates=kept), np.array([day]))
    return LiveBars(data, columns.symbols[code], start)


def _grid_of(columns: Columns, trained: SessionGrid) -> SessionGrid:
    """The grid of the training where the labels are those of such bars, else the one they fit."""
    labels = np.unique(columns.label_minutes[columns.located(trained) >= 0])
    gaps, count = np.unique(np.diff(labels), return_counts=True)
    length = int(gaps[count.argmax()]) if len(gaps) else trained.bar_minutes
    if len(labels) and length == trained.bar_minutes:
        return trained
    found = choose_grid(columns, ReadOptions(exchange=trained.exchange))
    if found is None or not (columns.located(found) >= 0).any():
        raise DataError(
            f"{NAME} lie outside the hours of {trained.exchange}, first {columns.describe(0)}; "
            "give times of that exchange, or with their time zone"
        )
    return found


def _code_of(columns: Columns, symbol: str | None) -> int:
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
        return _labelled(order.start, grid)
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


def _labelled(start: str | pd.Timestamp, grid: SessionGrid) -> tuple[int, int]:
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


def _with_late_print(columns: Columns, grid: SessionGrid, *, code: int, day: int) -> Columns:
    """The rows and one more, flat and without volume, in the last bar of the day.

    A symbol that has not printed yet has a session all the same: as in replayed history, where its
    first print lies ahead, nothing of the day is known before it.
    """
    own = np.flatnonzero(columns.code == code)
    if not len(own):
        raise DataError(
            f"{NAME} have none of {columns.symbols[code]} before the order's next bar; give earlier days"
        )
    last = own[columns.time[own].argmax()]
    more = columns.take(np.append(np.arange(len(columns)), last))  # copies: written to below
    more.date[-1] = day
    more.minute[-1] = grid.minutes[-1]
    for name in PRICE_FIELDS:
        getattr(more, name)[-1] = columns.close[last]
    for traded in (more.volume, more.amount):
        if traded is not None:
            traded[-1] = 0.0
    return more
