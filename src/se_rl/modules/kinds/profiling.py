"""LLM4Profiling: the participants of the simulated market in which the agent is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from se_rl.data.market_data import DataError
from se_rl.market.profile import PROFILE_RANGES, MarketProfile
from se_rl.modules.contracts import Contract
from se_rl.modules.errors import ModuleError, need, one_line
from se_rl.modules.grammar import Rules
from se_rl.modules.kinds.kind import BEHAVIOUR, Counterpart, Floats, Load, ModuleKind, Recorded

if TYPE_CHECKING:
    from se_rl.modules.module_probe import ModuleProbe

MARKETS = 32
"""Markets that a profile is tried in."""
BARS = 60
"""Bars that each of them runs for."""
BREAKS_OFTEN = 0.1
"""Share of markets with an empty side of the book above which a profile gets a warning."""

GROUPS = 10
"""Groups of neighbouring numbers, of each of which a drawn profile sets one at most."""
ALWAYS_SET = (0, 4, 8)
"""Groups of which it always sets one: noise, makers, news."""
FACTORS = (0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0)
"""The numbers of a drawn profile as multiples of their defaults."""

EXAMPLES = (
    """def profile():
    return {
        "parent_share": 0.6,
        "imbalance_response": 0.5,
        "maker_skew": 1.6,
        "stress_rate": 0.006,
    }
""",
    """def profile():
    return {
        "noise_market_rate": 3.5,
        "maker_lots": 3.0,
        "informed_rate": 0.5,
        "news_volatility": 2.0,
        "news_clustering": 0.6,
    }
""",
)


def _glossary() -> tuple[str, ...]:
    lines = []
    for number in fields(MarketProfile):
        low, high = number.metadata["range"]
        values = f"{low:g} to {high:g}, default {number.default:g}"
        lines.append(f"{number.name}: {values}; {number.metadata['help']}")
    return tuple(lines)


CONTRACT = Contract(
    code_type="profiling",
    title="LLM4Profiling",
    entry="profile",
    signature="def profile() -> dict",
    task="Describe the participants of the simulated market in which the agent is trained.",
    rules=(
        "keys are profile numbers, values lie in their ranges; numbers not named keep their"
        " defaults",
        "the market must trade and move, and keep both sides of its book",
    ),
    examples=EXAMPLES,
    glossary=_glossary(),
)


def _rules() -> Rules:
    """One number at most of each group of neighbours; of noise, makers and news always one."""
    usual = MarketProfile()
    body = "".join(f"<group_{i}>" for i in range(GROUPS))
    rules: Rules = {"start": (_source(body),)}
    for i, names in enumerate(np.array_split(list(PROFILE_RANGES), GROUPS)):
        lines = tuple(_line(str(name), f"<{name}>") for name in names)
        rules[f"group_{i}"] = lines if i in ALWAYS_SET else ("", *lines)
    for name, (low, high) in PROFILE_RANGES.items():
        rules[name] = _near(getattr(usual, name), low, high)
    return rules


def _near(default: float, low: float, high: float) -> tuple[str, ...]:
    """Numbers from half to double the default that lie in the range."""
    values = [min(max(float(f"{default * factor:.3g}"), low), high) for factor in FACTORS]
    return tuple(map(str, dict.fromkeys(values)))


def _source_of_all(value: Callable[[str], object]) -> str:
    """A profile that sets every number."""
    return _source("".join(_line(name, value(name)) for name in PROFILE_RANGES))


def _source(lines: str) -> str:
    return f"def profile():\n    return {{\n{lines}    }}\n"


def _line(name: str, value: object) -> str:
    return f'        "{name}": {value},\n'


def market_profile(profile: Callable[[], Any]) -> MarketProfile:
    """The market that a module's function describes."""
    try:
        numbers = profile()
    except Exception as error:
        raise ModuleError(one_line(error, "profiling")) from error
    if not isinstance(numbers, dict):
        raise ModuleError(f"profile() returned {type(numbers).__name__}; return a dict of numbers")
    for name, value in numbers.items():
        if name not in PROFILE_RANGES:
            raise ModuleError(
                f"profile() names {str(name)[:60]!r}, which no market has;"
                " use names of the contract"
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModuleError(f"profile() sets {name} to {str(value)[:60]!r}; give a number")
    try:
        return MarketProfile(**{name: float(value) for name, value in numbers.items()})
    except (DataError, OverflowError) as error:
        raise ModuleError(" ".join(str(error).split())) from error


def check_profiling(load: Load, recorded: Recorded, trial: ModuleProbe) -> Floats:
    """Markets with these participants keep their books, trade and move."""
    from se_rl.market.simulation import Markets

    profile = load()
    need(
        load() == profile, "profile() returns other numbers when called again; write fixed numbers"
    )
    markets = Markets(MARKETS, profile, parallel=False)
    bars = markets.run(BARS)[0]
    whole = ~markets.broken
    broken_share = float(markets.broken.mean())
    mend = (
        "raise maker_levels, maker_lots, maker_wake_rate or noise_limit_rate,"
        " or lower noise_market_rate"
    )
    need(whole.any(), f"a side of the book ran empty in all {MARKETS} markets tried; {mend}")
    if broken_share > BREAKS_OFTEN:
        trial.warnings.append(
            f"breaks_often: a side of the book ran empty in {broken_share:.0%} of markets; {mend}"
        )
    close = np.ascontiguousarray(bars["close"][:, whole])  # [bar, market]
    volume = np.ascontiguousarray(bars["volume"][:, whole])  # [bar, market]
    need(
        volume.any() and np.diff(close, axis=0).any(),
        "the market never trades or never moves; raise noise_market_rate or news_volatility",
    )
    trial.digest.update(close.tobytes() + volume.tobytes())
    return _shares(profile)


def _shares(profile: MarketProfile) -> Floats:
    """The profile's numbers as shares of their ranges, then zeros."""
    shares = []
    for name, (low, high) in PROFILE_RANGES.items():
        shares.append((getattr(profile, name) - low) / (high - low))
    return np.pad(np.array(shares, np.float32), (0, BEHAVIOUR - len(shares)))


PROFILING = ModuleKind(
    contract=CONTRACT,
    part="profile",
    default_source=_source_of_all(lambda name: repr(getattr(MarketProfile(), name))),
    rules=_rules(),
    default_rules={"default": (_source_of_all(lambda name: f"<{name}>"),)},
    check=check_profiling,
    finish=market_profile,
    counterpart=Counterpart("the usual markets"),
)
