"""Validation: plays a trained policy on validation days and simulated episodes, in the parent.

The policy itself answers from behind the lock; the market, the fills and the score are computed
here. Scores are kept per pair of orders (both sides of one window, or of one simulated market), in
bps over TWAP on the same pair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_core import StaticCore, ratios_from_weights
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import Orders, order_pairs
from se_rl.environments.worlds import Episodes, World
from se_rl.records.rungs import Rung
from se_rl.records.settings import RunConfig
from se_rl.scoring.execution import Actor, Executed, execute
from se_rl.scoring.order_scores import Panel, Score, twap_weights
from se_rl.scoring.seating import Seated, seats_of
from se_rl.scoring.standing import Array

VALID_SEED = 2
"""Seed of the simulated episodes that the search scores on (training uses 1)."""
FRESH_SEED = 1002
"""Seed of the simulated episodes of the last rung."""
TEST_SEED = 3
"""Seed of the simulated episodes that stay sealed."""
SEARCH_DAYS = 0.6
"""Share of the validation days that the search sees; the last rung scores on the others."""
Open = Callable[[str, int, int], Actor]
"""Opens the policy for a world: its name, the horizon, the number of orders."""


class StaticPanel:
    """Orders on some days of history, and what TWAP gets on them."""

    def __init__(self, world: StaticWorld, orders: Orders) -> None:
        data = world.data
        self.world = world
        self.orders = orders
        self.panel = Panel.of(data, orders, benchmark="vwap" if data.volume is not None else "twap")
        record = StaticCore(data).execute(orders, ratios_from_weights(twap_weights(orders)))
        twap = Score("TWAP", self.panel, record)
        self._twap_pa = twap.pa(gross=True)  # [order]
        self._twap_common_pa = twap.common_pa()  # [order]

    def scores(self, run: Executed) -> dict[str, Array]:
        """The specific and the whole gain over TWAP by pair of orders, and the pairs' days."""
        own = Score("own", self.panel, run.record)
        total = own.pa(gross=True) - self._twap_pa
        # specific = total - common: what the choice of moments for this very symbol earned
        specific = total - (own.common_pa() - self._twap_common_pa)
        half = len(total) // 2
        return {
            "static": paired(specific),
            "static_total": paired(total),
            "static_day": self.panel.day[:half].astype(np.float64),
        }

    def regimes(self) -> dict[str, npt.NDArray[np.bool_]]:
        """Pairs by how far the price went inside their window: the calm and the wild half."""
        price = self.panel.price[: len(self.orders) // 2]  # [pair, step]
        width = (price.max(axis=1) - price.min(axis=1)) / price.mean(axis=1)
        calm = width <= np.median(width)
        return {"calm": calm, "wild": ~calm}


def paired(values: npt.NDArray[np.float64]) -> Array:
    """The mean of both sides: order i and its opposite, half a batch away."""
    half = len(values) // 2
    return (values[:half] + values[half:]) / 2.0


class Validation:
    """Validation worlds for every rung; `data` holds no test day."""

    def __init__(
        self,
        config: RunConfig,
        data: MarketData,
        *,
        dates: npt.NDArray[np.integer],
        scales: FeatureScales,
    ) -> None:
        self.config = config
        self.data = data
        self._panels: dict[bool, StaticPanel] = {}  # by whether a rung is fresh
        self._simulated: dict[tuple[bool, int, int], tuple[DynamicWorld, Episodes]] = {}
        if not config.weights["static"]:
            return
        if len(dates) < 2:
            raise DataError(
                f"validation has {len(dates)} day; an error needs 2 or more: give more sessions"
            )
        world = StaticWorld(data, horizon=config.horizon, dates=dates, scales=scales)
        for fresh, block in zip((False, True), day_blocks(dates), strict=True):
            orders = order_pairs(data, config.horizon, dates=block)
            self._panels[fresh] = StaticPanel(world, orders)

    @property
    def agents(self) -> int:
        """Agents that trade in one book."""
        return self.config.agents if self.config.scenario == "multi" else 1

    def regimes(self, rung: Rung) -> dict[str, npt.NDArray[np.bool_]]:
        """Which pairs of orders belong to which regime."""
        return self._panels[rung.fresh].regimes() if self._panels else {}

    def score(self, rung: Rung, open_policy: Open) -> dict[str, Array]:
        """All scores of one policy at one rung."""
        scores: dict[str, Array] = {}
        if self._panels:
            panel = self._panels[rung.fresh]
            episodes = Episodes(panel.orders)
            scores |= panel.scores(play(panel.world, episodes, open_policy, agents=self.agents))
        if not self.config.weights["dynamic"]:
            return scores
        for size in rung.order_sizes:
            world, episodes = self._episodes(rung, size)
            run = play(world, episodes, open_policy)
            name = "dynamic" if size == 1 else f"dynamic_x{size}"
            scores[name] = paired(run.gain - run.twap_gain)
        return scores

    def execution(self, open_policy: Open) -> dict[str, Any]:
        """One order of the policy, step by step, for people to look at.

        It is the first order that the search scores on.
        """
        if not self._panels:
            world, episodes = self._episodes(self.config.rungs.screen, 1)
            fills = play(world, episodes, open_policy).record.fills[0]  # [step]
            steps = np.arange(1, world.horizon + 1)
            return {"world": "dynamic", **_path(steps, np.full(len(steps), np.nan), fills)}
        panel = self._panels[False]
        run = play(panel.world, Episodes(panel.orders), open_policy, agents=self.agents)
        minutes = panel.orders.start[0] + np.arange(panel.orders.horizon)
        path = _path(minutes, panel.panel.price[0], run.record.forced_fills[0])
        benchmark = panel.panel.benchmarks.named(panel.panel.benchmark)[0]
        return {
            "world": "static",
            **path,
            "fill_price": float(run.record.net_price[0]),
            "benchmark_price": float(benchmark),
        }

    def _episodes(self, rung: Rung, size: int) -> tuple[DynamicWorld, Episodes]:
        """The simulated orders of a rung; rungs that are not fresh and have as many share them."""
        key = (rung.fresh, rung.episodes, size)
        if key not in self._simulated:
            self._simulated[key] = simulated(
                self.config,
                self.agents,
                seed=FRESH_SEED if rung.fresh else VALID_SEED,
                orders=rung.episodes,
                impact=size,
            )
        return self._simulated[key]


def simulated(
    config: RunConfig, agents: int, *, seed: int, orders: int, impact: int
) -> tuple[DynamicWorld, Episodes]:
    """A simulated market with `orders` orders in it, `impact` times the usual size."""
    orders = max(2 * agents, orders // (2 * agents) * (2 * agents))
    world = DynamicWorld(
        horizon=config.dynamic_horizon,
        participation=impact * config.participation,
        takes_price=True,
        agents=agents,
        bank=orders // (2 * agents),
        seed=seed,
    )
    return world, world.bank.episodes(np.arange(len(world.bank)), horizon=world.horizon)


def play(world: World, episodes: Episodes, open_policy: Open, *, agents: int = 1) -> Executed:
    """Execute the episodes with a policy that is opened for them and closed again.

    `agents` of it talk to each other.
    """
    actor = opened(world, episodes.orders, open_policy, agents=agents)
    try:
        return execute(world, actor, episodes)
    finally:
        actor.close()


def opened(world: World, orders: Orders, open_policy: Open, *, agents: int = 1) -> Actor:
    """The policy for these orders.

    On history, where agents share no book, those of one window talk.
    """
    if not isinstance(world, StaticWorld) or agents == 1:
        return open_policy(world.name, world.horizon, len(orders))
    seats = seats_of(orders, agents, sessions=len(world.data.dates))
    return Seated(open_policy(world.name, world.horizon, len(seats)), seats, len(orders))


def day_blocks(
    dates: npt.NDArray[np.integer],
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """Validation days for the search and, where there are enough, others for the last rung."""
    first = int(np.ceil(SEARCH_DAYS * len(dates)))
    return (dates[:first], dates[first:]) if len(dates) - first >= 2 else (dates, dates)


def _path(minutes: npt.NDArray[Any], price: Array, fills: Array) -> dict[str, Any]:
    """A sell order step by step, as the journal stores it."""
    steps = len(fills)
    twap_left = 1.0 - np.arange(1, steps + 1) / steps
    return {
        "side": "sell",
        "minutes": [int(minute) for minute in minutes],
        "price": _rounded(np.nan_to_num(price)),
        "fills": _rounded(fills),
        "inventory": _rounded(1.0 - np.cumsum(fills)),
        "twap_inventory": _rounded(twap_left),
    }


def _rounded(values: Array) -> list[float]:
    return [round(float(value), 6) for value in values]
