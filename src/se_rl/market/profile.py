"""MarketProfile: the numbers that every participant of the simulated market reads, each with its
range.

Time is counted in units, of which a minute has `units_per_minute`; rates are per unit. Prices are
in ticks, quantities in lots. The kernel reads integers only, so that CPU and GPU agree to the last
bit: participants.py turns a profile into them.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any

import numpy as np

from se_rl.config import settings
from se_rl.data.market_data import DataError

FIXED = 2**16
"""Fractions of a tick: values, shifts and log volatility are kept in 1/65536."""
PROBABILITY = 2**31
"""Random draws lie in [0, 2**31); a probability p is the threshold p * 2**31."""


def _number(default: float, low: float, high: float, help: str) -> Any:
    return field(default=default, metadata={"range": (low, high), "help": help})


@settings
class MarketProfile:
    """What the market's participants are like; every number must lie in its range
    (`PROFILE_RANGES`)."""

    units_per_minute: float = _number(
        10.0, 2.0, 40.0, "units in a minute: the pace of everything at once"
    )
    noise_market_rate: float = _number(5.0, 0.2, 5.0, "noise market orders per unit")
    noise_limit_rate: float = _number(
        0.01, 0.002, 0.1, "noise limit orders per unit, tick of distance and side"
    )
    noise_limit_ticks: float = _number(
        60.0, 5.0, 120.0, "how far from the opposite best noise limit orders reach"
    )
    noise_cancel_rate: float = _number(0.01, 0.002, 0.2, "cancels per unit and resting noise order")
    size_tail: float = _number(
        6.0, 1.2, 6.0, "Pareto exponent of order sizes in lots (larger: nearly all of size 1)"
    )
    parent_share: float = _number(
        0.58, 0.0, 1.0, "share of noise market orders that are slices of hidden parent orders"
    )
    parent_tail: float = _number(
        1.37, 1.1, 3.0, "Pareto exponent of the parents' lengths: long memory of signs"
    )
    parents: float = _number(6.0, 1.0, 32.0, "hidden parent orders that are worked at a time")
    imbalance_response: float = _number(
        0.3, 0.0, 1.0, "how far displayed imbalance tilts the sign of market orders"
    )
    makers: float = _number(1.0, 1.0, 3.0, "number of market makers")
    maker_wake_rate: float = _number(1.0, 0.2, 5.0, "re-quotes per unit of each maker")
    maker_levels: float = _number(16.0, 2.0, 16.0, "price levels a maker quotes on each side")
    maker_lots: float = _number(5.0, 1.0, 20.0, "lots a maker quotes on each level")
    maker_half_spread: float = _number(
        0.5, 0.0, 6.0, "ticks between a maker's reference and its best quotes"
    )
    maker_lag: float = _number(
        0.95, 0.2, 20.0, "units in which a maker's reference follows the public value"
    )
    maker_skew: float = _number(
        1.85, 0.0, 4.0, "ticks by which quotes shift for an inventory of one lot"
    )
    maker_skew_power: float = _number(
        0.34, 0.2, 1.0, "concavity of the shift in inventory: 1 is linear"
    )
    maker_memory: float = _number(
        590.0, 20.0, 4000.0, "units over which a maker forgets its inventory"
    )
    maker_imbalance: float = _number(
        1.0, 0.0, 4.0, "ticks by which quotes shift for a one-sided displayed book"
    )
    informed_rate: float = _number(0.22, 0.0, 2.0, "looks of informed traders per unit")
    informed_threshold: float = _number(5.5, 0.0, 10.0, "ticks the value must lie beyond the touch")
    informed_noise: float = _number(0.5, 0.0, 20.0, "ticks of error in an informed trader's value")
    momentum_rate: float = _number(0.01, 0.0, 2.0, "looks of momentum traders per unit")
    momentum_threshold: float = _number(
        2.0, 0.0, 20.0, "ticks the mid must have moved against its slow mean"
    )
    momentum_memory: float = _number(100.0, 10.0, 1000.0, "units of that slow mean")
    news_volatility: float = _number(
        1.5, 0.0, 5.0, "ticks per square root of a unit of the public value"
    )
    news_tail: float = _number(
        2.6, 2.5, 30.0, "degrees of freedom of news: smaller is fatter-tailed"
    )
    news_memory: float = _number(300.0, 10.0, 2000.0, "units of memory of log volatility")
    news_clustering: float = _number(0.4, 0.0, 1.2, "standard deviation of log volatility")
    pressure_memory: float = _number(
        40.0, 2.0, 1000.0, "units over which the pressure of patient traders lasts"
    )
    pressure_lean: float = _number(
        0.35, 0.0, 2.0, "share of the quoted lots on which side usual pressure shows"
    )
    pressure_shift: float = _number(
        8.0, 0.0, 10.0, "ticks by which makers' quotes follow usual pressure"
    )
    pressure_lag: float = _number(40.0, 1.0, 400.0, "units in which quotes follow the pressure")
    learning: float = _number(
        0.00045, 0.0, 0.05, "share of the gap to the mid that the public value learns per unit"
    )
    stress_rate: float = _number(0.003, 0.0, 0.02, "calm markets that turn stressed, per unit")
    calm_rate: float = _number(0.012, 0.0005, 0.1, "stressed markets that calm down, per unit")
    stress_spread: float = _number(3.0, 0.0, 6.0, "ticks that stress adds to each half-spread")
    stress_depth: float = _number(0.7, 0.2, 1.0, "factor of stress on the lots that makers quote")
    stress_volatility: float = _number(1.5, 1.0, 4.0, "factor of stress on news volatility")
    collar: float = _number(40.0, 5.0, 200.0, "ticks from the touch beyond which no order executes")

    def __post_init__(self) -> None:
        for name, (low, high) in PROFILE_RANGES.items():
            value = getattr(self, name)
            if not (np.isfinite(value) and low <= value <= high):
                raise DataError(f"profile {name} {value} is out of range; use {low:g} to {high:g}")


PROFILE_RANGES: dict[str, tuple[float, float]] = {
    number.name: number.metadata["range"] for number in fields(MarketProfile)
}
"""What a profile may say: name -> (lowest, highest)."""
