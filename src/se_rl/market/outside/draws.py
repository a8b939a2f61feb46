"""Random draws of batched markets: every episode has a stream of its own.

A stream is a counter that is hashed (splitmix64), so that an episode depends on its seed alone, and
not on how many others run beside it. Plain Python that numba compiles with its callers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.market.layout import own_functions

Streams = npt.NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
FIRST_SHIFT = np.uint64(30)
SECOND_SHIFT = np.uint64(27)
THIRD_SHIFT = np.uint64(31)
MANTISSA_SHIFT = np.uint64(11)
UNIT = 2.0**-53
SEED_FACTOR = np.uint64(0xD1342543DE82EF95)
"""Spreads neighbouring seeds over the counter's range."""


def word(streams: Any, b: int) -> Any:
    """The next 64 bits of stream `b`."""
    x = streams[b] + GOLDEN
    streams[b] = x
    x = (x ^ (x >> FIRST_SHIFT)) * FIRST_FACTOR
    x = (x ^ (x >> SECOND_SHIFT)) * SECOND_FACTOR
    return x ^ (x >> THIRD_SHIFT)


def as_unit(bits: Any) -> float:
    """The upper 53 bits of a word as a number in (0, 1]; the lowest 11 are free for other uses."""
    # as a signed number, which processors turn into a float at once
    return (np.int64(bits >> MANTISSA_SHIFT) + 1) * UNIT


def uniform(streams: Any, b: int) -> float:
    """The next draw of stream `b`, in (0, 1]."""
    return as_unit(word(streams, b))


def exponential(streams: Any, b: int, rate: float) -> float:
    """A waiting time at this rate."""
    return -math.log(uniform(streams, b)) / rate


def choice(streams: Any, b: int, cumulative: Any) -> int:
    """A whole number whose cumulative probabilities are given; the last of them is 1."""
    u = uniform(streams, b)
    low, high = 0, cumulative.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if u <= cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    return low


FUNCTIONS = own_functions(globals())


def streams_of(seeds: npt.ArrayLike) -> Streams:
    """The streams' first states, one for each seed."""
    x = np.asarray(seeds).astype(np.uint64) * SEED_FACTOR + GOLDEN
    for shift, factor in ((FIRST_SHIFT, FIRST_FACTOR), (SECOND_SHIFT, SECOND_FACTOR)):
        x = (x ^ (x >> shift)) * factor
    return x ^ (x >> THIRD_SHIFT)


def cumulative(law: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Cumulative probabilities along the last axis, whose last is exactly 1."""
    sums = np.cumsum(law, axis=-1)
    sums[..., -1] = 1.0
    return sums
