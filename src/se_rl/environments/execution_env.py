"""One parent order at a time behind the Gymnasium API; the batched core does the work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from se_rl.data.books import BookHistory
from se_rl.data.features import CLIP, OBSERVATION_FIELDS, FeatureScales, observation_table
from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.fills import FillModel, LimitOnBars, PriceTaker, check_costs
from se_rl.environments.metrics import BPS, Metrics, price_advantage
from se_rl.environments.queue_fills import QueueFills
from se_rl.environments.static_core import StaticCore
from se_rl.environments.task import (
    SIDES,
    ExecutionRecord,
    Orders,
    WindowBenchmarks,
    check_window,
    positive_quantity,
)

ACTIONS = ("ratio", "ratio_and_price")
FILLS = ("price_taker", "limit_on_bars", "queue")
"""Fill models of the static world; `queue` needs a BookHistory as data."""


@dataclass(frozen=True, kw_only=True)
class ExecutionEnvConfig:
    """The task of an environment. `side` is buy, sell or both (drawn per episode); `start` None draws the first bar.

    `fills`, `half_spread_bps` and `max_participation` are assumptions of the static world, which the book of the dynamic
    one replaces; `participation`, the order's share of the usual volume, is the dynamic world's.
    """

    initial_inventory: float = 10_000.0
    total_time: int = 240
    transaction_cost: float = 0.001
    action: str = "ratio"
    side: str = "both"
    start: int | None = None
    fills: str = "price_taker"
    half_spread_bps: float = 0.0
    max_participation: float | None = None
    price_range_bps: float = 10.0
    participation: float = 0.10

    def __post_init__(self) -> None:
        positive_quantity(self.initial_inventory)
        for name, value, known in (
            ("action", self.action, ACTIONS),
            ("side", self.side, (*SIDES, "both")),
            ("fills", self.fills, FILLS),
        ):
            if value not in known:
                raise DataError(f"{name} {value!r} is unknown; use one of {', '.join(known)}")
        check_costs(
            half_spread_bps=self.half_spread_bps,
            fee_bps=self.transaction_cost * BPS,
            max_participation=self.max_participation,
        )


class ExecutionCore(Protocol):
    """What an environment asks of a batched world, static or dynamic."""

    orders: Orders
    remaining: npt.NDArray[np.float64]
    shares: npt.NDArray[np.float64]
    reward: npt.NDArray[np.float64]

    @property
    def done(self) -> bool: ...
    def reset(self, orders: Orders) -> npt.NDArray[np.float32]: ...
    def touch(self) -> npt.NDArray[np.float64]: ...
    def step(
        self, ratio: npt.NDArray[np.float64], limit: npt.NDArray[np.float64] | None = None
    ) -> npt.NDArray[np.float32]: ...
    def record(self) -> ExecutionRecord: ...


class OrderSource:
    """Where the parent orders of an environment come from: the windows of `data`, or free markets without it."""

    def __init__(self, data: MarketData | None, config: ExecutionEnvConfig) -> None:
        self.data, self.config = data, config
        self._rows, self._latest = np.zeros(1, np.int64), 0
        if data is not None:
            check_window(data, horizon=config.total_time, start=config.start or 0)
            self._rows, self._latest = (
                np.flatnonzero(data.has_session.ravel()),
                len(data.grid) - config.total_time,
            )

    def draw(
        self, rng: np.random.Generator, n: int, *, options: dict[str, Any] | None = None
    ) -> Orders:
        """Draw `n` orders; `options` may fix symbol, session, start and side."""
        fixed, config = options or {}, self.config
        unknown = set(fixed) - (
            {"side"} if self.data is None else {"symbol", "session", "start", "side"}
        )
        if unknown:
            known = "side" if self.data is None else "symbol, session, start or side"
            raise DataError(f"reset option {sorted(unknown)[0]!r} is unknown; use {known}")
        side = fixed.get("side", config.side)
        if side not in (*SIDES, "both"):
            raise DataError(f"side {side!r} is unknown; use buy, sell or both")
        rows, start = (
            self._matching(fixed),
            fixed.get("start", None if self.data is None else config.start),
        )
        first = rng.integers(self._latest + 1, size=n) if start is None else np.full(n, int(start))
        if self.data is not None:
            check_window(self.data, horizon=config.total_time, start=int(first.max()))
        sign = rng.choice([1, -1], size=n) if side == "both" else np.full(n, SIDES[side])
        quantity = np.full(n, config.initial_inventory)
        return Orders(
            rng.choice(rows, size=n), first, sign.astype(np.int8), quantity, config.total_time
        )

    def describe(self, orders: Orders, *, which: int = 0) -> dict[str, Any]:
        """One order in words."""
        side = "sell" if orders.side[which] > 0 else "buy"
        if self.data is None:
            return {"side": side, "data": "free market (SIMULATED)"}
        symbol, session = divmod(int(orders.row[which]), len(self.data.dates))
        return {
            "symbol": self.data.symbols[symbol],
            "session": int(self.data.dates[session]),
            "side": side,
            "start": int(orders.start[which]),
            "data": self.data.provenance.label,
        }

    def _matching(self, fixed: dict[str, Any]) -> npt.NDArray[np.int64]:
        if self.data is None:
            return self._rows
        rows, sessions = self._rows, len(self.data.dates)
        if "symbol" in fixed:
            rows = rows[rows // sessions == self.data.symbol_index(fixed["symbol"])]
        if "session" in fixed:
            rows = rows[self.data.dates[rows % sessions] == fixed["session"]]
        if not len(rows):
            raise DataError(f"no session matches {fixed}; see data.symbols and data.dates")
        return rows


class ExecutionEnvironment(gym.Env[npt.NDArray[np.float32], npt.NDArray[np.float32]]):
    """
    ## Description
    Execute one parent order (buy or sell `initial_inventory` shares within `total_time` bars) on replayed history.
    Each episode draws symbol, session, window and side from the environment's seed; `reset(options=...)` fixes any of
    `symbol`, `session` (yyyymmdd), `start` and `side`.

    ## Action Space
    `ratio`: Box(0, 1, (1,)), the share of the remaining inventory to trade in this bar.
    `ratio_and_price`: Box([0, -1], [1, 1]), the ratio and the limit's distance from the own-side touch in units of
    `price_range_bps` (positive: passive, negative: towards and beyond the other side).

    ## Observation Space
    Box(-6, 6, (32,)): the fields of `se_rl.data.features.OBSERVATION_FIELDS`, known when the bar opens.

    ## Rewards
    The step's gain over TWAP's slice at equal costs, in bps of the arrival price; an episode's sum is the PA against
    arrival minus that of TWAP on the same prices.

    ## Episode End
    Terminates after `total_time` steps; what is left is counted (AFI) and completed at market.

    ## Arguments
    `data`: MarketData, a pandas OHLCV frame, or a BookHistory (a LOBSTER day). `config`: ExecutionEnvConfig; without it
    the horizon is 240 bars or the whole session where that is shorter. `fills`: a fill model instead of the one the config names.
    `scales`: FeatureScales of the train split; without them, those of `data` itself.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium declares it as an instance variable)

    def __init__(
        self,
        data: Any,
        config: ExecutionEnvConfig | None = None,
        *,
        scales: FeatureScales | None = None,
        fills: FillModel | None = None,
    ) -> None:
        bars = as_market_data(data)
        self.config = config or default_config(bars)
        self._prepare(bars)
        model = fills or fill_model(
            self.config, bars, book=data if isinstance(data, BookHistory) else None
        )
        self.core: ExecutionCore = make_static_core(bars, self.config, fills=model, scales=scales)

    def _prepare(self, data: MarketData | None) -> None:
        """The orders' source, the spaces and the results so far: the same in every world."""
        self.data, self.source = data, OrderSource(data, self.config)
        self.observation_space = spaces.Box(-CLIP, CLIP, (len(OBSERVATION_FIELDS),), np.float32)
        low = [0.0] if self.config.action == "ratio" else [0.0, -1.0]
        self.action_space = spaces.Box(np.array(low, np.float32), np.ones(len(low), np.float32))
        self._pa: list[float] = []
        self._leftover: list[float] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Draw an order (or take what `options` fixes) and show its first observation."""
        super().reset(seed=seed)
        orders = self.source.draw(self.np_random, 1, options=options)
        observation = self.start(orders, self.np_random)[0].copy()
        return observation, {**self.source.describe(orders), "benchmark": self.benchmark_name}

    def step(
        self, action: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Trade in this bar; the fifth value tells what was filled, and at the end the order's PA."""
        if not hasattr(self.core, "orders") or self.core.done:
            raise gym.error.ResetNeeded("the episode is over; call reset() before step()")
        values = np.atleast_1d(np.asarray(action, np.float64))
        if values.shape != self.action_space.shape or not np.all(np.isfinite(values)):
            raise ValueError(f"action {action!r} does not fit {self.action_space}")
        observation = self.core.step(
            values[:1], limit_prices(self.core, values[1:], self.config.price_range_bps)
        )
        info: dict[str, Any] = {
            "filled": float(self.core.shares[0]),
            "remaining": float(self.core.remaining[0]),
        }
        if self.core.done:
            info |= self._finish()
        return observation[0].copy(), float(self.core.reward[0]), self.core.done, False, info

    def start(self, orders: Orders, rng: np.random.Generator) -> npt.NDArray[np.float32]:
        """Start these orders in the core; a replay draws nothing more from `rng`."""
        return self.core.reset(orders)

    def benchmarks(self) -> WindowBenchmarks:
        """The prices that the core's orders are held against."""
        assert self.data is not None  # a replay always has bars
        return WindowBenchmarks.of(self.data, self.core.orders)

    @property
    def benchmark_name(self) -> str:
        """What PA is measured against: the window's VWAP, or its TWAP where the data has no volume."""
        return "twap" if self.data is not None and self.data.volume is None else "vwap"

    def get_metrics(self) -> dict[str, float]:
        """PA, PA_std, WR, GLR and AFI over the episodes finished so far, net of costs."""
        return Metrics.of(self._pa, self._leftover).as_dict()

    def _finish(self) -> dict[str, Any]:
        record = self.core.record()
        benchmark = self.benchmarks().named(self.benchmark_name)
        pa = price_advantage(record.net_price, benchmark, record.orders.side)
        self._pa.append(float(pa[0]))
        self._leftover.append(float(record.leftover[0]))
        return {
            "PA": self._pa[-1],
            "AFI": self._leftover[-1],
            "execution_price": float(record.net_price[0]),
        }


def default_config(data: MarketData | None) -> ExecutionEnvConfig:
    """The configuration of those who give none: 240 bars, or the whole session where that is shorter."""
    config = ExecutionEnvConfig()
    return (
        config
        if data is None
        else replace(config, total_time=min(config.total_time, len(data.grid)))
    )


def as_market_data(data: Any) -> MarketData:
    """MarketData as it is, a historical book as its minute bars, a pandas frame through the reader of frames."""
    if isinstance(data, MarketData):
        return data
    if isinstance(data, BookHistory):
        return data.bars()
    from se_rl.data.frames import bars_from_frame

    return bars_from_frame(data)


def fill_model(
    config: ExecutionEnvConfig, data: MarketData, *, book: BookHistory | None = None
) -> FillModel:
    """The fill model that a configuration names."""
    if config.fills == "queue":
        if book is None:
            raise DataError(
                "fills 'queue' needs a historical order book; give read_lobster(...) as the data"
            )
        return QueueFills([book])
    model = PriceTaker if config.fills == "price_taker" else LimitOnBars
    return model(
        data, half_spread_bps=config.half_spread_bps, max_participation=config.max_participation
    )


def make_static_core(
    data: MarketData,
    config: ExecutionEnvConfig,
    *,
    fills: FillModel | None = None,
    scales: FeatureScales | None = None,
) -> StaticCore:
    """The batched world that a configuration describes."""
    table = observation_table(data, scales or FeatureScales.fit(data))
    model = fills or fill_model(config, data)
    return StaticCore(data, fills=model, fee_bps=config.transaction_cost * BPS, observations=table)


def limit_prices(
    core: ExecutionCore, distance: npt.NDArray[np.float64], price_range_bps: float
) -> npt.NDArray[np.float64] | None:
    """Limits from the second action (None without one): positive distances lie on the passive side of the own touch."""
    if distance.size == 0:
        return None
    return core.touch() * (1.0 + core.orders.side * distance * price_range_bps / BPS)
