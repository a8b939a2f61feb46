"""`cw-noise-20` to `cw-strategic-60`: selling lots with limit orders on five levels within 150
seconds (arXiv 2507.06345).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from se_rl.data.market_data import DataError
from se_rl.environments.inputs import Input, Inputs, age, signed_flow
from se_rl.environments.outside.task import Array, Bool, Int, Observation, OutsideWorld
from se_rl.market.outside.lot_markets import LotMarkets
from se_rl.market.outside.lot_numbers import (
    KINDS,
    LEVELS,
    LOT_NUMBERS,
    OWN_SHARES,
    SEEN_LEVELS,
)
from se_rl.market.price_levels import BUY, SELL

ORDERS = (20, 60)
"""Lots of the published orders."""
SECONDS = 15.0
DECISIONS = 10
PLACES = LEVELS + 2
"""Where lots can be: at market, on five levels above the bid, inactive."""
PUBLISHED_INPUTS = (
    *("time", "inventory", "bid_drift", "drift", "spread", "imbalance", "market_flow_1"),
    *("limit_flow_1", "last_move", "own_shares", "queues", "lots"),
)
"""What the published learner saw."""
LONGER = (5, 15)
"""Decisions over which flows are summed up, beside the last one."""
OFFERED = np.array([0.005, 0.1, 0.1, 0.05, 0.02, 0.02, 0.705])
"""Where lots that are not on offer go while nothing says otherwise, by place."""
REACHABLE = 0.01
"""The least weight of a place, so that lots can move to where none are."""
BID_DRIFT, SPREAD = 2, 4
"""Columns of what the kernel shows."""
NAMES = tuple(f"cw-{kind}-{order}" for kind in KINDS for order in ORDERS)


class LotWorld(OutsideWorld):
    """Sell `order` lots in a market of a kind; a return is in ticks a lot over the first bid.

    Ten decisions 15 seconds apart, the first at once. After the last, offers are taken back and
    the rest is sold at market. `inputs` names what is observed, out of `inputs_of(order)`. With
    `from_rest`, shares of places are weights on where lots are already: even ones leave offers in
    their queues and put part of the others on offer.
    """

    horizon = DECISIONS
    takes_price = True

    def __init__(
        self,
        kind: str,
        order: int,
        *,
        inputs: Sequence[str] = PUBLISHED_INPUTS,
        from_rest: bool = False,
    ) -> None:
        if kind not in KINDS:
            raise DataError(f"market {kind!r} is unknown; use {', '.join(KINDS)}")
        if order < 1:
            raise DataError(f"an order of {order} lots is none; give 1 or more, e.g. 20")
        self.kind = kind
        self.order = order
        self.name = f"cw-{kind}-{order}"
        self.inputs = Inputs(inputs, inputs_of(order))
        self.from_rest = from_rest
        self.observation_size = self.inputs.size

    @classmethod
    def named(
        cls, name: str, *, inputs: Sequence[str] = PUBLISHED_INPUTS, from_rest: bool = False
    ) -> LotWorld:
        """One of the published six, by its name."""
        if name not in NAMES:
            raise DataError(f"market {name!r} is unknown; use {', '.join(NAMES)}")
        _, kind, order = name.split("-")
        return cls(kind, int(order), inputs=inputs, from_rest=from_rest)

    @property
    def remaining(self) -> Int:
        """Lots that are not sold."""
        return self.markets.remaining

    @property
    def broken(self) -> Bool:
        """Episodes whose book was too small for its orders."""
        return self.markets.broken

    def _decide(self, ratio: Array, offset: Array | None) -> Observation:
        """Offer this ratio of what is left, so many ticks from the best ask, and hold the rest back.

        Offsets that reach the best bid are at market; those above the fifth level are on it. Ratios
        [n, PLACES] are shares of all places.
        """
        if ratio.ndim == 2:
            return self.spread(self._moved(ratio) if self.from_rest else ratio)
        return self.spread(
            self._shares_at(ratio, np.zeros(len(ratio)) if offset is None else offset)
        )

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

    def _moved(self, weights: Array) -> Array:
        """Shares of places by weights on where lots are."""
        offered = self.markets.places()[:, :LEVELS] / np.maximum(self.remaining, 1)[:, None]
        shares = (1.0 - offered.sum(axis=1, keepdims=True)) * OFFERED + REACHABLE
        shares[:, 1:-1] += offered
        shares *= weights
        return shares / shares.sum(axis=1, keepdims=True)

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
        self.spreads: list[Observation] = []
        self.flows: list[Int] = []
        self._observation = np.empty((len(seeds), self.observation_size), np.float32)

    def _observe(self) -> Observation:
        self.spreads.append(self.markets.seen[:, SPREAD].copy())
        self.flows.append(self.markets.flows)
        return self.inputs.read(self, self._observation)

    def _rest_at_mid(self) -> Array:
        seen = self.markets.seen  # which has a mid also where a side is empty
        above = 10.0 * (seen[:, BID_DRIFT] + 0.5 * seen[:, SPREAD])
        return self.remaining * above / self.order

    def _go_on(self) -> Observation:
        self.markets.run(SECONDS * (self.step_index + 1))
        if self.steps_left == 1:
            self.unfinished = self.remaining
            self.markets.liquidate()
        gained = self.markets.gained / self.order
        self._book(gained - self._gained)
        self._gained = gained
        return self._observe()


def _seen(first: int, width: int = 1) -> Callable[[LotWorld], Observation]:
    """Columns of what the kernel shows."""
    return lambda world: world.markets.seen[:, first : first + width]


def _flow(first: int, steps: int) -> Callable[[LotWorld], Array]:
    """Market orders are the first two columns of the flows, limit orders the others."""
    return lambda world: signed_flow([flow[:, first : first + 2] for flow in world.flows], steps)


def _own_lots(world: LotWorld) -> Array:
    return world.markets.places()[:, :LEVELS] / world.order


def _lots_ahead(world: LotWorld) -> Array:
    return world.markets.places()[:, LEVELS:] / 20.0


def inputs_of(order: int) -> dict[str, Input[LotWorld]]:
    """What an agent may observe, by name, with an order of so many lots."""
    catalogue = {
        "time": Input("from 0 to 1", _seen(0)),
        "inventory": Input("share of the order that is left", _seen(1)),
        "bid_drift": Input("ticks of the bid since arrival, over 10", _seen(BID_DRIFT)),
        "drift": Input("ticks of the mid since arrival, over 10", _seen(3)),
        "spread": Input("ticks, over 10", _seen(SPREAD)),
        "imbalance": Input("bids less asks of five levels, over their sum", _seen(5)),
        "market_flow_1": Input("market orders since the last decision: signed share", _seen(6)),
        "limit_flow_1": Input("limit orders since the last decision: signed share", _seen(7)),
        "last_move": Input("ticks of the mid since the last decision, over 10", _seen(8)),
        "own_shares": Input(
            "own lots by level from the best ask, beyond, and inactive, as shares of the rest",
            _seen(OWN_SHARES, SEEN_LEVELS + 2),
            SEEN_LEVELS + 2,
        ),
        "queues": Input(
            "lots by distance, over usual ones: bids, then asks",
            _seen(OWN_SHARES + SEEN_LEVELS + 2, 2 * SEEN_LEVELS),
            2 * SEEN_LEVELS,
        ),
        "lots": Input(
            "for each lot of the order its level and the lots ahead of it",
            _seen(LOT_NUMBERS, 2 * order),
            2 * order,
        ),
        "own_lots": Input("own lots by level above the bid, over the order", _own_lots, LEVELS),
        "lots_ahead": Input(
            "lots ahead of them (of a new one where there are none), over 20", _lots_ahead, LEVELS
        ),
        "spread_age": Input(
            "decisions since the spread changed, over 5", lambda world: age(world.spreads) / 5.0
        ),
    }
    for steps in LONGER:
        span = f"in the last {steps} steps: buys less sells over both"
        catalogue[f"market_flow_{steps}"] = Input(f"market orders {span}", _flow(0, steps))
        catalogue[f"limit_flow_{steps}"] = Input(f"limit orders {span}", _flow(2, steps))
    return catalogue
