"""The task that all baselines share: one data set, its orders, and the costs of execution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from se_rl.baselines import schedules
from se_rl.baselines.settings import BaselinesConfig
from se_rl.data.catalog import DataSet, load_dataset
from se_rl.data.known import with_history
from se_rl.data.market_data import MarketData
from se_rl.data.splits import given_split
from se_rl.environments.costs import Costs
from se_rl.environments.static_core import StaticCore, ratios_from_weights
from se_rl.environments.task import Orders, order_pairs
from se_rl.scoring.order_scores import Panel, Score
from se_rl.seal import PUBLIC, check_seal

BOUND = "foresight bound"


class BaselineTask:
    """One data set and its orders at the configured costs: every policy gets exactly the same."""

    def __init__(self, config: BaselinesConfig, data: MarketData, orders: Orders) -> None:
        self.config = config
        self.data = data
        self.orders = orders
        self.costs = Costs.of(config)
        self.panel = Panel.of(data, orders, benchmark=config.benchmark)
        self._core = StaticCore(data, costs=self.costs)

    @property
    def is_capped(self) -> bool:
        """Whether an order may take only a share of a bar's volume."""
        return self.config.max_participation is not None

    def score(self, name: str, weights: schedules.Array) -> Score:
        """Execute planned shares [order, step]."""
        record = self._core.execute(self.orders, ratios_from_weights(weights))
        return Score(name, self.panel, record)

    def bound(self) -> Score:
        """The perfect-foresight bound under the configured cap."""
        caps = None
        if self.config.max_participation is not None:
            volume = self.orders.gather(self.data.require_volume("a participation cap"))
            caps = self.config.max_participation * volume / self.orders.quantity[:, None]
        weights = schedules.foresight(self.orders, self.panel.price, max_shares=caps)
        return self.score(BOUND, weights)


def open_task(
    config: BaselinesConfig, *, say: Callable[[str], None] = lambda _: None
) -> tuple[DataSet, BaselineTask]:
    """The data set that a configuration names, and the task on it."""
    say(f"loading {config.data}")
    if config.seal is not None:
        check_seal(config.seal)
    dataset = load_dataset(
        config.data,
        seal=config.seal or PUBLIC,
        split=given_split(config.train_until, config.valid_until),
        scored_days=config.scored_days,
        with_test=config.split in ("test", "all"),
    )
    horizon = None if config.horizon == "session" else config.horizon
    dates = dataset.dates(config.split)
    data = with_history(dataset.data, dates)
    orders = order_pairs(data, horizon, dates=dates, start=config.start, quantity=config.quantity)
    if config.symbols:
        chosen = [data.symbol_index(symbol) for symbol in config.symbols]
        orders = orders.take(np.isin(orders.row // len(data.dates), chosen))
    return dataset, BaselineTask(config, data, orders)
