"""The engine of the dynamic world: orders executed in simulated books, where they move the price.

The face is StaticCore's: orders in, one bar per step, a record out. Each order has a market of its
own, or `agents` neighbours of the batch share one. `dynamic_world.py`, the Gymnasium environments
and the multi-agent world run on this engine and book nothing themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from se_rl.data.features import OBSERVATION_FIELDS, OBSERVATION_PLACE, FeatureScales
from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.engine import run_to_end
from se_rl.environments.further_inputs import FurtherInputs
from se_rl.environments.limit_units import LimitUnit, whole_ticks
from se_rl.environments.market_view import MarketView
from se_rl.environments.metrics import BPS
from se_rl.environments.scripted_markets import ScriptedMarkets, default_kind
from se_rl.environments.task import ExecutionRecord, Orders, WindowBenchmarks, write_order_fields
from se_rl.market import participants as at
from se_rl.market.family import MarketKind
from se_rl.market.price_levels import BUY, SELL
from se_rl.market.simulation import Markets

Array = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Observation = npt.NDArray[np.float32]

FARTHEST_TICKS = 100_000
"""Limits farther than this from the anchor mean the same: there is no book out there."""


class DynamicCore:
    """Batched execution in simulated markets: free ones, or twins of the sessions of `data`.

    `kinds` says which kind of market an order's number means; without it there is one, the default
    market, a twin where there is data.

    An order of any number of shares is as many lots as make it its `size` of the usual volume over
    its horizon. `shadow` steps every market a second time without our orders, on the same
    random numbers. After a step these say what happened (arrays over orders, prices in currency):
    `shares`, `reward`, `mid_before`, `mid_after`, `mid_average`, `fill_price` (the average mid
    where nothing was filled), `passive_share` and `forced_share` of the whole order; `half_spread`
    and `volatility` (shares of the price) and `imbalance` as known when the step was decided; with
    shadow `no_order_mid` and `own_impact` (bps, positive is against the order), else None.
    `inputs` names what is observed beside the usual, from the next reset on.
    """

    def __init__(
        self,
        data: MarketData | None = None,
        *,
        kinds: Sequence[MarketKind] | None = None,
        scales: FeatureScales | None = None,
        agents: int = 1,
        fee_bps: float = 0.0,
        shadow: bool = False,
        seed: int = 0,
        limit_unit: LimitUnit = "ticks",
    ) -> None:
        self.limit_unit = limit_unit
        self.kinds = tuple(kinds or (default_kind(data),))
        self.books = ScriptedMarkets(
            data, kinds=self.kinds, scales=scales, agents=agents, shadow=shadow
        )
        self.twin = self.books.twin
        self.agents = agents
        self.inputs: tuple[str, ...] = ()
        self._fee = fee_bps / BPS
        self._rng = np.random.default_rng(seed)

    @property
    def markets(self) -> Markets:
        """The simulated markets, ours first and then their shadows."""
        return self.books.markets

    def reset(self, orders: Orders, *, seeds: npt.ArrayLike | None = None) -> Observation:
        """Start these orders, one seed per market (drawn where not given)."""
        n = len(orders)
        if n == 0 or n % self.agents:
            raise DataError(
                f"{n} orders do not fill markets of {self.agents} agents; "
                f"give a multiple of {self.agents}"
            )
        count = n // self.agents
        if seeds is None:
            seeds = self._rng.integers(2**62, size=count)
        self.orders = orders
        self.step_index = 0
        self.books.start(orders, np.broadcast_to(np.asarray(seeds, np.int64), (count,)))
        self.script = self.books.script
        volume_lots = self.books.per_order(self.books.usual.volume_lots)
        usual_lots = orders.size * volume_lots * orders.horizon
        self._lots = np.maximum(1, np.rint(usual_lots)).astype(np.int64)
        self._open_accounts(n)
        self.arrival = self.books.per_order(self.price(self.books.mid_ticks))
        self.mid_after = self.arrival
        self._view = MarketView(self.books, horizon=orders.horizon)
        self._further = FurtherInputs(self, self.inputs)
        self.observation = np.zeros((n, len(OBSERVATION_FIELDS) + self._further.size), np.float32)
        write_order_fields(orders, self.observation)
        self._observe()
        return self.observation

    def _open_accounts(self, n: int) -> None:
        """Nothing is traded yet."""
        self.remaining_lots = self._lots.copy()
        self.remaining = self.orders.quantity.copy()
        self.shares = np.zeros(n)
        self.reward = np.zeros(n)
        self.leftover = np.zeros(n)
        self.passive_share = np.zeros(n)
        self.forced_share = np.zeros(n)
        self.no_order_mid: Array | None = None
        self.own_impact: Array | None = None
        self._carry = np.zeros(n)
        self._spent = np.zeros(n, np.int64)  # ticks x lots
        self._own_side = np.where(self.orders.side > 0, SELL, BUY)
        # sums over the bars [what, market]: average mids in ticks, traded lots, their cash
        self._window = np.zeros((3, n // self.agents))

    @property
    def done(self) -> bool:
        """All orders of the batch end together: they share one horizon."""
        return self.step_index >= self.orders.horizon

    @property
    def broken(self) -> npt.NDArray[np.bool_]:
        """Orders whose market broke, or at the end refused to take what was left: void."""
        market = self.books.broken
        return market | (self.remaining_lots > 0) if self.done else market

    def price(self, ticks: Array) -> Array:
        """Ticks [..., market] in currency."""
        return self.books.price(ticks)

    def touch(self) -> Array:
        """The own-side best price known now: ask for a sell, bid for a buy, else the mid."""
        bid = self.books.per_order(self._view.bid)
        ask = self.books.per_order(self._view.ask)
        return np.where(self._own_side == SELL, ask, bid)

    def limits(self, offset: Array) -> Array:
        """Limit prices, so many of `limit_unit` from the own touch; positive ones are passive."""
        tick = self.books.tick_currency()
        volatility = self.books.per_order(self._view.volatility) * self.arrival / tick
        ticks = whole_ticks(offset, self.limit_unit, volatility_ticks=volatility)
        return self.touch() + self.orders.side * ticks * tick

    def worst_price(self) -> Array:
        """Two collars beyond the mid, worse than any fill: the price of what the market refused.

        Such an order is void in the record, but a learner must not find that free.
        """
        collar = self.books.tick_currency() * self.books.per_order(2.0 * self.books.usual.collar)
        return self.mid_after - self.orders.side * collar

    def step(self, ratio: Array, limit: Array | None = None) -> Observation:
        """Trade `ratio` of each remaining inventory in this bar, at market or at `limit`.

        A limit order (where `limit` is not NaN) rests until the bar's end, and keeps its place in
        the queue if the next one has the same price.
        """
        if self.done:
            raise ValueError("these orders are finished; reset() starts new ones")
        wishes = self._wishes(self._round_to_lots(ratio), limit)
        self.mid_before = self.mid_after
        self.half_spread = self.books.per_order(self._view.half_spread)
        self.volatility = self.books.per_order(self._view.volatility)
        self.imbalance = self.books.per_order(self._view.imbalance)
        bars, own = self.books.trade(wishes, step=self.step_index)
        self.step_index += 1
        self.remaining_lots = self.remaining_lots - own[:, at.ANSWERED]
        forced = self._complete() if self.done else np.zeros_like(own)
        self._note_bar(bars)
        self._book(own, forced)
        self._observe()
        return self.observation

    def record(self, fills: Array | None = None) -> ExecutionRecord:
        """The batch as in `StaticCore`, NaN prices where an order is void."""
        filled = np.where(self.broken, 0, self._lots - self.remaining_lots)  # all lots once done
        gross = self.books.order_price(self._spent / np.where(filled > 0, filled, np.nan))
        net = gross * (1.0 - self.orders.side * self._fee)
        kept = np.empty((len(self.orders), 0)) if fills is None else fills
        left = (self.leftover if self.done else self.remaining) / self.orders.quantity
        return ExecutionRecord(self.orders, gross, net, left, kept)

    def benchmarks(self) -> WindowBenchmarks:
        """VWAP of all trades of the bars so far, TWAP of the bars' average mids, arrival mid."""
        mid_sum, lots, cash = self._window
        twap_ticks = mid_sum / max(1, self.step_index)
        vwap_ticks = np.divide(cash, lots, out=twap_ticks.copy(), where=lots > 0)
        vwap = self.books.per_order(self.price(vwap_ticks))
        twap = self.books.per_order(self.price(twap_ticks))
        return WindowBenchmarks(vwap, twap, self.arrival)

    def execute(
        self,
        orders: Orders,
        ratios: Array | Callable[[DynamicCore], Array],
        *,
        seeds: npt.ArrayLike | None = None,
    ) -> ExecutionRecord:
        """Run whole orders: `ratios` [order, step], or a function that gives the next step's."""
        self.reset(orders, seeds=seeds)
        return run_to_end(self, ratios)

    def _round_to_lots(self, ratio: Array) -> Int:
        """Whole lots to trade; what rounding adds or leaves is carried over to the next step."""
        if not np.all(np.isfinite(ratio)):
            raise ValueError("a ratio is not finite; give numbers from 0 to 1")
        want = np.clip(ratio, 0.0, 1.0) * (self.remaining_lots - self._carry) + self._carry
        lots = np.clip(np.rint(want), 0, self.remaining_lots).astype(np.int64)
        self._carry = want - lots
        return lots

    def _wishes(self, lots: Int, limit: Array | None) -> Int:
        """[market, agent, wish]: take these lots, or post them where there is a limit."""
        wishes, own = self.books.wishes()
        own[:, at.KIND] = at.TAKE
        own[:, at.WISH_SIDE] = self._own_side
        own[:, at.WISH_LOTS] = lots
        if limit is None:
            return wishes
        posted = ~np.isnan(limit)
        price = np.where(posted, limit, self.books.per_order(self.script.reference))
        own[:, at.WISH_PRICE] = self.books.order_ticks(price, farthest=FARTHEST_TICKS)
        own[posted, at.KIND] = at.POST
        return wishes

    def _complete(self) -> Int:
        """Take what is left at market after the last bar; what is refused stays open."""
        self.leftover = self._in_shares(self.remaining_lots)
        taken = self.books.trade_at_once(self._wishes(self.remaining_lots, None))
        self.remaining_lots = self.remaining_lots - taken[:, at.ANSWERED]
        return taken

    def _note_bar(self, bars: dict[str, Array]) -> None:
        """Mids and volume of the bar that has closed; mids are recorded in half ticks."""
        ours = slice(0, self.books.count)
        volume = bars["volume"][ours]
        average = (bars["open"] + bars["high"] + bars["low"] + bars["close"])[ours] / 8.0
        self._window += (average, volume, bars["cash"][ours])
        close = self.price(bars["close"][ours] / 2.0)
        self._view.add(
            log_mid=np.log(close),
            log_high=np.log(self.price(bars["high"][ours] / 2.0)),
            log_low=np.log(self.price(bars["low"][ours] / 2.0)),
            relative_volume=volume / self.books.usual.volume_lots,
        )
        self._further.add(bars)
        self.mid_average = self.books.per_order(self.price(average))
        self.mid_after = self.books.per_order(close)
        if self.books.shadow:
            free = self.price(bars["close"][self.books.count :] / 2.0)
            self.no_order_mid = self.books.per_order(free)
            self.own_impact = -self.orders.side * (self.mid_after / self.no_order_mid - 1.0) * BPS

    def _book(self, own: Int, forced: Int) -> None:
        """Shares, cash and reward of the step from the answers of the market."""
        filled = own[:, at.ANSWERED] + forced[:, at.ANSWERED]
        cash = own[:, at.SPENT] + forced[:, at.SPENT]
        self._spent += cash
        self.shares = self._in_shares(own[:, at.ANSWERED])
        self.remaining = self._in_shares(self.remaining_lots)
        self.passive_share = own[:, at.PASSIVE] / self._lots
        self.forced_share = forced[:, at.ANSWERED] / self._lots
        mean_price = self.books.order_price(cash / np.maximum(filled, 1))
        self.fill_price = np.where(filled > 0, mean_price, self.mid_average)
        self._pay_reward(filled / self._lots)

    def _pay_reward(self, share: Array) -> None:
        """The step's gain over TWAP's slice at the average mid, in bps of the arrival price."""
        side = self.orders.side
        unit = 1.0 / self.arrival
        net = 1.0 - side * self._fee
        own = share * (self.fill_price * net * unit - 1.0)
        if self.done:
            refused = self.remaining_lots / self._lots
            own += refused * (self.worst_price() * net * unit - 1.0)
        twap = (self.mid_average * net * unit - 1.0) / self.orders.horizon
        self.reward = BPS * side * (own - twap)

    def _observe(self) -> None:
        """Fill the observation from the books as they stand now."""
        seen = self.observation
        self._view.show(self.orders.side, seen)
        seen[:, OBSERVATION_PLACE["time_left"]] = 1.0 - self.step_index / self.orders.horizon
        seen[:, OBSERVATION_PLACE["inventory_left"]] = self.remaining_lots / self._lots
        self._further.write(seen[:, len(OBSERVATION_FIELDS) :])

    def _in_shares(self, lots: Int) -> Array:
        return self.orders.quantity * (lots / self._lots)
