"""One parent order at a time behind the Gymnasium API; the batched core does the work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from se_rl.data.features import CLIP, OBSERVATION_FIELDS, FeatureScales, observation_table
from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.fills import FillModel, LimitOnBars, PriceTaker, check_costs
from se_rl.environments.metrics import BPS, Metrics, price_advantage
from se_rl.environments.static_core import StaticCore
from se_rl.environments.task import SIDES, Orders, WindowBenchmarks, check_window, positive_quantity

ACTIONS = ("ratio", "ratio_and_price")
FILLS = {"price_taker": PriceTaker, "limit_on_bars": LimitOnBars}


@dataclass(frozen=True, kw_only=True)
class ExecutionEnvConfig:
    """The task of an environment. `side` is buy, sell or both (drawn per episode); `start` None draws the first bar."""

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

    def __post_init__(self) -> None:
        positive_quantity(self.initial_inventory)
        for name, value, known in (
            ("action", self.action, ACTIONS),
            ("side", self.side, (*SIDES, "both")),
            ("fills", self.fills, tuple(FILLS)),
        ):
            if value not in known:
                raise DataError(f"{name} {value!r} is unknown; use one of {', '.join(known)}")
        check_costs(
            half_spread_bps=self.half_spread_bps,
            fee_bps=self.transaction_cost * BPS,
            max_participation=self.max_participation,
        )


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
    `data`: MarketData, or a pandas OHLCV frame. `config`: ExecutionEnvConfig; without it the horizon is 240 bars or
    the whole session where that is shorter. `fills`: a fill model instead of the config's (e.g. QueueFills).
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
        self.data = as_market_data(data)
        self.config = config or replace(
            ExecutionEnvConfig(), total_time=min(ExecutionEnvConfig.total_time, len(self.data.grid))
        )
        check_window(self.data, horizon=self.config.total_time, start=self.config.start or 0)
        self.core = make_static_core(self.data, self.config, scales=scales, fills=fills)
        self._rows = np.flatnonzero(self.data.has_session.ravel())
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
        orders = self._draw(options or {})
        observation = self.core.reset(orders)[0].copy()
        return observation, {**self._describe(orders), "benchmark": self.benchmark_name}

    def step(self, action: npt.ArrayLike) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Trade in this bar; the fifth value tells what was filled, and at the end the order's PA."""
        if not hasattr(self.core, "orders") or self.core.done:
            raise gym.error.ResetNeeded("the episode is over; call reset() before step()")
        values = np.atleast_1d(np.asarray(action, np.float64))
        if values.shape != self.action_space.shape or not np.all(np.isfinite(values)):
            raise ValueError(f"action {action!r} does not fit {self.action_space}")
        observation = self.core.step(values[:1], limit_prices(self.core, values[1:], self.config.price_range_bps))
        info: dict[str, Any] = {"filled": float(self.core.shares[0]), "remaining": float(self.core.remaining[0])}
        if self.core.done:
            info |= self._finish()
        return observation[0].copy(), float(self.core.reward[0]), self.core.done, False, info

    @property
    def benchmark_name(self) -> str:
        """What PA is measured against: the window's VWAP, or its TWAP where the data has no volume."""
        return "vwap" if self.data.volume is not None else "twap"

    def get_metrics(self) -> dict[str, float]:
        """PA, PA_std, WR, GLR and AFI over the episodes finished so far, net of costs."""
        return Metrics.of(self._pa, self._leftover).as_dict()

    def _draw(self, options: dict[str, Any]) -> Orders:
        unknown = set(options) - {"symbol", "session", "start", "side"}
        if unknown:
            raise DataError(f"reset option {sorted(unknown)[0]!r} is unknown; use symbol, session, start or side")
        sessions = len(self.data.dates)
        rows = self._rows
        if "symbol" in options:
            rows = rows[rows // sessions == self.data.symbol_index(options["symbol"])]
        if "session" in options:
            rows = rows[self.data.dates[rows % sessions] == options["session"]]
        if not len(rows):
            raise DataError(f"no session matches {options}; see data.symbols and data.dates")
        side = options.get("side", self.config.side)
        if side not in (*SIDES, "both"):
            raise DataError(f"side {side!r} is unknown; use buy, sell or both")
        start = options.get("start", self.config.start)
        latest = len(self.data.grid) - self.config.total_time
        drawn = int(self.np_random.integers(latest + 1)) if start is None else int(start)
        check_window(self.data, horizon=self.config.total_time, start=drawn)
        sign = SIDES[side] if side in SIDES else (1, -1)[int(self.np_random.integers(2))]
        return Orders(
            np.array([self.np_random.choice(rows)]),
            np.array([drawn]),
            np.array([sign], np.int8),
            np.array([self.config.initial_inventory]),
            self.config.total_time,
        )

    def _describe(self, orders: Orders) -> dict[str, Any]:
        symbol, session = divmod(int(orders.row[0]), len(self.data.dates))
        return {
            "symbol": self.data.symbols[symbol],
            "session": int(self.data.dates[session]),
            "side": "sell" if orders.side[0] > 0 else "buy",
            "start": int(orders.start[0]),
            "data": self.data.provenance.label,
        }

    def _finish(self) -> dict[str, Any]:
        record = self.core.record()
        benchmark = WindowBenchmarks.of(self.data, record.orders).named(self.benchmark_name)
        pa = price_advantage(record.net_price, benchmark, record.orders.side)
        self._pa.append(float(pa[0]))
        self._leftover.append(float(record.leftover[0]))
        return {"PA": self._pa[-1], "AFI": self._leftover[-1], "execution_price": float(record.net_price[0])}


def as_market_data(data: Any) -> MarketData:
    """MarketData as it is; a pandas frame through the reader of frames."""
    if isinstance(data, MarketData):
        return data
    from se_rl.data.frames import bars_from_frame

    return bars_from_frame(data)


def make_static_core(
    data: MarketData,
    config: ExecutionEnvConfig,
    *,
    scales: FeatureScales | None = None,
    fills: FillModel | None = None,
) -> StaticCore:
    """The batched world that a configuration describes."""
    model = fills or FILLS[config.fills](
        data, half_spread_bps=config.half_spread_bps, max_participation=config.max_participation
    )
    table = observation_table(data, scales or FeatureScales.fit(data))
    return StaticCore(data, fills=model, fee_bps=config.transaction_cost * BPS, observations=table)


def limit_prices(
    core: StaticCore, distance: npt.NDArray[np.float64], price_range_bps: float
) -> npt.NDArray[np.float64] | None:
    """Limits from the second action (None without one): positive distances lie on the passive side of the own touch."""
    if distance.size == 0:
        return None
    return core.touch() * (1.0 + core.orders.side * distance * price_range_bps / BPS)
