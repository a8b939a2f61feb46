"""Fill models: named, swappable, conservative assumptions on how much of a wish is filled in a bar, and at what price.

Each model answers for many orders at once: `want` shares in bar `bar` of row `row`, at `limit` (NaN: at market). It writes
the shares filled, the cash they exchanged before costs, and the half-spread paid. `queue_fills.py` has the model for
historical order books.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
from numba import njit

from se_rl.data.market_data import DataError, MarketData

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
Sides = npt.NDArray[np.int8]


class FillModel(Protocol):
    """How wishes become fills; writes into the last three arrays. `half_spread` is what a forced completion pays."""

    name: str
    half_spread: float

    def fill(
        self,
        row: Index,
        bar: Index,
        side: Sides,
        want: Array,
        limit: Array,
        shares: Array,
        cash: Array,
        cost: Array,
    ) -> None:
        """Fill `want` shares of each order in its bar."""
        ...


def check_costs(*, half_spread_bps: float, fee_bps: float, max_participation: float | None) -> None:
    """Refuse costs that would pay the trader and caps that cannot be shares."""
    for name, value in (("half_spread_bps", half_spread_bps), ("fee_bps", fee_bps)):
        if not (np.isfinite(value) and value >= 0):
            raise DataError(f"{name} {value} is not a cost; use 0 for none, or a positive number")
    if max_participation is not None and not 0.0 < max_participation <= 1.0:
        raise DataError(
            f"max_participation {max_participation} is not a share of the volume; use e.g. 0.1, at most 1"
        )


def flat(values: Array) -> Array:
    """[symbol, session, bar] as contiguous [row, bar]."""
    return np.ascontiguousarray(values.reshape(-1, values.shape[-1]))


class PriceTaker:
    """Fill at the bar price, worse by the half-spread, up to a share of the bar's volume. Limits are ignored."""

    name = "price_taker"

    def __init__(
        self,
        data: MarketData,
        *,
        half_spread_bps: float = 0.0,
        max_participation: float | None = None,
    ) -> None:
        self._price = flat(data.price)
        self.half_spread = half_spread_bps * 1e-4
        self._capped = max_participation is not None
        self._share = max_participation or 0.0
        self._volume = (
            flat(data.require_volume("a participation cap")) if self._capped else self._price
        )

    def fill(
        self,
        row: Index,
        bar: Index,
        side: Sides,
        want: Array,
        limit: Array,
        shares: Array,
        cash: Array,
        cost: Array,
    ) -> None:
        """Take the bar price."""
        _take(
            self._price,
            self._volume,
            self._share,
            self._capped,
            self.half_spread,
            row,
            bar,
            want,
            shares,
            cash,
            cost,
        )


class LimitOnBars:
    """Conservative limit fills on bars: only when the bar trades THROUGH the limit, at the limit, up to a share of volume.

    A limit at or beyond the opposite touch, and an order without a limit, are filled as a price taker's. Touching the
    limit is no fill: on bars nobody knows who was ahead in the queue.
    """

    name = "limit_on_bars"

    def __init__(
        self,
        data: MarketData,
        *,
        half_spread_bps: float = 0.0,
        max_participation: float | None = 0.1,
        tick: float = 0.01,
    ) -> None:
        self._price, self._high, self._low, self._close = (
            flat(v) for v in (data.price, data.high, data.low, data.close)
        )
        self.half_spread, self._tick = half_spread_bps * 1e-4, tick
        self._capped = max_participation is not None
        self._share = max_participation or 0.0
        self._volume = (
            flat(data.require_volume("limit fills on bars")) if self._capped else self._price
        )

    def fill(
        self,
        row: Index,
        bar: Index,
        side: Sides,
        want: Array,
        limit: Array,
        shares: Array,
        cash: Array,
        cost: Array,
    ) -> None:
        """Fill passive orders that were traded through, and take the bar price for the marketable ones."""
        _take(
            self._price,
            self._volume,
            self._share,
            self._capped,
            self.half_spread,
            row,
            bar,
            want,
            shares,
            cash,
            cost,
        )
        _rest(
            self._high,
            self._low,
            self._close,
            self.half_spread,
            self._tick,
            row,
            bar,
            side,
            limit,
            shares,
            cash,
            cost,
        )


@njit(cache=True, nogil=True, error_model="numpy")
def _take(price, volume, share, capped, half_spread, row, bar, want, shares, cash, cost):  # type: ignore[no-untyped-def]
    for i in range(row.shape[0]):
        quantity = want[i] if want[i] > 0.0 else 0.0
        if capped:
            quantity = min(quantity, share * volume[row[i], bar[i]])
        shares[i] = quantity
        cash[i] = quantity * price[row[i], bar[i]]
        cost[i] = cash[i] * half_spread


@njit(cache=True, nogil=True, error_model="numpy")
def _rest(high, low, close, half_spread, tick, row, bar, side, limit, shares, cash, cost):  # type: ignore[no-untyped-def]
    for i in range(row.shape[0]):
        if np.isnan(limit[i]):
            continue
        last = close[row[i], max(bar[i] - 1, 0)]
        if (side[i] > 0 and limit[i] <= last * (1.0 - half_spread)) or (
            side[i] < 0 and limit[i] >= last * (1.0 + half_spread)
        ):
            continue
        through = (
            high[row[i], bar[i]] >= limit[i] + tick
            if side[i] > 0
            else low[row[i], bar[i]] <= limit[i] - tick
        )
        if not through:
            shares[i] = 0.0
        cash[i] = shares[i] * limit[i]
        cost[i] = 0.0
