"""The static world: thousands of parent orders executed at once on replayed history, no market impact.

One step is one bar for every order: the fill model fills, `_settle` books, and the next observation is copied from the
table of public fields. Nothing here is Python per order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numba import njit

from se_rl.data.features import OBSERVATION_FIELDS, PUBLIC_FIELDS, TURNED_FIELD, TURNED_SIGN
from se_rl.data.market_data import MarketData
from se_rl.environments.fills import FillModel, PriceTaker, flat
from se_rl.environments.task import ExecutionRecord, Orders, arrival_price

Array = npt.NDArray[np.float64]
Observation = npt.NDArray[np.float32]


class StaticCore:
    """Batched replay of history. `observations=None` leaves the public fields 0, for schedules that need none."""

    def __init__(
        self,
        data: MarketData,
        *,
        fills: FillModel | None = None,
        fee_bps: float = 0.0,
        observations: Observation | None = None,
    ) -> None:
        self.data = data
        self.fills: FillModel = fills or PriceTaker(data)
        self._fee = fee_bps * 1e-4
        self._price = flat(data.price)
        rows, bars = self._price.shape
        self._table = (
            observations if observations is not None else np.zeros((rows, bars + 1, 0), np.float32)
        )
        self._touch = {
            side: flat(_quote_or_close(data, quote))
            for side, quote in ((1, data.ask), (-1, data.bid))
        }

    def reset(self, orders: Orders) -> Observation:
        """Start these orders; returns their first observation (the array is reused by every later step)."""
        n = len(orders)
        self.orders, self.step_index = orders, 0
        self.remaining = orders.quantity.copy()
        self.arrival = arrival_price(self.data, orders)
        self.observation = np.zeros((n, len(OBSERVATION_FIELDS)), np.float32)
        self.reward, self.leftover = np.zeros(n), np.zeros(n)
        self.shares, self._cash, self._cost = np.zeros(n), np.zeros(n), np.zeros(n)
        self._gross, self._paid = np.zeros(n), np.zeros(n)
        self._no_limit = np.full(n, np.nan)
        self._bar = orders.start.copy()
        self._observe()
        return self.observation

    @property
    def done(self) -> bool:
        """All orders of the batch end together: they share one horizon."""
        return self.step_index >= self.orders.horizon

    def touch(self) -> Array:
        """The own-side best price known now (ask for a sell, bid for a buy); without quotes the last close."""
        last = np.maximum(self._bar - 1, 0)
        sell, buy = self._touch[1][self.orders.row, last], self._touch[-1][self.orders.row, last]
        opening = self._bar == 0
        return np.where(opening, self.arrival, np.where(self.orders.side > 0, sell, buy))

    def step(self, ratio: Array, limit: Array | None = None) -> Observation:
        """Trade `ratio` in [0, 1] of each remaining inventory in this bar (at `limit` where given) and move on."""
        limits = self._no_limit if limit is None else limit
        want = np.clip(ratio, 0.0, 1.0) * self.remaining
        orders = self.orders
        self.fills.fill(
            orders.row, self._bar, orders.side, want, limits, self.shares, self._cash, self._cost
        )
        last = self.step_index == orders.horizon - 1
        _settle(
            self._price,
            orders.row,
            self._bar,
            orders.side,
            orders.quantity,
            orders.horizon,
            self.arrival,
            self.fills.half_spread,
            self._fee,
            last,
            self.shares,
            self._cash,
            self._cost,
            self.remaining,
            self._gross,
            self._paid,
            self.leftover,
            self.reward,
        )
        self.step_index += 1
        self._observe()
        return self.observation

    def record(self, fills: Array | None = None) -> ExecutionRecord:
        """The finished batch; `fills` are the shares traded per step where the caller kept them."""
        orders = self.orders
        gross = self._gross / orders.quantity
        net = (self._gross - orders.side * self._paid) / orders.quantity
        kept = np.empty((len(orders), 0)) if fills is None else fills
        return ExecutionRecord(orders, gross, net, self.leftover / orders.quantity, kept)

    def execute(
        self, orders: Orders, ratios: Array | Callable[[StaticCore], Array]
    ) -> ExecutionRecord:
        """Run whole orders: `ratios` [order, step], or a function of the core that gives the next step's ratios."""
        self.reset(orders)
        fills = np.empty((len(orders), orders.horizon))
        while not self.done:
            step = self.step_index
            self.step(ratios(self) if callable(ratios) else ratios[:, step])
            fills[:, step] = self.shares
        return self.record(fills / orders.quantity[:, None])

    def _observe(self) -> None:
        orders = self.orders
        _copy_observation(
            self._table,
            orders.row,
            orders.start,
            orders.side,
            self.step_index,
            orders.horizon,
            orders.quantity,
            self.remaining,
            self._bar,
            TURNED_FIELD,
            TURNED_SIGN,
            self.observation,
        )


def _quote_or_close(data: MarketData, quote: Array | None) -> Array:
    """The quote at each bar's end, or the close where there is none."""
    return data.close if quote is None else np.where(np.isfinite(quote), quote, data.close)


def ratios_from_weights(weights: Array) -> Array:
    """Planned shares per step [order, step] as ratios of what is left, so that any schedule fits the `ratio` action."""
    left = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    return np.divide(weights, left, out=np.ones_like(weights), where=left > 1e-12)


@njit(cache=True, nogil=True, error_model="numpy")
def _settle(  # type: ignore[no-untyped-def]
    price,
    row,
    bar,
    side,
    quantity,
    horizon,
    arrival,
    half_spread,
    fee,
    last,
    shares,
    cash,
    cost,
    remaining,
    gross,
    paid,
    leftover,
    reward,
):
    """Book the step's fills; in the last step complete the rest at the bar price, half-spread and fee paid.

    The reward is the step's gain over TWAP's slice in bps of the arrival price: summed over an episode it is the PA
    against arrival minus TWAP's, on the same prices and at the same costs.
    """
    for i in range(row.shape[0]):
        bar_price = price[row[i], bar[i]]
        filled = min(shares[i], remaining[i])
        rest = remaining[i] - filled
        money = cash[i]
        expense = cost[i] + fee * cash[i]
        if last:
            leftover[i] = rest if rest > 1e-9 * quantity[i] else 0.0
            money += rest * bar_price
            expense += rest * bar_price * (half_spread + fee)
            filled += rest
            rest = 0.0
        remaining[i] = rest
        gross[i] += money
        paid[i] += expense
        own = (money - side[i] * expense) / (quantity[i] * arrival[i]) - filled / quantity[i]
        twap = (bar_price * (1.0 - side[i] * (half_spread + fee)) / arrival[i] - 1.0) / horizon
        reward[i] = 1e4 * side[i] * (own - twap)


@njit(cache=True, nogil=True, error_model="numpy")
def _copy_observation(  # type: ignore[no-untyped-def]
    table,
    row,
    start,
    side,
    step,
    horizon,
    quantity,
    remaining,
    bar,
    turned_field,
    turned_sign,
    observation,
):
    fields = table.shape[2]
    time_left = (horizon - step) / horizon
    width = observation.shape[1]
    for i in range(row.shape[0]):
        bar[i] = start[i] + step
        if side[i] > 0:
            for k in range(fields):
                observation[i, k] = table[row[i], bar[i], k]
        else:
            for k in range(fields):
                observation[i, k] = turned_sign[k] * table[row[i], bar[i], turned_field[k]]
        observation[i, width - 2] = time_left
        observation[i, width - 1] = remaining[i] / quantity[i]


assert len(OBSERVATION_FIELDS) == len(PUBLIC_FIELDS) + 2
