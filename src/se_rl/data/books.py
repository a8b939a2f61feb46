"""Historical order books (LOBSTER) and ticks (best quotes and trades): read, checked, and turned into bars.

Prices are integers, 1e-4 of the currency (`*_e4`). Times are exchange time of a US session (XNYS grid, bars named by
their first minute): a bar holds [start, next start), and quotes are the last state before the bar ends. Auctions
(LOBSTER kind 6) and anything outside regular hours enter no bar; what was left out is counted in the notes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.calendar import US, SessionGrid, session_grid
from se_rl.data.market_data import PRICE_FIELDS, DataError, MarketData, Provenance
from se_rl.data.tables import NumberTable

Array = npt.NDArray[Any]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

NEW, PARTIAL_CANCEL, DELETE, EXECUTION, HIDDEN_EXECUTION, CROSS, HALT = range(1, 8)
"""LOBSTER message kinds."""

_MINUTE_MS, _DAY_MS = 60_000, 86_400_000
_BAR_LEVELS = 5
_MESSAGE_COLUMNS = ["time_s", "type", "order_id", "size", "price_e4", "direction"]
_BOOK_COLUMNS = [
    f"{name}{level}" for level in range(1, 1001) for name in ("ask", "asz", "bid", "bsz")
]


@dataclass(frozen=True, eq=False)
class BookHistory:
    """One symbol on one day: LOBSTER messages and the book after each of them ([messages, levels], best first).

    `direction` is the side of the resting order (+1 buy, -1 sell). An empty level has price 0 and size 0.
    A halt (kind 7) carries its state in `price_e4`: -1 halted, 0 quoting resumes, 1 trading resumes.
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
        rows = {
            f.name: len(v)
            for f in fields(self)
            if isinstance(v := getattr(self, f.name), np.ndarray)
        }
        if len(set(rows.values())) > 1 or not len(self.time_ns):
            raise DataError(
                f"{self.symbol} {self.date} has rows {rows}; give as many book rows as messages, at least one"
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
        """Index of the first message of each bar, and one past the last message of the last bar: int64[bars + 1]."""
        return np.searchsorted(self.time_ns, _session(bar_seconds)[1] * (60 * 10**9))

    def bars(self, *, bar_seconds: int = 60) -> MarketData:
        """Bars of all executions, visible and hidden, with the quotes and up to five level sizes at each bar's end."""
        ranges = self.bar_ranges(bar_seconds=bar_seconds)
        executed = np.flatnonzero((self.kind == EXECUTION) | (self.kind == HIDDEN_EXECUTION))
        outside = (executed < ranges[0]) | (executed >= ranges[-1])
        inside, notes = executed[~outside], _note("executions outside regular hours", outside)
        return _bars(
            Provenance(f"{self.symbol} {self.date} book", self.sha256, adjusted=False, notes=notes),
            (self.symbol, np.array([self.date]), _session(bar_seconds)[0]),
            trades=(
                np.searchsorted(ranges, inside, side="right") - 1,
                self.price_e4[inside],
                self.size[inside],
            ),
            quotes=_quotes_at(self, ranges[1:] - 1),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Ticks:
    symbol: str
    date: Int32
    time_ms: Int32
    notes: tuple[str, ...] = ()
    sha256: str = ""

    def __post_init__(self) -> None:
        backwards = np.diff(self.stamp_ms) < 0
        if backwards.any():
            row = int(backwards.argmax()) + 1
            raise DataError(
                f"ticks of {self.symbol}: row {row} is earlier than the one before; sort by date and time"
            )

    @property
    def stamp_ms(self) -> Int64:
        """Date and time in one rising number (not a time since any epoch)."""
        return self.date.astype(np.int64) * _DAY_MS + self.time_ms


@dataclass(frozen=True, eq=False, kw_only=True)
class QuoteHistory(_Ticks):
    """Best quotes of one venue over several days; `time_ms` is milliseconds after midnight, exchange time."""

    bid_e4: Int32
    bid_size: Int32
    ask_e4: Int32
    ask_size: Int32


@dataclass(frozen=True, eq=False, kw_only=True)
class TradeHistory(_Ticks):
    """Trades of one symbol over several days; `time_ms` is milliseconds after midnight, exchange time."""

    price_e4: Int32
    size: Int32


def read_lobster(messages: Path | str, book: Path | str | None = None) -> BookHistory:
    """A LOBSTER day from its original pair of CSV files or from our parquet pair; `book` defaults to the sibling file.

    Parquet carries symbol and date as metadata; a CSV file is named SYMBOL_YYYY-MM-DD_start_end_message_LEVELS.csv.
    """
    path = Path(messages)
    beside = path.with_name(
        path.name.replace("messages", "book").replace("_message_", "_orderbook_")
    )
    if book is None and (beside == path or not beside.is_file()):
        raise DataError(
            f"{path.name} has no book file beside it (looked for {beside.name}); pass the book file's path"
        )
    flow, state = (
        NumberTable(path, _MESSAGE_COLUMNS),
        NumberTable(Path(book or beside), _BOOK_COLUMNS),
    )
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


def read_quotes(path: Path | str) -> QuoteHistory:
    """Best quotes from parquet (date, time_ms, bid_e4, bsz, ask_e4, asz): the last state per millisecond.

    Locked, crossed and one-sided quotes are dropped and counted in the notes.
    """
    columns = _tick_columns(
        Path(path), bid_e4="bid_e4", bid_size="bsz", ask_e4="ask_e4", ask_size="asz"
    )
    quotes = QuoteHistory(**columns)
    last = np.append(np.diff(quotes.stamp_ms) != 0, True)[: len(quotes.date)]
    kept = last & (quotes.bid_e4 > 0) & (quotes.bid_e4 < quotes.ask_e4)
    notes = _note("quotes replaced within their millisecond", ~last)
    notes += _note("locked, crossed or one-sided quotes", last & ~kept)
    arrays = {name: value[kept] for name, value in columns.items() if isinstance(value, np.ndarray)}
    return QuoteHistory(**{**columns, **arrays, "notes": notes})


def read_trades(path: Path | str) -> TradeHistory:
    """Trades from parquet (date, time_ms, price_e4, size)."""
    trades = TradeHistory(**_tick_columns(Path(path), price_e4="price_e4", size="size"))
    bad = (trades.price_e4 <= 0) | (trades.size <= 0)
    if bad.any():
        seen = f"price_e4 {trades.price_e4[bad][0]}, size {trades.size[bad][0]}"
        raise DataError(
            f"{Path(path).name} has a trade of {seen}; remove trades whose price or size is not positive"
        )
    return trades


def bars_from_ticks(trades: TradeHistory, quotes: QuoteHistory | None = None) -> MarketData:
    """One-minute bars of every day that has trades, with the quotes that stand at each bar's end where given."""
    grid, edges = _session(60)
    dates, day = np.unique(trades.date, return_inverse=True)
    bar = grid.positions[np.clip(trades.time_ms // _MINUTE_MS, 0, edges[-1])]
    inside = bar >= 0
    standing: dict[str, Array] = {}
    if quotes and len(quotes.date):
        if quotes.symbol != trades.symbol:
            raise DataError(
                f"quotes are of {quotes.symbol}, trades of {trades.symbol}; pass files of one symbol"
            )
        ends_ms = (dates.astype(np.int64)[:, None] * _DAY_MS + edges[1:] * _MINUTE_MS).ravel()
        row = np.searchsorted(quotes.stamp_ms, ends_ms) - 1
        row[quotes.date[row] != np.repeat(dates, len(grid))] = -1  # a quote never stands overnight
        standing = _quotes_at(quotes, row)
    notes = (
        trades.notes
        + (quotes.notes if quotes else ())
        + _note("trades outside regular hours", ~inside)
    )
    return _bars(
        Provenance(f"{trades.symbol} ticks", trades.sha256, adjusted=False, notes=notes),
        (trades.symbol, dates, grid),
        trades=((day * len(grid) + bar)[inside], trades.price_e4[inside], trades.size[inside]),
        quotes=standing,
    )


def _quotes_at(source: BookHistory | QuoteHistory, row: Int64) -> dict[str, Array]:
    """Quotes and sizes of these rows; NaN and 0 where the row is -1, a side empty or (in a halt) the book crossed."""
    pairs = ((source.bid_e4, source.bid_size), (source.ask_e4, source.ask_size))
    levels = [
        (e4.reshape(len(e4), -1)[row], size.reshape(len(size), -1)[row]) for e4, size in pairs
    ]
    bid_price, ask_price = (np.where(size[:, 0] > 0, e4[:, 0], np.nan) / 1e4 for e4, size in levels)
    bid_sizes, ask_sizes = (size[:, :_BAR_LEVELS].astype(np.float64) for _, size in levels)
    unknown = (row < 0) | (bid_price > ask_price)
    bid_price[unknown] = ask_price[unknown] = np.nan
    bid_sizes[unknown] = ask_sizes[unknown] = 0.0
    return {"bid": bid_price, "ask": ask_price, "bid_sizes": bid_sizes, "ask_sizes": ask_sizes}


def _bars(
    provenance: Provenance,
    axes: tuple[str, Array, SessionGrid],
    *,
    trades: tuple[Array, ...],
    quotes: dict[str, Array],
) -> MarketData:
    """Bars from (slot, price_e4, size) in time order, slot = session * bars + bar; quotes are given per slot."""
    symbol, dates, grid = axes
    slot, price_e4, size = trades
    if not len(slot):
        raise DataError(
            f"{provenance.name} has no trade in regular hours; check its time column and time zone"
        )
    shape = (1, len(dates), len(grid))
    used, first = np.unique(slot, return_index=True)

    def placed(values: Array, empty: float) -> Array:
        out = np.full(shape, empty)
        out.reshape(-1)[used] = values
        return out

    last = np.append(first[1:], len(slot)) - 1
    highs, lows = np.maximum.reduceat(price_e4, first), np.minimum.reduceat(price_e4, first)
    prices = dict(zip(PRICE_FIELDS, (price_e4[first], highs, lows, price_e4[last]), strict=True))
    bars = {name: placed(values / 1e4, np.nan) for name, values in prices.items()}
    traded = np.isfinite(bars["close"])
    source = np.maximum.accumulate(np.where(traded, np.arange(len(grid)), -1), axis=2)
    first_open = np.take_along_axis(bars["open"], traded.argmax(axis=2)[..., None], axis=2)
    flat = np.where(source < 0, first_open, np.take_along_axis(bars["close"], source, axis=2))
    return MarketData(
        symbols=(symbol,),
        dates=dates.astype(np.int32),
        grid=grid,
        traded=traded,
        volume=placed(np.add.reduceat(size.astype(np.int64), first), 0.0),
        amount=placed(np.add.reduceat(price_e4.astype(np.int64) * size, first) / 1e4, 0.0),
        provenance=provenance,
        **{name: np.where(traded, values, flat) for name, values in bars.items()},
        **{name: values.reshape(shape + values.shape[1:]) for name, values in quotes.items()},
    )


def _session(bar_seconds: int) -> tuple[SessionGrid, Int64]:
    """The session's grid and the minutes at which its bars start, with the close as the last."""
    if bar_seconds <= 0 or bar_seconds % 60:
        raise DataError(f"bar_seconds is {bar_seconds}; use a positive multiple of 60")
    grid = session_grid(US, bar_minutes=bar_seconds // 60)
    return grid, np.array([*grid.minutes, session_grid(US).minutes[-1] + 1])


def _note(what: str, dropped: Array) -> tuple[str, ...]:
    count = int(dropped.sum())
    return (f"{count} {what} dropped",) if count else ()


def _tick_columns(path: Path, **names: str) -> dict[str, Any]:
    """The fields of a tick history; `names` maps ours to the file's."""
    table = NumberTable(path)
    names = {"date": "date", "time_ms": "time_ms", **names}
    columns = {ours: table.column(theirs) for ours, theirs in names.items()}
    return {
        **columns,
        "symbol": table.said("symbol"),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
