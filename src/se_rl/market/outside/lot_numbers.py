"""The numbers of three markets in which 20 or 60 lots are sold (arXiv 2507.06345), and their state.

Prices are whole ticks, quantities whole lots. Distances count ticks from the best price of the
other side: 1 is the nearest price at which a limit order can rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from se_rl.data.market_data import DataError
from se_rl.market.layout import Layout
from se_rl.market.outside.draws import cumulative

Array = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

KINDS = ("noise", "tactical", "strategic")
"""Noise traders alone; traders who follow the imbalance; these and one with a hidden direction."""

START_TIME = -15.0
FIRST_BID, FIRST_ASK = 1000, 1001
START_LEVELS = np.array(
    [
        *(4, 11, 16, 19, 20, 20, 20, 19, 18, 18, 17, 16, 15, 14, 14),
        *(13, 12, 12, 11, 11, 10, 9, 9, 8, 8, 7, 7, 6, 6, 6),
    ]
)
"""Lots on each level of either side at the start, the best first."""
LONE_LOTS = 5
"""The first bid of a book that has become empty."""
REFILL_WAIT = 1e-6
"""Seconds from an order that fills an empty side to the next event."""

LIMIT_RATES = np.array(
    [
        *(0.2842, 0.5255, 0.2971, 0.2307, 0.0826, 0.0682, 0.0631),
        *(0.0481, 0.0462, 0.0321, 0.0178, 0.0015, 0.0001),
    ]
)
"""Limit orders a second and side, by distance."""
CANCEL_RATES = np.array(
    [
        *(0.08636, 0.04635, 0.01487, 0.01096, 0.00402, 0.00341, 0.00311),
        *(0.00237, 0.00233, 0.00178, 0.00127, 0.00012, 0.00001),
    ]
)
"""Cancels a second for each lot that stands at a distance."""
MARKET_RATE = 0.1237
"""Market orders a second and side."""
REACH = len(LIMIT_RATES)
"""The largest distance at which traders act."""
SIZE_SPREAD = 2.0
LARGEST_SIZE = 20
DEEPEST = 30
"""Levels that the imbalance looks at, from the other side's best price."""
IMBALANCE_DECAY = 0.65
TACTICAL_RATES, TACTICAL_BEND = 0.85, 2.0
"""Traders who follow the imbalance: all rates times the first, and at most 1 + the second."""

STRATEGIC_WAIT = 3.0
STRATEGIC_MARKET, STRATEGIC_LIMIT = 1, 2
"""Every three seconds, lots at market and lots in a limit order."""

INITIAL, NOISE, STRATEGIC, AGENT = range(4)
"""Owners. Whoever owns the first book never cancels."""
OWNERS = 4

LEVELS = 5
"""Prices above the bid that the agent can offer at."""
SEEN_LEVELS = 5

_seen = Layout()
_seen.take(9)  # time, order, prices and flows, in the paper's order
OWN_SHARES = _seen.take(SEEN_LEVELS + 2)  # by level from the best ask, beyond, inactive
_seen.take(2 * SEEN_LEVELS)  # lots of all owners by distance: bids, then asks
LOT_NUMBERS = _seen.take()  # level and lots ahead of each lot, from here on

_count = Layout()
DIRECTION = _count.take()  # the strategic trader's side, BUY or SELL
PENDING_PRICE = _count.take()  # of its limit order, between its two orders; 0: none
MARKET_FLOW = _count.take(2)  # lots of market orders since the last look, by side
LIMIT_FLOW = _count.take(2)  # lots of limit orders
HIGHEST_OFFER = _count.take()  # the highest price at which the agent has offered
FIRST_BEST = _count.take()  # the bid at the agent's first look
FIRST_MID = _count.take()  # twice the mid then
LAST_MID = _count.take()  # twice the mid at the last look
COUNTS = _count.width


class LotState(NamedTuple):
    """What n markets keep beside their books."""

    streams: npt.NDArray[np.uint64]  # [n]
    next_noise: Array  # [n] seconds
    next_strategic: Array  # [n] seconds
    counts: Int  # [n, COUNTS]

    @classmethod
    def empty(cls, n: int) -> LotState:
        """Room for n markets."""
        return cls(
            np.zeros(n, np.uint64), np.zeros(n), np.zeros(n), np.zeros((n, COUNTS), np.int64)
        )


class LotTables(NamedTuple):
    """What all markets of a kind share."""

    limits: Array  # [REACH] cumulative shares of the limit orders, by distance
    limit_rate: float  # a second and side, over all distances
    cancels: Array  # [REACH] rates for each lot
    market_rate: float
    sizes: Array  # [LARGEST_SIZE] cumulative probabilities of 1, 2, ... lots
    decay: Array  # [DEEPEST + 1] weights of the imbalance, by distance from the own best
    bend: float  # how strongly the imbalance moves the rates; 0: not at all
    strategic: bool

    @classmethod
    def of(cls, kind: str) -> LotTables:
        """The tables of a kind of market."""
        if kind not in KINDS:
            raise DataError(f"market {kind!r} is unknown; use {', '.join(KINDS)}")
        noise = kind == "noise"
        factor = 1.0 if noise else TACTICAL_RATES
        return cls(
            limits=cumulative(LIMIT_RATES / LIMIT_RATES.sum()),
            limit_rate=factor * float(LIMIT_RATES.sum()),
            cancels=factor * CANCEL_RATES,
            market_rate=factor * MARKET_RATE,
            sizes=cumulative(size_law()),
            decay=np.exp(-IMBALANCE_DECAY * np.arange(DEEPEST + 1)),
            bend=0.0 if noise else TACTICAL_BEND,
            strategic=kind == "strategic",
        )


def size_law() -> Array:
    """Probabilities of 1 to LARGEST_SIZE lots: 1 + |z|, rounded, where z is normal."""
    # P(v) = P(v - 1.5 < |z| < v - 0.5)
    edge = np.maximum(np.arange(LARGEST_SIZE + 1) - 0.5, 0.0)
    below = 2.0 * ndtr(edge / SIZE_SPREAD) - 1.0
    below[-1] = 1.0
    return np.diff(below)
