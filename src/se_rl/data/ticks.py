"""Best quotes and trades of single milliseconds: read, checked, and turned into bars.

Prices are integers, 1e-4 of the currency (`*_e4`); times are exchange time of a US session.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.data.market_data import DataError, MarketData, Provenance
from se_rl.data.tables import NumberTable
from se_rl.data.trade_bars import (
    Int32,
    Int64,
    StandingQuotes,
    TradesInBars,
    bars_from_trades,
    dropped_note,
    quotes_at,
    us_session,
)

_MINUTE_MS = 60_000
_DAY_MS = 86_400_000


@dataclass(frozen=True, eq=False, kw_only=True)
class _Ticks:
    """What quotes and trades share; `time_ms` is milliseconds after midnight, exchange time."""

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
                f"ticks of {self.symbol}: row {row} is earlier than the one before; "
                "sort by date and time"
            )

    @property
    def stamp_ms(self) -> Int64:
        """Date and time in one rising number (not a time since any epoch)."""
        return self.date.astype(np.int64) * _DAY_MS + self.time_ms


@dataclass(frozen=True, eq=False, kw_only=True)
class QuoteHistory(_Ticks):
    """Best quotes of one venue over several days."""

    bid_e4: Int32
    bid_size: Int32
    ask_e4: Int32
    ask_size: Int32


@dataclass(frozen=True, eq=False, kw_only=True)
class TradeHistory(_Ticks):
    """Trades of one symbol over several days."""

    price_e4: Int32
    size: Int32


def read_quotes(path: Path | str) -> QuoteHistory:
    """Best quotes from parquet (date, time_ms, bid_e4, bsz, ask_e4, asz).

    The last state of a millisecond counts. Locked, crossed and one-sided quotes are dropped and
    counted in the notes.
    """
    columns = _tick_columns(
        Path(path), bid_e4="bid_e4", bid_size="bsz", ask_e4="ask_e4", ask_size="asz"
    )
    quotes = QuoteHistory(**columns)
    last = np.append(np.diff(quotes.stamp_ms) != 0, True)[: len(quotes.date)]
    kept = last & (quotes.bid_e4 > 0) & (quotes.bid_e4 < quotes.ask_e4)
    notes = dropped_note("quotes replaced within their millisecond", ~last)
    notes += dropped_note("locked, crossed or one-sided quotes", last & ~kept)
    arrays = {name: value[kept] for name, value in columns.items() if isinstance(value, np.ndarray)}
    return QuoteHistory(**{**columns, **arrays, "notes": notes})


def read_trades(path: Path | str) -> TradeHistory:
    """Trades from parquet (date, time_ms, price_e4, size)."""
    trades = TradeHistory(**_tick_columns(Path(path), price_e4="price_e4", size="size"))
    bad = (trades.price_e4 <= 0) | (trades.size <= 0)
    if bad.any():
        seen = f"price_e4 {trades.price_e4[bad][0]}, size {trades.size[bad][0]}"
        raise DataError(
            f"{Path(path).name} has a trade of {seen}; "
            "remove trades whose price or size is not positive"
        )
    return trades


def bars_from_ticks(trades: TradeHistory, quotes: QuoteHistory | None = None) -> MarketData:
    """One-minute bars of every day that has trades, with the quotes that stand at each bar's end
    where given."""
    grid, edges = us_session(60)
    dates, day = np.unique(trades.date, return_inverse=True)
    bar = grid.positions[np.clip(trades.time_ms // _MINUTE_MS, 0, edges[-1])]
    inside = bar >= 0
    standing: StandingQuotes | None = None
    if quotes and len(quotes.date):
        if quotes.symbol != trades.symbol:
            raise DataError(
                f"quotes are of {quotes.symbol}, trades of {trades.symbol}; "
                "pass files of one symbol"
            )
        ends_ms = (dates.astype(np.int64)[:, None] * _DAY_MS + edges[1:] * _MINUTE_MS).ravel()
        row = np.searchsorted(quotes.stamp_ms, ends_ms) - 1
        row[quotes.date[row] != np.repeat(dates, len(grid))] = -1  # a quote never stands overnight
        standing = quotes_at(quotes, row)
    notes = (
        trades.notes
        + (quotes.notes if quotes else ())
        + dropped_note("trades outside regular hours", ~inside)
    )
    slot = (day * len(grid) + bar)[inside]
    return bars_from_trades(
        trades.symbol,
        dates,
        grid=grid,
        trades=TradesInBars(slot, trades.price_e4[inside], trades.size[inside]),
        quotes=standing,
        provenance=Provenance(f"{trades.symbol} ticks", trades.sha256, adjusted=False, notes=notes),
    )


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
