"""Simulated orders to score on: the same mix of kinds, sizes and horizons for every policy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.task import Orders
from se_rl.environments.worlds import Episodes
from se_rl.market.family import free_kinds
from se_rl.records.settings import RunConfig
from se_rl.rl.training_worlds import mixed_markets
from se_rl.scoring.execution import Executed
from se_rl.scoring.play import Open, play
from se_rl.scoring.score import Array
from se_rl.scoring.static_panel import joined_scores, paired

SIZE_EDGES = (0.03, 0.10)
SIZE_CLASSES = ("1-3 %", "3-10 %", "10-30 %")
"""Orders by their share of the usual volume: below the first edge, between them, from the second."""


class SimulatedOrders:
    """About `orders` simulated orders, both sides of each, spread evenly over horizons and cells.

    A cell is a kind of market and a class of sizes. `train` are the days that twins follow.
    """

    def __init__(
        self,
        config: RunConfig,
        train: MarketData | None,
        scales: FeatureScales | None,
        *,
        seed: int,
        orders: int,
    ) -> None:
        kinds = free_kinds(config.profiles)
        agents = config.book_agents
        books = max(1, orders // (2 * agents * len(config.dynamic_horizons)))
        self._places: dict[str, int] = {}
        worlds = []
        for place, horizon in enumerate(config.dynamic_horizons):
            fits = train is not None and horizon <= len(train.grid)
            world = mixed_markets(
                train if fits else None,
                kinds,
                scales=scales,
                horizon=horizon,
                sizes=config.sizes,
                takes_price=True,
                agents=agents,
                bank=books,
                seed=seed + place,
            )
            worlds.append((world, world.bank.episodes(np.arange(books), horizon=horizon)))
            for kind in world.kinds:
                self._places.setdefault(kind.name, len(self._places))
        self.worlds: tuple[tuple[DynamicWorld, Episodes], ...] = tuple(worlds)

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells by their codes."""
        return tuple(f"{kind}, {size}" for kind in self._places for size in SIZE_CLASSES)

    def cell_of(self, world: DynamicWorld, orders: Orders) -> npt.NDArray[np.int64]:
        """[order]: the code of the cell that each order belongs to."""
        kinds = np.array([self._places[kind.name] for kind in world.kinds])
        size_class = np.searchsorted(SIZE_EDGES, orders.size, side="right")
        return kinds[orders.kind] * len(SIZE_CLASSES) + size_class

    def scores(self, open_policy: Open) -> dict[str, Array]:
        """What a policy saves against TWAP by pair of orders, in bps, and their cells."""
        parts = []
        for world, episodes in self.worlds:
            run = play(world, episodes, open_policy)
            parts.append(self.scores_of(world, episodes, run))
        return joined_scores(parts)

    def scores_of(self, world: DynamicWorld, episodes: Episodes, run: Executed) -> dict[str, Array]:
        """The same of episodes that were played already."""
        cell = self.cell_of(world, episodes.orders)
        return {
            "dynamic": paired(run.gain - run.twap_gain),
            "dynamic_cell": cell[: len(cell) // 2].astype(np.float64),
        }
