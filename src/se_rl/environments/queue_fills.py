"""Fills against a historical order book with a place in the queue: conservative, no own impact.

An order lives for one bar. It arrives when the bar starts and sees the book after the last message
before the bar (where the file has none: the first book row of the bar). Then:

- A market order, or a limit that crosses the opposite touch, takes displayed size level by level,
  as deep as the file shows and no worse than its limit. A market order's rest stays unfilled; a
  limit's rest joins the book at its price.
- A resting order joins the back of the queue: ahead of it is the size displayed at its price.
  Nothing is ahead where it improves the touch or stands on a vacant price between levels; deeper
  than the levels shown, it is unknown.
- A visible execution at its price and side eats what is ahead, then fills the order. Cancels
  shorten the queue only for orders that were there first (LOBSTER ids rise with time: id up to the
  largest one seen before arrival).
- A visible execution of its side at a worse price means that the market traded through it: it
  fills up to that size. This alone fills an order with an unknown queue. Hidden executions fill
  nothing, and no message more than its size.
- At the bar's end the rest is cancelled. A bar that starts in a trading halt, or ends before the
  file begins, fills nothing.

History does not react: displayed size taken in one bar stands again in the next, and orders of one
call do not compete. Prices off the 0.01 grid are rounded to the passive side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from se_rl.data.books import DELETE, EXECUTION, HALT, PARTIAL_CANCEL, BookHistory
from se_rl.data.market_data import DataError
from se_rl.environments.fill_model import StepFills
from se_rl.environments.task import Orders

Array = npt.NDArray[Any]
Int64 = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

TICK_E4 = 100
_BID, _ASK = 0, 1
_LOWEST_E4 = -(10**15)
_HIGHEST_E4 = 10**15


class _Arrivals(NamedTuple):
    """What an order finds when its bar starts: the displayed book, and the bar's messages.

    `deepest_e4` is the signed price of the last level shown, below which a queue is unknown.
    """

    price_e4: Int64  # [row, bar, side, level]
    size: Int64  # [row, bar, side, level], 0 where empty
    deepest_e4: Int64  # [row, bar, side]
    newest_id: Int64  # [row, bar]: largest order id seen so far
    first: Int64  # [row, bar]: the bar's messages are flow[first:stop]
    stop: Int64


class _Flow(NamedTuple):
    """The messages that can move a queue, all books one after the other."""

    signed_e4: Int64
    size: Int64
    order_id: Int64
    executed: npt.NDArray[np.bool_]  # a visible execution, else a cancel


class QueueFills:
    """Fill model of the static world on historical books: row i of the world is `books[i]`."""

    name = "queue"
    takes_limits = True
    fills_market_orders_whole = False  # no deeper than the book shows
    tick = TICK_E4 / 1e4

    def __init__(self, books: Sequence[BookHistory], *, bar_seconds: int = 60) -> None:
        if not books:
            raise DataError(
                "queue fills were given no historical book; pass at least one BookHistory"
            )
        levels = max(book.bid_e4.shape[1] for book in books)
        arrivals: list[_Arrivals] = []
        flows: list[_Flow] = []
        offset = 0
        for book in books:
            moving = np.flatnonzero(np.isin(book.kind, (PARTIAL_CANCEL, DELETE, EXECUTION)))
            arrivals.append(
                _arrivals(book, moving, bar_seconds=bar_seconds, levels=levels, offset=offset)
            )
            flows.append(_flow(book, moving))
            offset += len(moving)
        self._arrivals = _Arrivals(*map(np.stack, zip(*arrivals, strict=True)))
        self._flow = _Flow(*map(np.concatenate, zip(*flows, strict=True)))
        self.half_spread = _mean_half_spread(self._arrivals)

    def fill(
        self, orders: Orders, bar: Int64, *, want: Floats, limit: Floats, out: StepFills
    ) -> None:
        """Write this bar's fills; a negative or NaN `want` asks for nothing.

        The spread is in the prices, so no further cost arises.
        """
        out.cost[:] = 0.0
        row = orders.row
        rows, bars = self._arrivals.first.shape
        if len(row):
            known_row = row.min() >= 0 and row.max() < rows
            known_bar = bar.min() >= 0 and bar.max() < bars
            if not (known_row and known_bar):
                raise IndexError(
                    f"a row or bar lies outside the {rows} books of {bars} bars of this fill model"
                )
        _fill_orders(self._arrivals, self._flow, row, bar, orders.side, want, limit, out)


def _mean_half_spread(arrivals: _Arrivals) -> float:
    """Half the quoted spread over the mid, averaged over the bar starts that show both sides."""
    bid = arrivals.price_e4[:, :, _BID, 0].astype(np.float64)
    ask = arrivals.price_e4[:, :, _ASK, 0].astype(np.float64)
    quoted = (arrivals.size[:, :, _BID, 0] > 0) & (arrivals.size[:, :, _ASK, 0] > 0)
    return float(((ask - bid)[quoted] / (ask + bid)[quoted]).mean()) if quoted.any() else 0.0


def _flow(book: BookHistory, moving: Int64) -> _Flow:
    signed_e4 = book.direction[moving].astype(np.int64) * book.price_e4[moving]
    return _Flow(
        signed_e4,
        book.size[moving].astype(np.int64),
        book.order_id[moving],
        book.kind[moving] == EXECUTION,
    )


def _arrivals(
    book: BookHistory, moving: Int64, *, bar_seconds: int, levels: int, offset: int
) -> _Arrivals:
    """One book's row: levels padded with empty ones to `levels`, its flow from `offset` on."""
    ranges = book.bar_ranges(bar_seconds=bar_seconds)
    # messages known on arrival; where the file begins in this bar: its first one
    seen = np.maximum(ranges[:-1], 1)
    closed = _halted(book, seen) | (ranges[1:] == 0)
    price_e4 = np.stack([book.bid_e4[seen - 1], book.ask_e4[seen - 1]], axis=1).astype(np.int64)
    size = np.stack([book.bid_size[seen - 1], book.ask_size[seen - 1]], axis=1).astype(np.int64)
    deepest_e4 = np.where(size[..., -1] > 0, price_e4[..., -1] * np.array([1, -1]), _LOWEST_E4)
    size[closed] = 0
    padding = ((0, 0), (0, 0), (0, levels - price_e4.shape[2]))
    first = np.searchsorted(moving, seen)
    stop = np.where(closed, first, np.searchsorted(moving, ranges[1:]))
    return _Arrivals(
        np.pad(price_e4, padding),
        np.pad(size, padding),
        deepest_e4,
        newest_id=np.maximum.accumulate(book.order_id)[seen - 1],
        first=first + offset,
        stop=stop + offset,
    )


def _halted(book: BookHistory, seen: Int64) -> npt.NDArray[np.bool_]:
    """Whether trading was halted after that many messages.

    The state is 1 while trading is open, and before any halt.
    """
    halts = np.flatnonzero(book.kind == HALT)
    state = np.append(1, book.price_e4[halts])
    return state[np.searchsorted(halts, seen)] != 1


@njit(cache=True)
def _fill_orders(
    arrivals: _Arrivals,
    flow: _Flow,
    row: Int64,
    bar: Int64,
    side: Array,
    want: Floats,
    limit: Floats,
    out: StepFills,
) -> None:
    """One order after the other, in signed prices.

    A signed price is a buyer's price, or minus a seller's, so that higher is keener.
    """
    for n in range(len(row)):
        out.shares[n] = out.cash[n] = out.passive[n] = 0.0
        if not want[n] > 0.0:
            continue
        r, b = row[n], bar[n]
        direction = -int(side[n])
        own, other = (_BID, _ASK) if direction > 0 else (_ASK, _BID)
        signed_e4 = _signed_limit(limit[n], direction)
        price_e4, size = arrivals.price_e4[r, b], arrivals.size[r, b]
        taken, cash = _take(price_e4[other], size[other], direction, signed_e4, want[n])
        out.shares[n] = taken
        out.cash[n] = cash
        if taken >= want[n] or np.isnan(limit[n]):
            continue
        ahead = np.inf
        if signed_e4 >= arrivals.deepest_e4[r, b, own]:
            ahead = _displayed(price_e4[own], size[own], direction * signed_e4)
        first, stop = arrivals.first[r, b], arrivals.stop[r, b]
        newest_id = arrivals.newest_id[r, b]
        rested = _rest(flow, first, stop, direction, signed_e4, ahead, newest_id, want[n] - taken)
        out.shares[n] = min(taken + rested, want[n])
        out.passive[n] = rested
        out.cash[n] += rested * (direction * signed_e4) / 1e4


@njit(cache=True)
def _signed_limit(limit: float, direction: int) -> int:
    """The limit on the price grid, rounded to the passive side; a seller asks for a tick."""
    if np.isnan(limit):
        return _HIGHEST_E4
    ticks = np.floor(direction * limit * (1e4 / TICK_E4) + 1e-6)
    signed_e4 = TICK_E4 * int(min(max(ticks, _LOWEST_E4 // TICK_E4), _HIGHEST_E4 // TICK_E4))
    return signed_e4 if direction > 0 else min(signed_e4, -TICK_E4)


@njit(cache=True)
def _take(
    price_e4: Int64, size: Int64, direction: int, signed_e4: int, want: float
) -> tuple[float, float]:
    """Shares and cash from the displayed levels of the opposite side that the limit reaches."""
    filled, cash = 0.0, 0.0
    for level in range(len(size)):
        if size[level] == 0 or direction * price_e4[level] > signed_e4 or filled >= want:
            break
        part = min(want - filled, float(size[level]))
        filled += part
        cash += part * price_e4[level] / 1e4
    return min(filled, want), cash


@njit(cache=True)
def _displayed(price_e4: Int64, size: Int64, at_e4: int) -> float:
    for level in range(len(size)):
        if size[level] > 0 and price_e4[level] == at_e4:
            return float(size[level])
    return 0.0


@njit(cache=True)
def _rest(
    flow: _Flow,
    first: int,
    stop: int,
    direction: int,
    signed_e4: int,
    ahead: float,
    newest_id: int,
    want: float,
) -> float:
    """Shares that the bar's messages fill of an order resting behind `ahead` shares."""
    filled = 0.0
    for m in range(first, stop):
        price = flow.signed_e4[m]
        if price > signed_e4 or price * direction <= 0:
            continue  # a keener order of our side, or an order of the other side
        size = float(flow.size[m])
        if not flow.executed[m]:
            if price == signed_e4 and flow.order_id[m] <= newest_id:
                ahead = max(ahead - size, 0.0)
            continue
        if price == signed_e4:
            before_us = min(ahead, size)
            ahead -= before_us
            size -= before_us
        filled += min(want - filled, size)
        if filled >= want:
            break
    return filled
