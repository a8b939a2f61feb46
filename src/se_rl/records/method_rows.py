"""Rows of the tables of methods: on days of history, and on simulated orders. Numbers are in basis
points where their name does not say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from se_rl.records.gains import UNKNOWN, Bounds, Gain


@dataclass(frozen=True)
class OrderMetrics:
    """The price advantage over a benchmark: its mean, spread, win rate, gain-loss ratio, and the
    inventory left.
    """

    PA: float = math.nan
    PA_std: float = math.nan
    WR: float = math.nan
    GLR: float = math.nan
    AFI: float = math.nan
    PA_vs_twap: float | None = None
    PA_vs_arrival: float | None = None
    PA_vs_vwap: float | None = None
    ci95: Bounds = UNKNOWN


@dataclass(frozen=True)
class MethodRow(OrderMetrics):
    """One method on the sealed test days; `ours_over` is what our design gains over it on the same
    orders.

    `score` is gain less risk on these days alone. The parts by seed are those of learned methods.
    """

    PA_gross: float | None = None
    by_side: Mapping[str, OrderMetrics] = field(default_factory=dict)
    over_TWAP: Gain = field(default_factory=Gain)
    over_TWAP_common: Gain = field(default_factory=Gain)
    over_TWAP_specific: Gain = field(default_factory=Gain)
    over_TWAP_full_bars: Gain | None = None
    score: Gain | None = None
    tracking_error: float | None = None
    capture: float | None = None
    over_TWAP_by_seed: tuple[float, ...] | None = None
    seed_sd: float | None = None
    ended_early: tuple[str, ...] | None = None
    ours_over: Gain | None = None
    ours_over_specific: Gain | None = None


@dataclass(frozen=True)
class SimulatedRow:
    """One method on fresh orders in simulated markets: its cost, what it saves against TWAP, and
    how it trades.
    """

    cost_bps: float = math.nan
    twap_cost_bps: float | None = None
    saved_bps: float = math.nan
    saved_se: float | None = None
    saved_ci95: Bounds = UNKNOWN
    saved_share: float = math.nan
    passive: float = math.nan
    forced: float = math.nan
    AFI: float | None = None
    distinct_actions: int | None = None
    broken: int | None = None
    orders: int | None = None
    schedule: str | None = None
    over_TWAP_by_seed: tuple[float, ...] | None = None
    seed_sd: float | None = None
    ended_early: tuple[str, ...] | None = None
