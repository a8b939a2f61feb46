"""Validation: plays a trained policy on validation days and simulated episodes, in the parent.

The policy itself answers from behind the lock; the market, the fills and the score are computed
here. Scores are kept per pair of orders (both sides of one window, or of one simulated market), in
bps over TWAP on the same pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import order_pairs
from se_rl.environments.worlds import Episodes
from se_rl.records.rungs import Rung
from se_rl.records.settings import RunConfig
from se_rl.scoring.fraud_trials import FraudTrials, HistoryTrial
from se_rl.scoring.play import Open, play
from se_rl.scoring.standing import Array
from se_rl.scoring.static_panel import StaticPanel, paired
from se_rl.seal import seal_digest, sealed_seed

SEARCH_MARKETS = "simulated markets of the search"
LAST_RUNG_MARKETS = "simulated markets of the last rung"
TEST_MARKETS = "simulated markets of the final test"
FRAUD_CHECK = "samples, shuffles and coins of the fraud check"
"""What seeds are drawn from a run's seal for."""
SEARCH_DAYS = 0.6
"""Share of the validation days that the search sees; the last rung scores on the others."""


class Validation:
    """Validation worlds for every rung; `data` holds no test day.

    Which simulated markets are played follows from the run's seal.
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

    @property
    def markets_digest(self) -> str:
        """A name for the simulated markets that are scored on; "" where there are none."""
        return seal_digest(self.seal) if self.config.weights["dynamic"] else ""

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

    def fraud_trials(self) -> FraudTrials:
        """The plays of the fraud check, on the days and simulated orders of the last rung."""
        last = self.config.rungs.last
        history = None
        if self._panels:
            history = HistoryTrial(
                self.data,
                day_blocks(self.dates)[1],
                self.config.horizon,
                self.scales,
                self.agents,
            )
        simulated_orders = self._episodes(last, 1) if self.config.weights["dynamic"] else None
        return FraudTrials(history, simulated_orders, seed=sealed_seed(self.seal, FRAUD_CHECK))

    def _episodes(self, rung: Rung, size: int) -> tuple[DynamicWorld, Episodes]:
        """The simulated orders of a rung; rungs that are not fresh and have as many share them."""
        key = (rung.fresh, rung.episodes, size)
        if key not in self._simulated:
            self._simulated[key] = simulated(
                self.config,
                self.agents,
                seed=sealed_seed(self.seal, LAST_RUNG_MARKETS if rung.fresh else SEARCH_MARKETS),
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
        sizes=(impact * config.participation, impact * config.participation),
        takes_price=True,
        agents=agents,
        bank=orders // (2 * agents),
        seed=seed,
    )
    return world, world.bank.episodes(np.arange(len(world.bank)), horizon=world.horizon)


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
