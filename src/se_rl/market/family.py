"""The family of markets that orders are trained and scored in: named profiles, free or as twins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from se_rl.market.profile import MarketProfile

SMALL_TICK, LARGE_TICK, STRESSED = "small tick", "large tick", "stressed"

FAMILY: Mapping[str, MarketProfile] = {
    SMALL_TICK: MarketProfile(),
    LARGE_TICK: MarketProfile(
        news_volatility=0.5, maker_lots=20.0, maker_skew=0.4, stress_spread=1.0
    ),
    STRESSED: MarketProfile(
        news_volatility=2.5, maker_lots=3.0, maker_half_spread=2.0, stress_rate=0.006
    ),
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
