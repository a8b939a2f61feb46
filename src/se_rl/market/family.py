"""The family of markets that orders are trained and scored in: named profiles, free or as twins."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from se_rl.bounded_reading import MOST_YAML_BYTES, read_regular
from se_rl.config import ConfigError, parse
from se_rl.market.profile import MarketProfile

SMALL_TICK, LARGE_TICK, STRESSED = "small tick", "large tick", "stressed"

_LARGE_TICK = MarketProfile(
    noise_limit_rate=0.03,
    noise_limit_ticks=12.0,
    makers=3.0,
    maker_levels=8.0,
    maker_lots=20.0,
    maker_half_spread=0.05,
    maker_lag=1.2,
    maker_skew=0.16,
    maker_skew_power=0.42,
    maker_memory=500.0,
    maker_imbalance=1.5,
    informed_threshold=0.7,
    informed_noise=0.1,
    momentum_threshold=0.5,
    news_volatility=0.25,
    news_memory=350.0,
    learning=0.0003,
    pressure_memory=60.0,
    pressure_shift=0.6,
    stress_spread=0.2,
    stress_depth=1.0,
    stress_volatility=1.7,
)
"""As BAC in 2013: the spread is nearly always one tick, and the queues are long."""

_STRESSED = MarketProfile(
    maker_lots=4.0,
    maker_half_spread=2.0,
    maker_skew=3.3,
    news_volatility=2.5,
    pressure_shift=10.0,
    stress_rate=0.006,
    stress_spread=4.0,
    stress_depth=1.0,
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


def free_kinds(profiles: Iterable[str] = tuple(FAMILY)) -> tuple[MarketKind, ...]:
    """Free markets of these profiles: names of the family, or JSON files of one's own."""
    kinds = []
    for name in profiles:
        if name in FAMILY:
            kinds.append(MarketKind(name, FAMILY[name]))
        else:
            kinds.append(MarketKind(Path(name).stem, _own_profile(Path(name))))
    return tuple(kinds)


def twins_of(kinds: Iterable[MarketKind]) -> tuple[MarketKind, ...]:
    """The same profiles following sessions."""
    return tuple(replace(kind, twin=True) for kind in kinds)


def _own_profile(path: Path) -> MarketProfile:
    known = ", ".join(FAMILY)
    try:
        raw = json.loads(read_regular(path, most_bytes=MOST_YAML_BYTES, follow=True))
    except OSError:
        raise ConfigError(
            f"profile {str(path)!r} is no file and none of {known}; give one of these or a JSON file"
        ) from None
    except ValueError as error:
        raise ConfigError(f"profile {path} is not JSON: {error}") from None
    return parse(MarketProfile, raw, source=str(path))
