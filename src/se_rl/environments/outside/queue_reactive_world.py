"""`qrm`: buying 25 units in the queue-reactive market within ten minutes (arXiv 2511.15262)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from se_rl.environments.inputs import Input, Inputs, age
from se_rl.environments.outside.task import Array, Int, Observation, OutsideWorld
from se_rl.market.outside.queue_rates import DEPTHS
from se_rl.market.outside.queue_reactive import ASK, BID, QueueReactiveMarkets

UNITS = 25
SECONDS = 25.0
DECISIONS = 25
TICK = 0.01
ACTIONS = (0.0, 0.5, 1.0)
"""The published actions: shares of the best ask queue."""
PENALTY = 1.0
"""What a unit left at the end costs in the published training."""

_SIZE_MEAN, _SIZE_SPREAD = 8.356, 6.446
_ASK_MEAN, _ASK_SPREAD = 0.0177, 0.0217

PUBLISHED_INPUTS = ("inventory", "time", "best_ask", "best_ask_size", "best_bid_size")
"""What the published learner saw."""


class QueueReactiveWorld(OutsideWorld):
    """Buy `UNITS` at decisions 25 seconds apart, the first at once; a return is in price x units.

    `inputs` names what is observed, out of `INPUTS`. What is left after the last decision is bought
    at once, at prices that get worse with the depth; with a `penalty`, each unit costs that much
    instead, as in the published training. A ratio is a share of the best ask queue.
    """

    name = "qrm"
    horizon = DECISIONS

    def __init__(
        self, *, inputs: Sequence[str] = PUBLISHED_INPUTS, penalty: float | None = None
    ) -> None:
        self.inputs = Inputs(inputs, INPUTS)
        self.penalty = penalty
        self.observation_size = self.inputs.size

    @property
    def remaining(self) -> Int:
        """Units still to buy."""
        return self.markets.inventory

    def _decide(self, ratio: Array, offset: Array | None) -> Observation:
        """Buy a share of the best queue, rounded half to even."""
        return self.buy(np.rint(np.asarray(ratio) * self.best_ask_size).astype(np.int64))

    def buy(self, units: Int) -> Observation:
        """One decision: buy these units at once, as far as there are so many."""
        last = self.steps_left == 1
        cost = self.markets.step(units, goes_on=not last)
        if last:
            self.unfinished = self.remaining.copy()
            if self.penalty is None:
                cost += self.markets.forced_cost()
            else:
                cost += self.unfinished * self.penalty / TICK
        self._book(-TICK * cost)
        return self._observe()

    @property
    def best_ask_size(self) -> Int:
        """Units in the best ask queue."""
        return self.markets.best(ASK)[1]

    def _start(self, seeds: Int) -> None:
        self.markets = QueueReactiveMarkets(len(seeds), seconds=SECONDS)
        self.markets.reset(seeds, UNITS)
        self.spreads: list[Array] = []
        self._observation = np.empty((len(seeds), self.observation_size), np.float32)

    def _observe(self) -> Observation:
        self.spreads.append(self.spread)
        return self.inputs.read(self, self._observation)

    @property
    def spread(self) -> Array:
        """Ticks from the best bid to the best ask."""
        return (1 + self.markets.best(ASK)[0] + self.markets.best(BID)[0]).astype(np.float64)

    @property
    def drift(self) -> Array:
        """Ticks that the mid is above the first reference price."""
        lean = self.markets.best(ASK)[0] - self.markets.best(BID)[0]
        return self.markets.state.moved + lean.astype(np.float64) / 2.0

    def _rest_at_mid(self) -> Array:
        return -TICK * self.remaining * self.drift


def _best_ask(world: QueueReactiveWorld) -> Array:
    above = (world.markets.state.moved + world.markets.best(ASK)[0]).astype(np.float64) + 0.5
    return (TICK * above - _ASK_MEAN) / _ASK_SPREAD


def _size(units: Int) -> Array:
    return (units.astype(np.float64) - _SIZE_MEAN) / _SIZE_SPREAD


def _imbalance(world: QueueReactiveWorld) -> Array:
    queues = world.markets.state.queues
    bids = queues[:, :DEPTHS].sum(axis=1)
    return (2.0 * bids - queues.sum(axis=1)) / queues.sum(axis=1)


def _time(world: QueueReactiveWorld) -> Array:
    return np.full(len(world.remaining), 2.0 * world.step_index / (DECISIONS - 1) - 1.0)


INPUTS: dict[str, Input[QueueReactiveWorld]] = {
    "inventory": Input(
        "what is left of the order, -1 to 1", lambda world: 2.0 * world.remaining / UNITS - 1.0
    ),
    "time": Input("from -1 to 1 at the last decision", _time),
    "best_ask": Input(
        "over the first reference price, by the published mean and spread", _best_ask
    ),
    "best_ask_size": Input("units, scaled", lambda world: _size(world.best_ask_size)),
    "best_bid_size": Input("units, scaled", lambda world: _size(world.markets.best(BID)[1])),
    "queues": Input(
        "sizes of all queues, scaled: bids, then asks, the nearest first",
        lambda world: _size(world.markets.state.queues),
        2 * DEPTHS,
    ),
    "depths": Input(
        "how deep the best bid and the best ask lie",
        lambda world: np.stack([world.markets.best(BID)[0], world.markets.best(ASK)[0]], axis=1),
        2,
    ),
    "imbalance": Input("bids less asks of all queues, over their sum", _imbalance),
    "spread": Input("ticks over 3", lambda world: world.spread / 3.0),
    "spread_age": Input(
        "decisions since the spread changed, over 5", lambda world: age(world.spreads) / 5.0
    ),
    "drift": Input("ticks of the mid since arrival, over 5", lambda world: world.drift / 5.0),
}
"""What an agent may observe, by name; flows would add nothing: rates depend on the queues alone."""
