"""What the limits of simulated orders are measured in.

A tick is a tenth of a bar's move in one market and all of it in another; in units of the volatility
that is known when the limit is set, one distance from the touch means much the same in both.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LimitUnit = Literal["ticks", "volatility"]
"""What the limits of a world are measured in: `volatility` is half of a bar's, at least a tick."""
LEAST_UNIT_TICKS = 1.0
"""A limit moves by whole ticks: where a bar's volatility is no more than two, the unit is a tick."""


def whole_ticks(offset: Array, unit: LimitUnit, *, volatility_ticks: Array) -> Array:
    """Offsets in so many units, as whole ticks."""
    if unit == "ticks":
        return np.rint(offset)
    return np.rint(offset * np.maximum(0.5 * volatility_ticks, LEAST_UNIT_TICKS))
