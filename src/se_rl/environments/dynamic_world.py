"""The dynamic world to train in: simulated books behind the face of `worlds.World`.

Episodes come from a fixed bank of seeds (and windows, with data). What does not depend on the
policy (the mids without our order, and what TWAP by market orders gets) is simulated once per bank
entry, when the entry is first used; after that a training step costs one market per book.
`dynamic_core.py` executes the orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from se_rl.data.features import OBSERVATION_FIELDS, FeatureScales
from se_rl.data.given import GivenBars, as_market_data
from se_rl.data.market_data import DataError
from se_rl.environments.dynamic_core import DynamicCore
from se_rl.environments.episode_bank import BankPlan, Baseline, EpisodeBank
from se_rl.environments.episode_baseline import simulate_baseline
from se_rl.environments.limit_units import LimitUnit
from se_rl.environments.metrics import BPS
from se_rl.environments.scripted_markets import default_kind
from se_rl.environments.task import (
    SIZES,
    ExecutionRecord,
    WindowBenchmarks,
    checked_sizes,
)
from se_rl.environments.worlds import (
    FIELD_NAMES,
    Array,
    Bool,
    Episodes,
    Fields,
    Observation,
    check_pairs,
    session_rows,
    window_starts,
    write_fields,
)
from se_rl.market.family import MarketKind
from se_rl.modules.agent_interface import further_width

__all__ = ["Baseline", "DynamicWorld", "EpisodeBank"]

BLOCK = 256
"""Bank entries simulated at a time."""


@dataclass(frozen=True, eq=False)
class _Traded:
    """A step's trade with what the market refused at the end counted in; shares of the order."""

    share: Array
    left: Array
    refused: Array
    net_price: Array  # in currency, after the fee


class DynamicWorld:
    """Orders in simulated markets, which they move.

    Every episode draws its kind of market out of `kinds` (None: the default market), free or the
    twin of a session of `dates` in `data`. Sizes are log-uniform shares of the horizon's usual
    volume between the two of `sizes`. With `takes_price` the offsets of a step become limit prices,
    so many of `limit_unit` from the own touch: ticks, or halves of a bar's volatility.
    `shadow_from_bank=False` simulates the baseline anew for every batch, at three times the cost.
    """

    name = "dynamic"
    observation_size = len(OBSERVATION_FIELDS)
    further: tuple[str, ...] = ()
    field_names = FIELD_NAMES

    def __init__(
        self,
        data: GivenBars | None = None,
        *,
        kinds: Sequence[MarketKind] | None = None,
        horizon: int = 40,
        sizes: tuple[float, float] = SIZES,
        takes_price: bool = False,
        limit_unit: LimitUnit = "ticks",
        bank: int | EpisodeBank = 4096,
        seed: int = 0,
        agents: int = 1,
        fee_bps: float = 0.0,
        shadow_from_bank: bool = True,
        dates: npt.ArrayLike | None = None,
        scales: FeatureScales | None = None,
    ) -> None:
        if (isinstance(bank, int) and bank < 1) or horizon < 1:
            raise DataError(
                f"a bank of {bank} episodes of {horizon} steps is empty; use 1 or more of both"
            )
        self.horizon = horizon
        self.agents = agents
        self.takes_price = takes_price
        self.shadow_from_bank = shadow_from_bank
        self.fee = fee_bps / BPS
        rows = starts = np.zeros(1, np.int64)
        data = None if data is None else as_market_data(data)
        if data is not None:
            rows = session_rows(data, dates)
            starts = window_starts(data, horizon, "any")
            if scales is None:
                chosen = data if dates is None else data.select(dates=np.asarray(dates))
                scales = FeatureScales.fit(chosen)
        self.kinds = tuple(kinds or (default_kind(data),))
        plan = BankPlan.of(
            self.kinds,
            data,
            scales,
            horizon=horizon,
            sizes=checked_sizes(sizes),
            agents=agents,
            seed=seed,
            rows=rows,
            starts=starts,
        )
        self.bank = bank if isinstance(bank, EpisodeBank) else EpisodeBank.make(bank, plan)
        self.entries = range(len(self.bank))
        if self.bank["key"].tobytes() != plan.key:
            raise DataError(
                "this bank holds other episodes; build it with the settings of this world"
            )
        self.core = DynamicCore(
            data,
            kinds=self.kinds,
            scales=scales,
            agents=agents,
            fee_bps=fee_bps,
            limit_unit=limit_unit,
        )

    @property
    def limit_unit(self) -> LimitUnit:
        """What the offsets of a step are measured in."""
        return self.core.limit_unit

    def over(self, entries: range) -> DynamicWorld:
        """The same world with some of the bank's entries to draw, to be played beside it."""
        other = copy(self)
        other.core = copy(self.core)
        other.core.books = self.core.books.beside()
        other.entries = entries
        return other

    def showing(self, inputs: tuple[str, ...]) -> DynamicWorld:
        """The same world whose observations end with these further inputs."""
        other = self.over(self.entries)
        other.further = other.core.inputs = inputs
        other.observation_size = len(OBSERVATION_FIELDS) + further_width(inputs)
        return other

    def draw(self, rng: np.random.Generator, n: int) -> Episodes:
        """Entries of the bank, none twice while there are enough, with both sides of each."""
        books = check_pairs(n, self.agents) // self.agents
        count = len(self.entries)
        entry = self.entries.start + rng.choice(count, books, replace=books > count)
        return self.bank.episodes(entry, horizon=self.horizon)

    def filled_bank(self) -> EpisodeBank:
        """The bank with every entry's baseline simulated, to share with other processes."""
        self.baseline_of(self.bank.episodes(np.arange(len(self.bank)), horizon=self.horizon))
        return self.bank

    def reset(self, episodes: Episodes) -> Observation:
        """Start these; the baseline is looked up, or simulated where it is new."""
        orders = episodes.of_horizon(self.horizon)
        self._baseline = self.baseline_of(episodes)
        observation = self.core.reset(orders, seeds=episodes.book_seeds)
        self._left = np.ones(len(orders))
        return observation

    def step(self, ratio: Array, offset: Array | None, fields: Fields) -> Observation:
        """One bar; there is no limit where the offset is NaN."""
        core = self.core
        limit = None
        if self.takes_price and offset is not None:
            limit = core.limits(offset)
        observation = core.step(ratio, limit)
        write_fields(self._fields(core.step_index - 1), fields)
        return observation

    @property
    def broken(self) -> Bool:
        """Orders that say nothing: their market broke, or one that they are compared with.

        What a whole market refuses to take at the end does say something, and costs two collars in
        the fields: dropped, a schedule that never finishes would look cheap by its lucky survivors.
        """
        return self.core.books.broken | self._baseline.void

    def record(self) -> ExecutionRecord:
        """The finished batch, net of fees, NaN prices where an order is void in its own market."""
        return self.core.record()

    def benchmarks(self) -> WindowBenchmarks:
        """VWAP and TWAP of the simulated bars and the arrival mid."""
        return self.core.benchmarks()

    def baseline_of(self, episodes: Episodes) -> Baseline:
        """The baseline of these books, from the bank where they are in it."""
        found = self.bank.find(episodes) if self.shadow_from_bank else None
        if found is None:
            return simulate_baseline(self.core, episodes, episodes)
        entry, half = found
        new = np.unique(entry[~self.bank["known"][entry]])
        for first in range(0, len(new), BLOCK):
            block = new[first : first + BLOCK]
            both = self.bank.episodes(block, horizon=self.horizon)
            half_orders = both.orders.take(np.arange(len(both) // 2))
            once = Episodes(half_orders, both.book_seeds[: len(block)])
            self.bank.store(block, simulate_baseline(self.core, both, once))
        return self.bank.baseline(entry, half)

    def _fields(self, step: int) -> dict[str, Array]:
        """The reward's fields of the step just done.

        Where a market broke, its prices are those without our order.
        """
        core = self.core
        known = self._baseline
        side = core.orders.side.astype(np.float64)
        free_before = 1.0 + side * np.repeat(known.mid[:, step], self.agents)
        free_after = 1.0 + side * np.repeat(known.mid[:, step + 1], self.agents)
        news = side * np.repeat(known.news[:, step + 1] - known.news[:, step], self.agents)
        traded = self._trade_of_step()
        void = self.broken
        before = np.where(void, free_before, self._turn(core.mid_before))
        after = np.where(void, free_after, self._turn(core.mid_after))
        average = np.where(void, free_after, self._turn(core.mid_average))
        fill = np.where(void, free_after, self._turn(traded.net_price))
        twap_before = np.ones(len(side)) if step == 0 else known.left[:, step - 1]
        twap_fill = 1.0 + side * ((1.0 + known.fill[:, step]) * (1.0 - side * self.fee) - 1.0)
        return {
            "fill_price": np.where(traded.share > 0.0, fill, average),
            "benchmark_price": average,
            "traded_share": traded.share,
            "half_spread": core.half_spread,
            "volatility": core.volatility,
            "imbalance": side * core.imbalance,
            "inventory_left": traded.left,
            "time_left": np.full(len(side), 1.0 - (step + 1) / self.horizon),
            "own_impact": free_after - after,
            "mid_before": before,
            "mid_after": after,
            "no_order_mid": free_after,
            "no_order_mid_before": free_before,
            "news": news,
            "twap_fill_price": twap_fill,
            "twap_traded_share": twap_before - known.left[:, step],
            "twap_inventory_left": known.left[:, step],
            "passive_share": core.passive_share,
            "forced_share": core.forced_share + traded.refused,
        }

    def _trade_of_step(self) -> _Traded:
        """The step's trade; what the market refuses at the end is booked at the worst price."""
        core = self.core
        unsold = core.remaining / core.orders.quantity
        refused = unsold if core.done else np.zeros_like(unsold)
        left = unsold - refused
        share = self._left - left
        self._left = left
        part = np.divide(refused, share, out=np.zeros_like(share), where=share > 0.0)
        price = core.fill_price + part * (core.worst_price() - core.fill_price)
        return _Traded(share, left, refused, price * (1.0 - core.orders.side * self.fee))

    def _turn(self, price: Array) -> Array:
        """Currency as a share of the arrival price, turned so that higher is better."""
        return 1.0 + self.core.orders.side * (price / self.core.arrival - 1.0)
