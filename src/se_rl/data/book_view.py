"""What a simulated market shows at one moment, as the formulas of observation fields read it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class BookView(Protocol):
    """Simulated markets at one moment, as `environments.market_view` shows them; arrays [market].

    `log_sizes` is [side * BOOK_LEVELS + level, market], bids first; `returns` and
    `specific_returns` are [entry of RETURN_MINUTES, market].
    """

    spread_bps: Array
    log_sizes: Array
    imbalance: Array
    returns: Array
    specific_returns: Array

    @property
    def log_spread_ratio(self) -> Array:
        """Log of the spread over the usual one."""
        ...

    @property
    def return_since_open(self) -> Array:
        """Log return since the open, in its standard deviations."""
        ...

    @property
    def range_position(self) -> Array:
        """Place of the mid in the day's range, -1 to 1."""
        ...

    @property
    def log_volatility_ratio(self) -> Array:
        """Log of today's volatility over the usual one."""
        ...

    @property
    def time_of_day(self) -> Array:
        """Share of the session gone."""
        ...

    def log_volume_ratio(self, entry: int) -> Array:
        """Log of the volume of an entry of VOLUME_MINUTES over what is usual."""
        ...
