"""The dynamic world: parent orders executed in simulated order books, where they move the price.

The face is StaticCore's: orders in, one bar per step, a record out. Each order has a market of its own, or `agents`
neighbours of the batch share one. Prices and lots are integers inside the market; here they become currency and shares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.features import (
    BOOK_LEVELS,
    OBSERVATION_FIELDS,
    TURNED_FIELD,
    TURNED_SIGN,
    FeatureScales,
)
from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.market_pool import WarmPool, trade_bar
from se_rl.environments.market_view import MarketView
from se_rl.environments.metrics import BPS
from se_rl.environments.task import ExecutionRecord, Orders, WindowBenchmarks
from se_rl.environments.twin import Script, SessionTwin, free_script
from se_rl.market import participants as at
from se_rl.market.price_levels import BUY, SELL
from se_rl.market.profile import FIXED, MarketProfile

Array = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Observation = npt.NDArray[np.float32]

FARTHEST_TICKS = 100_000
"""Limits beyond this distance from the anchor mean the same as this one: there is no book out there."""


class DynamicCore:
    """Batched execution in simulated markets: twins of the sessions of `data`, or free markets without it.

    An order of any number of shares is as many lots as make it `participation` of the usual volume over its horizon.
    `shadow` steps every market a second time without our orders, on the same random numbers. After a step these say
    what happened (arrays over orders, prices in currency): `shares`, `reward`, `mid_before`, `mid_after`, `mid_average`,
    `fill_price` (the average mid where nothing was filled), `passive_share` and `forced_share` of the whole order;
    `half_spread` and `volatility` (shares of the price) and `imbalance` as known when the step was decided; with shadow
    `no_order_mid` and `own_impact` (bps, positive is against the order), else None.
    """

    def __init__(
        self,
        data: MarketData | None = None,
        *,
        profile: MarketProfile | None = None,
        scales: FeatureScales | None = None,
        agents: int = 1,
        participation: float = 0.10,
        fee_bps: float = 0.0,
        shadow: bool = False,
        seed: int = 0,
    ) -> None:
        if not 0.0 < participation <= 1.0:
            raise DataError(
                f"participation {participation} is not a share of the volume; use e.g. 0.1, at most 1"
            )
        self.twin = None if data is None else SessionTwin(data, scales)
        self.pool = WarmPool(profile or MarketProfile(), agents=agents, quiet=data is not None)
        self.agents, self.shadow = agents, shadow
        self._participation, self._fee = participation, fee_bps / BPS
        self._rng = np.random.default_rng(seed)
        self.markets = self.pool.markets(1)

    def reset(self, orders: Orders, *, seeds: npt.ArrayLike | None = None) -> Observation:
        """Start these orders, one seed per market (drawn where not given); the first observation, reused by later steps."""
        n, books = len(orders), len(orders) // self.agents
        if n == 0 or n % self.agents:
            raise DataError(
                f"{n} orders do not fill markets of {self.agents} agents; give a multiple of {self.agents}"
            )
        chosen = (
            self._rng.integers(2**62, size=books) if seeds is None else np.asarray(seeds, np.int64)
        )
        self.orders, self.step_index, self._books = orders, 0, books
        self._start_markets(np.broadcast_to(chosen, (books,)))
        usual_lots = self._participation * self.pool.usual_volume_lots * orders.horizon
        self._lots = max(1, round(usual_lots))
        self.remaining_lots = np.full(n, self._lots, np.int64)
        self.remaining = orders.quantity.copy()
        self._carry, self._spent = np.zeros(n), np.zeros(n, np.int64)
        self.shares, self.reward, self.leftover = np.zeros(n), np.zeros(n), np.zeros(n)
        self.passive_share, self.forced_share = np.zeros(n), np.zeros(n)
        self.no_order_mid: Array | None = None
        self.own_impact: Array | None = None
        self._window = np.zeros(
            (3, books)
        )  # sums over the bars: average mids in ticks, traded lots, their cash
        self._own_side = np.where(orders.side > 0, SELL, BUY)
        self.arrival = self._per_order(self.price(self._mid_ticks()))
        self.mid_after = self.arrival
        self._view = MarketView(self.script, self.pool, np.log(self.price(self._mid_ticks())))
        self.observation = np.zeros((n, len(OBSERVATION_FIELDS)), np.float32)
        self._observe()
        return self.observation

    @property
    def done(self) -> bool:
        """All orders of the batch end together: they share one horizon."""
        return self.step_index >= self.orders.horizon

    @property
    def broken(self) -> npt.NDArray[np.bool_]:
        """Orders whose outcome is void: their market broke, or at the end it refused to take what was left."""
        market = self._per_order(self.markets.broken[: self._books])
        return market | (self.remaining_lots > 0) if self.done else market

    def price(self, ticks: Array) -> Array:
        """Ticks [..., market] in currency."""
        return self.script.reference * (1.0 + (ticks - self._anchor) * self.script.tick)

    def touch(self) -> Array:
        """The own-side best price known now (ask for a sell, bid for a buy); the mid where that side is empty."""
        return np.where(self._own_side == SELL, self._touches[SELL], self._touches[BUY])

    def step(self, ratio: Array, limit: Array | None = None) -> Observation:
        """Trade `ratio` of each remaining inventory in this bar, at market or (where `limit` is not NaN) by a limit
        order that rests until the bar's end, and keeps its place in the queue if the next one has the same price."""
        if self.done:
            raise ValueError("these orders are finished; reset() starts new ones")
        wishes = self._wishes(self._round_to_lots(ratio), limit)
        self.mid_before = self.mid_after
        self.half_spread, self.volatility, self.imbalance = self._known
        step = slice(self.step_index, self.step_index + 1)
        bars, answers = trade_bar(
            self.markets, wishes, drift=self._drift[step], events=self._events[step]
        )
        self.step_index += 1
        own = self._own(answers)
        self.remaining_lots = self.remaining_lots - own[:, at.ANSWERED]
        forced = self._complete() if self.done else np.zeros_like(own)
        self._book(
            own, forced, {name: values[0].astype(np.float64) for name, values in bars.items()}
        )
        self._observe()
        return self.observation

    def record(self, fills: Array | None = None) -> ExecutionRecord:
        """The finished batch, NaN prices where an order is void; `fills` are shares per step where the caller kept them."""
        void = self.broken | (self.remaining_lots > 0)
        mean_ticks = np.where(void, np.nan, self._spent / self._lots)
        gross = self._currency(mean_ticks)
        net = gross * (1.0 - self.orders.side * self._fee)
        kept = np.empty((len(self.orders), 0)) if fills is None else fills
        return ExecutionRecord(self.orders, gross, net, self.leftover / self.orders.quantity, kept)

    def benchmarks(self) -> WindowBenchmarks:
        """VWAP of all trades of the window's bars so far, TWAP of the bars' average mids, and the arrival mid."""
        mid_sum, lots, cash = self._window
        twap_ticks = mid_sum / max(1, self.step_index)
        vwap_ticks = np.divide(cash, lots, out=twap_ticks.copy(), where=lots > 0)
        vwap, twap = (self._per_order(self.price(ticks)) for ticks in (vwap_ticks, twap_ticks))
        return WindowBenchmarks(vwap, twap, self.arrival)

    def execute(
        self,
        orders: Orders,
        ratios: Array | Callable[[DynamicCore], Array],
        *,
        seeds: npt.ArrayLike | None = None,
    ) -> ExecutionRecord:
        """Run whole orders: `ratios` [order, step], or a function of the core that gives the next step's ratios."""
        self.reset(orders, seeds=seeds)
        fills = np.empty((len(orders), orders.horizon))
        while not self.done:
            step = self.step_index
            self.step(ratios(self) if callable(ratios) else ratios[:, step])
            fills[:, step] = self.shares
        return self.record(fills / orders.quantity[:, None])

    def run_without_orders(self) -> dict[str, Int]:
        """The whole window from a fresh reset with nobody executing: the bars [step, market] as `Markets.run` records them."""
        return self.markets.run(self.orders.horizon, drift=self._drift, events=self._events)[0]

    def _start_markets(self, seeds: Int) -> None:
        """Copy warm states into the markets (and the same ones into their shadows) and write their script."""
        both = np.tile(seeds, 2) if self.shadow else seeds.copy()
        if self.markets.n != len(both):
            self.markets = self.pool.markets(len(both))
        rows = self.pool.start(self.markets, both)[: self._books]
        leads = self.orders.take(np.arange(self._books) * self.agents)
        if self.twin is None:
            self._anchor = self._mid_ticks()
            past_volume = self.pool.volume_lots[:, rows] / self.pool.usual_volume_lots
            self.script: Script = free_script(
                self.pool.mid_ticks[:, rows],
                past_volume,
                horizon=leads.horizon,
                volatility_ticks=self.pool.volatility_ticks,
            )
        else:
            self._anchor = self.markets.sim.state[: self._books, at.VALUE] / FIXED
            pool = self.pool
            self.script = self.twin.script(
                leads,
                volatility_ticks=pool.volatility_ticks,
                usual_volume_lots=pool.usual_volume_lots,
            )
        self.pool.widen(
            self.markets, spread_ticks=self.script.spread, best_lots=self.script.best_lots
        )
        path = np.rint(self.script.value_ticks * FIXED).astype(np.int64)
        events = np.rint(self.script.activity * self.markets.events_per_bar[: self._books]).astype(
            np.int64
        )
        copies = (1, len(both) // self._books)
        self._drift = np.tile(np.diff(path, axis=0, prepend=0), copies)
        self._events = np.tile(events, copies)

    def _round_to_lots(self, ratio: Array) -> Int:
        """Whole lots to trade; what rounding adds or leaves is carried over, so that a schedule's total is exact."""
        if not np.all(np.isfinite(ratio)):
            raise ValueError("a ratio is not finite; give numbers from 0 to 1")
        want = np.clip(ratio, 0.0, 1.0) * (self.remaining_lots - self._carry) + self._carry
        lots = np.clip(np.rint(want), 0, self.remaining_lots).astype(np.int64)
        self._carry = want - lots
        return lots

    def _wishes(self, lots: Int, limit: Array | None) -> Int:
        """[market, agent, 4]: the shadows' rows stay empty."""
        wishes = np.zeros((self.markets.n, self.agents, 4), np.int64)
        own = wishes[: self._books].reshape(-1, 4)  # a view: the first markets' rows lie together
        own[:, at.KIND], own[:, at.WISH_SIDE], own[:, at.WISH_LOTS] = at.TAKE, self._own_side, lots
        if limit is None:
            return wishes
        posted = ~np.isnan(limit)
        reference, tick, anchor = map(
            self._per_order, (self.script.reference, self.script.tick, self._anchor)
        )
        away = (np.where(posted, limit, reference) / reference - 1.0) / tick
        own[:, at.WISH_PRICE] = np.rint(
            anchor + np.clip(away, -FARTHEST_TICKS, FARTHEST_TICKS)
        ).astype(np.int64)
        own[posted, at.KIND] = at.POST
        return wishes

    def _complete(self) -> Int:
        """Take what is left at market after the last bar, without any event; what is refused stays in the inventory."""
        self.leftover = self._in_shares(self.remaining_lots)
        wishes, nothing = (
            self._wishes(self.remaining_lots, None),
            np.zeros((1, self.markets.n), np.int64),
        )
        taken = self._own(trade_bar(self.markets, wishes, drift=nothing, events=nothing)[1])
        self.remaining_lots = self.remaining_lots - taken[:, at.ANSWERED]
        return taken

    def _book(self, own: Int, forced: Int, bars: dict[str, Array]) -> None:
        """Shares, cash and reward of the step from the answers and the bar."""
        books, lots, side = self._books, self._lots, self.orders.side
        average = (bars["open"] + bars["high"] + bars["low"] + bars["close"])[:books] / 8.0
        self._window += (average, bars["volume"][:books], bars["cash"][:books])
        close, high, low = (
            self.price(bars[name][:books] / 2.0) for name in ("close", "high", "low")
        )
        relative_volume = bars["volume"][:books] / self.pool.usual_volume_lots
        self._view.add(
            log_mid=np.log(close),
            log_high=np.log(high),
            log_low=np.log(low),
            relative_volume=relative_volume,
        )
        self.mid_average = self._per_order(self.price(average))
        self.mid_after = self._per_order(close)
        if self.shadow:
            self.no_order_mid = self._per_order(self.price(bars["close"][books:] / 2.0))
            self.own_impact = -side * (self.mid_after / self.no_order_mid - 1.0) * BPS
        self._spent += own[:, at.SPENT] + forced[:, at.SPENT]
        self.shares = self._in_shares(own[:, at.ANSWERED])
        self.remaining = self._in_shares(self.remaining_lots)
        self.passive_share, self.forced_share = (
            own[:, at.PASSIVE] / lots,
            forced[:, at.ANSWERED] / lots,
        )
        filled, cash = (
            own[:, at.ANSWERED] + forced[:, at.ANSWERED],
            own[:, at.SPENT] + forced[:, at.SPENT],
        )
        self.fill_price = np.where(
            filled > 0, self._currency(cash / np.maximum(filled, 1)), self.mid_average
        )
        self._pay_reward(filled / lots)

    def _pay_reward(self, share: Array) -> None:
        """The step's gain over TWAP's slice at the bar's average mid, in bps of the arrival price, fees on both sides.

        What the market refused at the end is charged two collars beyond the mid, worse than any fill could have been: the
        order is void in the record, but a learner must not find that free.
        """
        side, horizon, unit = self.orders.side, self.orders.horizon, 1.0 / self.arrival
        net = 1.0 - side * self._fee
        own = share * (self.fill_price * net * unit - 1.0)
        if self.done:
            collar = self._per_order(self.script.tick * self.script.reference) * (
                2.0 * self.pool.profile.collar
            )
            own += (
                self.remaining_lots
                / self._lots
                * ((self.mid_after - side * collar) * net * unit - 1.0)
            )
        self.reward = BPS * side * (own - (self.mid_average * net * unit - 1.0) / horizon)

    def _observe(self) -> None:
        """Fill the observation from the books and the view, and keep what a decision taken now knows."""
        depth = self.markets.books.depth(BOOK_LEVELS)[: self._books]
        lots, mid = depth[..., 1], self._mid_ticks()
        bid, ask = (
            self.price(np.where(lots[:, side, 0] > 0, depth[:, side, 0, 0], mid))
            for side in (BUY, SELL)
        )
        public = self._per_order(self._view.fields(bid, ask, lots).T)
        turned = public[:, TURNED_FIELD] * TURNED_SIGN
        self.observation[:, :-2] = np.where(self.orders.side[:, None] > 0, public, turned)
        self.observation[:, -2] = 1.0 - self.step_index / self.orders.horizon
        self.observation[:, -1] = self.remaining_lots / self._lots
        self._touches = self._per_order(bid), self._per_order(ask)
        known = ((ask - bid) / (ask + bid), self._view.volatility, self._view.imbalance)
        self._known = tuple(self._per_order(values) for values in known)

    def _in_shares(self, lots: Int) -> Array:
        return self.orders.quantity * (lots / self._lots)

    def _mid_ticks(self) -> Array:
        return self.markets.mid_ticks[: self._books]

    def _own(self, answers: Int) -> Int:
        """[order, 4] of the answers [bar, market, agent, 4] of one bar."""
        return answers[0, : self._books].reshape(-1, 4)

    def _per_order(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values per market as values per order."""
        return values if self.agents == 1 else np.repeat(values, self.agents, axis=0)

    def _currency(self, ticks: Array) -> Array:
        """Ticks [order] in currency."""
        by_market = ticks.reshape(self._books, self.agents).T
        return self.price(by_market).T.ravel()
