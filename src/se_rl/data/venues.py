"""What the synthetic markets of two exchanges look like: sizes, shapes over the day, prices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from se_rl.data.calendar import CHINA, US
from se_rl.data.market_data import Array

QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)


@dataclass(frozen=True)
class Venue:
    """What differs by exchange: shapes are values at the knots (minutes), tuples of five at the
    QUANTILES of names."""

    minutes: int
    lot: float
    specific_bps: float
    market_bps: float
    volatility_sds: tuple[float, float, float]  # of the log, at the time scales _VOLATILITY_MINUTES
    gaps: dict[int, float]  # minute: standard deviation of the break before it, in minutes' moves
    knots: tuple[int, ...]
    volume: tuple[float, ...]
    volatility: tuple[float, ...]
    day_money: tuple[float, ...]
    first_price: tuple[float, ...]

    def shape(self, values: tuple[float, ...]) -> Array:
        """The values at the knots, drawn out over the session's minutes."""
        return np.interp(np.arange(self.minutes), self.knots, values)


VENUES = {
    US: Venue(
        minutes=390,
        lot=1.0,
        specific_bps=6.7,
        market_bps=3.8,
        volatility_sds=(0.22, 0.3, 0.2),
        gaps={0: 12.0},
        knots=(0, 5, 15, 45, 75, 105, 135, 165, 195, 225, 255, 285, 315, 345, 375, 389),
        volume=(
            4.0,
            2.2,
            1.6,
            1.15,
            0.94,
            0.84,
            0.75,
            0.67,
            0.61,
            0.59,
            0.61,
            0.67,
            0.71,
            0.88,
            1.5,
            6.0,
        ),
        volatility=(
            3.0,
            2.4,
            2.0,
            1.4,
            1.15,
            1.0,
            0.92,
            0.84,
            0.76,
            0.75,
            0.75,
            0.77,
            0.77,
            0.82,
            0.92,
            1.1,
        ),
        day_money=(60e6, 130e6, 470e6, 3_800e6, 12_000e6),
        first_price=(12.0, 31.0, 105.0, 400.0, 900.0),
    ),
    CHINA: Venue(
        minutes=240,
        lot=100.0,
        specific_bps=8.7,
        market_bps=3.5,
        volatility_sds=(0.22, 0.33, 0.36),
        gaps={0: 10.0, 120: 2.0},
        knots=(0, 7, 22, 37, 52, 67, 82, 97, 119, 120, 127, 142, 157, 172, 187, 202, 217, 239),
        volume=(
            5.0,
            3.3,
            1.7,
            1.25,
            0.96,
            0.83,
            0.7,
            0.64,
            0.58,
            1.0,
            0.85,
            0.67,
            0.66,
            0.64,
            0.66,
            0.66,
            0.8,
            1.5,
        ),
        volatility=(
            3.0,
            2.3,
            1.7,
            1.4,
            1.2,
            1.1,
            1.0,
            0.92,
            0.9,
            1.0,
            0.95,
            0.9,
            0.9,
            0.82,
            0.82,
            0.75,
            0.74,
            0.72,
        ),
        day_money=(300e6, 540e6, 980e6, 2_100e6, 8_000e6),
        first_price=(3.5, 4.6, 10.7, 39.0, 200.0),
    ),
}
