"""`cw-noise-20` to `cw-strategic-60`: selling lots with limit orders on five levels within 150
seconds (arXiv 2507.06345).
"""

from __future__ import annotations

import numpy as np

from se_rl.data.market_data import DataError
from se_rl.environments.outside.task import Array, Bool, Int, Observation, OutsideWorld
from se_rl.market.outside.lot_markets import LotMarkets
from se_rl.market.outside.lot_numbers import KINDS, LEVELS, LOT_NUMBERS
from se_rl.market.price_levels import BUY, SELL

ORDERS = (20, 60)
"""Lots of the published orders."""
SECONDS = 15.0
DECISIONS = 10
PLACES = LEVELS + 2
"""Where lots can be: at market, on five levels above the bid, inactive."""
NAMES = tuple(f"cw-{kind}-{order}" for kind in KINDS for order in ORDERS)


class LotWorld(OutsideWorld):
    """Sell `order` lots in a market of a kind; a return is in ticks a lot over the first bid.

    Ten decisions 15 seconds apart, the first at once. After the last, offers are taken back and
    the rest is sold at market.
    """

    horizon = DECISIONS
    takes_price = True

    def __init__(self, kind: str, order: int) -> None:
        if kind not in KINDS:
            raise DataError(f"market {kind!r} is unknown; use {', '.join(KINDS)}")
        if order < 1:
            raise DataError(f"an order of {order} lots is none; give 1 or more, e.g. 20")
        self.kind = kind
        self.order = order
        self.name = f"cw-{kind}-{order}"
        self.observation_size = LOT_NUMBERS + 2 * order

    @classmethod
    def named(cls, name: str) -> LotWorld:
        """One of the published six, by its name."""
        if name not in NAMES:
            raise DataError(f"market {name!r} is unknown; use {', '.join(NAMES)}")
        _, kind, order = name.split("-")
        return cls(kind, int(order))

    @property
    def remaining(self) -> Int:
        """Lots that are not sold."""
        return self.markets.remaining

    @property
    def broken(self) -> Bool:
        """Episodes whose book was too small for its orders."""
        return self.markets.broken

    def step(self, ratio: Array, offset: Array | None, fields: Observation) -> Observation:
        """Offer this ratio of what is left, so many ticks from the best ask, and hold the rest back.

        Offsets that reach the best bid are at market; those above the fifth level are on it.
        """
        shares = self._shares_at(ratio, np.zeros(len(ratio)) if offset is None else offset)
        observation = self.spread(shares)
        fields[0] = self.reward
        return observation

    def spread(self, shares: Array) -> Observation:
        """One decision: shares of what is left [n, market | bid + 1 ... bid + 5 | inactive]."""
        self.markets.spread(shares)
        return self._go_on()

    def offer(self, prices: Int, quantities: Int) -> Observation:
        """One decision that adds lots at a price and leaves all others where they are."""
        self.markets.offer(prices, quantities)
        return self._go_on()

    @property
    def best_bid(self) -> Int:
        """The best bids in ticks."""
        return self.markets.books.best(BUY)

    @property
    def best_ask(self) -> Int:
        """The best asks in ticks."""
        return self.markets.books.best(SELL)

    def _shares_at(self, ratio: Array, offset: Array) -> Array:
        ticks = np.rint(self.best_ask + np.asarray(offset)) - self.best_bid
        place = np.clip(ticks, 0, LEVELS).astype(np.int64)
        shares = np.zeros((len(place), PLACES))
        shares[np.arange(len(place)), place] = ratio
        shares[:, -1] = 1.0 - np.asarray(ratio)
        return shares

    def _start(self, seeds: Int) -> None:
        self.markets = LotMarkets(len(seeds), self.kind, order=self.order)
        self.markets.reset(seeds)
        self._gained = np.zeros(len(seeds))

    def _observe(self) -> Observation:
        return self.markets.seen

    def _go_on(self) -> Observation:
        self.markets.run(SECONDS * (self.step_index + 1))
        if self.steps_left == 1:
            self.unfinished = self.remaining
            self.markets.liquidate()
        gained = self.markets.gained / self.order
        self._book(gained - self._gained)
        self._gained = gained
        return self._observe()
