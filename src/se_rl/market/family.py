"""The family of markets that orders are trained and scored in: named profiles, free or as twins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from se_rl.market.profile import MarketProfile

SMALL_TICK, LARGE_TICK, STRESSED = "small tick", "large tick", "stressed"

_LARGE_TICK = MarketProfile(
    noise_limit_rate=0.03,
    noise_limit_ticks=12.0,
    makers=3.0,
    maker_levels=8.0,
    maker_lots=20.0,
    maker_half_spread=0.05,
    maker_skew=0.12,
    maker_imbalance=1.5,
    informed_threshold=0.7,
    informed_noise=0.1,
    momentum_threshold=0.5,
    news_volatility=0.25,
    stress_spread=0.2,
)
"""As BAC in 2013: the spread is nearly always one tick, and the queues are long."""

_STRESSED = MarketProfile(
    maker_lots=3.0,
    maker_half_spread=2.0,
    maker_skew=1.8,
    news_volatility=2.5,
    stress_rate=0.006,
    stress_spread=4.0,
)
"""Wide, volatile and thin."""

FAMILY: Mapping[str, MarketProfile] = {
    SMALL_TICK: MarketProfile(),
    LARGE_TICK: _LARGE_TICK,
    STRESSED: _STRESSED,
}
"""Profiles by name; the first one is the default market."""


@dataclass(frozen=True)
class MarketKind:
    """A profile, and whether its markets follow the sessions of the run's own train days."""

    profile_name: str
    profile: MarketProfile
    twin: bool = False

    @property
    def name(self) -> str:
        """As results call it, e.g. "large tick twin"."""
        return f"{self.profile_name} twin" if self.twin else self.profile_name
