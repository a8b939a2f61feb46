"""Orders on days of history: what TWAP gets on them, and what another policy gains over it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from se_rl.environments.static_core import StaticCore, ratios_from_weights
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import Orders
from se_rl.scoring.execution import Executed
from se_rl.scoring.order_scores import Panel, Score, twap_weights
from se_rl.scoring.standing import Array
from se_rl.scoring.statistics import day_means


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

    def gain_by_day(self, run: Executed) -> Array:
        """[day]: the mean of the whole gain over TWAP."""
        found = self.scores(run)
        return day_means(found["static_total"], found["static_day"].astype(np.int64))

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
