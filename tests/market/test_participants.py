"""What participants must never do, checked on whole markets."""

from __future__ import annotations

import numpy as np

from se_rl.market.evidence import sign_autocorrelation
from se_rl.market.participants import (
    FIRST_MAKER,
    FOLLOWED,
    KIND,
    NEWS,
    PRESSURE,
    TAKE,
    WISH_FIELDS,
    WISH_LOTS,
)
from se_rl.market.price_levels import LOGGED, OWNER, PRICE, QUANTITY, SIDE, TAKER_SIDE
from se_rl.market.profile import FIXED, MarketProfile
from se_rl.market.simulation import Markets


def test_a_maker_that_has_just_woken_holds_every_level_on_both_sides() -> None:
    """A filled quote's slot is soon used again: the maker must not take the newcomer for its old order and cancel it."""
    profile = MarketProfile()
    markets = Markets(64, profile, seeds=np.arange(64))
    held = []
    for _ in range(20):
        markets.run(1, record=False)
        orders = markets.books.book.orders
        mine = (orders[..., OWNER] == FIRST_MAKER) & (orders[..., QUANTITY] > 0)
        held.append([(mine & (orders[..., SIDE] == side)).sum(axis=1) for side in (0, 1)])
        for b in range(8):
            prices = orders[b, mine[b], PRICE]
            assert len(np.unique(prices)) == len(
                prices
            )  # one order a level, none forgotten in the book
    bids, asks = np.array(held).mean(axis=(0, 2))
    full = round(profile.maker_levels)
    assert full - 0.7 < bids <= full and full - 0.7 < asks <= full  # a few were just traded away


def test_nothing_in_the_market_prefers_a_side() -> None:
    markets = Markets(1200, seeds=np.arange(1200) + 10_000, warm_up_bars=40)
    bars, _ = markets.run(60)
    flow = bars["signed_volume"].mean(axis=0)
    bids, asks = markets.books.depth(3)[..., 1].sum(axis=2).T
    for values in (flow, (bids - asks).astype(float)):
        assert abs(values.mean()) < 4 * values.std() / np.sqrt(len(values))


def test_pressure_shows_in_the_book_before_the_price_follows() -> None:
    """Displayed imbalance foretells the move beyond the news, as it does in real books."""
    markets = Markets(400, seeds=np.arange(400), warm_up_bars=40)
    seen, beyond_news = [], []
    for _ in range(30):
        bids, asks = markets.books.depth(5)[..., 1].sum(axis=2).T
        seen.append((bids - asks) / (bids + asks))
        beyond_news.append(markets.mid_ticks - markets.sim.state[:, NEWS] / FIXED)
        markets.run(1, record=False)
    ahead = 2
    moves = np.array(beyond_news[ahead:]) - np.array(beyond_news[:-ahead])
    together = np.corrcoef(np.array(seen[:-ahead]).ravel(), moves.ravel())[0, 1]
    assert together > 0.08  # its error is 0.01


def test_nothing_that_anybody_does_moves_the_pressure() -> None:
    """Else a policy could post or trade to make the quotes come its way."""
    left_alone, traded_in = (Markets(16, seeds=np.arange(16)) for _ in range(2))
    wishes = np.zeros((16, 1, WISH_FIELDS), np.int64)
    wishes[:, 0, KIND] = TAKE
    wishes[:, 0, WISH_LOTS] = 15
    for _ in range(10):
        left_alone.step()
        traded_in.step(wishes)
    columns = slice(PRESSURE, FOLLOWED + 1)
    alone = left_alone.sim.state[:, columns]
    np.testing.assert_array_equal(alone, traded_in.sim.state[:, columns])
    assert (np.abs(alone).max(axis=0) > 0).all()
    assert (left_alone.mid_ticks != traded_in.mid_ticks).any()


def test_pressure_has_a_spread_of_one_and_the_memory_of_its_profile() -> None:
    profile = MarketProfile(pressure_memory=60.0)
    markets = Markets(600, profile, seeds=np.arange(600), warm_up_bars=60)
    before = markets.sim.state[:, PRESSURE] / FIXED
    markets.run(6, record=False)  # 60 units, the length of the memory
    after = markets.sim.state[:, PRESSURE] / FIXED
    assert abs(np.std([before, after]) - 1.0) < 0.08
    assert abs(np.corrcoef(before, after)[0, 1] - np.exp(-1.0)) < 0.12


def test_signs_persist_as_in_a_real_book() -> None:
    """Within a factor of 3 of AMZN's 0.074, 0.058 and 0.042 near lags 13, 23 and 42."""
    markets = Markets(96, seeds=np.arange(96), log=30_000, warm_up_bars=40)
    markets.books.clear_log()
    markets.run(390, record=False)
    acfs = []
    for b in range(markets.n):
        trades = markets.books.trades(b)[: markets.books.total(LOGGED)[b]]
        acfs.append(sign_autocorrelation(1.0 - 2.0 * trades[:, TAKER_SIDE]))
    ours = np.mean(acfs, axis=0)[:3]
    real = np.array([0.074, 0.058, 0.042])
    assert (ours > real / 3.0).all() and (ours < real * 3.0).all(), ours
