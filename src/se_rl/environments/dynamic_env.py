"""The dynamic world for Gymnasium users: one order, or thousands at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.features import FeatureScales
from se_rl.data.given import GivenBars, as_market_data
from se_rl.data.market_data import MarketData
from se_rl.environments.dynamic_core import DynamicCore
from se_rl.environments.execution_env import (
    ExecutionEnvConfig,
    ExecutionEnvironment,
    default_config,
)
from se_rl.environments.metrics import BPS, price_advantage
from se_rl.environments.order_source import Info
from se_rl.environments.render import RenderMode
from se_rl.environments.scripted_markets import default_kind
from se_rl.environments.static_env import StaticVectorEnv
from se_rl.environments.task import Orders
from se_rl.market.profile import MarketProfile


class DynamicEnvironment(ExecutionEnvironment):
    """
    ## Description
    Execute one parent order in a simulated order book, where it moves the price. With `data`, the
    market is the twin of a real session: its value follows the session's closes and its pace the
    session's volume. Without, it is a free market with news of its own. `reset(options=...)` fixes
    `side`, and with data `symbol`, `session` and `start`.

    ## Action Space
    `ratio`: Box(0, 1, (1,)), the share of the remaining inventory to send as a market order when
    the bar opens.
    `ratio_and_price`: Box([0, -1], [1, 1]), the ratio and the limit's distance from the own-side
    touch in units of `price_range_bps` (positive: passive). The order rests in the queue; at the
    same price it keeps its place.

    ## Observation Space
    Box(-6, 6, (32,)): `OBSERVATION_FIELDS`, the book's from the simulated book, known when the bar
    opens.

    ## Rewards
    The step's gain over TWAP's slice at the bar's average mid, in bps of the arrival mid.

    ## Episode End
    Terminates after `total_time` steps; what is left is counted (AFI) and completed at market.
    Where the market broke or refused the rest, the order is void: `info["broken"]` is True, its PA
    is NaN, and it enters no metric but the count.

    ## Arguments
    `data`: MarketData, a pandas OHLCV frame, or None.
    `config`: ExecutionEnvConfig; without it the horizon is 240 bars or the session.
    `profile`: MarketProfile of the participants.
    `scales`: FeatureScales of the train split.
    `shadow`: also run the market without our order, for `core.own_impact`.
    `render_mode`: as in ExecutionEnvironment.
    """

    core: DynamicCore

    def __init__(
        self,
        data: GivenBars | None = None,
        config: ExecutionEnvConfig | None = None,
        *,
        profile: MarketProfile | None = None,
        scales: FeatureScales | None = None,
        shadow: bool = False,
        render_mode: RenderMode | None = None,
    ) -> None:
        bars = None if data is None else as_market_data(data)
        self.config = config or default_config(bars)
        self._prepare(bars, render_mode)
        self.core = make_dynamic_core(
            bars, self.config, profile=profile, scales=scales, shadow=shadow
        )
        self.broken_episodes = 0

    def start(self, orders: Orders, rng: np.random.Generator) -> npt.NDArray[np.float32]:
        """Start these orders, each market from a seed that `rng` draws."""
        return self.core.reset(orders, seeds=rng.integers(2**62, size=len(orders)))

    @property
    def benchmark_name(self) -> str:
        """A simulated market always has volume."""
        return "vwap"

    def get_metrics(self) -> dict[str, float]:
        """As in ExecutionEnvironment, over the episodes that count, and how many are void."""
        return {**super().get_metrics(), "broken": float(self.broken_episodes)}

    def _finish(self) -> Info:
        info = super()._finish()
        broken = bool(self.core.broken[0])
        if broken:  # void: not a result, neither good nor bad
            self._pa.pop()
            self._leftover.pop()
            self.broken_episodes += 1
        return {**info, "broken": broken}


class DynamicVectorEnv(StaticVectorEnv):
    """Many orders, each in a simulated market of its own.

    After the last bar `info` has PA (NaN: void), AFI and broken.
    """

    environment = DynamicEnvironment
    core: DynamicCore

    def __init__(
        self,
        data: GivenBars | None = None,
        config: ExecutionEnvConfig | None = None,
        *,
        num_envs: int = 1024,
        **options: Any,
    ) -> None:
        # A free market needs no data, a replay does.
        super().__init__(data, config, num_envs=num_envs, **options)  # type: ignore[arg-type]

    def outcome(self) -> Info:
        """PA against the window's VWAP, AFI and void orders, one entry per environment."""
        record = self.core.record()
        vwap = self.single.benchmarks().named("vwap")
        pa = price_advantage(record.net_price, vwap, record.orders.side)
        return {"PA": pa, "AFI": record.leftover, "broken": self.core.broken}


def make_dynamic_core(
    data: MarketData | None,
    config: ExecutionEnvConfig,
    *,
    profile: MarketProfile | None = None,
    scales: FeatureScales | None = None,
    shadow: bool = False,
    agents: int = 1,
) -> DynamicCore:
    """The batched engine that a configuration describes."""
    return DynamicCore(
        data,
        kinds=[default_kind(data, profile)],
        scales=scales,
        agents=agents,
        fee_bps=config.transaction_cost * BPS,
        shadow=shadow,
    )
