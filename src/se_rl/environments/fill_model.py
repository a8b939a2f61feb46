"""The protocol of fill models: how much of a wish is filled in a bar, and at what price."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from se_rl.environments.task import Orders

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]


class StepFills(NamedTuple):
    """One bar's fills, arrays [order] that a fill model writes."""

    shares: Array
    cash: Array  # exchanged for the shares, before costs
    cost: Array  # half-spread paid, in currency; fees come on top
    passive: Array  # the part of `shares` that resting limit orders earned

    @classmethod
    def empty(cls, n: int) -> StepFills:
        """No fills yet for `n` orders."""
        return cls(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n))


class FillModel(Protocol):
    """How wishes become fills, for many orders at once.

    `half_spread` (a share of the price) is what a forced completion pays, `tick` the price step of
    limits in currency. A model that does not take limits fills everything at the bar price.
    `fills_market_orders_whole` says that an order without a limit always gets all it asks for, at
    the bar price.
    """

    name: str
    half_spread: float
    tick: float
    takes_limits: bool
    fills_market_orders_whole: bool

    def fill(
        self, orders: Orders, bar: Index, *, want: Array, limit: Array, out: StepFills
    ) -> None:
        """Fill `want` shares of each order in its bar, at `limit` (NaN: at market), into `out`."""
        ...
