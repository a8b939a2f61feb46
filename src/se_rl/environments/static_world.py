"""The static world to train in: replayed history behind the face of `worlds.World`, no impact.

It draws episodes and writes the reward's fields; `static_core.py` executes the orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial

import numpy as np
import numpy.typing as npt

from se_rl.data.bar_inputs import BarInputs, ShownBars
from se_rl.data.books import BookHistory
from se_rl.data.features import OBSERVATION_FIELDS, FeatureScales, Known, observation_table
from se_rl.data.given import GivenBars, as_market_data
from se_rl.environments.costs import FREE, Costs
from se_rl.environments.fills import fill_model
from se_rl.environments.static_core import StaticCore
from se_rl.environments.static_fields import Booked, Prices, bar_table, write_step, write_twap
from se_rl.environments.task import (
    BUY,
    SELL,
    SIZES,
    ExecutionRecord,
    Orders,
    WindowBenchmarks,
    checked_sizes,
    draw_sizes,
    sized_orders,
)
from se_rl.environments.worlds import (
    FIELD_NAMES,
    QUANTITY,
    Array,
    Bool,
    Episodes,
    Fields,
    Observation,
    check_pairs,
    session_rows,
    window_starts,
)
from se_rl.modules.agent_interface import shown_bars


class StaticWorld:
    """Orders on the sessions of `dates` (None: all), filled and charged as `costs` say.

    Windows of `horizon` bars begin anywhere in the session (`starts` "any") or at the bars listed.
    Drawn orders are log-uniform shares of the window's usual volume, between the two of `sizes`.
    Scales are those of the train split; without them, of the chosen dates. `table` may hand in the
    observation table where it exists already. Fills from the queue need the `book` that `data`
    holds the bars of. A world whose fill model takes limits asks policies for a price.
    """

    name = "static"
    agents = 1
    observation_size = len(OBSERVATION_FIELDS)
    field_names = FIELD_NAMES
    further: tuple[str, ...] = ()

    def __init__(
        self,
        data: GivenBars,
        *,
        horizon: int,
        dates: npt.ArrayLike | None = None,
        scales: FeatureScales | None = None,
        costs: Costs = FREE,
        book: BookHistory | None = None,
        starts: str | Sequence[int] = "any",
        table: Observation | None = None,
        sizes: tuple[float, float] = SIZES,
    ) -> None:
        if isinstance(data, BookHistory):
            book = book or data
        self.data = data = as_market_data(data)
        self.horizon = horizon
        self.costs = costs
        self.sizes = checked_sizes(sizes)
        self.starts = window_starts(data, horizon, starts)
        self.rows = session_rows(data, dates)
        if scales is None:
            chosen = data if dates is None else data.select(dates=np.asarray(dates))
            scales = FeatureScales.fit(chosen)
        self.scales = scales
        self.table = observation_table(data, scales) if table is None else table
        self._bar_inputs = BarInputs(partial(Known, data, scales))
        self.shown = ShownBars.none()
        fills = fill_model(costs, data, book=book)
        self.takes_price = fills.takes_limits
        self.core = StaticCore(data, costs=costs, fills=fills, observations=self.table)
        self._twap: StaticCore | None = None  # where TWAP's slices may fill in part
        if not fills.fills_market_orders_whole:
            self._twap = StaticCore(data, costs=costs, fills=fills)
        same = fills.half_spread == costs.half_spread
        self.prices = Prices(
            bars=bar_table(data, Known(data, scales), self.table, half_spread=costs.half_spread),
            price=self.core.price,
            half_spread=fills.half_spread,
            fee=costs.fee,
            taker_cost=costs.taker_cost if same else fills.half_spread + costs.fee,
        )

    def over(
        self, *, horizon: int | None = None, dates: npt.ArrayLike | None = None
    ) -> StaticWorld:
        """The same world for orders of another length or on other dates, to be played beside it."""
        other = copy(self)
        other.core = copy(self.core)
        other._twap = copy(self._twap)
        if horizon is not None:
            other.horizon = horizon
            other.starts = window_starts(self.data, horizon, "any")
        if dates is not None:
            other.rows = session_rows(self.data, dates)
        return other

    def showing(self, inputs: tuple[str, ...]) -> StaticWorld:
        """The same world whose observations end with these further inputs, those of a book being 0."""
        other = self.over()
        other.further = inputs
        other.shown = shown_bars(inputs, self._bar_inputs)
        other.observation_size = len(OBSERVATION_FIELDS) + other.shown.width
        return other

    def draw(self, rng: np.random.Generator, n: int) -> Episodes:
        """Random windows and sizes, each sold and bought."""
        half = check_pairs(n)
        row = rng.choice(self.rows, half)
        start = rng.choice(self.starts, half)
        size = np.tile(draw_sizes(rng, half, self.sizes), 2)
        side = np.repeat(np.array([SELL, BUY], np.int8), half)
        orders = Orders.of_usual_size(
            np.tile(row, 2), np.tile(start, 2), side, np.full(n, QUANTITY), self.horizon
        )
        return Episodes(sized_orders(orders, size, self.data, self.scales))

    def reset(self, episodes: Episodes) -> Observation:
        """Start these orders; seeds mean nothing on history."""
        orders = episodes.of_horizon(self.horizon)
        if self._twap is not None:
            self._twap.reset(orders)
        return self.core.reset(orders, further=self.shown)

    def step(self, ratio: Array, offset: Array | None, fields: Fields) -> Observation:
        """One bar; offsets are ticks from the own touch, where the fill model takes limits."""
        core = self.core
        step = core.step_index
        if core.done:
            raise ValueError("these orders are finished; reset() starts new ones")
        limit = None
        if self.takes_price and offset is not None:
            limit = core.touch() + core.orders.side * np.rint(offset) * core.model.tick
        before = core.remaining.copy()
        observation = core.step(ratio, limit)
        write_step(
            fields,
            self.prices,
            _booked(core, before),
            step=step,
            horizon=self.horizon,
            at_bar_price=not self.takes_price,
        )
        if self._twap is not None:
            self._step_twap(self._twap, step, fields)
        return observation

    @property
    def broken(self) -> Bool:
        """Nothing breaks on history."""
        return self.core.broken

    @property
    def is_capped(self) -> bool:
        """Whether an order by market may be filled in part."""
        return self._twap is not None

    def record(self) -> ExecutionRecord:
        """The finished batch."""
        return self.core.record()

    def benchmarks(self) -> WindowBenchmarks:
        """VWAP and TWAP of the windows and the arrival price."""
        return self.core.benchmarks()

    def _step_twap(self, twap: StaticCore, step: int, fields: Fields) -> None:
        """Execute TWAP's slice of the same orders by market orders under the same costs."""
        before = twap.remaining.copy()
        twap.step(np.full(len(twap.orders), 1.0 / (self.horizon - step)))
        write_twap(fields, self.prices, _booked(twap, before), step=step)


def _booked(core: StaticCore, before: Array) -> Booked:
    """The step that the engine has just done."""
    orders = core.orders
    return Booked(
        row=orders.row,
        start=orders.start,
        side=orders.side,
        quantity=orders.quantity,
        before=before,
        after=core.remaining,
        leftover=core.leftover,
        fills=core.fills,
    )
