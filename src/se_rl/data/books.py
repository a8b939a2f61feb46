"""Historical order books (LOBSTER): read, checked, and turned into bars.

Prices are integers, 1e-4 of the currency (`*_e4`). Times are exchange time of a US session (XNYS
grid, bars named by their first minute): a bar holds [start, next start), and quotes are the last
state before the bar ends. Auctions (LOBSTER kind 6) and anything outside regular hours enter no
bar; what was left out is counted in the notes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import DataError, MarketData, Provenance
from se_rl.data.tables import NumberTable
from se_rl.data.trade_bars import (
    TradesInBars,
    bars_from_trades,
    dropped_note,
    quotes_at,
    us_session,
)

Array = npt.NDArray[Any]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

NEW, PARTIAL_CANCEL, DELETE, EXECUTION, HIDDEN_EXECUTION, CROSS, HALT = range(1, 8)
"""LOBSTER message kinds."""

_MESSAGE_COLUMNS = ["time_s", "type", "order_id", "size", "price_e4", "direction"]
_BOOK_COLUMNS = [
    f"{name}{level}" for level in range(1, 1001) for name in ("ask", "asz", "bid", "bsz")
]


@dataclass(frozen=True, eq=False)
class BookHistory:
    """One symbol on one day: LOBSTER messages and the book after each of them.

    The book is [messages, levels], best first.
    `direction` is the side of the resting order (+1 buy, -1 sell). An empty level has price 0 and
    size 0. A halt (kind 7) carries its state in `price_e4`: -1 halted, 0 quoting resumes, 1 trading
    resumes.
    """

    symbol: str
    date: int
    time_ns: Int64
    kind: Int32
    order_id: Int64
    size: Int32
    price_e4: Int32
    direction: Int32
    bid_e4: Int32
    bid_size: Int32
    ask_e4: Int32
    ask_size: Int32
    sha256: str = ""

    def __post_init__(self) -> None:
        rows: dict[str, int] = {}
        for column in fields(self):
            values = getattr(self, column.name)
            if isinstance(values, np.ndarray):
                rows[column.name] = len(values)
        if len(set(rows.values())) > 1 or not len(self.time_ns):
            raise DataError(
                f"{self.symbol} {self.date} has rows {rows}; "
                "give as many book rows as messages, at least one"
            )
        self._refuse(
            np.diff(self.time_ns, prepend=self.time_ns[0]) < 0,
            "time_ns",
            "sort messages and book by time",
        )
        self._refuse((self.kind < NEW) | (self.kind > HALT), "kind", "LOBSTER types are 1 to 7")
        order = self.kind < HALT
        self._refuse((self.size <= 0) & order, "size", "sizes must be positive")
        self._refuse((self.price_e4 <= 0) & order, "price_e4", "prices must be positive")
        self._refuse(
            (abs(self.direction) != 1) & order, "direction", "it must be +1 (buy) or -1 (sell)"
        )
        for name, price, size in (
            ("bid", self.bid_e4, self.bid_size),
            ("ask", -self.ask_e4, self.ask_size),
        ):
            self._refuse(
                np.any(size < 0, axis=1), f"{name}_size", "displayed sizes must not be negative"
            )
            worst_if_empty = np.where(size > 0, price, np.iinfo(np.int32).min)
            unsorted = np.any(worst_if_empty[:, 1:] > worst_if_empty[:, :-1], axis=1)
            self._refuse(unsorted, f"{name}_e4", "sort the levels, best price first")

    def _refuse(self, bad: Array, field: str, mend: str) -> None:
        if bad.any():
            row = int(bad.argmax())
            seen = getattr(self, field)[row].tolist()
            raise DataError(
                f"the book of {self.symbol} on {self.date}: {field} is {seen} in row {row}; {mend}"
            )

    def bar_ranges(self, *, bar_seconds: int = 60) -> Int64:
        """Index of the first message of each bar, and one past the last one: int64[bars + 1]."""
        return np.searchsorted(self.time_ns, us_session(bar_seconds)[1] * (60 * 10**9))

    def bars(self, *, bar_seconds: int = 60) -> MarketData:
        """Bars of all executions, visible and hidden, with quotes and sizes at each bar's end."""
        ranges = self.bar_ranges(bar_seconds=bar_seconds)
        executed = np.flatnonzero((self.kind == EXECUTION) | (self.kind == HIDDEN_EXECUTION))
        outside = (executed < ranges[0]) | (executed >= ranges[-1])
        inside = executed[~outside]
        notes = dropped_note("executions outside regular hours", outside)
        name = f"{self.symbol} {self.date} book"
        return bars_from_trades(
            self.symbol,
            np.array([self.date]),
            grid=us_session(bar_seconds)[0],
            trades=TradesInBars(
                np.searchsorted(ranges, inside, side="right") - 1,
                self.price_e4[inside],
                self.size[inside],
            ),
            quotes=quotes_at(self, ranges[1:] - 1),
            provenance=Provenance(name, self.sha256, adjusted=False, notes=notes),
        )


def read_lobster(messages: Path | str, book: Path | str | None = None) -> BookHistory:
    """A LOBSTER day from its original pair of CSV files or from our parquet pair.

    `book` defaults to the sibling file.
    Parquet carries symbol and date as metadata; a CSV file is named
    SYMBOL_YYYY-MM-DD_start_end_message_LEVELS.csv.
    """
    path = Path(messages)
    beside = path.with_name(
        path.name.replace("messages", "book").replace("_message_", "_orderbook_")
    )
    if book is None and (beside == path or not beside.is_file()):
        raise DataError(
            f"{path.name} has no book file beside it (looked for {beside.name}); "
            "pass the book file's path"
        )
    flow = NumberTable(path, _MESSAGE_COLUMNS)
    state = NumberTable(Path(book or beside), _BOOK_COLUMNS)
    in_seconds = "time_s" in flow.names
    time = (
        flow.column("time_s", dtype=np.float64) * 1e9
        if in_seconds
        else flow.column("time_ns", dtype=np.int64)
    )
    return BookHistory(
        symbol=flow.said("symbol"),
        date=int(flow.said("date").replace("-", "")),
        time_ns=np.rint(time).astype(np.int64),
        kind=flow.column("type"),
        order_id=flow.column("order_id", dtype=np.int64),
        **{name: flow.column(name) for name in ("size", "price_e4", "direction")},
        **state.side("bid"),
        **state.side("ask"),
        sha256=hashlib.sha256(path.read_bytes() + state.path.read_bytes()).hexdigest(),
    )
