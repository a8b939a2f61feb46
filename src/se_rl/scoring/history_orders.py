"""Orders on history to score on: the same mix of windows, sizes and horizons for every policy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.costs import Costs
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Episodes
from se_rl.records.settings import RunConfig
from se_rl.scoring.play import Open, play
from se_rl.scoring.score import Array
from se_rl.scoring.static_panel import joined_scores, sampled_panels


def scored_world(
    config: RunConfig, data: MarketData, *, dates: npt.NDArray[np.integer], scales: FeatureScales
) -> StaticWorld:
    """The world that a run scores in: these days at the run's own sizes and costs."""
    return StaticWorld(
        data,
        horizon=config.horizons[0],
        dates=dates,
        scales=scales,
        sizes=config.sizes,
        costs=Costs.of(config),
    )


class HistoryOrders:
    """Drawn orders on the given days, one panel for each of the run's horizons that has some."""

    def __init__(
        self, config: RunConfig, world: StaticWorld, *, dates: npt.NDArray[np.integer], seed: int
    ) -> None:
        self._horizons = config.horizons
        self._agents = config.book_agents
        self.panels = sampled_panels(
            world, config.horizons, dates=dates, day_orders=config.day_orders, seed=seed
        )

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells by their codes: one for each horizon."""
        return tuple(f"{horizon} bars" for horizon in self._horizons)

    def regimes(self) -> dict[str, npt.NDArray[np.bool_]]:
        """Which pairs of orders belong to which regime."""
        found = [panel.regimes() for panel in self.panels]
        return {name: np.concatenate([one[name] for one in found]) for name in found[0]}

    def scores(self, open_policy: Open) -> dict[str, Array]:
        """What a policy gains over TWAP by pair of orders, in bps, with their days and cells."""
        parts = []
        for panel in self.panels:
            orders = Episodes(panel.orders)
            found = panel.scores(play(panel.world, orders, open_policy, agents=self._agents))
            cell = float(self._horizons.index(panel.world.horizon))
            parts.append(found | {"static_cell": np.full(len(found["static"]), cell)})
        return joined_scores(parts)
