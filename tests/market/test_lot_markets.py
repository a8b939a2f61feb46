"""The lot markets: priority against a plain book, conservation, rates, and what orders do."""

from __future__ import annotations

import numpy as np
import pytest

from se_rl.data.market_data import DataError
from se_rl.market import price_levels as at
from se_rl.market.book import Books
from se_rl.market.outside.lot_agent import own_volume
from se_rl.market.outside.lot_markets import LotMarkets
from se_rl.market.outside.lot_numbers import (
    AGENT,
    DIRECTION,
    FIRST_BID,
    KINDS,
    LIMIT_RATES,
    LOT_NUMBERS,
    MARKET_RATE,
    NOISE,
    OWN_SHARES,
    LotState,
    size_law,
)
from se_rl.market.outside.lot_traders import deliver

ORDER = 20


def started(n: int, kind: str = "noise", *, first_seed: int = 0) -> LotMarkets:
    markets = LotMarkets(n, kind, order=ORDER)
    markets.reset(np.arange(first_seed, first_seed + n))
    return markets


def offered(markets: LotMarkets, b: int = 0) -> dict[int, int]:
    """The agent's lots by ticks above the bid."""
    bid = int(markets.books.best(at.BUY)[b])
    lots = {k: own_volume(markets.books.book, b, bid + k) for k in range(1, 12)}
    return {k: volume for k, volume in lots.items() if volume}


def shares(**places: float) -> np.ndarray:
    names = ("market", "one", "two", "three", "four", "five", "inactive")
    return np.array([[places.get(name, 0.0) for name in names]])


class PlainBook:
    """Price-time priority with lists: each side maps a price to [owner, lots] in order of arrival."""

    def __init__(self) -> None:
        self.sides: tuple[dict[int, list[list[int]]], ...] = ({}, {})
        self.cash = [0] * 4

    def best(self, side: int) -> int | None:
        prices = self.sides[side]
        if not prices:
            return None
        return max(prices) if side == at.BUY else min(prices)

    def market(self, side: int, lots: int, owner: int) -> None:
        other = self.sides[1 - side]
        while lots and other:
            price = self.best(1 - side)
            assert price is not None
            queue = other[price]
            traded = min(lots, queue[0][1])
            paid = traded * price * (1 if side == at.BUY else -1)
            self.cash[owner] -= paid
            self.cash[queue[0][0]] += paid
            queue[0][1] -= traded
            lots -= traded
            if queue[0][1] == 0:
                queue.pop(0)
            if not queue:
                del other[price]

    def cancel(self, side: int, price: int, lots: int, owner: int) -> None:
        queue = self.sides[side].get(price, [])
        for order in reversed(list(queue)):
            if order[0] == owner:
                taken = min(lots, order[1])
                order[1] -= taken
                lots -= taken
        self.sides[side][price] = [order for order in queue if order[1]]
        if not self.sides[side][price]:
            del self.sides[side][price]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_messages_do_what_they_do_in_a_plain_book(seed: int) -> None:
    """The source of the kernel, uncompiled, on random messages that do not cross."""
    rng = np.random.default_rng(seed)
    books = Books(1, levels=16, orders=256, log=0, owners=4, ids=1)
    lots, plain = LotState.empty(1), PlainBook()
    for _ in range(300):
        kind = [at.LIMIT, at.LIMIT, at.MARKET, at.CANCEL][rng.integers(4)]
        side, quantity = int(rng.integers(2)), int(rng.integers(1, 6))
        owner, distance = int(rng.integers(4)), int(rng.integers(1, 12))
        opposite = plain.best(1 - side)
        price = 100 if opposite is None else opposite + distance * (2 * side - 1)
        deliver(books.book, lots, 0, kind, side, price, quantity, owner)
        if kind == at.LIMIT:
            plain.sides[side].setdefault(price, []).append([owner, quantity])
        elif kind == at.MARKET:
            plain.market(side, quantity, owner)
        else:
            plain.cancel(side, price, quantity, owner)
        depth = books.depth(40)[0]
        for one in (at.BUY, at.SELL):
            expected = {p: sum(o[1] for o in queue) for p, queue in plain.sides[one].items()}
            assert {int(p): int(v) for p, v in depth[one] if v} == expected
        assert books.book.owners[0, :, at.CASH].tolist() == plain.cash
    assert not books.total(at.REJECTED).any()


def test_sizes_have_the_published_law() -> None:
    expected = [0.1974, 0.3493, 0.2420, 0.1312, 0.0557, 0.0185, 0.0048, 0.0010]
    np.testing.assert_allclose(size_law()[:8], expected, atol=5e-5)
    assert size_law().sum() == pytest.approx(1.0)
    assert LIMIT_RATES.sum() == pytest.approx(1.6972, abs=1e-4)


def test_lots_at_market_come_as_often_as_their_rate_says() -> None:
    markets = started(400)
    markets.run(150.0)
    traded = markets.books.total(at.VOLUME)
    mean = 2.0 * MARKET_RATE * 165.0 * float(size_law() @ np.arange(1, 21))
    error = traded.std() / np.sqrt(len(traded))
    assert abs(traded.mean() - mean) < 4.0 * error


def test_the_strategic_trader_moves_the_price_its_way() -> None:
    markets = started(400, "strategic")
    markets.run(150.0)
    mid = (markets.books.best(at.BUY) + markets.books.best(at.SELL)) / 2.0
    sells = markets.lots.counts[:, DIRECTION] == at.SELL
    assert 0.4 < sells.mean() < 0.6
    moved = mid - (FIRST_BID + 0.5)  # 4 ticks from time 0, and 0.7 before it
    assert moved[~sells].mean() == pytest.approx(4.7, abs=0.4)
    assert moved[sells].mean() == pytest.approx(-4.7, abs=0.4)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_and_episodes_do_not_depend_on_the_batch(kind: str) -> None:
    rng = np.random.default_rng(5)
    whole, part = started(20, kind), started(5, kind, first_seed=9)
    for k in range(10):
        wish = rng.dirichlet(np.full(7, 0.5), size=20)
        whole.spread(wish)
        part.spread(wish[9:14])
        seen = whole.run(15.0 * (k + 1))
        np.testing.assert_array_equal(seen[9:14], part.run(15.0 * (k + 1)))
        left = whole.remaining
        own = seen[:, OWN_SHARES : OWN_SHARES + 7].sum(axis=1)
        np.testing.assert_allclose(own[left > 0], 1.0, atol=1e-5)
        sold = (seen[:, LOT_NUMBERS + 1 :: 2] == -1.0).sum(axis=1)
        np.testing.assert_array_equal(sold, ORDER - left)
    whole.liquidate()
    assert not whole.remaining.any() and not whole.broken.any()
    owners = whole.books.book.owners
    assert not owners.sum(axis=1).any()  # cash and lots only change hands
    assert not offered(whole)


def test_lots_are_spread_and_unchanged_levels_keep_their_place() -> None:
    markets = started(1)
    bid = int(markets.books.best(at.BUY)[0])
    markets.spread(shares(one=0.25, three=0.5, inactive=0.25))
    assert offered(markets) == {1: 5, 3: 10}
    before = markets.books.book.orders.copy()
    markets.spread(shares(one=0.25, three=0.5, inactive=0.25))
    np.testing.assert_array_equal(markets.books.book.orders, before)
    markets.spread(shares(one=0.25, three=0.2, five=0.55))
    assert offered(markets) == {1: 5, 3: 4, 5: 11}
    orders = markets.books.book.orders[0]
    mine = orders[(orders[:, at.OWNER] == AGENT) & (orders[:, at.PRICE] == bid + 3)]
    assert mine[mine[:, at.QUANTITY] > 0][:, at.QUANTITY].tolist() == [4]  # the same order, shorter
    markets.spread(shares(market=0.1, inactive=0.9))
    assert offered(markets) == {} and markets.remaining[0] == ORDER - 2


def test_offers_far_above_the_bid_are_taken_back() -> None:
    markets = started(1)
    ask = markets.books.best(at.SELL)
    markets.offer(ask + 8, np.array([6]))
    assert sum(offered(markets).values()) == 6
    markets.spread(shares(inactive=1.0))
    assert offered(markets) == {}


def test_the_noise_traders_own_lots_alone_are_cancelled() -> None:
    books = Books(1, levels=16, orders=8, log=0, owners=4, ids=1)
    lots = LotState.empty(1)
    for owner in (AGENT, NOISE, AGENT):
        deliver(books.book, lots, 0, at.LIMIT, at.SELL, 100, 3, owner)
    deliver(books.book, lots, 0, at.CANCEL, at.SELL, 100, 9, NOISE)
    assert own_volume(books.book, 0, 100) == 6
    assert books.depth(1)[0, at.SELL, 0].tolist() == [100, 6]


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(DataError, match="use noise, tactical, strategic"):
        LotMarkets(1, "calm", order=ORDER)
