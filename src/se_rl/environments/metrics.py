"""The metrics of an execution, each defined once: PA, PA-std, WR, GLR, AFI.

They sit beside the task because environments report them too; `scoring` adds intervals and
comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
BPS = 1e4


def price_advantage(price: npt.ArrayLike, benchmark: npt.ArrayLike, side: npt.ArrayLike) -> Array:
    """PA per order in bps; positive is good."""
    # PA = 1e4 s (price / benchmark - 1), s = +1 for a sell, -1 for a buy
    move = np.asarray(price, np.float64) / np.asarray(benchmark, np.float64) - 1.0
    return BPS * np.asarray(side, np.float64) * move


@dataclass(frozen=True)
class Metrics:
    """A set of orders summed up. GLR is NaN where there is no gain or no loss to speak of."""

    orders: int
    pa_bps: float
    pa_std_bps: float
    win_rate: float
    gain_loss_ratio: float
    final_inventory: float

    @classmethod
    def of(cls, pa_bps: npt.ArrayLike, leftover: npt.ArrayLike) -> Metrics:
        """From PA per order and the share of each order left before forced completion."""
        pa = np.asarray(pa_bps, np.float64)
        if pa.size == 0:
            raise ValueError("metrics of no orders are undefined; execute at least one")
        gains, losses = pa[pa > 0], pa[pa < 0]
        ratio = gains.mean() / -losses.mean() if len(gains) and len(losses) else np.nan
        spread = pa.std(ddof=1) if pa.size > 1 else np.nan
        wins = (len(gains) + 0.5 * (pa == 0).sum()) / pa.size
        return cls(
            orders=pa.size,
            pa_bps=float(pa.mean()),
            pa_std_bps=float(spread),
            win_rate=float(wins),
            gain_loss_ratio=float(ratio),
            final_inventory=float(np.mean(np.abs(leftover))),
        )

    def as_dict(self) -> dict[str, float]:
        """The names of the results tables."""
        return {
            "PA": self.pa_bps,
            "PA_std": self.pa_std_bps,
            "WR": self.win_rate,
            "GLR": self.gain_loss_ratio,
            "AFI": self.final_inventory,
        }
