"""What participants must never do, checked on whole markets."""

from __future__ import annotations

import numpy as np

from se_rl.market.participants import FIRST_MAKER
from se_rl.market.price_levels import OWNER, PRICE, QUANTITY, SIDE
from se_rl.market.profile import MarketProfile
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
    assert full - 0.5 < bids <= full and full - 0.5 < asks <= full  # a few were just traded away


def test_nothing_in_the_market_prefers_a_side() -> None:
    markets = Markets(1200, seeds=np.arange(1200) + 10_000, warm_up_bars=40)
    bars, _ = markets.run(60)
    flow = bars["signed_volume"].mean(axis=0)
    bids, asks = markets.books.depth(3)[..., 1].sum(axis=2).T
    for values in (flow, (bids - asks).astype(float)):
        assert abs(values.mean()) < 4 * values.std() / np.sqrt(len(values))
