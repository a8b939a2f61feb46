"""Bars out of single trades, and the quotes that stand at each bar's end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from se_rl.data.calendar import US, SessionGrid, session_grid
from se_rl.data.market_data import DataError, MarketData, Provenance

Array = npt.NDArray[Any]
Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


BAR_LEVELS = 5
"""Levels of a book whose sizes a bar keeps."""


@dataclass(frozen=True, eq=False)
class TradesInBars:
    """Trades in time order, each with the bar it falls into: slot = session * bars + bar."""

    slot: Int64
    price_e4: Int32
    size: Int32


@dataclass(frozen=True, eq=False)
class StandingQuotes:
    """The quotes that stand at the end of each slot: prices [slot], sizes [slot, level]."""

    bid: Float
    ask: Float
    bid_sizes: Float
    ask_sizes: Float


class Quotes(Protocol):
    """Rows of quotes, [row] or [row, level]: a book or a history of best quotes."""

    @property
    def bid_e4(self) -> Int32:
        """Bid prices in 1e-4 of the currency."""
        ...

    @property
    def bid_size(self) -> Int32:
        """Shares at the bids."""
        ...

    @property
    def ask_e4(self) -> Int32:
        """Ask prices in 1e-4 of the currency."""
        ...

    @property
    def ask_size(self) -> Int32:
        """Shares at the asks."""
        ...


def quotes_at(source: Quotes, row: Int64) -> StandingQuotes:
    """Quotes and sizes of these rows.

    NaN and 0 where the row is -1, a side is empty or (in a halt) the book is crossed.
    """
    bid, bid_sizes = _side_at(source.bid_e4, source.bid_size, row)
    ask, ask_sizes = _side_at(source.ask_e4, source.ask_size, row)
    unknown = (row < 0) | (bid > ask)
    bid[unknown] = np.nan
    ask[unknown] = np.nan
    bid_sizes[unknown] = 0.0
    ask_sizes[unknown] = 0.0
    return StandingQuotes(bid, ask, bid_sizes, ask_sizes)


def _side_at(price_e4: Int32, size: Int32, row: Int64) -> tuple[Float, Float]:
    """Best price and level sizes of one side in these rows; no price where the side is empty."""
    prices = price_e4.reshape(len(price_e4), -1)[row]
    sizes = size.reshape(len(size), -1)[row]
    best = np.where(sizes[:, 0] > 0, prices[:, 0], np.nan) / 1e4
    return best, sizes[:, :BAR_LEVELS].astype(np.float64)


def bars_from_trades(
    symbol: str,
    dates: Array,
    *,
    grid: SessionGrid,
    trades: TradesInBars,
    quotes: StandingQuotes | None,
    provenance: Provenance,
) -> MarketData:
    """Bars of one symbol from its trades, with the quotes that stand at each bar's end."""
    slot, price_e4 = trades.slot, trades.price_e4
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
    prices = {
        "open": price_e4[first],
        "high": np.maximum.reduceat(price_e4, first),
        "low": np.minimum.reduceat(price_e4, first),
        "close": price_e4[last],
    }
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
        volume=placed(np.add.reduceat(trades.size.astype(np.int64), first), 0.0),
        amount=placed(np.add.reduceat(price_e4.astype(np.int64) * trades.size, first) / 1e4, 0.0),
        provenance=provenance,
        **{name: np.where(traded, values, flat) for name, values in bars.items()},
        **_quote_fields(quotes, shape),
    )


def _quote_fields(quotes: StandingQuotes | None, shape: tuple[int, ...]) -> dict[str, Array]:
    """The quotes as fields of MarketData.

    [symbol, session, bar] and [symbol, session, bar, level].
    """
    if quotes is None:
        return {}
    return {
        "bid": quotes.bid.reshape(shape),
        "ask": quotes.ask.reshape(shape),
        "bid_sizes": quotes.bid_sizes.reshape((*shape, -1)),
        "ask_sizes": quotes.ask_sizes.reshape((*shape, -1)),
    }


def us_session(bar_seconds: int) -> tuple[SessionGrid, Int64]:
    """The session's grid and the minutes at which its bars start, with the close as the last."""
    if bar_seconds <= 0 or bar_seconds % 60:
        raise DataError(f"bar_seconds is {bar_seconds}; use a positive multiple of 60")
    grid = session_grid(US, bar_minutes=bar_seconds // 60)
    return grid, np.array([*grid.minutes, session_grid(US).minutes[-1] + 1])


def dropped_note(what: str, dropped: Array) -> tuple[str, ...]:
    """A note of how many were dropped, none where it is nothing."""
    count = int(dropped.sum())
    return (f"{count} {what} dropped",) if count else ()
