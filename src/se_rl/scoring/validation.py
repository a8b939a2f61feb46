"""The examiner: plays a trained policy on validation days and on simulated episodes, in the parent process.

The policy itself answers from behind the lock; the market, the fills and the score are computed here. Scores are kept per
pair of orders (both sides of one window, or of one simulated market), in bps over TWAP on the same pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.baselines import schedules
from se_rl.data.features import FeatureScales
from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_core import StaticCore, ratios_from_weights
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import Orders, order_pairs
from se_rl.environments.worlds import Episodes, World
from se_rl.records.settings import RunConfig
from se_rl.scoring.execution import Actor, Executed, execute
from se_rl.scoring.order_scores import Panel, Score
from se_rl.scoring.standing import Array

VALID_SEED, TEST_SEED = 2, 3
"""Seeds of the simulated episodes that the search scores on, and of those that stay sealed (training uses 1)."""
LAST_RUNG = 2
SEARCH_DAYS = 0.6
"""Share of the validation days that the search sees; the last rung scores on the others."""
Open = Callable[[str, int, int], Actor]
"""Opens the policy for a world: its name, the horizon, the number of orders."""


class StaticPanel:
    """Orders on some days of history, and what TWAP gets on them."""

    def __init__(self, world: StaticWorld, orders: Orders) -> None:
        data = world.data
        self.world, self.orders = world, orders
        self.panel = Panel.of(data, orders, benchmark="vwap" if data.volume is not None else "twap")
        self._twap = Score(
            "TWAP",
            self.panel,
            StaticCore(data).execute(orders, ratios_from_weights(schedules.twap(orders))),
        )
        self._twap_parts = self._twap.pa(gross=True), self._twap.common_pa()

    def scores(self, run: Executed) -> dict[str, Array]:
        """The specific and the whole gain over TWAP, a number per pair of orders, and the pairs' days."""
        own = Score("own", self.panel, run.record)
        total = own.pa(gross=True) - self._twap_parts[0]
        specific = total - (own.common_pa() - self._twap_parts[1])
        half = len(total) // 2
        return {
            "static": paired(specific),
            "static_total": paired(total),
            "static_day": self.panel.day[:half].astype(np.float64),
        }

    def regimes(self) -> dict[str, npt.NDArray[np.bool_]]:
        """Pairs by how far the price went inside their window: the calm and the wild half."""
        price = self.panel.price[: len(self.orders) // 2]
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
        self.config, self.data = config, data
        self._panels: dict[int, StaticPanel] = {}
        if config.weights["static"]:
            if len(dates) < 2:
                raise DataError(
                    f"validation has {len(dates)} day; an error needs 2 or more: give more sessions"
                )
            world = StaticWorld(data, horizon=config.horizon, dates=dates, scales=scales)
            blocks = day_blocks(dates)
            found = [
                StaticPanel(world, order_pairs(data, config.horizon, dates=block))
                for block in blocks
            ]
            self._panels = {rung: found[int(rung == LAST_RUNG)] for rung in range(LAST_RUNG + 1)}
        self._simulated: dict[tuple[int, int], tuple[DynamicWorld, Episodes]] = {}

    @property
    def agents(self) -> int:
        """Agents that trade in one book."""
        return self.config.agents if self.config.scenario == "multi" else 1

    def regimes(self, rung: int) -> dict[str, npt.NDArray[np.bool_]]:
        """Which pairs of orders belong to which regime."""
        return self._panels[rung].regimes() if self._panels else {}

    def score(self, rung: int, open_policy: Open) -> dict[str, Array]:
        """All scores of one policy at one rung; the last rung adds orders of twice the size."""
        scores: dict[str, Array] = {}
        if self._panels:
            panel = self._panels[rung]
            scores |= panel.scores(
                play(panel.world, Episodes(panel.orders), open_policy, agents=self.agents)
            )
        if self.config.weights["dynamic"]:
            for impact in (1, 2) if rung == LAST_RUNG else (1,):
                world, episodes = self._episodes(rung, impact)
                run = play(world, episodes, open_policy)
                scores["dynamic" if impact == 1 else f"dynamic_x{impact}"] = paired(
                    run.gain - run.twap_gain
                )
        return scores

    def execution(self, open_policy: Open) -> dict[str, Any]:
        """One order of the policy, step by step, for people to look at: the first of the validation days or episodes."""
        if not self._panels:
            world, episodes = self._episodes(0, 1)
            run = play(world, episodes, open_policy)
            left = 1.0 - np.cumsum(run.record.fills[0])
            steps = np.arange(1, world.horizon + 1)
            return {
                "world": "dynamic",
                **_path(steps, np.full(len(steps), np.nan), run.record.fills[0], left),
            }
        panel = self._panels[0]
        run = play(panel.world, Episodes(panel.orders), open_policy, agents=self.agents)
        fills, price = run.record.forced_fills[0], panel.panel.price[0]
        minutes = panel.orders.start[0] + np.arange(panel.orders.horizon)
        path = _path(minutes, price, fills, 1.0 - np.cumsum(fills))
        benchmark = panel.panel.benchmarks.named(panel.panel.benchmark)[0]
        return {
            "world": "static",
            **path,
            "fill_price": float(run.record.net_price[0]),
            "benchmark_price": float(benchmark),
        }

    def _episodes(self, rung: int, impact: int) -> tuple[DynamicWorld, Episodes]:
        """The simulated orders of a rung; those of the last one are fresh."""
        key = (
            self.config.episodes[rung] if rung == LAST_RUNG else -self.config.episodes[rung],
            impact,
        )
        if key not in self._simulated:
            world = simulated(
                self.config,
                self.agents,
                seed=(VALID_SEED, rung == LAST_RUNG),
                orders=abs(key[0]),
                impact=impact,
            )
            self._simulated[key] = world
        return self._simulated[key]


def simulated(
    config: RunConfig, agents: int, *, seed: tuple[int, bool] | int, orders: int, impact: int
) -> tuple[DynamicWorld, Episodes]:
    """A simulated market with the default's participants and `orders` orders in it, `impact` times the usual size."""
    number = seed if isinstance(seed, int) else seed[0] + 1000 * seed[1]
    orders = max(2 * agents, orders // (2 * agents) * (2 * agents))
    world = DynamicWorld(
        horizon=config.dynamic_horizon,
        participation=impact * config.participation,
        takes_price=True,
        agents=agents,
        bank=orders // (2 * agents),
        seed=number,
    )
    return world, world.bank.episodes(np.arange(len(world.bank)), horizon=world.horizon)


def play(world: World, episodes: Episodes, open_policy: Open, *, agents: int = 1) -> Executed:
    """Execute the episodes with a policy that is opened for them and closed again; `agents` of it talk to each other."""
    actor = opened(world, episodes.orders, open_policy, agents=agents)
    try:
        return execute(world, actor, episodes)
    finally:
        getattr(actor, "close", lambda: None)()


def opened(world: World, orders: Orders, open_policy: Open, *, agents: int = 1) -> Actor:
    """The policy for these orders; on history, where agents share no book, those of one window talk."""
    if not isinstance(world, StaticWorld) or agents == 1:
        return open_policy(world.name, world.horizon, len(orders))
    seats = seats_of(orders, agents, sessions=len(world.data.dates))
    return Seated(open_policy(world.name, world.horizon, len(seats)), seats, len(orders))


def seats_of(orders: Orders, agents: int, *, sessions: int) -> npt.NDArray[np.int64]:
    """Which order sits at each place of the policy's batch, where `agents` neighbours talk.

    Neighbours trade in the same bars: who began later, or on a later day, would tell the others their future. Where a
    window's orders do not fill the last table, its last order sits there more than once.
    """
    if agents == 1:
        return np.arange(len(orders))
    window = np.stack([orders.row % sessions, orders.start, orders.side])
    _, which, count = np.unique(window, axis=1, return_inverse=True, return_counts=True)
    by_window, first = np.argsort(which.ravel(), kind="stable"), np.cumsum(count) - count
    places = -(-count // agents) * agents
    place = np.arange(places.sum()) - np.repeat(np.cumsum(places) - places, places)
    return by_window[np.repeat(first, places) + np.minimum(place, np.repeat(count - 1, places))]


class Seated:
    """An actor whose batch has another order than the orders: `seats` says which of them sits where."""

    def __init__(self, inner: Actor, seats: npt.NDArray[np.int64], orders: int) -> None:
        self._inner, self._seats = inner, seats
        self._place = np.empty(orders, np.int64)
        self._place[seats] = np.arange(len(seats))

    def start(self, n: int, horizon: int) -> None:
        """A new batch of orders begins."""
        self._inner.start(len(self._seats), horizon)

    def act(self, observation: npt.NDArray[np.float32]) -> tuple[Array, Array]:
        """What each order's agent does."""
        ratio, offset = self._inner.act(observation[self._seats])
        return ratio[self._place], offset[self._place]

    def close(self) -> None:
        """End the policy."""
        getattr(self._inner, "close", lambda: None)()


def day_blocks(
    dates: npt.NDArray[np.integer],
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """Validation days for the search and, where there are enough, others for the last rung."""
    first = int(np.ceil(SEARCH_DAYS * len(dates)))
    return (dates[:first], dates[first:]) if len(dates) - first >= 2 else (dates, dates)


def _path(minutes: npt.NDArray[Any], price: Array, fills: Array, left: Array) -> Mapping[str, Any]:
    steps = len(fills)
    return {
        "side": "sell",
        "minutes": [int(m) for m in minutes],
        "price": [round(float(p), 6) for p in np.nan_to_num(price)],
        "fills": [round(float(f), 6) for f in fills],
        "inventory": [round(float(v), 6) for v in left],
        "twap_inventory": [round(1.0 - (i + 1) / steps, 6) for i in range(steps)],
    }
