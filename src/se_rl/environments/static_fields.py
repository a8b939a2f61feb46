"""The reward's fields on history: what a step did, from the engine's booking and one table of bars.

The table is made once; a step gathers it for every order in one kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from se_rl.data.features import PUBLIC_FIELDS, Known
from se_rl.data.market_data import MarketData
from se_rl.environments.fill_model import StepFills
from se_rl.environments.worlds import FIELD_PLACE, HIGHEST, LOWEST, Array, Fields, Int, Observation

NEWS_SYMBOLS = 5
"""With fewer symbols on a day their mean move says more about the stock than about the market."""
BLOCK = 64
"""Orders that the kernel of the fields handles at a time."""


class Column(NamedTuple):
    """Columns of the bar table; `COLUMN` has their positions."""

    mid: int
    price: int
    news: int
    volatility: int
    half_spread: int
    imbalance: int


COLUMN = Column(*range(len(Column._fields)))


class Prices(NamedTuple):
    """What a step's prices are computed from: the bar table, exact bar prices, and the costs."""

    bars: Fields  # [row, bar + 1, column]
    price: Array  # [row, bar]
    half_spread: float
    fee: float
    taker_cost: float


class Booked(NamedTuple):
    """One step of some orders as the engine booked it; arrays [order]."""

    row: Int
    start: Int
    side: npt.NDArray[np.int8]
    quantity: Array
    before: Array  # shares left before the step
    after: Array
    leftover: Array
    fills: StepFills


def bar_table(
    data: MarketData, known: Known, observations: Observation, *, half_spread: float
) -> Fields:
    """[row, bar + 1, column]: what is known when a bar opens, and that bar's price and news."""
    symbols, sessions, bars = data.shape
    table = np.zeros((symbols, sessions, bars + 1, len(COLUMN)), np.float32)
    table[..., 0, COLUMN.mid] = data.open[..., 0]
    table[..., 1:, COLUMN.mid] = data.close
    table[..., :-1, COLUMN.price] = data.price
    table[..., :-1, COLUMN.news] = _mean_move(known)
    table[..., COLUMN.volatility] = known.sigma
    table[..., COLUMN.half_spread] = half_spread
    if half_spread == 0.0 and data.bid is not None and data.ask is not None:
        quoted = (data.ask - data.bid) / (data.ask + data.bid)
        table[..., 1:, COLUMN.half_spread] = np.nan_to_num(quoted)
    rows = table.reshape(symbols * sessions, bars + 1, len(COLUMN))
    rows[..., COLUMN.imbalance] = observations[..., PUBLIC_FIELDS.index("imbalance")]
    return rows


def _mean_move(known: Known) -> Array:
    """[session, bar]: the mean log return of all symbols in the bar, 0 on days with few of them."""
    live = known.data.has_session
    count = live.sum(axis=0)
    total = np.where(live[..., None], np.diff(known.log_price, axis=2), 0.0).sum(axis=0)
    return np.where((count >= NEWS_SYMBOLS)[:, None], total / np.maximum(count, 1)[:, None], 0.0)


def write_step(
    fields: Fields, prices: Prices, booked: Booked, *, step: int, horizon: int, at_bar_price: bool
) -> None:
    """Fill `fields` [field, order] with one step; TWAP's are those of slices that always fill.

    `at_bar_price` says that every fill was at the bar price, so that no better one is looked for.
    """
    write_fields(
        prices, booked, step, horizon, at_bar_price, FIELD_PLACE, COLUMN, LOWEST, HIGHEST, fields
    )


def write_twap(fields: Fields, prices: Prices, booked: Booked, *, step: int) -> None:
    """Put what TWAP's own fills came to into its three rows."""
    _write_twap(prices, booked, step, FIELD_PLACE, COLUMN, LOWEST, HIGHEST, fields)


@njit(cache=True, nogil=True, error_model="numpy")
def _taker_price(price, side, cost, unit):  # type: ignore[no-untyped-def]
    """The bar price less costs over the arrival price, turned: 1 + s (p (1 - s c) / P - 1)."""
    return 1.0 + side * (price * (1.0 - side * cost) * unit - 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _improvement(prices, booked, i, bar, side):  # type: ignore[no-untyped-def]
    """Currency that the step's fills earned beyond taking the bar price for the same shares."""
    fills = booked.fills
    taken = fills.shares[i] * prices.price[booked.row[i], bar]
    better = fills.cash[i] - taken
    saved = taken * prices.half_spread - fills.cost[i]
    return side * better + saved - prices.fee * better


@njit(cache=True, nogil=True, error_model="numpy")
def write_fields(  # type: ignore[no-untyped-def]
    prices, booked, step, horizon, at_bar_price, at, column, lowest, highest, fields
):
    """One step's fields of every order: prices over the arrival price and turned, then clipped.

    A few orders at a time go through a small block: columns far apart in memory would push one
    another out of the cache. Positions are arguments: a cached kernel would keep old globals.
    """
    bars, row, start = prices.bars, booked.row, booked.start
    block = np.zeros((fields.shape[0], BLOCK), np.float32)
    time_left, last = 1.0 - (step + 1) / horizon, step == horizon - 1
    block[at.time_left, :] = block[at.twap_inventory_left, :] = time_left
    block[at.twap_traded_share, :] = 1.0 / horizon
    for first in range(0, row.shape[0], BLOCK):
        count = min(BLOCK, row.shape[0] - first)
        for j in range(count):
            i = first + j
            s = np.float64(booked.side[i])
            now = bars[row[i], start[i] + step]
            unit = 1.0 / np.float64(bars[row[i], start[i], column.mid])
            share = 1.0 / booked.quantity[i]
            traded = (booked.before[i] - booked.after[i]) * share
            taker = _taker_price(now[column.price], s, prices.taker_cost, unit)
            mid_before = 1.0 + s * (now[column.mid] * unit - 1.0)
            mid_after = 1.0 + s * (bars[row[i], start[i] + step + 1, column.mid] * unit - 1.0)
            block[at.twap_fill_price, j] = taker
            block[at.benchmark_price, j] = 1.0 + s * (now[column.price] * unit - 1.0)
            block[at.fill_price, j] = taker if traded > 0.0 else block[at.benchmark_price, j]
            if not at_bar_price and traded > 0.0:
                gain = _improvement(prices, booked, i, start[i] + step, s)
                block[at.fill_price, j] = taker + gain * share * unit / traded
            block[at.passive_share, j] = booked.fills.passive[i] * share
            block[at.traded_share, j] = traded
            block[at.inventory_left, j] = booked.after[i] * share
            block[at.half_spread, j] = now[column.half_spread]
            block[at.volatility, j] = now[column.volatility]
            block[at.imbalance, j] = s * now[column.imbalance]
            block[at.mid_before, j] = block[at.no_order_mid_before, j] = mid_before
            block[at.mid_after, j] = block[at.no_order_mid, j] = mid_after
            block[at.news, j] = s * now[column.news]
            block[at.forced_share, j] = booked.leftover[i] * share if last else 0.0
        for k in range(fields.shape[0]):
            for j in range(count):
                fields[k, first + j] = min(max(block[k, j], lowest[k]), highest[k])


@njit(cache=True, nogil=True, error_model="numpy")
def _write_twap(  # type: ignore[no-untyped-def]
    prices, booked, step, at, column, lowest, highest, fields
):
    """TWAP's rows from its own booking; where it traded nothing its price is a taker's."""
    for i in range(booked.row.shape[0]):
        s = np.float64(booked.side[i])
        bars, bar = prices.bars[booked.row[i]], booked.start[i] + step
        unit = 1.0 / np.float64(bars[booked.start[i], column.mid])
        share = 1.0 / booked.quantity[i]
        traded = (booked.before[i] - booked.after[i]) * share
        fill = _taker_price(bars[bar, column.price], s, prices.taker_cost, unit)
        if traded > 0.0:
            fill += _improvement(prices, booked, i, bar, s) * share * unit / traded
        k = at.twap_fill_price
        fields[k, i] = min(max(np.float32(fill), lowest[k]), highest[k])
        fields[at.twap_traded_share, i] = traded
        fields[at.twap_inventory_left, i] = booked.after[i] * share
