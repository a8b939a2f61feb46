"""`qrm`: buying 25 units in the queue-reactive market within ten minutes (arXiv 2511.15262)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from se_rl.data.market_data import DataError
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
    instead, as in the published training. A ratio is a share of the best ask queue where `share_of`
    is "queue", and of what is left to buy, but no more than that queue, where it is "inventory".
    """

    name = "qrm"
    horizon = DECISIONS

    def __init__(
        self,
        *,
        inputs: Sequence[str] = PUBLISHED_INPUTS,
        penalty: float | None = None,
        share_of: str = "queue",
    ) -> None:
        unknown = sorted(set(inputs) - set(INPUTS))
        if unknown or not inputs:
            raise DataError(f"inputs {unknown} are unknown; choose from {', '.join(INPUTS)}")
        if share_of not in ("queue", "inventory"):
            raise DataError(f"share_of is {share_of!r}; use 'queue' or 'inventory'")
        self.inputs = tuple(inputs)
        self.penalty = penalty
        self.share_of = share_of
        self.observation_size = len(self.inputs)

    @property
    def remaining(self) -> Int:
        """Units still to buy."""
        return self.markets.inventory

    def step(self, ratio: Array, offset: Array | None, fields: Observation) -> Observation:
        """Buy a share of the best queue or of what is left, rounded half to even."""
        best = self.best_ask_size
        whole = best if self.share_of == "queue" else self.remaining
        units = np.rint(np.asarray(ratio) * whole).astype(np.int64)
        observation = self.buy(np.minimum(units, best))
        fields[0] = self.reward
        return observation

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
        self._observation = np.empty((len(seeds), self.observation_size), np.float32)

    def _observe(self) -> Observation:
        for place, name in enumerate(self.inputs):
            self._observation[:, place] = INPUTS[name](self)
        return self._observation


def _best_ask(world: QueueReactiveWorld) -> Array:
    """The best ask over the first reference price, in prices, by the published mean and spread."""
    above = (world.markets.state.moved + world.markets.best(ASK)[0]).astype(np.float64) + 0.5
    return (TICK * above - _ASK_MEAN) / _ASK_SPREAD


def _size(units: Int) -> Array:
    return (units.astype(np.float64) - _SIZE_MEAN) / _SIZE_SPREAD


def _imbalance(world: QueueReactiveWorld) -> Array:
    """Bids less asks of all queues, over their sum."""
    queues = world.markets.state.queues
    bids = queues[:, :DEPTHS].sum(axis=1)
    return (2.0 * bids - queues.sum(axis=1)) / queues.sum(axis=1)


def _queue(place: int) -> Callable[[QueueReactiveWorld], Array]:
    return lambda world: _size(world.markets.state.queues[:, place])


INPUTS: dict[str, Callable[[QueueReactiveWorld], Array]] = {
    "inventory": lambda world: 2.0 * world.remaining / UNITS - 1.0,
    "time": lambda world: np.full(
        len(world.remaining), 2.0 * world.step_index / (DECISIONS - 1) - 1.0
    ),
    "best_ask": _best_ask,
    "best_ask_size": lambda world: _size(world.best_ask_size),
    "best_bid_size": lambda world: _size(world.markets.best(BID)[1]),
    "bid_queue_1": _queue(BID),
    "bid_queue_2": _queue(BID + 1),
    "bid_queue_3": _queue(BID + 2),
    "ask_queue_1": _queue(ASK),
    "ask_queue_2": _queue(ASK + 1),
    "ask_queue_3": _queue(ASK + 2),
    "bid_depth": lambda world: world.markets.best(BID)[0].astype(np.float64),
    "ask_depth": lambda world: world.markets.best(ASK)[0].astype(np.float64),
    "imbalance": _imbalance,
}
"""What an agent may observe, by name; a field is computed only where it is asked for."""
