"""The engine of the static world: parent orders executed on replayed history, no market impact.

One step is one bar for every order: the fill model fills, `settle` books, and the next observation
is copied from the table of public fields. `static_world.py` and the Gymnasium environments run on
this engine and book nothing themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from se_rl.data.bar_inputs import ShownBars
from se_rl.data.features import (
    FIRST_PUBLIC,
    OBSERVATION_FIELDS,
    OBSERVATION_PLACE,
    TURNED_FIELD,
    TURNED_SIGN,
)
from se_rl.data.market_data import MarketData
from se_rl.environments.costs import FREE, Costs
from se_rl.environments.engine import run_to_end
from se_rl.environments.fill_model import FillModel, StepFills
from se_rl.environments.fills import fill_model, flat
from se_rl.environments.static_kernels import copy_observation, settle
from se_rl.environments.task import (
    ExecutionRecord,
    Orders,
    WindowBenchmarks,
    arrival_price,
    write_order_fields,
)

Array = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Observation = npt.NDArray[np.float32]

_TIME_LEFT = OBSERVATION_PLACE["time_left"]
_INVENTORY_LEFT = OBSERVATION_PLACE["inventory_left"]


class StaticCore:
    """Batched replay of history under `costs`; `fills` replaces the fill model that they name.

    `observations=None` leaves the public fields 0, for schedules that need none. After a step,
    `fills` has what was filled in the bar, `remaining` what is left, and `reward` the gain over
    TWAP's slice.
    """

    def __init__(
        self,
        data: MarketData,
        *,
        costs: Costs = FREE,
        fills: FillModel | None = None,
        observations: Observation | None = None,
    ) -> None:
        self.data = data
        self.model = fill_model(costs, data) if fills is None else fills
        self.fee = costs.fee
        self.price = flat(data.price)  # [row, bar]
        rows, bars = self.price.shape
        if observations is None:
            observations = np.zeros((rows, bars + 1, 0), np.float32)
        self._table = observations

    def reset(self, orders: Orders, *, further: ShownBars | None = None) -> Observation:
        """Start these; the first observation, further inputs at its end, which later steps reuse."""
        n = len(orders)
        self.further = ShownBars.none() if further is None else further
        self.orders = orders
        self.step_index = 0
        self.arrival = arrival_price(self.data, orders)
        self.remaining = orders.quantity.copy()
        self.leftover = np.zeros(n)
        self.reward = np.zeros(n)
        self.fills = StepFills.empty(n)
        self._gross, self._paid = np.zeros(n), np.zeros(n)
        self._no_limit = np.full(n, np.nan)
        self._bar = orders.start.copy()
        self.observation = np.zeros((n, len(OBSERVATION_FIELDS) + self.further.width), np.float32)
        write_order_fields(orders, self.observation)
        self._observe()
        return self.observation

    @property
    def done(self) -> bool:
        """All orders of the batch end together: they share one horizon."""
        return self.step_index >= self.orders.horizon

    @property
    def broken(self) -> Bool:
        """Nothing breaks on history."""
        return np.zeros(len(self.orders), np.bool_)

    @property
    def shares(self) -> Array:
        """Shares filled in the last step, before any forced completion."""
        return self.fills.shares

    def touch(self) -> Array:
        """The own-side best price known now: ask for a sell, bid for a buy, else the last close."""
        ask, bid = self._touches
        last = np.maximum(self._bar - 1, 0)
        row = self.orders.row
        known = np.where(self.orders.side > 0, ask[row, last], bid[row, last])
        return np.where(self._bar == 0, self.arrival, known)

    def seen_at(self, step: int, remaining: Array) -> Observation:
        """What these orders observe at a step where so much of them is left; nothing is traded."""
        self.step_index = step
        self.remaining = remaining
        self._observe()
        return self.observation

    def step(self, ratio: Array, limit: Array | None = None) -> Observation:
        """Trade `ratio` in [0, 1] of each remaining inventory in this bar, at `limit` if given."""
        orders = self.orders
        limits = self._no_limit if limit is None else limit
        want = np.clip(ratio, 0.0, 1.0) * self.remaining
        self.model.fill(orders, self._bar, want=want, limit=limits, out=self.fills)
        settle(
            self.price,
            orders.row,
            self._bar,
            orders.side,
            orders.quantity,
            orders.horizon,
            self.arrival,
            self.model.half_spread,
            self.fee,
            self.step_index == orders.horizon - 1,
            self.fills,
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
        """The batch; `fills` are shares of the order per step, where they were kept.

        Prices of an unfinished batch are those of what was filled, NaN where nothing was.
        """
        orders = self.orders
        filled = orders.quantity - self.remaining  # all of it once the batch is done
        filled = np.where(filled > 0, filled, np.nan)
        gross = self._gross / filled
        net = (self._gross - orders.side * self._paid) / filled
        left = self.leftover if self.done else self.remaining
        kept = np.empty((len(orders), 0)) if fills is None else fills
        return ExecutionRecord(orders, gross, net, left / orders.quantity, kept)

    def benchmarks(self) -> WindowBenchmarks:
        """VWAP and TWAP of the windows, as far as they have been traded in, and arrival price."""
        orders = self.orders
        if 0 < self.step_index < orders.horizon:
            orders = replace(orders, horizon=self.step_index)
        return WindowBenchmarks.of(self.data, orders)

    def execute(
        self, orders: Orders, ratios: Array | Callable[[StaticCore], Array]
    ) -> ExecutionRecord:
        """Run whole orders: `ratios` [order, step], or a function that gives the next step's."""
        self.reset(orders)
        return run_to_end(self, ratios)

    @cached_property
    def _touches(self) -> tuple[Array, Array]:
        """Ask and bid at each bar's end [row, bar], the close where there is no quote."""
        ask = flat(_quote_or_close(self.data, self.data.ask))
        return ask, flat(_quote_or_close(self.data, self.data.bid))

    def _observe(self) -> None:
        orders = self.orders
        copy_observation(
            self._table,
            self.further,
            orders.row,
            orders.start,
            orders.side,
            self.step_index,
            orders.horizon,
            orders.quantity,
            self.remaining,
            TURNED_FIELD,
            TURNED_SIGN,
            FIRST_PUBLIC,
            _TIME_LEFT,
            _INVENTORY_LEFT,
            self._bar,
            self.observation,
        )


def _quote_or_close(data: MarketData, quote: Array | None) -> Array:
    """The quote at each bar's end, or the close where there is none."""
    return data.close if quote is None else np.where(np.isfinite(quote), quote, data.close)


def ratios_from_weights(weights: Array) -> Array:
    """Planned shares per step [order, step] as ratios of what is left.

    So any schedule fits the `ratio` action.
    """
    left = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    return np.divide(weights, left, out=np.ones_like(weights), where=left > 1e-12)
