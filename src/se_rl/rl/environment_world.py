"""A Gymnasium execution environment as a world to train in; its own reward is the one field."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from se_rl.environments.execution_env import ExecutionEnvironment, limit_prices
from se_rl.environments.metrics import price_advantage
from se_rl.environments.task import BUY, SELL, ExecutionRecord, Orders, WindowBenchmarks
from se_rl.environments.worlds import Array, Bool, Episodes, Fields, Observation


class EnvironmentWorld:
    """The batch behind an environment, as `environments.worlds.World` asks for it.

    Offsets are places in the environment's own price range, from -1 to 1, instead of ticks: those
    are the actions that its agents know.
    """

    agents = 1
    field_names: tuple[str, ...] = ("reward",)

    def __init__(self, env: ExecutionEnvironment, *, name: str) -> None:
        self.env = env
        self.name = name
        self.horizon = env.config.total_time
        self.observation_size = _size(env.observation_space.shape)
        self.takes_price = _size(env.action_space.shape) > 1

    @property
    def both_sides(self) -> bool:
        """Whether the environment sells and buys."""
        return self.env.config.side == "both"

    def draw(self, rng: np.random.Generator, n: int) -> Episodes:
        """Orders of the environment; each window is sold and bought where it has both sides."""
        source = self.env.source
        orders = _both_sides(source.draw(rng, n // 2)) if self.both_sides else source.draw(rng, n)
        return Episodes(orders, rng.integers(2**62, size=len(orders)))

    def reset(self, episodes: Episodes) -> Observation:
        """Start these orders; simulated markets draw what they need from the episodes' seeds."""
        return self.env.start(episodes.orders, np.random.default_rng(episodes.book_seeds))

    def step(self, ratio: Array, offset: Array | None, fields: Fields) -> Observation:
        """One bar for every order."""
        core = self.env.core
        limits = None
        if offset is not None:
            limits = limit_prices(core, offset, self.env.config.price_range_bps)
        observation = core.step(ratio, limits)
        fields[0] = core.reward
        return observation

    @property
    def broken(self) -> Bool:
        """Orders whose outcome is void."""
        return self.env.core.broken

    def record(self) -> ExecutionRecord:
        """The finished batch."""
        return self.env.core.record()

    def benchmarks(self) -> WindowBenchmarks:
        """The prices that the batch is held against."""
        return self.env.benchmarks()

    def pa_bps(self) -> Array:
        """PA of the finished batch against the environment's benchmark; NaN where void."""
        record = self.record()
        benchmark = self.benchmarks().named(self.env.benchmark_name)
        return price_advantage(record.net_price, benchmark, record.orders.side)


def _both_sides(orders: Orders) -> Orders:
    """Each order as a sell, then each as a buy."""
    n = len(orders)
    both = orders.take(np.tile(np.arange(n), 2))
    return replace(both, side=np.repeat(np.array([SELL, BUY], np.int8), n))


def _size(shape: tuple[int, ...] | None) -> int:
    assert shape is not None and len(shape) == 1  # of every execution environment
    return shape[0]
