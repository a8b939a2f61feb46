"""The queue-reactive market: six queues around a reference price, whose events depend on their sizes.

From the description in arXiv 2511.15262 (Espana, Hafsi, Lillo, Vittori). Every event is one unit on
one queue. When the mid changes, the reference price may follow, and then the queues are mostly drawn
anew. Plain Python that numba compiles; `QueueReactiveMarkets` runs many markets at once.

What the paper leaves open: a wait that a decision cuts short is drawn again (the streams have no
memory), and a shifted book with an empty side has that side drawn from the stationary law.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from se_rl.market.compiling import compile_together
from se_rl.market.layout import own_functions
from se_rl.market.outside import draws
from se_rl.market.outside.draws import as_unit, choice, cumulative, streams_of, uniform, word
from se_rl.market.outside.queue_rates import (
    DEPTHS,
    LARGEST,
    LIMIT,
    UNIT_SHARES,
    event_rates,
    stationary_law,
)

Array = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

BID, ASK = 0, DEPTHS
"""The first queue of each side: `queues` holds three bids, then three asks, the best depth first."""
MOVES = 0.7
"""How often the reference price follows a change of the mid."""
REDRAWS = 0.85
"""How often all queues are drawn anew when it does."""
UP_SCALES = (UNIT_SHARES[1] / UNIT_SHARES[0], UNIT_SHARES[2] / UNIT_SHARES[1])
DOWN_SCALES = (UNIT_SHARES[0] / UNIT_SHARES[1], UNIT_SHARES[1] / UNIT_SHARES[2])
"""Units of a queue that comes one depth nearer, or goes one further away."""
BEYOND = 3.5
"""Where a forced order finds units when the book is empty, in ticks above the reference price."""

ONE = np.uint64(1)


class QueueMarket(NamedTuple):
    """The state of n markets."""

    queues: Int  # [n, 6] units
    moved: Int  # [n] ticks of the reference price since the start
    streams: npt.NDArray[np.uint64]  # [n]


class QueueTables(NamedTuple):
    """What all markets share."""

    rates: Array  # [depth, size, 2] a second: of limit orders, of all orders
    laws: Array  # [depth, size] cumulative probabilities of the stationary law
    highest: Array  # [depth] the highest totals, cumulative over the depths of a side
    proposals: Array  # [number] cumulative probabilities of proposals between two decisions

    @classmethod
    def of(cls, seconds: float) -> QueueTables:
        """The tables of markets that are looked at so often."""
        rates = event_rates()
        totals = rates.sum(axis=2)
        highest = np.cumsum(totals.max(axis=1))
        mean = 2.0 * highest[-1] * seconds
        count = np.arange(int(mean + 12.0 * np.sqrt(mean)) + 20)
        return cls(
            rates=np.stack([rates[..., LIMIT], totals], axis=2),
            laws=cumulative(stationary_law()),
            highest=highest,
            proposals=cumulative(poisson_law(count, mean)),
        )


def best_depth(market: QueueMarket, b: int, side: int) -> int:
    """The nearest depth of a side that has units, DEPTHS where none has."""
    for depth in range(DEPTHS):
        if market.queues[b, side + depth] > 0:
            return depth
    return DEPTHS


def draw_side(market: QueueMarket, tables: QueueTables, b: int, side: int) -> None:
    """Queues of the stationary law, until the side is not empty."""
    empty = True
    while empty:
        for depth in range(DEPTHS):
            size = choice(market.streams, b, tables.laws[depth])
            market.queues[b, side + depth] = size
            if size > 0:
                empty = False


def shift(market: QueueMarket, tables: QueueTables, b: int, near: int, far: int) -> None:
    """The book under a reference price one tick nearer to the side `near`: its best queue is gone."""
    queues = market.queues
    queues[b, far + 2] = round(queues[b, far + 1] * DOWN_SCALES[1])
    queues[b, far + 1] = round(queues[b, far] * DOWN_SCALES[0])
    queues[b, far] = 0
    queues[b, near] = min(LARGEST, round(queues[b, near + 1] * UP_SCALES[0]))
    queues[b, near + 1] = min(LARGEST, round(queues[b, near + 2] * UP_SCALES[1]))
    queues[b, near + 2] = choice(market.streams, b, tables.laws[2])
    for side in (near, far):
        if best_depth(market, b, side) == DEPTHS:
            draw_side(market, tables, b, side)


def follow(market: QueueMarket, tables: QueueTables, b: int, up: bool) -> None:
    """What may happen when the mid has changed."""
    if uniform(market.streams, b) > MOVES:
        return
    market.moved[b] += 1 if up else -1
    if uniform(market.streams, b) <= REDRAWS:
        draw_side(market, tables, b, BID)
        draw_side(market, tables, b, ASK)
    elif up:
        shift(market, tables, b, ASK, BID)
    else:
        shift(market, tables, b, BID, ASK)


def change_best(
    market: QueueMarket, tables: QueueTables, b: int, side: int, depth: int, change: int
) -> None:
    """A unit comes to an empty queue, or the last one of a queue goes.

    The last unit of a side stays. A new best price changes the mid, which the reference price does
    not follow while the other side's first queue stands.
    """
    queues = market.queues
    if change < 0 and queues[b, side] + queues[b, side + 1] + queues[b, side + 2] == 1:
        return
    best = best_depth(market, b, side)
    queues[b, side + depth] += change
    if change > 0 and best > depth and queues[b, DEPTHS - side] == 0:
        follow(market, tables, b, side == BID)
    if change < 0 and best == depth:
        follow(market, tables, b, side == ASK)


def advance(market: QueueMarket, tables: QueueTables, b: int) -> None:
    """Let the market run until the next decision.

    By uniformisation: events are proposed at the highest rate that each queue can have, so that
    their number is a Poisson draw and no waiting time is needed; a proposal above the rate at the
    queue's present size is none. That is the same market as one with exponential waits. What
    happens is computed without branches, since no processor could foresee them.
    """
    queues, rates, streams = market.queues, tables.rates, market.streams
    first, second, third = tables.highest[0], tables.highest[1], tables.highest[2]
    for _ in range(choice(streams, b, tables.proposals)):
        bits = word(streams, b)
        at = as_unit(bits) * third
        beyond_first, beyond_second = int(at > first), int(at > second)
        at -= beyond_first * first + beyond_second * (second - first)
        depth = beyond_first + beyond_second
        side = int(np.int64(bits & ONE)) * ASK
        size = queues[b, side + depth]
        # +1 below the rate of limit orders, -1 from there to the rate of all, 0 above
        change = 2 * int(at <= rates[depth, size, 0]) - int(at <= rates[depth, size, 1])
        after = min(size + change, LARGEST)
        if min(size, after) > 0:
            queues[b, side + depth] = after
        elif change != 0:
            change_best(market, tables, b, side, depth, change)


def buy(market: QueueMarket, tables: QueueTables, b: int, units: int) -> tuple[int, float]:
    """Take units off the ask side, never its last one: how many, and their cost in ticks over the
    first reference price.
    """
    queues = market.queues
    left = min(units, queues[b, ASK] + queues[b, ASK + 1] + queues[b, ASK + 2] - 1)
    bought = left
    cost = 0.0
    emptied = False
    for depth in range(DEPTHS):
        taken = min(left, queues[b, ASK + depth])
        if taken == 0:
            continue
        queues[b, ASK + depth] -= taken
        left -= taken
        cost += taken * (market.moved[b] + depth + 0.5)
        emptied = emptied or queues[b, ASK + depth] == 0
    if emptied:
        follow(market, tables, b, True)
    return bought, cost


def forced_cost(market: QueueMarket, b: int, units: int) -> float:
    """What buying the whole ask side, and more beyond it, would cost in ticks."""
    cost = 0.0
    for depth in range(DEPTHS):
        taken = min(units, market.queues[b, ASK + depth])
        cost += taken * (market.moved[b] + depth + 0.5)
        units -= taken
    return cost + units * (market.moved[b] + BEYOND)


KERNEL = compile_together(
    nb.njit(nogil=True, error_model="numpy"), *draws.FUNCTIONS, *own_functions(globals())
)
_buy, _advance, _draw_side = KERNEL.buy, KERNEL.advance, KERNEL.draw_side
_forced_cost = KERNEL.forced_cost


def _make_callers(source_hash: int) -> SimpleNamespace:
    @nb.njit(nogil=True, cache=True)
    def start(market, tables):  # type: ignore[no-untyped-def]
        _ = source_hash
        for b in range(market.moved.shape[0]):
            market.moved[b] = 0
            _draw_side(market, tables, b, BID)
            _draw_side(market, tables, b, ASK)

    @nb.njit(nogil=True, cache=True)
    def step(market, tables, inventory, units, goes_on, cost):  # type: ignore[no-untyped-def]
        _ = source_hash
        for b in range(market.moved.shape[0]):
            cost[b] = 0.0
            if inventory[b] == 0:
                continue
            bought, cost[b] = _buy(market, tables, b, min(units[b], inventory[b]))
            inventory[b] -= bought
            if inventory[b] > 0 and goes_on:
                _advance(market, tables, b)

    @nb.njit(nogil=True, cache=True)
    def forced(market, inventory, cost):  # type: ignore[no-untyped-def]
        _ = source_hash
        for b in range(market.moved.shape[0]):
            cost[b] = _forced_cost(market, b, inventory[b])

    return SimpleNamespace(start=start, step=step, forced=forced)


_CALL = _make_callers(KERNEL.source_hash)


class QueueReactiveMarkets:
    """`n` markets, each with somebody who has `inventory` units left to buy.

    A step is `seconds` long. A market stops when its inventory is bought.
    """

    def __init__(self, n: int, *, seconds: float) -> None:
        self.tables = QueueTables.of(seconds)
        self.state = QueueMarket(
            queues=np.zeros((n, 2 * DEPTHS), np.int64),
            moved=np.zeros(n, np.int64),
            streams=np.zeros(n, np.uint64),
        )
        self.inventory = np.zeros(n, np.int64)

    def reset(self, seeds: npt.ArrayLike, inventory: int) -> None:
        """Start every market anew from its seed."""
        self.state.streams[:] = streams_of(seeds)
        self.inventory[:] = inventory
        _CALL.start(self.state, self.tables)

    def step(self, units: Int, *, goes_on: bool = True) -> Array:
        """Buy these units, then run until the next decision if there is one.

        Returns the costs in ticks over the first reference price.
        """
        cost = np.empty(len(units))
        _CALL.step(self.state, self.tables, self.inventory, units, goes_on, cost)
        return cost

    def forced_cost(self) -> Array:
        """What buying the inventory at once would cost in ticks, beyond the book if need be."""
        cost = np.empty(len(self.inventory))
        _CALL.forced(self.state, self.inventory, cost)
        return cost

    def best(self, side: int) -> tuple[Int, Int]:
        """The depth and the size of each market's best queue on a side (BID or ASK)."""
        queues = self.state.queues[:, side : side + DEPTHS]
        depth = np.argmax(queues > 0, axis=1)
        return depth, queues[np.arange(len(queues)), depth]


def poisson_law(count: Int, mean: float) -> Array:
    """Probabilities of counts around a mean."""
    # log p(k) = k log m - m - log k!
    return np.exp(count * np.log(mean) - mean - gammaln(count + 1.0))
