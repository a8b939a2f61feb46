"""Validation: plays a trained policy on validation days and simulated episodes, in the parent.

The policy itself answers from behind the lock; the market, the fills and the score are computed
here. Scores are kept per pair of orders (both sides of one window, or of one simulated market), in
bps over TWAP on the same pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.costs import Costs
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.worlds import Episodes
from se_rl.records.order_details import SimulatedReplay
from se_rl.records.rungs import Rung
from se_rl.records.settings import RunConfig
from se_rl.scoring.fraud_trials import FraudTrials, HistoryTrial
from se_rl.scoring.history_orders import HistoryOrders, scored_world
from se_rl.scoring.play import Open, play
from se_rl.scoring.score import Array
from se_rl.scoring.simulated_orders import SimulatedOrders
from se_rl.scoring.simulated_replay import simulated_replay
from se_rl.seal import seal_digest, sealed_seed

SEARCH_MARKETS = "simulated markets of the search"
LAST_RUNG_MARKETS = "simulated markets of the last rung"
TEST_MARKETS = "simulated markets of the final test"
HISTORY_ORDERS = "orders on history that are scored on"
FRAUD_CHECK = "samples, shuffles and coins of the fraud check"
"""What seeds are drawn from a run's seal for."""
SEARCH_DAYS = 0.6
"""Share of the validation days that the search sees; the last rung scores on the others."""
MOST_SEARCH_DAYS = 24
"""Days that the search scores on at most: with more, the luck of trainings is most of the error."""


class Validation:
    """Validation worlds for every rung; `data` holds no test day.

    Which orders on history and which simulated markets are played follows from the run's seal.
    """

    def __init__(
        self,
        config: RunConfig,
        data: MarketData,
        *,
        dates: npt.NDArray[np.integer],
        scales: FeatureScales,
        seal: str,
    ) -> None:
        self.config = config
        self.seal = seal
        self.data = data
        self.scales = scales
        self.dates = dates
        self._history: dict[bool, HistoryOrders] = {}  # by whether a rung is fresh
        self._simulated: dict[tuple[bool, int], SimulatedOrders] = {}
        if not config.weights["static"]:
            return
        if len(dates) < 2:
            raise DataError(
                f"validation has {len(dates)} day; an error needs 2 or more: give more sessions"
            )
        world = scored_world(config, data, dates=dates, scales=scales)
        for fresh, block in zip((False, True), day_blocks(dates), strict=True):
            self._history[fresh] = HistoryOrders(
                config, world, dates=block, seed=sealed_seed(seal, HISTORY_ORDERS)
            )

    @property
    def agents(self) -> int:
        """Agents that trade in one book."""
        return self.config.book_agents

    @cached_property
    def _train_days(self) -> MarketData | None:
        """The days before validation, which twins follow; None where there are no twins."""
        before = self.data.dates[self.data.dates < self.dates[0]]
        if not self.config.twins or not len(before):
            return None
        return self.data.select(dates=before)

    @property
    def markets_digest(self) -> str:
        """A name for the orders that are scored on: they follow from the seal."""
        return seal_digest(self.seal)

    @property
    def cells(self) -> dict[str, tuple[str, ...]]:
        """The names of the cells that orders of each world belong to, by their codes."""
        cells = {}
        if self._history:
            cells["static"] = self._history[False].cells
        if self.config.weights["dynamic"]:
            cells["dynamic"] = self._episodes(self.config.rungs.screen).cells
        return cells

    def regimes(self, rung: Rung) -> dict[str, npt.NDArray[np.bool_]]:
        """Which pairs of orders belong to which regime."""
        return self._history[rung.fresh].regimes() if self._history else {}

    def score(self, rung: Rung, open_policy: Open) -> dict[str, Array]:
        """All scores of one policy at one rung, by pair of orders, with their days and cells."""
        scores = self._history[rung.fresh].scores(open_policy) if self._history else {}
        if self.config.weights["dynamic"]:
            scores |= self._episodes(rung).scores(open_policy)
        return scores

    def execution(self, open_policy: Open) -> dict[str, Any]:
        """One order of the policy, step by step, for people to look at.

        It is the first order that the search scores on.
        """
        if not self._history:
            world, episodes = self._episodes(self.config.rungs.screen).worlds[0]
            fills = play(world, episodes, open_policy).record.fills[0]  # [step]
            steps = np.arange(1, world.horizon + 1)
            return {"world": "dynamic", **_path(steps, np.full(len(steps), np.nan), fills)}
        panel = self._history[False].panels[0]
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

    def simulated_order(self, open_policy: Open) -> SimulatedReplay | None:
        """One simulated order of the policy with its book, for people to look at; None where nothing
        is simulated, or where the market broke.
        """
        if not self.config.weights["dynamic"]:
            return None
        world, episodes = self._episodes(self.config.rungs.screen).worlds[0]
        return simulated_replay(world, episodes, open_policy)

    def fraud_trials(self) -> FraudTrials:
        """The plays of the fraud check, on the days and simulated orders of the last rung."""
        history = None
        if self._history:
            history = HistoryTrial(
                self.data,
                day_blocks(self.dates)[1],
                self.config.horizons,
                self.scales,
                self.config.sizes,
                self.agents,
                day_orders=self.config.day_orders,
                costs=Costs.of(self.config),
                orders_seed=sealed_seed(self.seal, HISTORY_ORDERS),
            )
        simulated_orders: Sequence[tuple[DynamicWorld, Episodes]] = ()
        if self.config.weights["dynamic"]:
            simulated_orders = self._episodes(self.config.rungs.last).worlds
        return FraudTrials(history, simulated_orders, seed=sealed_seed(self.seal, FRAUD_CHECK))

    def test_markets(self) -> SimulatedOrders:
        """Simulated orders of the final test, which no rung has seen."""
        return self._orders(TEST_MARKETS, self.config.rungs.last.episodes)

    def _episodes(self, rung: Rung) -> SimulatedOrders:
        """The simulated orders of a rung; rungs that are not fresh and have as many share them."""
        key = (rung.fresh, rung.episodes)
        if key not in self._simulated:
            purpose = LAST_RUNG_MARKETS if rung.fresh else SEARCH_MARKETS
            self._simulated[key] = self._orders(purpose, rung.episodes)
        return self._simulated[key]

    def _orders(self, purpose: str, orders: int) -> SimulatedOrders:
        seed = sealed_seed(self.seal, purpose)
        return SimulatedOrders(self.config, self._train_days, self.scales, seed=seed, orders=orders)


def day_blocks(
    dates: npt.NDArray[np.integer],
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """Validation days for the search and, where there are enough, others for the last rung.

    The search has no more than `MOST_SEARCH_DAYS`, spread over its share.
    """
    first = int(np.ceil(SEARCH_DAYS * len(dates)))
    search, last = (dates[:first], dates[first:]) if len(dates) - first >= 2 else (dates, dates)
    spread = np.linspace(0, len(search) - 1, min(len(search), MOST_SEARCH_DAYS))
    return search[np.rint(spread).astype(np.int64)], last


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
