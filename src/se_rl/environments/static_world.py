"""The static world to train in: replayed history behind the face of `worlds.World`, no market impact.

All that a reward may look at comes from one table that is made once; a step gathers it for every order in one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

from se_rl.data.features import (
    OBSERVATION_FIELDS,
    PUBLIC_FIELDS,
    FeatureScales,
    Known,
    observation_table,
)
from se_rl.data.market_data import MarketData
from se_rl.environments.fills import PriceTaker, check_costs
from se_rl.environments.static_core import StaticCore
from se_rl.environments.task import BUY, SELL, ExecutionRecord, Orders, WindowBenchmarks
from se_rl.environments.worlds import (
    FIELD_NAMES,
    HIGHEST,
    LOWEST,
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

NEWS_SYMBOLS = 5
"""With fewer symbols on a day their mean move says more about the stock itself than about the market: no news then."""
BLOCK = 64
"""Orders that the kernel of the fields handles at a time."""
_MID, _PRICE, _NEWS, _VOLATILITY, _HALF_SPREAD, _IMBALANCE, _COLUMNS = range(7)
_PLACES = (
    "fill_price",
    "benchmark_price",
    "traded_share",
    "half_spread",
    "volatility",
    "imbalance",
    "inventory_left",
    "time_left",
    "mid_before",
    "mid_after",
    "no_order_mid_before",
    "no_order_mid",
    "news",
    "twap_fill_price",
    "twap_traded_share",
    "twap_inventory_left",
    "forced_share",
)
(
    _FILL,
    _BENCHMARK,
    _TRADED,
    _SPREAD,
    _SIGMA,
    _TILT,
    _LEFT,
    _TIME,
    _BEFORE,
    _AFTER,
    _FREE_BEFORE,
    _FREE_AFTER,
    _MOVE,
    _TWAP_FILL,
    _TWAP_TRADED,
    _TWAP_LEFT,
    _FORCED,
) = (FIELD_NAMES.index(name) for name in _PLACES)


class StaticWorld:
    """Orders on the sessions of `dates` (None: all), filled at the bar price, worse by half-spread and fee.

    Windows of `horizon` bars begin anywhere in the session (`starts` "any") or at the bars listed. Scales are those of the
    train split; without them, of the chosen dates. `table` may hand in the observation table where it exists already.
    """

    name, agents, takes_price = "static", 1, False
    observation_size, field_names = len(OBSERVATION_FIELDS), FIELD_NAMES

    def __init__(
        self,
        data: MarketData,
        *,
        horizon: int,
        dates: npt.ArrayLike | None = None,
        scales: FeatureScales | None = None,
        half_spread_bps: float = 0.0,
        fee_bps: float = 0.0,
        starts: str | Sequence[int] = "any",
        table: Observation | None = None,
    ) -> None:
        check_costs(half_spread_bps=half_spread_bps, fee_bps=fee_bps, max_participation=None)
        self.data, self.horizon = data, horizon
        self.starts = window_starts(data, horizon, starts)
        self.rows = session_rows(data, dates)
        fitted = scales or FeatureScales.fit(
            data if dates is None else data.select(dates=np.asarray(dates))
        )
        self.table = observations = observation_table(data, fitted) if table is None else table
        fills = PriceTaker(data, half_spread_bps=half_spread_bps)
        self.core = StaticCore(data, fills=fills, fee_bps=fee_bps, observations=observations)
        self._bars = _bar_table(
            data, Known(data, fitted), observations, half_spread=fills.half_spread
        )
        self._cost = (half_spread_bps + fee_bps) * 1e-4

    def draw(self, rng: np.random.Generator, n: int) -> Episodes:
        """Random windows, each sold and bought."""
        half = check_pairs(n)
        row, start = rng.choice(self.rows, half), rng.choice(self.starts, half)
        side = np.repeat(np.array([SELL, BUY], np.int8), half)
        return Episodes(
            Orders(np.tile(row, 2), np.tile(start, 2), side, np.full(n, QUANTITY), self.horizon)
        )

    def reset(self, episodes: Episodes) -> Observation:
        """Start these orders; seeds mean nothing on history."""
        return self.core.reset(episodes.of_horizon(self.horizon))

    def step(self, ratio: Array, offset: Array | None, fields: Fields) -> Observation:
        """One bar; offsets are not used, every fill is at the bar price."""
        core, step = self.core, self.core.step_index
        if core.done:
            raise ValueError("these orders are finished; reset() starts new ones")
        before = core.remaining.copy()
        observation = core.step(ratio)
        orders = core.orders
        _fill_fields(
            self._bars,
            orders.row,
            orders.start,
            orders.side,
            orders.quantity,
            step,
            self.horizon,
            self._cost,
            before,
            core.remaining,
            core.leftover,
            LOWEST,
            HIGHEST,
            fields,
        )
        return observation

    @property
    def broken(self) -> Bool:
        """Nothing breaks on history."""
        return np.zeros(len(self.core.orders), np.bool_)

    def record(self) -> ExecutionRecord:
        """The finished batch."""
        return self.core.record()

    def benchmarks(self) -> WindowBenchmarks:
        """VWAP and TWAP of the windows and the arrival price."""
        return WindowBenchmarks.of(self.data, self.core.orders)


def _bar_table(
    data: MarketData, known: Known, observations: Observation, *, half_spread: float
) -> Fields:
    """[row, bar + 1, column]: what is known when a bar opens, and beside it that bar's price and news."""
    symbols, sessions, bars = data.shape
    table = np.zeros((symbols, sessions, bars + 1, _COLUMNS), np.float32)
    table[..., 0, _MID], table[..., 1:, _MID] = data.open[..., 0], data.close
    table[..., :-1, _PRICE] = data.price
    table[..., :-1, _NEWS] = _mean_move(known)
    table[..., _VOLATILITY] = known.sigma
    table[..., _HALF_SPREAD] = half_spread
    if half_spread == 0.0 and data.bid is not None and data.ask is not None:
        table[..., 1:, _HALF_SPREAD] = np.nan_to_num((data.ask - data.bid) / (data.ask + data.bid))
    flat_table = table.reshape(symbols * sessions, bars + 1, _COLUMNS)
    flat_table[..., _IMBALANCE] = observations[..., PUBLIC_FIELDS.index("imbalance")]
    return flat_table


def _mean_move(known: Known) -> Array:
    """[session, bar]: the mean log return of all symbols in the bar, 0 on days with few of them."""
    live = known.data.has_session
    count = live.sum(axis=0)
    total = np.where(live[..., None], np.diff(known.log_price, axis=2), 0.0).sum(axis=0)
    return np.where((count >= NEWS_SYMBOLS)[:, None], total / np.maximum(count, 1)[:, None], 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_fields(  # type: ignore[no-untyped-def]
    bars,
    row,
    start,
    side,
    quantity,
    step,
    horizon,
    cost,
    before,
    after,
    leftover,
    lowest,
    highest,
    fields,
):
    """One step's fields of every order: prices over the arrival price and turned, shares of the parent, then clipped.

    A few orders at a time go through a small block: columns far apart in memory would push one another out of the cache.
    """
    block = np.zeros((fields.shape[0], BLOCK), np.float32)
    time_left, last = 1.0 - (step + 1) / horizon, step == horizon - 1
    block[_TIME, :] = block[_TWAP_LEFT, :] = time_left
    block[_TWAP_TRADED, :] = 1.0 / horizon
    for first in range(0, row.shape[0], BLOCK):
        count = min(BLOCK, row.shape[0] - first)
        for j in range(count):
            i = first + j
            now, s = bars[row[i], start[i] + step], np.float64(side[i])
            unit, share = 1.0 / np.float64(bars[row[i], start[i], _MID]), 1.0 / quantity[i]
            traded = (before[i] - after[i]) * share
            block[_TWAP_FILL, j] = 1.0 + s * (now[_PRICE] * (1.0 - s * cost) * unit - 1.0)
            block[_BENCHMARK, j] = 1.0 + s * (now[_PRICE] * unit - 1.0)
            block[_FILL, j] = block[_TWAP_FILL, j] if traded > 0.0 else block[_BENCHMARK, j]
            block[_TRADED, j], block[_LEFT, j] = traded, after[i] * share
            block[_SPREAD, j], block[_SIGMA, j], block[_TILT, j] = (
                now[_HALF_SPREAD],
                now[_VOLATILITY],
                s * now[_IMBALANCE],
            )
            block[_BEFORE, j] = block[_FREE_BEFORE, j] = 1.0 + s * (now[_MID] * unit - 1.0)
            mid_after = bars[row[i], start[i] + step + 1, _MID]
            block[_AFTER, j] = block[_FREE_AFTER, j] = 1.0 + s * (mid_after * unit - 1.0)
            block[_MOVE, j] = s * now[_NEWS]
            block[_FORCED, j] = leftover[i] * share if last else 0.0
        for k in range(fields.shape[0]):
            for j in range(count):
                fields[k, first + j] = min(max(block[k, j], lowest[k]), highest[k])
