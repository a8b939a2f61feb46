"""A parent order under way, as a desk states it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from se_rl.data.market_data import DataError
from se_rl.environments.task import SIDES, positive_quantity

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ParentOrder:
    """A parent order under way: `filled` has the shares that each bar so far brought.

    It trades in `horizon` bars; `start` is the label of the first of them (None: the bar after the
    last one that is known, less those that `filled` counts). `symbol` may be left out where the
    bars are those of one symbol.
    """

    side: str
    quantity: float
    horizon: int
    symbol: str | None = None
    start: str | pd.Timestamp | None = None
    filled: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.side not in SIDES:
            raise DataError(f"side {self.side!r} is unknown; use 'buy' or 'sell'")
        positive_quantity(self.quantity)
        if self.horizon < 1:
            raise DataError(f"horizon is {self.horizon}; use 1 bar or more")
        if len(self.filled) > self.horizon:
            raise DataError(
                f"filled has {len(self.filled)} bars and the order {self.horizon}; "
                "give one number for each bar so far"
            )
        if not all(np.isfinite(shares) and shares >= 0 for shares in self.filled):
            raise DataError(f"filled is {self.filled[-3:]}; give shares, 0 or more for each bar")
        if sum(self.filled) > self.quantity * (1 + 1e-9):
            raise DataError(
                f"{sum(self.filled):g} shares are filled of an order of {self.quantity:g}; "
                "check the fills"
            )

    @property
    def left(self) -> float:
        """Shares that are still to be traded."""
        return self.left_before[-1]

    @property
    def left_before(self) -> tuple[float, ...]:
        """Shares left when each bar so far began, and now."""
        traded = np.concatenate([[0.0], np.cumsum(self.filled)])
        return tuple(np.maximum(self.quantity - traded, 0.0).tolist())

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to trade, or no bar to trade in."""
        return len(self.filled) >= self.horizon or self.left <= 1e-9 * self.quantity

    def after(self, shares: float) -> ParentOrder:
        """The order one bar later, in which so many shares were filled."""
        return replace(self, filled=(*self.filled, float(shares)))
