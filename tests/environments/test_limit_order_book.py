"""The book as an object: the seeds' interface, its rules under random use, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.environments.limit_order_book import LimitOrderBook, Order, OrderSide, OrderType, Trade

BUY, SELL = OrderSide.BUY, OrderSide.SELL
LIMIT, MARKET, IOC = OrderType.LIMIT, OrderType.MARKET, OrderType.IOC


def test_the_seeds_snippet() -> None:
    lob = LimitOrderBook(initial_price=100.0, tick_size=0.01)
    order, trades = lob.submit_order(
        agent_id=1,
        side=OrderSide.BUY,
        order_type=OrderType.LIMIT,
        price=99.5,
        quantity=100,
        timestamp=1.0,
    )
    assert order == Order(1, 1, BUY, LIMIT, 99.5, 100.0, 100.0, 1.0)
    assert trades == []
    state = lob.get_state_vector(depth_levels=5)
    assert state.shape == (26,) and state.dtype == np.float32


def test_cancelling_the_last_order_of_a_level_leaves_no_trace() -> None:
    lob = LimitOrderBook()
    gone, _ = lob.submit_order("a", SELL, LIMIT, 100.01, 5)
    lob.submit_order("b", SELL, LIMIT, 100.02, 5)
    assert lob.cancel_order(gone.order_id) is gone
    order, trades = lob.submit_order("c", BUY, MARKET, None, 8)
    assert [(t.price, t.quantity, t.seller_id) for t in trades] == [(100.02, 5.0, "b")]
    assert (order.status, order.remaining_quantity) == ("cancelled", 3.0)
    assert lob.get_best_ask() is None


def test_price_then_time() -> None:
    lob = LimitOrderBook()
    for agent, price in (("late price", 100.02), ("first", 100.01), ("second", 100.01)):
        lob.submit_order(agent, "sell", "limit", price, 10)
    order, trades = lob.submit_order("taker", "BUY", "LIMIT", 100.02, 25, timestamp=7)
    assert trades == [
        Trade("taker", "first", 100.01, 10.0, 4, 2, 7.0),
        Trade("taker", "second", 100.01, 10.0, 4, 3, 7.0),
        Trade("taker", "late price", 100.02, 5.0, 4, 1, 7.0),
    ]
    assert (order.status, order.remaining_quantity) == ("filled", 0.0)
    assert lob.get_depth() == ([], [(100.02, 5.0)])
    assert lob.get_vwap() == pytest.approx((20 * 100.01 + 5 * 100.02) / 25, rel=1e-15)


def test_a_resting_order_is_kept_up_to_date() -> None:
    lob = LimitOrderBook()
    maker, _ = lob.submit_order(1, BUY, LIMIT, 99, 10)
    lob.submit_order(2, SELL, IOC, 98.5, 4)
    assert (maker.status, maker.remaining_quantity, maker.quantity) == (
        "partially_filled",
        6.0,
        10.0,
    )
    assert lob.cancel_order(maker.order_id, 2) is maker
    assert (maker.status, maker.remaining_quantity) == ("partially_filled", 4.0)
    lob.submit_order(2, SELL, IOC, 98.5, 9)
    assert (maker.status, maker.remaining_quantity) == ("filled", 0.0)
    assert lob.cancel_order(maker.order_id) is None
    assert lob.cancel_order(12345) is None
    assert lob.get_best_ask() is None  # the immediate-or-cancel rest is gone


def test_a_partial_cancel_keeps_the_place_in_the_queue() -> None:
    lob = LimitOrderBook()
    first, _ = lob.submit_order("first", BUY, LIMIT, 99, 10)
    lob.submit_order("second", BUY, LIMIT, 99, 10)
    lob.cancel_order(first.order_id, 4)
    _, trades = lob.submit_order("x", SELL, MARKET, None, 7)
    assert [(t.buyer_id, t.quantity) for t in trades] == [("first", 6.0), ("second", 1.0)]


def test_mid_spread_and_snapshot_where_a_side_is_empty() -> None:
    lob = LimitOrderBook(initial_price=50.0)
    assert (lob.get_mid_price(), lob.get_spread(), lob.get_best_bid(), lob.get_vwap()) == (
        50.0,
        None,
        None,
        None,
    )
    _, trades = lob.submit_order(1, BUY, MARKET, math.nan, 3)
    assert trades == []
    bid, _ = lob.submit_order(1, BUY, LIMIT, 49.98, 3)
    assert lob.get_mid_price() == 50.0
    lob.submit_order(2, SELL, LIMIT, 50.01, 1)
    assert lob.get_spread() == 0.03
    assert lob.get_mid_price() == pytest.approx(49.995, abs=1e-12)
    state = lob.get_state_vector(2)
    expected = [49.995, 0.03, 49.98, 50.01, 0.5, 0, 49.98, 0, 3, 0, 50.01, 0, 1, 0]
    assert state.tolist() == pytest.approx(expected, rel=1e-6)
    lob.cancel_order(bid.order_id)
    assert lob.get_mid_price() == pytest.approx(49.995, abs=1e-12)  # the last one known
    snapshot = lob.get_snapshot(levels=3)
    assert (snapshot["bids"], snapshot["asks"], snapshot["best_bid"], snapshot["orders"]) == (
        [],
        [(50.01, 1.0)],
        None,
        1,
    )
    lob.reset()
    assert lob.get_mid_price() == 50.0 and lob.get_depth() == ([], [])


def test_far_prices_and_a_growing_pool_stay_exact() -> None:
    lob, rng = LimitOrderBook(tick_size=0.01), np.random.default_rng(0)
    prices = [0.01, 10**9, *np.round(rng.uniform(1, 10**6, 3_000), 2).tolist()]
    for price in prices:
        lob.submit_order("maker", SELL, LIMIT, price, 1)
    assert len(lob.get_depth(5_000)[1]) == len(set(prices))
    _, trades = lob.submit_order("taker", BUY, MARKET, None, len(prices))
    assert [t.price for t in trades] == sorted(prices)


@pytest.mark.parametrize(
    ("tick", "price"), [(0.01, 100.01), (0.0001, 0.3), (1 / 3, 5.0), (0.25, 4012.75), (5.0, 35.0)]
)
def test_prices_and_quantities_come_back_as_they_went_in(tick: float, price: float) -> None:
    lob = LimitOrderBook(tick_size=tick, lot_size=1e-8)
    order, _ = lob.submit_order(1, BUY, LIMIT, price, 0.1 + 0.2)
    assert order.price == pytest.approx(price, rel=1e-15)
    assert lob.get_depth() == ([(order.price, 0.3)], [])


GOOD: dict[str, Any] = {
    "agent_id": 1,
    "side": BUY,
    "order_type": LIMIT,
    "price": 99.5,
    "quantity": 10,
}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("price", bad) for bad in (99.505, math.nan, math.inf, 0.0, -1.0, None, "x", 1e30)),
        *(("quantity", bad) for bad in (0, -5, math.nan, math.inf, None, 1e-7, 0.12345678, 1e30)),
        *(("side", bad) for bad in ("hold", 1, None)),
        *(("order_type", bad) for bad in ("stop", 0, None)),
        ("timestamp", math.nan),
    ],
)
def test_bad_orders_are_refused_and_change_nothing(field: str, value: Any) -> None:
    lob = LimitOrderBook()
    resting, _ = lob.submit_order(2, SELL, LIMIT, 99.4, 3)
    before = lob.get_snapshot()
    with pytest.raises(ValueError, match="steps" if value == 1e30 else field) as error:
        lob.submit_order(**{**GOOD, field: value})
    assert "\n" not in str(error.value)
    assert lob.get_snapshot() == before
    assert lob.submit_order(**GOOD)[0].order_id == resting.order_id + 1


@pytest.mark.parametrize("quantity", [0, -1, math.nan, 1e-9])
def test_bad_cancels_are_refused(quantity: float) -> None:
    lob = LimitOrderBook()
    order, _ = lob.submit_order(**GOOD)
    with pytest.raises(ValueError, match="quantity"):
        lob.cancel_order(order.order_id, quantity)
    assert order.remaining_quantity == 10


@pytest.mark.parametrize(
    "bad", [{"initial_price": 0}, {"tick_size": -0.01}, {"tick_size": math.nan}, {"lot_size": 0}]
)
def test_bad_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        LimitOrderBook(**bad)


def test_an_agent_id_must_be_hashable() -> None:
    lob = LimitOrderBook()
    with pytest.raises(ValueError, match="agent_id"):
        lob.submit_order(**{**GOOD, "agent_id": []})


NEAR_OR_FAR = st.one_of(st.integers(9_990, 10_010), st.integers(1, 10**7))
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from([LIMIT, LIMIT, LIMIT, MARKET, IOC, "cancel", "part"]),
        st.sampled_from([BUY, SELL]),
        NEAR_OR_FAR,
        st.integers(1, 20),
        st.sampled_from(["ann", 2, ("c", 3)]),
    ),
    max_size=60,
)


class Ledger:
    """What must hold after every action, kept from the trades and returned orders alone."""

    def __init__(self) -> None:
        self.lob = LimitOrderBook()
        self.orders: list[Order] = []
        self.withdrawn: dict[int, float] = {}
        self.traded: dict[int, float] = {}
        self.account: dict[Any, tuple[int, float]] = {}

    def live(self, side: OrderSide) -> list[Order]:
        """Resting orders in priority: best price, then first come."""
        sign = -1 if side is BUY else 1
        resting = [
            o for o in self.orders if o.side is side and o.status in ("open", "partially_filled")
        ]
        return sorted(resting, key=lambda o: (sign * (o.price or 0), o.order_id))

    def act(self, kind: Any, side: OrderSide, ticks: int, quantity: int, agent: Any) -> None:
        if kind in ("cancel", "part"):
            self.cancel(ticks, quantity if kind == "part" else None)
            return
        other = SELL if side is BUY else BUY
        expected = [(o.order_id, o.price, o.remaining_quantity) for o in self.live(other)]
        order, trades = self.lob.submit_order(agent, side, kind, ticks / 100, quantity)
        self.orders.append(order)
        assert [self.maker(t, order) for t in trades] == [
            ident for ident, _, _ in expected[: len(trades)]
        ]
        for trade, (_, price, size) in zip(trades, expected, strict=False):
            assert trade.price == price and (trade.quantity == size or trade is trades[-1])
            self.settle(trade)
        if kind is not LIMIT and order.remaining_quantity:
            self.withdrawn[order.order_id] = order.remaining_quantity
            assert order.status == "cancelled"

    def cancel(self, pick: int, quantity: int | None) -> None:
        if not self.orders:
            assert self.lob.cancel_order(pick) is None
            return
        order = self.orders[pick % len(self.orders)]
        resting, before = order.status in ("open", "partially_filled"), order.remaining_quantity
        assert (self.lob.cancel_order(order.order_id, quantity) is order) == resting
        if resting:
            taken = before if quantity is None else min(before, quantity)
            self.withdrawn[order.order_id] = self.withdrawn.get(order.order_id, 0.0) + taken

    @staticmethod
    def maker(trade: Trade, taker: Order) -> int:
        return trade.seller_order_id if taker.side is BUY else trade.buyer_order_id

    def settle(self, trade: Trade) -> None:
        for agent, sign in ((trade.buyer_id, 1), (trade.seller_id, -1)):
            cents, shares = self.account.get(agent, (0, 0.0))
            self.account[agent] = (
                cents - sign * round(trade.price * 100) * int(trade.quantity),
                shares + sign * trade.quantity,
            )
        for ident in (trade.buyer_order_id, trade.seller_order_id):
            self.traded[ident] = self.traded.get(ident, 0.0) + trade.quantity

    def check(self) -> None:
        bid, ask = self.lob.get_best_bid(), self.lob.get_best_ask()
        assert bid is None or ask is None or bid < ask
        assert sum(cents for cents, _ in self.account.values()) == 0
        assert sum(shares for _, shares in self.account.values()) == 0
        for side, shown in zip((BUY, SELL), self.lob.get_depth(100), strict=True):
            levels: dict[float | None, float] = {}
            for order in self.live(side):
                levels[order.price] = levels.get(order.price, 0.0) + order.remaining_quantity
            assert list(levels.items()) == shown
        for order in self.orders:
            gone = self.traded.get(order.order_id, 0.0) + self.withdrawn.get(order.order_id, 0.0)
            left = order.remaining_quantity if order.status in ("open", "partially_filled") else 0.0
            assert order.quantity == gone + left


@settings(max_examples=150, deadline=None)
@given(ACTIONS)
def test_never_crossed_first_come_first_served_and_nothing_lost(actions: list[Any]) -> None:
    ledger = Ledger()
    for action in actions:
        ledger.act(*action)
        ledger.check()
