"""What the fraud check measured on the policies of one design."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class FraudCheck:
    """How far actions moved where they must not, and what was gained on martingale days.

    Actions are compared in TWAP slices of what was left: `alone_slices` where an order is played by
    itself, `strangers_slices` where the other orders of its batch are changed. The gain over TWAP on
    martingale days has a standard error and the chance of so much by luck. `reason` is "" for a
    design that passed.
    """

    reason: str = ""
    alone_slices: float = 0.0
    strangers_slices: float = 0.0
    martingale_bps: float = math.nan
    martingale_se: float = math.nan
    martingale_p: float = 1.0

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against the design."""
        return not self.reason
