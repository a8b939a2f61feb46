"""The one check of bars that a function made: could a market have printed them?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

FaultKind = Literal["not finite", "price", "volume", "range"]


@dataclass(frozen=True, eq=False)
class BarFault:
    """The first kind of fault that some bars have, and which bars have it."""

    kind: FaultKind
    where: npt.NDArray[np.bool_]  # [path, bar]

    @property
    def count(self) -> int:
        """How many bars have it."""
        return int(self.where.sum())

    @property
    def first(self) -> tuple[int, int]:
        """Path and bar of the first one."""
        path, bar = np.argwhere(self.where)[0]
        return int(path), int(bar)


def bar_fault(bars: npt.NDArray[Any], *, relative_slack: float = 0.0) -> BarFault | None:
    """What is wrong with bars [path, bar, 5] (open, high, low, close, volume), None if nothing is.

    In this order: numbers that are not finite, prices that are not positive, negative volume, and
    bars without low <= open, close <= high, up to a share `relative_slack` of the close.
    """
    infinite = ~np.isfinite(bars).all(axis=-1)
    if infinite.any():
        return BarFault("not finite", infinite)
    not_positive = np.any(bars[..., :4] <= 0, axis=-1)
    if not_positive.any():
        return BarFault("price", not_positive)
    opens, high, low, close, volume = np.moveaxis(bars, -1, 0)
    negative = ~(volume >= 0)
    if negative.any():
        return BarFault("volume", negative)
    slack = relative_slack * close
    below = np.minimum(opens, close) < low - slack
    above = np.maximum(opens, close) > high + slack
    return BarFault("range", below | above) if (below | above).any() else None
