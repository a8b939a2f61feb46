"""What single orders did: gains by symbol, time of day and side, inventories, and one simulated
order step by step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from se_rl.records.gains import UNKNOWN, Bounds

QUANTILES = (5, 25, 50, 75, 95)
"""Percentiles of the distributions over orders."""


@dataclass(frozen=True)
class OrderGroup:
    """Orders that have something in common: their PA over the benchmark in percentiles, and the mean
    gain over TWAP with its interval by day clusters, bps.
    """

    name: str
    orders: int = 0
    PA: tuple[float, ...] = ()
    over_TWAP: float = math.nan
    ci95: Bounds = UNKNOWN


@dataclass(frozen=True)
class InventoryBand:
    """The share of an order that is left after some of its steps, in percentiles over orders: for
    every percentile one number per step.
    """

    steps: tuple[int, ...] = ()
    left: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class OrderDetails:
    """The orders of one method: by symbol, time of day and side; and the inventories of all learned
    methods.
    """

    method: str = ""
    groups: Mapping[str, tuple[OrderGroup, ...]] = field(default_factory=dict)
    inventory: Mapping[str, InventoryBand] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulatedReplay:
    """One order in a simulated book, step by step, and the market for a while after its end.

    Prices are bps from the mid at arrival: `mid` with our order and `free` without it, from arrival
    on; `fill` is NaN in steps without one. `traded`, `passive` and `left` are shares of the order.
    `ticks` and `lots` are the book after each step: distances from the arrival mid, and sizes, those
    of bids negative. `size` is the share of the usual volume.
    """

    candidate: str = ""
    side: str = ""
    market: str = ""
    size: float = math.nan
    tick_bps: float = math.nan
    mid: tuple[float, ...] = ()
    free: tuple[float, ...] = ()
    fill: tuple[float, ...] = ()
    traded: tuple[float, ...] = ()
    passive: tuple[float, ...] = ()
    left: tuple[float, ...] = ()
    ticks: tuple[tuple[int, ...], ...] = ()
    lots: tuple[tuple[int, ...], ...] = ()

    @property
    def impact(self) -> tuple[float, ...]:
        """What our order moved the mid against itself, bps."""
        sign = -1.0 if self.side == "sell" else 1.0
        pairs = zip(self.mid, self.free, strict=True)
        return tuple(sign * (moved - free) for moved, free in pairs)
