"""Meta-orders: slices, pairing, control variates, and failures that are counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from se_rl.market.impact import (
    ORDER_BARS,
    Paths,
    Start,
    estimate,
    even_slices,
    less_control,
    meta_orders,
    pulse,
    round_trips,
)
from se_rl.market.profile import MarketProfile

DAILY_VOLUME = 20_000.0


@pytest.fixture(scope="module")
def start() -> Start:
    return Start(64, MarketProfile(), seed=3)


@given(lots=st.integers(0, 5000), bars=st.integers(1, 200))
def test_slices_are_whole_lots_as_equal_as_can_be(lots: int, bars: int) -> None:
    slices = even_slices(lots, bars=bars, after=7)
    assert slices.sum() == lots and len(slices) == bars + 7
    assert np.ptp(slices[:bars]) <= 1 and not slices[bars:].any()


def test_control_takes_variance_and_no_signal() -> None:
    rng = np.random.default_rng(0)
    control = rng.normal(size=4000)
    values = 0.3 + 2.0 * control + 0.1 * rng.normal(size=4000)
    (_, before), (mean, after) = estimate(values), estimate(less_control(values, control))
    assert after < before / 10
    assert mean == pytest.approx(0.3, abs=2.0 * abs(control.mean()) * 1e-2 + 4 * after)


def test_no_order_moves_nothing_and_runs_are_repeatable(start: Start) -> None:
    nothing = np.zeros((start.n, 20), np.int64)
    first, second = start.run(nothing), start.run(nothing)
    assert np.array_equal(first.mid, second.mid) and not first.filled.any()
    assert len(np.unique(first.mid[:, -1])) > 10  # markets differ from each other


def test_impact_grows_with_size_and_is_signed(start: Start) -> None:
    orders = meta_orders(start, daily_volume=DAILY_VOLUME, shares=(0.004, 0.035))
    assert orders.response.shape == (64, 2, 4 * ORDER_BARS) and orders.lots.tolist() == [80, 700]
    small, large = orders.response[:, :, ORDER_BARS - 1].mean(axis=0)
    assert 0 < small < large < 9 * small  # less than in proportion to size: 8.75 times as large
    for sign in (1, -1):
        mean, se = estimate(orders.response[orders.sign == sign, 1, ORDER_BARS - 1])
        assert mean > 4 * se


def test_one_order_leaves_a_trace_that_fades(start: Start) -> None:
    left = pulse(start, daily_volume=DAILY_VOLUME).response[:, 0].mean(axis=0)
    assert left[:4].mean() > left[60:].mean()


def test_an_order_that_cannot_be_filled_is_a_failure(start: Start) -> None:
    assert not meta_orders(start, daily_volume=DAILY_VOLUME, shares=(5.0,)).kept.any()


class FlatMarkets:
    """In place of Start: no price ever moves, buys pay `buy` and sells get `sell`."""

    def __init__(self, n: int, *, buy: int, sell: int) -> None:
        self.n, self.buy, self.sell, self.seen = n, buy, sell, np.empty(0)

    def run(self, lots: Any) -> Paths:
        self.seen, flat = lots, np.zeros((self.n, lots.shape[1] + 1))
        cash = np.where(lots > 0, self.buy, self.sell) * abs(lots)
        return Paths(flat + 100.0, flat, abs(lots), cash, np.zeros(self.n, bool), 0)


@pytest.mark.parametrize(
    ("buy", "sell", "profit"), [(100, 100, 0.0), (102, 99, -3.0), (99, 101, 2.0)]
)
def test_round_trips_end_flat_and_a_hole_would_show(buy: int, sell: int, profit: float) -> None:
    markets: Any = FlatMarkets(200, buy=buy, sell=sell)
    trips = round_trips(markets, daily_volume=DAILY_VOLUME, rng=np.random.default_rng(1))
    assert not markets.seen.sum(axis=1).any() and abs(markets.seen).sum(axis=1).all()
    assert trips.profit == pytest.approx(np.full(200, profit)) and trips.kept.all()


def test_luck_with_the_news_is_no_profit() -> None:
    news = np.cumsum(np.random.default_rng(2).normal(size=(50, 61)), axis=1)

    def run(lots: Any) -> Paths:
        at_start = (
            100.0 + news[:, :-1]
        )  # fills at the bar's start, at a price that follows the news
        return Paths(100.0 + news, news, abs(lots), at_start * abs(lots), np.zeros(50, bool), 0)

    markets: Any = SimpleNamespace(n=50, run=run)
    trips = round_trips(markets, daily_volume=DAILY_VOLUME, rng=np.random.default_rng(3))
    assert trips.profit == pytest.approx(np.zeros(50), abs=1e-9)
