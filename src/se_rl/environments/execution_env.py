"""One parent order at a time behind the Gymnasium API: a batch of one of the batched engine."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from se_rl.data.books import BookHistory
from se_rl.data.features import CLIP, OBSERVATION_FIELDS, FeatureScales, observation_table
from se_rl.data.given import GivenBars, as_market_data
from se_rl.data.market_data import MarketData
from se_rl.environments.engine import ExecutionCore
from se_rl.environments.fill_model import FillModel
from se_rl.environments.fills import fill_model
from se_rl.environments.metrics import BPS, Metrics, price_advantage
from se_rl.environments.order_source import ExecutionEnvConfig, Info, OrderSource, default_config
from se_rl.environments.render import (
    RENDER_MODES,
    RenderMode,
    check_render_mode,
    drawn,
    order_line,
)
from se_rl.environments.static_core import StaticCore
from se_rl.environments.task import Orders, WindowBenchmarks

__all__ = [
    "ExecutionCore",
    "ExecutionEnvConfig",
    "ExecutionEnvironment",
    "OrderSource",
    "default_config",
    "limit_prices",
    "make_static_core",
]

Array = npt.NDArray[np.float64]
Observation = npt.NDArray[np.float32]


class ExecutionEnvironment(gym.Env[Observation, Observation]):
    """
    ## Description
    Execute one parent order (buy or sell `initial_inventory` shares within `total_time` bars) on
    replayed history. Each episode draws symbol, session, window and side from the environment's
    seed; `reset(options=...)` fixes any of `symbol`, `session` (yyyymmdd), `start` and `side`.

    ## Action Space
    `ratio`: Box(0, 1, (1,)), the share of the remaining inventory to trade in this bar.
    `ratio_and_price`: Box([0, -1], [1, 1]), the ratio and the limit's distance from the own-side
    touch in units of `price_range_bps` (positive: passive, negative: towards and beyond the other
    side).

    ## Observation Space
    Box(-6, 6, (32,)): the fields of `se_rl.data.features.OBSERVATION_FIELDS`, known when the bar
    opens.

    ## Rewards
    The step's gain over TWAP's slice at equal costs, in bps of the arrival price; an episode's sum
    is the PA against arrival minus that of TWAP on the same prices.

    ## Episode End
    Terminates after `total_time` steps; what is left is counted (AFI) and completed at market.

    ## Arguments
    `data`: MarketData, a pandas OHLCV frame, or a BookHistory (a LOBSTER day).
    `config`: ExecutionEnvConfig; without it the horizon is 240 bars or the whole session where that
    is shorter.
    `fills`: a fill model instead of the one the config names.
    `scales`: FeatureScales of the train split; without them, those of `data` itself.
    `render_mode`: "ansi" has `render` give a line of text, "human" prints it after every step.
    """

    # Gymnasium declares it as an instance variable.
    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        data: GivenBars,
        config: ExecutionEnvConfig | None = None,
        *,
        scales: FeatureScales | None = None,
        fills: FillModel | None = None,
        render_mode: RenderMode | None = None,
    ) -> None:
        bars = as_market_data(data)
        self.config = config or default_config(bars)
        self._prepare(bars, render_mode)
        if fills is None:
            book = data if isinstance(data, BookHistory) else None
            fills = fill_model(self.config.costs, bars, book=book)
        self.core: ExecutionCore = make_static_core(bars, self.config, fills=fills, scales=scales)

    def _prepare(self, data: MarketData | None, render_mode: RenderMode | None) -> None:
        """The orders' source, the spaces and the results so far: the same in every world."""
        check_render_mode(render_mode)
        self.render_mode: RenderMode | None = render_mode
        self.data = data
        self.source = OrderSource(data, self.config)
        self.observation_space = spaces.Box(-CLIP, CLIP, (len(OBSERVATION_FIELDS),), np.float32)
        low = [0.0] if self.config.action == "ratio" else [0.0, -1.0]
        self.action_space = spaces.Box(np.array(low, np.float32), np.ones(len(low), np.float32))
        self._started = False
        self._pa: list[float] = []
        self._leftover: list[float] = []

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[Observation, Info]:
        """Draw an order (or take what `options` fixes) and show its first observation."""
        super().reset(seed=seed)
        orders = self.source.draw(self.np_random, 1, options=options)
        observation = self.start(orders, self.np_random)[0].copy()
        self._started = True
        self._show()
        return observation, {**self.source.describe(orders), "benchmark": self.benchmark_name}

    def step(self, action: npt.ArrayLike) -> tuple[Observation, float, bool, bool, Info]:
        """Trade in this bar; `info` says what was filled, and at the end the order's PA."""
        if not self._started or self.core.done:
            raise gym.error.ResetNeeded("the episode is over; call reset() before step()")
        values = np.atleast_1d(np.asarray(action, np.float64))
        if values.shape != self.action_space.shape or not np.all(np.isfinite(values)):
            raise ValueError(f"action {action!r} does not fit {self.action_space}")
        limit = limit_prices(self.core, values[1:], self.config.price_range_bps)
        observation = self.core.step(values[:1], limit)
        info: Info = {
            "filled": float(self.core.shares[0]),
            "remaining": float(self.core.remaining[0]),
        }
        if self.core.done:
            info |= self._finish()
        self._show()
        return observation[0].copy(), float(self.core.reward[0]), self.core.done, False, info

    def start(self, orders: Orders, rng: np.random.Generator) -> Observation:
        """Start these orders in the engine; a replay draws nothing more from `rng`."""
        return self.core.reset(orders)

    def benchmarks(self) -> WindowBenchmarks:
        """The prices that the engine's orders are held against."""
        return self.core.benchmarks()

    @property
    def benchmark_name(self) -> str:
        """What PA is measured against: the window's VWAP, or its TWAP without volume."""
        return "twap" if self.data is not None and self.data.volume is None else "vwap"

    def render(self) -> str | None:
        """The order as a line of text with `render_mode="ansi"`; printed with "human"."""
        if not self._started:
            raise gym.error.ResetNeeded("there is no order yet; call reset() before render()")
        return drawn(self.render_mode, [order_line(self.core)])

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    def get_metrics(self) -> dict[str, float]:
        """PA, PA_std, WR, GLR and AFI over the episodes finished so far, net of costs.

        As long as none is finished they are those of the order under way, with `unfinished`: what
        it traded, against the same benchmark over the bars gone by; AFI is what is left.
        """
        if self._pa or not self._started or not self.core.step_index or self.core.done:
            return Metrics.of(self._pa, self._leftover).as_dict()
        record = self.core.record()
        benchmark = self.benchmarks().named(self.benchmark_name)
        pa = price_advantage(record.net_price, benchmark, record.orders.side)
        return {**Metrics.of(pa, record.leftover).as_dict(), "unfinished": 1.0}

    def _finish(self) -> Info:
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


def make_static_core(
    data: MarketData,
    config: ExecutionEnvConfig,
    *,
    fills: FillModel | None = None,
    scales: FeatureScales | None = None,
) -> StaticCore:
    """The batched engine that a configuration describes."""
    table = observation_table(data, scales or FeatureScales.fit(data))
    return StaticCore(data, costs=config.costs, fills=fills, observations=table)


def limit_prices(core: ExecutionCore, distance: Array, price_range_bps: float) -> Array | None:
    """Limits from the second action (None without one).

    Positive distances lie on the passive side of the own touch.
    """
    if distance.size == 0:
        return None
    return core.touch() * (1.0 + core.orders.side * distance * price_range_bps / BPS)
