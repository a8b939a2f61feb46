"""Orders on days of history: what TWAP gets on them, and what another policy gains over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from se_rl.environments.static_core import StaticCore, ratios_from_weights
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import Orders, draw_sizes, order_pairs, sized_orders
from se_rl.scoring.execution import Executed
from se_rl.scoring.order_scores import Panel, Score, twap_weights
from se_rl.scoring.score import Array
from se_rl.scoring.statistics import day_means


class StaticPanel:
    """Orders on some days of history, and what TWAP gets on them."""

    def __init__(self, world: StaticWorld, orders: Orders) -> None:
        data = world.data
        self.world = world
        self.orders = orders
        self.panel = Panel.of(data, orders, benchmark="vwap" if data.volume is not None else "twap")
        record = StaticCore(data, costs=world.costs).execute(
            orders, ratios_from_weights(twap_weights(orders))
        )
        twap = Score("TWAP", self.panel, record)
        self._twap_pa = twap.pa()  # [order]
        self._twap_common_pa = twap.common_pa()  # [order]

    def scores(self, run: Executed) -> dict[str, Array]:
        """The specific and the whole gain over TWAP by pair of orders, and the pairs' days."""
        own = Score("own", self.panel, run.record)
        total = own.pa() - self._twap_pa
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


def sampled_panels(
    world: StaticWorld,
    horizons: Sequence[int],
    *,
    dates: npt.NDArray[np.integer],
    day_orders: int,
    seed: int,
) -> tuple[StaticPanel, ...]:
    """Panels of orders on these days, one for each horizon that has some.

    A day has at most `day_orders` pairs, of drawn windows with all of their symbols while there is
    room: few windows of many symbols are quick to play, and symbols that trade together show what
    was common to them. Horizons take turns by day. Every window and size follows from the seed.
    """
    data = world.data
    found = [order_pairs(data, horizon, dates=dates) for horizon in horizons]
    pairs = [orders.take(np.arange(len(orders) // 2)) for orders in found]
    row = np.concatenate([one.row for one in pairs])
    start = np.concatenate([one.start for one in pairs])
    which = np.repeat(np.arange(len(pairs)), [len(one) for one in pairs])
    rng = np.random.default_rng(seed)
    day = row % len(data.dates)
    window = np.unique(np.stack([day, which, start]), axis=1, return_inverse=True)[1].ravel()
    turn = rng.permutation(window.max() + 1)[window]  # the order in which windows are taken
    turns = np.unique(day, return_inverse=True)[1]
    lead = (turns + which) % len(pairs)  # horizons take turns by day
    by_day = np.lexsort((rng.random(len(row)), turn, lead, day))
    first = np.searchsorted(day[by_day], day[by_day])  # [pair] where its day begins
    chosen = np.zeros(len(row), np.bool_)
    chosen[by_day[np.arange(len(row)) - first < day_orders]] = True
    size = draw_sizes(rng, len(row), world.sizes)
    panels = []
    for place, (horizon, orders) in enumerate(zip(horizons, found, strict=True)):
        kept = np.tile(chosen[which == place], 2)
        if not kept.any():
            continue
        sized = sized_orders(orders, np.tile(size[which == place], 2), data, world.scales)
        panels.append(StaticPanel(world.over(horizon=horizon), sized.take(kept)))
    return tuple(panels)


def joined_scores(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Scores of several panels one after the other."""
    if not parts:
        return {}
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def paired(values: npt.NDArray[np.float64]) -> Array:
    """The mean of both sides: order i and its opposite, half a batch away."""
    half = len(values) // 2
    return (values[:half] + values[half:]) / 2.0
