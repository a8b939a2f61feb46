"""The queue-reactive market's numbers: how often units come and go, by depth and queue size.

Rates a second at knots of the queue size, straight lines between them (arXiv 2511.15262).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Knots = tuple[tuple[int, float], ...]

DEPTHS = 3
LARGEST = 50
"""Units that a queue can hold."""
LIMIT, CANCEL, MARKET = range(3)
UNIT_SHARES = (836, 1068, 1069)
"""Shares in a unit at each depth: a queue that changes its depth is counted anew in the other's."""

_LIMITS: tuple[Knots, ...] = (
    ((0, 0.25), (1, 0.63), (2, 0.55), (3, 0.55), (19, 0.75), (20, 0.75), (50, 0.70)),
    (
        *((0, 2.8), (1, 1.3), (2, 0.9), (3, 0.8), (7, 0.65), (8, 0.62)),
        *((19, 0.47), (20, 0.47), (50, 0.52)),
    ),
    (
        *((0, 3.1), (1, 0.96), (2, 0.61), (3, 0.52), (4, 0.485), (5, 0.40)),
        *((20, 0.40), (50, 0.55)),
    ),
)
_CANCELS: tuple[Knots, ...] = (
    (
        *((0, 0.0), (1, 0.23), (2, 0.40), (3, 0.46), (4, 0.50)),
        *((19, 0.87), (20, 0.87), (50, 0.73)),
    ),
    (
        *((0, 0.0), (1, 0.42), (2, 0.51), (3, 0.56), (4, 0.57), (5, 0.59), (7, 0.60)),
        *((24, 0.55), (25, 0.55), (50, 0.60)),
    ),
    ((0, 0.0), (1, 0.50), (2, 0.28), (42, 0.60), (50, 0.60)),
)
_MARKETS: tuple[Knots, ...] = (
    (
        *((0, 0.0), (1, 0.25), (3, 0.15), (4, 0.125), (5, 0.105), (6, 0.098)),
        *((12, 0.073), (29, 0.073), (50, 0.092)),
    ),
    (
        *((0, 0.001), (1, 0.024), (2, 0.011), (3, 0.006), (5, 0.002)),
        *((22, 0.001), (50, 0.001)),
    ),
    ((0, 0.0), (1, 0.008), (2, 0.003), (3, 0.0001), (50, 0.0001)),
)


def event_rates() -> Array:
    """Rates a second [depth, queue size, LIMIT | CANCEL | MARKET]."""
    sizes = np.arange(LARGEST + 1)
    rates = np.empty((DEPTHS, LARGEST + 1, 3))
    for kind, knots_by_depth in ((LIMIT, _LIMITS), (CANCEL, _CANCELS), (MARKET, _MARKETS)):
        for depth, knots in enumerate(knots_by_depth):
            at, rate = zip(*knots, strict=True)
            rates[depth, :, kind] = np.interp(sizes, at, rate)
    return rates


def stationary_law() -> Array:
    """Probabilities [depth, queue size] of a queue left to itself."""
    rates = event_rates()
    # pi(n) = pi(0) * product over j < n of limit(j) / (cancel(j + 1) + market(j + 1))
    ratio = rates[:, :-1, LIMIT] / rates[:, 1:, CANCEL : MARKET + 1].sum(axis=2)
    weight = np.concatenate([np.ones((DEPTHS, 1)), np.cumprod(ratio, axis=1)], axis=1)
    return weight / weight.sum(axis=1, keepdims=True)
