"""The realism card: twelve facts with their bands, sanity tests, policies, and a real market."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from se_rl.data.books import BookHistory
from se_rl.data.market_data import DataError, MarketData
from se_rl.market import card_tests as tests
from se_rl.market.against import MarketComparison
from se_rl.market.against import against as compare_with
from se_rl.market.card_tests import CardTest
from se_rl.market.evidence import GROUPS, SIGN_LAGS, Evidence, gather
from se_rl.market.facts import FACTS, FactResult, autocorrelation, mean_of_kept, measure
from se_rl.market.impact import ORDER_BARS, SHARES, SMALL_SHARES, RoundTrips, Start, round_trips
from se_rl.market.profile import MarketProfile
from se_rl.market.trials import GridCell, RuleCell, StateRuleResult, grid, try_state_rule

Json = dict[str, Any]

ROUND_TRIPS = 10_000
GRID_MARKETS = 300
RULE_MARKETS = 600
"""Numbers of random round trips and of markets per policy at effort 1."""
FEWEST = 64
CURVE_LAGS = np.arange(1, 61)


@dataclass(frozen=True)
class Scales:
    """What a simulated day looks like, in ticks and lots."""

    daily_sd_ticks: float
    daily_volume_lots: float
    spread_ticks: float
    touch_lots: float
    trade_lots: float


@dataclass(frozen=True)
class Curves:
    """What the page draws: impact by size and over time, and two autocorrelations."""

    shares: list[float]
    impact_ticks: list[float]
    impact_se: list[float]
    fit: dict[str, float]
    path_ticks: list[list[float]]
    order_bars: int
    pulse_ticks: list[float]
    abs_lags: list[int]
    abs_acf: list[float]
    sign_lags: list[float]
    sign_acf: list[float]
    sign_se: list[float]


@dataclass(frozen=True)
class RealismCard:
    """How far a simulated market resembles real ones."""

    facts: tuple[FactResult, ...]
    tests: tuple[CardTest, ...]
    grid: tuple[GridCell, ...]
    state_rule: StateRuleResult
    against: MarketComparison | None
    scales: Scales
    curves: Curves
    profile: MarketProfile
    seed: int
    effort: float
    messages: int
    seconds: float

    @property
    def passed(self) -> int:
        """Facts whose numbers all lie in their bands."""
        return sum(fact.ok for fact in self.facts)

    def as_dict(self) -> Json:
        """The card for JSON (`records.files.to_json` writes NaN as null)."""
        rule = self.state_rule
        return {
            "facts": [_fact_row(fact) for fact in self.facts],
            "passed": self.passed,
            "tests": [asdict(test) for test in self.tests],
            "grid": [_cost_row(cell) for cell in self.grid],
            "state_rule": {
                "rule": rule.rule,
                "narrow_ticks": rule.narrow_ticks,
                "rows": [_cost_row(row) for row in rule.rows],
            },
            "against": None if self.against is None else asdict(self.against),
            "scales": asdict(self.scales),
            "curves": asdict(self.curves),
            "profile": asdict(self.profile),
            "seed": self.seed,
            "effort": self.effort,
            "messages": self.messages,
            "seconds": self.seconds,
        }


def _fact_row(fact: FactResult) -> Json:
    """A fact for JSON: its headline number, then all of them."""
    head = fact.headline
    return {
        "name": fact.name,
        "value": head.value,
        "se": head.se,
        "low": head.low,
        "high": head.high,
        "ok": fact.ok,
        "parts": [number.as_dict() for number in fact.numbers],
    }


def _cost_row(cell: GridCell | RuleCell) -> Json:
    """A tried policy for JSON: where it stands, then what it cost."""
    row = asdict(cell)
    return row | row.pop("cost")


def realism_card(
    profile: MarketProfile | None = None,
    *,
    seed: int = 0,
    effort: float = 1.0,
    against: MarketData | BookHistory | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> RealismCard:
    """The card of a profile (default: the calibrated one).

    Effort 1 is the full measurement, 0.1 a quick look. Same profile, seed and effort: the same
    card, but for `seconds`. With `against` the simulated market is set beside a real one.
    """
    if not 0 < effort <= 100:
        raise DataError(f"effort is {effort}; use a positive number, 1 for the full card")
    if seed < 0:
        raise DataError(f"seed is {seed}; use 0 or more")
    profile, started = profile or MarketProfile(), time.monotonic()
    say("the facts: quiet markets, trade signs, meta-orders")
    gathered = gather(profile, seed=seed, effort=effort)
    evidence = gathered.evidence
    rest = [evidence.without(group) for group in range(GROUPS)]
    facts = tuple(measure(fact, evidence, rest=rest) for fact in FACTS)
    say("random round trips")
    bar_volume = float(evidence.volume.mean())
    trips = _round_trips(profile, seed=seed, effort=effort, daily_volume=evidence.daily_volume)
    say("the grid of constant policies")
    policies = Start(max(FEWEST, round(GRID_MARKETS * effort)), profile, seed=seed + 1)
    cells, grid_messages = grid(policies, bar_volume=bar_volume)
    say("the rule that looks at the market")
    watched = Start(max(FEWEST, round(RULE_MARKETS * effort)), profile, seed=seed + 2)
    narrow = float(np.median(evidence.spread))
    rule, rule_messages = try_state_rule(watched, bar_volume=bar_volume, narrow_ticks=narrow)
    passed = (
        tests.size_zero(gathered.start),
        tests.buy_equals_sell(gathered.orders),
        tests.all_count(gathered.orders),
        tests.conserved(watched),
        tests.never_crossed(gathered),
        tests.no_free_trip(trips),
        *tests.who_earns(evidence),
        *tests.post_everything(cells),
        tests.state_is_worth(rule),
    )
    return RealismCard(
        facts=facts,
        tests=passed,
        grid=cells,
        state_rule=rule,
        against=None if against is None else compare_with(evidence, against),
        scales=_scales(evidence),
        curves=_curves(evidence),
        profile=profile,
        seed=seed,
        effort=effort,
        messages=gathered.messages + trips.messages + grid_messages + rule_messages,
        seconds=time.monotonic() - started,
    )


def _round_trips(
    profile: MarketProfile, *, seed: int, effort: float, daily_volume: float
) -> RoundTrips:
    """In parts that fit the memory."""
    parts: list[RoundTrips] = []
    left = max(4 * FEWEST, round(ROUND_TRIPS * effort))
    while left > 0:
        start = Start(min(left, 2500), profile, seed=seed + 3 + 1000 * len(parts))
        rng = np.random.default_rng([seed, 3, len(parts)])
        parts.append(round_trips(start, daily_volume=daily_volume, rng=rng))
        left -= start.n
    return RoundTrips(
        profit=np.concatenate([part.profit for part in parts]),
        shape=np.concatenate([part.shape for part in parts]),
        kept=np.concatenate([part.kept for part in parts]),
        messages=sum(part.messages for part in parts),
    )


def _scales(evidence: Evidence) -> Scales:
    return Scales(
        daily_sd_ticks=evidence.daily_sd_ticks,
        daily_volume_lots=evidence.daily_volume,
        spread_ticks=float(evidence.spread.mean()),
        touch_lots=float(evidence.depth[..., 0].mean()),
        trade_lots=float(evidence.trade_lots.mean()),
    )


def _curves(evidence: Evidence) -> Curves:
    peak = evidence.response[:, :, ORDER_BARS - 1]  # [order, size]
    mean = mean_of_kept(peak)
    count = np.isfinite(peak).sum(axis=0)
    spread = np.sqrt(mean_of_kept((peak - mean) ** 2))
    # impact = level * share ** exponent, over the sizes of the power law
    law = np.log(np.maximum(mean[len(SMALL_SHARES) :], 1e-9))
    slope, level = np.polyfit(np.log(SHARES), law, 1)
    signs = evidence.sign_acf
    return Curves(
        shares=[*SMALL_SHARES, *SHARES],
        impact_ticks=mean.tolist(),
        impact_se=(spread / np.sqrt(np.maximum(count, 1))).tolist(),
        fit={
            "exponent": float(slope),
            "level": float(np.exp(level)),
            "from": SHARES[0],
            "to": SHARES[-1],
        },
        path_ticks=mean_of_kept(evidence.response).tolist(),
        order_bars=ORDER_BARS,
        pulse_ticks=mean_of_kept(evidence.pulse).tolist(),
        abs_lags=CURVE_LAGS.tolist(),
        abs_acf=autocorrelation(abs(np.diff(evidence.mid)), CURVE_LAGS).tolist(),
        sign_lags=SIGN_LAGS.tolist(),
        sign_acf=signs.mean(axis=0).tolist(),
        sign_se=(signs.std(axis=0, ddof=1) / np.sqrt(len(signs))).tolist(),
    )
