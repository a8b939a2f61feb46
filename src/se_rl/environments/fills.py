"""Fill models on bars: named, swappable, conservative assumptions.

`queue_fills.py` has the model for historical order books.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from se_rl.data.books import BookHistory
from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.costs import Costs
from se_rl.environments.fill_model import Array, FillModel, Index, StepFills
from se_rl.environments.queue_fills import QueueFills
from se_rl.environments.task import Orders

TICK = 0.01
"""The price step of limits on bars, in currency."""


def flat(values: npt.NDArray[np.float64]) -> Array:
    """[symbol, session, bar] as contiguous [row, bar]."""
    return np.ascontiguousarray(values.reshape(-1, values.shape[-1]))


def fill_model(costs: Costs, data: MarketData, *, book: BookHistory | None = None) -> FillModel:
    """The fill model that the costs name; `queue` needs the book that `data` was made from."""
    if costs.fills == "queue":
        if book is None:
            raise DataError(
                f"fills 'queue' needs a historical order book, and {data.provenance.name} has bars; "
                "use price_taker or limit_on_bars, or give read_lobster(...) as the data"
            )
        return QueueFills([book])
    model = PriceTaker if costs.fills == "price_taker" else LimitOnBars
    return model(
        data, half_spread_bps=costs.half_spread_bps, max_participation=costs.max_participation
    )


class PriceTaker:
    """Fill at the bar price, worse by the half-spread, up to a share of the bar's volume.

    Limits are ignored.
    """

    name = "price_taker"
    takes_limits = False
    tick = TICK

    def __init__(
        self,
        data: MarketData,
        *,
        half_spread_bps: float = 0.0,
        max_participation: float | None = None,
    ) -> None:
        self._price = flat(data.price)
        self.half_spread = half_spread_bps * 1e-4
        self.fills_market_orders_whole = max_participation is None
        self._share = max_participation or 0.0
        self._volume = self._price  # not read without a cap
        if max_participation is not None:
            self._volume = flat(data.require_volume("a participation cap"))

    def fill(
        self, orders: Orders, bar: Index, *, want: Array, limit: Array, out: StepFills
    ) -> None:
        """Take the bar price."""
        capped = not self.fills_market_orders_whole
        take_bar_price(
            self._price,
            self._volume,
            self._share,
            capped,
            self.half_spread,
            orders.row,
            bar,
            want,
            out,
        )


class LimitOnBars(PriceTaker):
    """Conservative limit fills on bars, up to a share of the bar's volume.

    A resting limit fills only when the bar trades THROUGH it, at the limit: touching it is no fill,
    since on bars nobody knows who was ahead in the queue. A limit at or beyond the opposite touch,
    and an order without a limit, are filled as a price taker's.
    """

    name = "limit_on_bars"
    takes_limits = True

    def __init__(
        self,
        data: MarketData,
        *,
        half_spread_bps: float = 0.0,
        max_participation: float | None = 0.1,
        tick: float = TICK,
    ) -> None:
        super().__init__(data, half_spread_bps=half_spread_bps, max_participation=max_participation)
        self._high = flat(data.high)
        self._low = flat(data.low)
        self._close = flat(data.close)
        self.tick = tick

    def fill(
        self, orders: Orders, bar: Index, *, want: Array, limit: Array, out: StepFills
    ) -> None:
        """Fill passive orders that were traded through; take the bar price for the others."""
        super().fill(orders, bar, want=want, limit=limit, out=out)
        _rest(
            self._high,
            self._low,
            self._close,
            self.half_spread,
            self.tick,
            orders.row,
            bar,
            orders.side,
            limit,
            out,
        )


@njit(cache=True, nogil=True, error_model="numpy")
def take_bar_price(  # type: ignore[no-untyped-def]
    price, volume, share, capped, half_spread, row, bar, want, out
):
    """Fill every wish at the bar price, up to `share` of the bar's volume where it is capped."""
    for i in range(row.shape[0]):
        quantity = want[i] if want[i] > 0.0 else 0.0
        if capped:
            quantity = min(quantity, share * volume[row[i], bar[i]])
        cash = quantity * price[row[i], bar[i]]
        out.shares[i] = quantity
        out.cash[i] = cash
        out.cost[i] = cash * half_spread


@njit(cache=True, nogil=True, error_model="numpy")
def _rest(  # type: ignore[no-untyped-def]
    high, low, close, half_spread, tick, row, bar, side, limit, out
):
    """Turn a taker's fills into a limit order's where the limit is passive."""
    for i in range(row.shape[0]):
        out.passive[i] = 0.0
        if np.isnan(limit[i]):
            continue
        last = close[row[i], max(bar[i] - 1, 0)]
        if side[i] > 0:
            marketable = limit[i] <= last * (1.0 - half_spread)
            through = high[row[i], bar[i]] >= limit[i] + tick
        else:
            marketable = limit[i] >= last * (1.0 + half_spread)
            through = low[row[i], bar[i]] <= limit[i] - tick
        if marketable:
            continue
        if not through:
            out.shares[i] = 0.0
        out.passive[i] = out.shares[i]
        out.cash[i] = out.shares[i] * limit[i]
        out.cost[i] = 0.0
