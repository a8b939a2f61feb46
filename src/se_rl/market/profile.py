"""MarketProfile: the numbers that every participant of the simulated market reads, each with its range.

Time is counted in units, of which a minute has `units_per_minute`; rates are per unit. Prices are in ticks, quantities in
lots. The kernel knows integers only, so that CPU and GPU agree to the last bit: `numbers()` turns a profile into integer
parameters and lookup tables.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.config import settings
from se_rl.data.market_data import DataError

Int = npt.NDArray[np.int64]

FIXED = 2**16
"""Fractions of a tick: values, shifts and log volatility are kept in 1/65536."""
PROBABILITY = 2**31
"""Random draws lie in [0, 2**31); a probability p is the threshold p * 2**31."""
NORMALS, DRAWS, LONGEST_SKEW, VOLATILITIES = 1024, 1024, 2048, 513
MAX_MAKERS, MAX_LEVELS, PARENTS = 3, 16, 32


def _number(default: float, low: float, high: float, help: str) -> Any:
    return field(default=default, metadata={"range": (low, high), "help": help})


@settings
class MarketProfile:
    """What the market's participants are like; every number must lie in its range (`PROFILE_RANGES`)."""

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
        0.38, 0.0, 1.0, "share of noise market orders that are slices of hidden parent orders"
    )
    parent_tail: float = _number(
        1.7, 1.1, 3.0, "Pareto exponent of the parents' lengths: long memory of signs"
    )
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
        1.5, 0.2, 20.0, "units in which a maker's reference follows the public value"
    )
    maker_skew: float = _number(
        1.15, 0.0, 4.0, "ticks by which quotes shift for an inventory of one lot"
    )
    maker_skew_power: float = _number(
        0.42, 0.2, 1.0, "concavity of the shift in inventory: 1 is linear"
    )
    maker_memory: float = _number(
        680.0, 20.0, 4000.0, "units over which a maker forgets its inventory"
    )
    maker_imbalance: float = _number(
        2.0, 0.0, 4.0, "ticks by which quotes shift for a one-sided displayed book"
    )
    informed_rate: float = _number(0.25, 0.0, 2.0, "looks of informed traders per unit")
    informed_threshold: float = _number(7.0, 0.0, 10.0, "ticks the value must lie beyond the touch")
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
    learning: float = _number(
        0.0003, 0.0, 0.05, "share of the gap to the mid that the public value learns per unit"
    )
    stress_rate: float = _number(0.003, 0.0, 0.02, "calm markets that turn stressed, per unit")
    calm_rate: float = _number(0.012, 0.0005, 0.1, "stressed markets that calm down, per unit")
    stress_spread: float = _number(3.0, 0.0, 6.0, "ticks that stress adds to each half-spread")
    stress_volatility: float = _number(1.5, 1.0, 4.0, "factor of stress on news volatility")
    collar: float = _number(40.0, 5.0, 200.0, "ticks from the touch beyond which no order executes")

    def __post_init__(self) -> None:
        for name, (low, high) in PROFILE_RANGES.items():
            value = getattr(self, name)
            if not (np.isfinite(value) and low <= value <= high):
                raise DataError(f"profile {name} {value} is out of range; use {low:g} to {high:g}")


PROFILE_RANGES: dict[str, tuple[float, float]] = {
    f.name: f.metadata["range"] for f in fields(MarketProfile)
}
"""What a profile may say: name -> (lowest, highest)."""

EVENTS = ("noise_market", "noise_limit", "noise_cancel", "maker", "informed", "momentum", "news")
"""What can happen in the market, in the order of the kernel's thresholds."""

MARKET_BELOW, LIMIT_BELOW, CANCEL_BELOW, MAKER_BELOW, INFORMED_BELOW, MOMENTUM_BELOW = range(6)
(
    LIMIT_TICKS,
    PARENT_BELOW,
    IMBALANCE_TILT,
    MAKERS,
    LEVELS,
    LOTS,
    HALF_SPREAD,
    LAG_DIVISOR,
    FORGET_DIVISOR,
) = range(6, 15)
(
    IMBALANCE_SHIFT,
    INFORMED_THRESHOLD,
    INFORMED_NOISE,
    MOMENTUM_THRESHOLD,
    MOMENTUM_DIVISOR,
    NEWS_STEP,
) = range(15, 21)
VOL_DIVISOR, VOL_STEP, LEARN_DIVISOR, STRESS_BELOW, CALM_BELOW, STRESS_SPREAD, STRESS_VOLATILITY = (
    range(21, 28)
)
NORMAL = 28  # here begin the tables
FAT_TAIL = NORMAL + NORMALS
SIZES = FAT_TAIL + NORMALS
LENGTHS = SIZES + DRAWS
SKEW = LENGTHS + DRAWS
VOLATILITY = SKEW + LONGEST_SKEW
NUMBERS = VOLATILITY + VOLATILITIES
"""Where each number stands in a profile's row: parameters, then tables of quantiles of a normal and a fat-tailed variable
(1/4096), of order sizes in lots and parents' lengths in slices, of quote shifts (1/FIXED ticks) by inventory in lots, and
of volatility factors (1/4096) by log volatility in 1/64."""


def event_rates(profile: MarketProfile, pool: int) -> dict[str, float]:
    """Events per unit by kind. A cancel looks at one of `pool` order slots, so that each resting order has the same hazard."""
    return {
        "noise_market": profile.noise_market_rate,
        "noise_limit": 2.0 * profile.noise_limit_rate * round(profile.noise_limit_ticks),
        "noise_cancel": profile.noise_cancel_rate * pool,
        "maker": profile.maker_wake_rate * round(profile.makers),
        "informed": profile.informed_rate,
        "momentum": profile.momentum_rate,
        "news": 1.0,
    }


def numbers(profile: MarketProfile, *, pool: int) -> Int:
    """The row of integers that the kernel reads for a profile."""
    from scipy.special import ndtri, stdtrit

    middle = (np.arange(NORMALS) + 0.5) / NORMALS
    even = (np.arange(DRAWS) + 0.5) / DRAWS
    tail = stdtrit(profile.news_tail, middle)
    inventory = np.arange(LONGEST_SKEW, dtype=np.float64)
    log_volatility = (np.arange(VOLATILITIES) - VOLATILITIES // 2) / 64.0
    parts = (
        _parameters(profile, event_rates(profile, pool)),
        ndtri(middle) * 4096,
        tail / tail.std() * 4096,
        np.minimum(np.floor(even ** (-1.0 / profile.size_tail)), 50),
        np.minimum(np.floor(even ** (-1.0 / profile.parent_tail)), 10_000),
        profile.maker_skew * inventory**profile.maker_skew_power * FIXED,
        # the mean of exp(2x) is divided out, so that clustering moves volatility around without raising it
        np.exp(log_volatility - profile.news_clustering**2) * 4096,
    )
    return np.rint(np.concatenate(parts)).astype(np.int64)


def _parameters(p: MarketProfile, rates: dict[str, float]) -> npt.NDArray[np.float64]:
    shares = np.cumsum([rates[name] for name in EVENTS]) / sum(rates.values())
    wakes = p.maker_wake_rate
    values = {
        **dict(enumerate(shares[:-1] * PROBABILITY)),
        LIMIT_TICKS: round(p.noise_limit_ticks),
        PARENT_BELOW: p.parent_share * PROBABILITY,
        IMBALANCE_TILT: p.imbalance_response * 1024,
        MAKERS: round(p.makers),
        LEVELS: round(p.maker_levels),
        LOTS: round(p.maker_lots),
        HALF_SPREAD: p.maker_half_spread * FIXED,
        LAG_DIVISOR: max(1.0, p.maker_lag * wakes) * 16,
        FORGET_DIVISOR: max(1.0, p.maker_memory * wakes),
        IMBALANCE_SHIFT: p.maker_imbalance * FIXED,
        INFORMED_THRESHOLD: p.informed_threshold * FIXED,
        INFORMED_NOISE: p.informed_noise * FIXED,
        MOMENTUM_THRESHOLD: p.momentum_threshold * FIXED,
        MOMENTUM_DIVISOR: max(1.0, p.momentum_memory),
        NEWS_STEP: p.news_volatility * FIXED,
        VOL_DIVISOR: max(1.0, p.news_memory),
        VOL_STEP: p.news_clustering * np.sqrt(2.0 / max(1.0, p.news_memory)) * FIXED,
        LEARN_DIVISOR: 1.0 / p.learning if p.learning > 0 else 2.0**40,
        STRESS_BELOW: p.stress_rate * PROBABILITY,
        CALM_BELOW: p.calm_rate * PROBABILITY,
        STRESS_SPREAD: p.stress_spread * FIXED,
        STRESS_VOLATILITY: p.stress_volatility * 4096,
    }
    return np.array([values[i] for i in range(NORMAL)])
