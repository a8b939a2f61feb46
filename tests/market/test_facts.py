"""The facts on samples whose answers are known, and on a market that has no impact."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from se_rl.market import facts
from se_rl.market.evidence import GROUPS, SIGN_LAGS, Evidence, gather, sign_autocorrelation
from se_rl.market.facts import FACTS, Fact, measure
from se_rl.market.impact import ORDER_BARS, SHARES, SMALL_SHARES
from se_rl.market.profile import MarketProfile

SIZES = np.array(SMALL_SHARES + SHARES)
BARS = 4 * ORDER_BARS


def evidence(**changes: np.ndarray) -> Evidence:
    """Random walks of unit steps with a square-root impact of Y = 0.8 that falls to 0.6 and then 0.5 of its peak."""
    rng = np.random.default_rng(0)
    time = np.arange(1, BARS + 1) / ORDER_BARS
    shape = np.where(time <= 1, np.sqrt(time), np.where(time <= 2.5, 0.6, 0.5))
    peak = 0.8 * math.sqrt(390.0) * np.sqrt(SIZES)
    parts = {
        "mid": rng.normal(size=(64, 1560)).cumsum(axis=1),
        "spread": np.full((64, 1560), 0.6),
        "volume": np.full((64, 1560), 50.0),
        "depth": np.full((64, 4, 5), 6.0),
        "wealth": rng.normal([5.0, 50.0], size=(64, 2)),
        "sign_acf": np.tile(0.1 * SIGN_LAGS**-0.5, (32, 1)),
        "trade_lots": np.full(32, 2.0),
        "response": np.tile(peak[:, None] * shape, (48, 1, 1)),
        "pulse": np.tile(np.arange(1.0, 101.0) ** -0.25, (48, 1)),
    }
    return Evidence(**(parts | changes))


def named(name: str) -> Fact:
    return next(fact for fact in FACTS if fact.name == name)


def test_there_are_twelve_and_each_computes_one_number_per_band() -> None:
    assert len({fact.name for fact in FACTS}) == 12
    for fact in FACTS:
        values = fact.measure(evidence())
        assert len(values) == len(fact.bands) and all(
            low < high for low, high in fact.bands.values()
        )
        assert fact.measure.__doc__


@pytest.mark.parametrize(
    ("name", "expected", "close"),
    [
        ("linear autocorrelation", [0.0], 0.02),
        ("variance ratio", [1.0, 1.0, 1.0], 0.15),
        ("sign memory", [0.5], 1e-9),
        ("impact exponent", [0.5, 0.8, 0.8], 0.01),
        ("impact path", [math.sqrt(0.5)], 1e-9),
        ("decay", [0.6, 0.5], 1e-9),
        ("propagator", [0.25], 1e-9),
        ("spread and depth", [100 * 0.6 / math.sqrt(390.0), 3.0], 0.05),
    ],
)
def test_known_answers(name: str, expected: list[float], close: float) -> None:
    assert named(name).measure(evidence()) == pytest.approx(expected, abs=close)


def test_kurtosis_of_normal_moves_is_3_at_every_scale() -> None:
    one, five, thirty = named("kurtosis by scale").measure(evidence())
    assert one == pytest.approx(3.0, abs=0.1) and five == pytest.approx(1.0, abs=0.1)
    assert thirty == pytest.approx(1.0, abs=0.2)


def test_hill_finds_the_exponent_of_a_pareto_tail() -> None:
    rng = np.random.default_rng(1)
    moves = rng.pareto(3.0, 200_000) + 1.0
    assert facts.hill(moves * rng.choice([-1, 1], moves.size), 0.02) == pytest.approx(3.0, abs=0.2)


def test_clustering_sees_slow_volatility_and_not_its_absence() -> None:
    rng = np.random.default_rng(2)
    slow = np.repeat(np.exp(rng.normal(size=(64, 16))), 100, axis=1)[:, :1560]
    lively = (slow * rng.normal(size=slow.shape)).cumsum(axis=1)
    assert named("volatility clustering").measure(evidence(mid=lively))[0] > 0.2
    assert abs(named("volatility clustering").measure(evidence())[0]) < 0.02


def test_crossover_is_where_the_line_meets_the_law() -> None:
    law = np.sqrt(SIZES)
    bend = 0.003  # linear below 0.3 % of daily volume
    peak = np.where(bend > SIZES, SIZES / math.sqrt(bend), law)
    response = np.zeros((48, len(SIZES), BARS))
    response[:, :, ORDER_BARS - 1] = peak
    assert named("crossover").measure(evidence(response=response)) == pytest.approx([100 * bend])


def test_signs_are_correlated_about_zero() -> None:
    rng = np.random.default_rng(3)
    assert abs(sign_autocorrelation(rng.choice([-1.0, 1.0], 20_000))).max() < 0.02
    assert sign_autocorrelation(np.ones(20_000)) == pytest.approx(
        np.ones(8)
    )  # one long order is all memory


def test_failed_orders_are_left_out_and_nothing_left_is_not_a_number() -> None:
    response = evidence().response.copy()
    response[::2] = np.nan
    assert named("decay").measure(evidence(response=response)) == pytest.approx([0.6, 0.5])
    row = measure(named("impact exponent"), evidence(response=np.full_like(response, np.nan)))
    assert math.isnan(row.headline.value) and not row.ok


def test_a_row_needs_all_its_numbers_in_their_bands() -> None:
    sample = evidence()
    rest = [sample.without(group) for group in range(GROUPS)]
    row = measure(named("decay"), sample, rest=rest)
    assert (
        row.ok
        and row.headline.value == row.numbers[0].value
        and row.headline.se == pytest.approx(0.0, abs=1e-9)
    )
    assert (row.headline.low, row.headline.high) == (0.5, 0.85)
    response = sample.response.copy()
    response[:, :, -1] = 0.0
    row = measure(named("decay"), evidence(response=response), rest=rest)
    assert row.numbers[0].ok and not row.numbers[1].ok and not row.ok


def test_standard_errors_match_those_of_a_mean() -> None:
    spread = np.random.default_rng(4).normal(6.0, 1.0, size=(64 * GROUPS, 1))
    sample = evidence(spread=spread, mid=np.tile(evidence().mid[:1], (64 * GROUPS, 1)))
    row = measure(
        named("spread and depth"), sample, rest=[sample.without(group) for group in range(GROUPS)]
    )
    expected = 100 * spread.std() / math.sqrt(spread.size) / sample.daily_sd_ticks
    assert row.headline.se == pytest.approx(expected, rel=0.5)


def test_without_drops_one_group_everywhere() -> None:
    sample, fewer = evidence(), evidence().without(3)
    assert len(fewer.mid) == 60 and len(fewer.response) == 45
    assert not (fewer.mid == sample.mid[3]).all(axis=1).any()


def test_a_market_whose_makers_ignore_inventory_fails_the_impact_fact() -> None:
    """The trap of a crowd pinned to an outside value: orders move nothing, and the card must say so."""
    pinned = replace(MarketProfile(), maker_skew=0.0, learning=0.0, maker_imbalance=0.0)
    sample = gather(pinned, seed=5, effort=0.01).evidence
    row = measure(named("impact exponent"), sample)
    assert not row.ok
    assert facts.mean_of_kept(
        sample.response[:, -1, ORDER_BARS + 5 :]
    ).mean() < 0.1 * sample.daily_sd_ticks * math.sqrt(0.06)
