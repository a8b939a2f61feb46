"""Searches the market profile whose realism card lies in the bands, by CMA-ES on fixed seeds.

    python benchmarks/calibrate_market.py [--minutes 20] [--seed 0] [--effort 0.1]
        [--from PROFILE.yaml]

Needs the package `cma`. Prints the best profile as YAML and its facts on seeds that the search
never saw.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import cma  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import yaml

from se_rl.market.evidence import GROUPS, gather
from se_rl.market.facts import FACTS, FactResult, measure
from se_rl.market.impact import estimate
from se_rl.market.participants import event_rates
from se_rl.market.profile import MarketProfile

Float = npt.NDArray[np.float64]

# What the search may move: the numbers that the facts depend on most, in ranges where displayed
# imbalance still matters.
LINEAR = {
    "parent_share": (0.2, 0.9),
    "parent_tail": (1.3, 2.2),
    "imbalance_response": (0.25, 0.5),
    "maker_imbalance": (1.5, 3.0),
    "maker_skew_power": (0.25, 0.5),
    "informed_threshold": (3.0, 9.0),
}
LOGARITHMIC = {
    "noise_market_rate": (2.0, 5.0),
    "maker_lag": (0.3, 3.0),
    "maker_skew": (0.4, 3.0),
    "maker_memory": (150.0, 1200.0),
    "informed_rate": (0.05, 0.6),
    "momentum_rate": (0.005, 0.1),
    "learning": (0.00005, 0.003),
    "news_volatility": (1.0, 2.5),
}
EXTRA = {
    "impact exponent": {"exponent": (0.45, 0.65), "least Y": (0.45, 1.0), "largest Y": (0.45, 1.0)},
    "crossover": {"% of daily volume": (0.0, 0.42)},
    "sign memory": {"exponent": (0.36, 0.64)},
    "impact path": {"I(T/2) / I(T)": (0.65, 0.76)},
    "decay": {"left at +1T": (0.55, 0.8), "left at +3T": (0.35, 0.65)},
    "propagator": {"exponent": (0.2, 0.45)},
}
"""Narrower bands to aim at, so that fresh seeds stay inside the true ones."""
MOST_EVENTS = 300
"""Events a minute: more would make the market too slow to learn in."""


def main() -> None:
    """Search for the given time and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--effort", type=float, default=0.1)
    parser.add_argument(
        "--spread",
        type=float,
        default=0.15,
        help="first step of the search, as a share of each range",
    )
    parser.add_argument("--from", dest="start", type=Path, help="YAML of the profile to start from")
    args = parser.parse_args()
    start = (
        MarketProfile(**yaml.safe_load(args.start.read_text())) if args.start else MarketProfile()
    )
    best = search(
        start, minutes=args.minutes, seed=args.seed, effort=args.effort, spread=args.spread
    )
    print(yaml.safe_dump(rounded(best), sort_keys=False))
    for fact in card_rows(best, seed=args.seed + 10_000, effort=1.0):
        numbers = ", ".join(f"{n.label} {n.value:.3f} +- {n.se:.3f}" for n in fact.numbers)
        print("ok  " if fact.ok else "MISS", fact.name, "|", numbers)


def search(
    start: MarketProfile, *, minutes: float, seed: int, effort: float, spread: float
) -> MarketProfile:
    """The profile with the smallest loss that CMA-ES finds on one set of seeds in this time."""
    warnings.filterwarnings("ignore", module="cma")
    options = {"bounds": [0.0, 1.0], "seed": seed + 1, "verbose": -9, "timeout": minutes * 60}
    strategy = cma.CMAEvolutionStrategy(to_unit(start), spread, options)
    best = start
    lowest = np.inf
    started = time.monotonic()
    while not strategy.stop():
        points = strategy.ask()
        losses = [loss(to_profile(x, start), seed=seed, effort=effort) for x in points]
        strategy.tell(points, losses)
        if min(losses) < lowest:
            lowest = min(losses)
            best = to_profile(points[int(np.argmin(losses))], start)
        print(
            f"{time.monotonic() - started:.0f} s: loss {lowest:.3f} {rounded(best)}",
            file=sys.stderr,
            flush=True,
        )
    return best


def loss(profile: MarketProfile, *, seed: int, effort: float) -> float:
    """Sum of squared distances to the bands in half-widths, with a small pull to their centres.

    Informed traders must earn, makers must not lose, few markets may break, and none may be slow.
    """
    gathered = gather(profile, seed=seed, effort=effort)
    evidence = gathered.evidence
    total = 0.0
    for fact in FACTS:
        aims = fact.bands | EXTRA.get(fact.name, {})
        for (low, high), value in zip(aims.values(), fact.measure(evidence), strict=True):
            total += _violation(value, low, high)
    earned = evidence.wealth[:, 0]
    informed = earned.mean() / (earned.std(ddof=1) / np.sqrt(len(earned)) + 1e-9)
    total += max(0.0, 3.0 - informed) ** 2 / 9.0
    total += max(0.0, -estimate(evidence.wealth[:, 1])[0]) > 0
    total += 20.0 * float((~gathered.orders.kept).mean()) + gathered.broken
    events = profile.units_per_minute * sum(event_rates(profile, 256).values())
    return total + max(0.0, events / MOST_EVENTS - 1.0) ** 2


def _violation(value: float, low: float, high: float) -> float:
    if not np.isfinite(value):
        return 9.0
    half = (high - low) / 2
    distance = abs(value - (low + high) / 2) / half
    return min(9.0, max(0.0, distance - 0.9) ** 2 * 4 + 0.02 * distance**2)


def to_unit(profile: MarketProfile) -> Float:
    """The free numbers of a profile in [0, 1]."""
    values = [(getattr(profile, k) - low) / (high - low) for k, (low, high) in LINEAR.items()]
    values += [
        np.log(getattr(profile, k) / low) / np.log(high / low)
        for k, (low, high) in LOGARITHMIC.items()
    ]
    return np.clip(values, 0.01, 0.99)


def to_profile(x: Float, start: MarketProfile) -> MarketProfile:
    """The profile at a point of the search."""
    found: dict[str, Any] = {
        k: low + u * (high - low) for u, (k, (low, high)) in zip(x, LINEAR.items(), strict=False)
    }
    for u, (k, (low, high)) in zip(x[len(LINEAR) :], LOGARITHMIC.items(), strict=True):
        found[k] = low * (high / low) ** u
    return replace(start, **{k: float(f"{v:.3g}") for k, v in found.items()})


def rounded(profile: MarketProfile) -> dict[str, float]:
    """A profile as it is written down."""
    return {k: float(f"{v:.3g}") for k, v in asdict(profile).items()}


def card_rows(profile: MarketProfile, *, seed: int, effort: float) -> list[FactResult]:
    """The twelve facts of a profile with standard errors."""
    evidence = gather(profile, seed=seed, effort=effort).evidence
    rest = [evidence.without(group) for group in range(GROUPS)]
    return [measure(fact, evidence, rest=rest) for fact in FACTS]


if __name__ == "__main__":
    main()
