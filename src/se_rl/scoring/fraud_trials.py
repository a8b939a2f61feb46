"""The plays behind the fraud check: the panel of the last rung, simulated orders, and martingale twins.

Built once per run; `FraudTrials.check` then takes the trained policies of one design.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from se_rl.data.features import FeatureScales
from se_rl.data.known import with_history
from se_rl.data.market_data import MarketData
from se_rl.data.martingale import martingale_twin
from se_rl.environments.costs import FREE, Costs
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Episodes, World
from se_rl.scoring.execution import Actor, Array
from se_rl.scoring.fraud_check import (
    TABLES,
    FraudCheck,
    Recorder,
    WatchedTables,
    check_actions,
    joined,
    judged,
)
from se_rl.scoring.play import Open, play
from se_rl.scoring.static_panel import StaticPanel, joined_scores, sampled_panels
from se_rl.scoring.statistics import day_means

DAYS = 16
"""Martingale days that the check plays at least: few days are repeated with other coins."""


@dataclass(frozen=True, eq=False)
class HistoryTrial:
    """The last rung's orders on history: what a policy sees of them must not tell check from score.

    `orders_seed` draws the orders of a day, as it does for the score.
    """

    data: MarketData
    dates: npt.NDArray[np.integer]
    horizons: tuple[int, ...]
    scales: FeatureScales
    sizes: tuple[float, float]
    agents: int = 1
    day_orders: int = 64
    costs: Costs = FREE
    orders_seed: int = 0


class FraudTrials:
    """Plays the policies of a design again, orders of every horizon and world that is scored.

    `seed` decides samples, shuffles and coins.
    """

    def __init__(
        self,
        history: HistoryTrial | None,
        simulated: Sequence[tuple[World, Episodes]] = (),
        *,
        seed: int,
    ) -> None:
        self._history = history
        self._simulated = simulated
        self._seed = seed

    def check(self, policies: Sequence[Open]) -> FraudCheck:
        """Play every policy alone, among strangers and on martingale days; the worst of them counts."""
        alone = 0.0
        strangers = 0.0
        for open_policy in policies:
            for moved in self._moved(open_policy):
                alone = max(alone, moved[0])
                strangers = max(strangers, moved[1])
        return judged(alone=alone, strangers=strangers, gains_by_day=self._gains(policies))

    def _moved(self, open_policy: Open) -> list[tuple[float, float]]:
        """How far the policy's actions move on history and in simulated markets."""
        found = []
        for panel in self._panels:
            assert self._history is not None
            agents = self._history.agents
            sample = _Sample(TABLES * agents / len(panel.orders), agents, seed=self._seed)
            orders = Episodes(panel.orders)
            play(panel.world, orders, open_policy, agents=agents, watch=sample.watch)
            found.append(self._compared(sample.watched(), panel.world, open_policy))
        for world, episodes in self._simulated:
            share = TABLES * world.agents / len(episodes)
            sample = _Sample(share, world.agents, seed=self._seed)
            play(world, episodes, open_policy, watch=sample.watch)
            found.append(self._compared(sample.watched(), world, open_policy))
        return found

    def _compared(
        self, watched: WatchedTables, world: World, open_policy: Open
    ) -> tuple[float, float]:
        def fresh(rows: int) -> Actor:
            return open_policy(world.name, world.horizon, rows)

        return check_actions(watched, fresh, seed=self._seed)

    def _gains(self, policies: Sequence[Open]) -> Array:
        """[martingale day]: the gain over TWAP, the mean over policies and horizons."""
        if self._history is None:
            return np.empty(0)
        by_day = []
        for panels in self._martingales:
            parts = []
            for panel in panels:
                orders = Episodes(panel.orders)
                runs = []
                for open_policy in policies:
                    run = play(panel.world, orders, open_policy, agents=self._history.agents)
                    runs.append(panel.scores(run)["static_total"])
                day = panel.scores(run)["static_day"]
                parts.append({"gain": np.mean(runs, axis=0), "day": day})
            pairs = joined_scores(parts)
            by_day.append(day_means(pairs["gain"], pairs["day"].astype(np.int64)))
        return np.concatenate(by_day)

    @cached_property
    def _window(self) -> MarketData:
        """The played days, and those before that features look back to."""
        assert self._history is not None
        return with_history(self._history.data, self._history.dates)

    @cached_property
    def _panels(self) -> Sequence[StaticPanel]:
        """The orders that are scored, by horizon."""
        return () if self._history is None else self._panels_of(self._window)

    @cached_property
    def _martingales(self) -> list[Sequence[StaticPanel]]:
        """Twins of the panels with other coins, enough for DAYS days."""
        assert self._history is not None
        copies = math.ceil(DAYS / len(self._history.dates))
        twins = []
        for copy in range(copies):
            rng = np.random.default_rng((self._seed, copy))
            twins.append(self._panels_of(martingale_twin(self._window, rng)))
        return twins

    def _panels_of(self, data: MarketData) -> Sequence[StaticPanel]:
        history = self._history
        assert history is not None
        world = StaticWorld(
            data,
            horizon=history.horizons[0],
            dates=history.dates,
            scales=history.scales,
            sizes=history.sizes,
            costs=history.costs,
        )
        return sampled_panels(
            world,
            history.horizons,
            dates=history.dates,
            day_orders=history.day_orders,
            seed=history.orders_seed,
        )


class _Sample:
    """Watches a share of the tables of every group that is played, at least one."""

    def __init__(self, share: float, agents: int, *, seed: int) -> None:
        self._share = share
        self._agents = agents
        self._rng = np.random.default_rng(seed)
        self._recorders: list[Recorder] = []

    def watch(self, actor: Actor, rows: int) -> Actor:
        """The actor of one group, with some of its tables watched."""
        count = rows // self._agents
        wanted = min(count, math.ceil(self._share * count))
        chosen = self._rng.choice(count, wanted, replace=False)
        places = (chosen[:, None] * self._agents + np.arange(self._agents)).ravel()
        recorder = Recorder(actor, places)
        self._recorders.append(recorder)
        return recorder

    def watched(self) -> WatchedTables:
        """All tables of all groups."""
        return joined([recorder.watched(self._agents) for recorder in self._recorders])
