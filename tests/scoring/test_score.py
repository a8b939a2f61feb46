"""The score: gain less risk by hand, its jackknife against closed forms and the bootstrap, and how often intervals cover."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.records.settings import RunConfig
from se_rl.scoring.score import (
    SEED_SD,
    Array,
    ScoreRule,
    contributions,
    day_contributions,
    difference,
)
from se_rl.scoring.score_summary import score_summary, training_numbers
from se_rl.scoring.statistics import Component, clustered_mean, combined, together

RULE = ScoreRule({"static": 0.5, "dynamic": 0.5}, 0.02)
HISTORY = RULE.on_history()
SIMULATED = ScoreRule({"static": 0.0, "dynamic": 1.0}, 0.02)
FINITE = st.floats(-30, 30, allow_subnormal=False)


def training(
    rng: np.random.Generator, *, days: int = 12, orders: int = 6, level: float = 0.0
) -> dict[str, Array]:
    """Scores of one training on some days, and on 60 episodes in three cells."""
    n = days * orders
    return {
        "static": rng.normal(level, 3, n),
        "static_total": rng.normal(level, 8, n),
        "static_day": np.repeat(np.arange(days, dtype=np.float64), orders),
        "dynamic": rng.normal(level, 4, 60),
        "dynamic_cell": np.repeat([0.0, 1.0, 2.0], (10, 20, 30)),
    }


def jackknife(specific: Array, whole: Array, risk: float) -> tuple[float, float]:
    """Gain less risk and its jackknife error, day by day left out."""

    def theta(s: Array, g: Array) -> float:
        return float(s.mean() - risk / 2 * g.var(ddof=1))

    n = len(specific)
    left_out = [theta(np.delete(specific, d), np.delete(whole, d)) for d in range(n)]
    spread = np.square(left_out - np.mean(left_out)).sum()
    return theta(specific, whole), math.sqrt((n - 1) / n * spread)


def test_a_score_by_hand() -> None:
    """Two days with gains of 1 and 3, whole gains of -4 and 6: 2 - 0.01 * 50; cells of 2 and 6."""
    scores = {
        "static": np.array([0.0, 2.0, 3.0]),
        "static_total": np.array([-5.0, -3.0, 6.0]),
        "static_day": np.array([7.0, 7.0, 9.0]),
        "dynamic": np.array([2.0, 5.0, 6.0, 7.0]),
        "dynamic_cell": np.array([0.0, 1.0, 1.0, 1.0]),
    }
    found = contributions([scores], RULE, cells=("small", "large"))
    assert found.by_world()["static"].score == pytest.approx(2.0 - 0.01 * 50.0)
    assert found.by_world()["dynamic"].score == pytest.approx(4.0)
    assert {name: cell.score for name, cell in found.cells().items()} == {
        "small": 2.0,
        "large": 6.0,
    }
    assert found.score == pytest.approx(0.5 * 1.5 + 0.5 * 4.0)
    assert training_numbers(scores, RULE)["score"] == found.score
    assert set(training_numbers(scores, RULE)) == {"score", "static", "static_total", "dynamic"}


def test_what_risk_costs() -> None:
    """A tracking error of 5 bps a day costs 0.25, one of 12 bps 1.44."""
    for error, cost in ((5.0, 0.25), (12.0, 1.44)):
        whole = np.tile([-1.0, 1.0], 500) * error * math.sqrt(999 / 1000)
        scores = {"static": np.zeros(1000), "static_total": whole, "static_day": np.arange(1000.0)}
        found = score_summary([scores], HISTORY)
        assert found.score.mean == pytest.approx(-cost) and found.risk_cost == pytest.approx(cost)
        assert found.tracking_error == pytest.approx(error) and found.specific.mean == 0.0


def test_the_rule_is_the_runs() -> None:
    config = RunConfig(risk=0.1, static_share=0.7)
    assert ScoreRule.of(config) == ScoreRule(config.weights, 0.1)
    assert RunConfig().risk == 0.02 and RunConfig().static_share == 0.5


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(FINITE, FINITE), min_size=3, max_size=20), st.floats(0, 1))
def test_contributions_are_the_jackknifes(days: list[tuple[float, float]], risk: float) -> None:
    specific, whole = np.array(days).T
    found = day_contributions(specific, whole, risk)
    score, error = jackknife(specific, whole, risk)
    assert found.mean() == pytest.approx(score, abs=1e-8)
    assert found.std(ddof=1) / math.sqrt(len(found)) == pytest.approx(error, abs=1e-6)


def test_without_risk_the_error_is_that_of_day_clusters() -> None:
    """The linear case: days of equal size, no price of risk."""
    one = training(np.random.default_rng(0))
    found = contributions([one], RULE.on_history(risk=0.0))
    clustered = clustered_mean(one["static"], one["static_day"].astype(np.int64))
    error = found.order_error()
    assert found.score == pytest.approx(clustered.mean)
    assert math.sqrt(error.variance) == pytest.approx(clustered.se) and error.degrees == 11


def test_the_jackknife_agrees_with_the_bootstrap() -> None:
    rng = np.random.default_rng(3)
    days = 80
    whole = rng.normal(0.5, 10, days)
    specific = 0.2 * whole + rng.normal(0, 2, days)
    scores = {"static": specific, "static_total": whole, "static_day": np.arange(float(days))}
    error = contributions([scores], HISTORY).order_error()
    drawn = rng.integers(0, days, (4000, days))
    again = specific[drawn].mean(axis=1) - 0.01 * whole[drawn].var(axis=1, ddof=1)
    assert math.sqrt(error.variance) == pytest.approx(again.std(), rel=0.08)


def test_every_cell_has_the_same_weight_and_its_own_error() -> None:
    one = training(np.random.default_rng(1))
    found = contributions([one], SIMULATED)
    parts = [one["dynamic"][one["dynamic_cell"] == cell] for cell in range(3)]
    assert found.score == pytest.approx(np.mean([part.mean() for part in parts]))
    variance = sum(part.var(ddof=1) / len(part) for part in parts) / 9
    assert found.order_error().variance == pytest.approx(variance)
    more = {**one}
    for name in ("dynamic", "dynamic_cell"):  # more orders in a cell do not move its weight
        more[name] = np.concatenate([one[name], one[name][one["dynamic_cell"] == 2]])
    assert contributions([more], SIMULATED).score == pytest.approx(found.score)
    del more["dynamic_cell"]
    assert contributions([more], SIMULATED).score == pytest.approx(more["dynamic"].mean())


def test_cells_of_one_episode_vary_as_the_others_do() -> None:
    one = training(np.random.default_rng(2))
    one["dynamic_cell"][:1] = 3.0
    error = contributions([one], SIMULATED).order_error()
    groups = [one["dynamic"][one["dynamic_cell"] == cell] for cell in range(3)]
    usual = sum(np.square(g - g.mean()).sum() for g in groups) / sum(len(g) - 1 for g in groups)
    own = sum(group.var(ddof=1) / len(group) for group in groups)
    assert error.variance == pytest.approx((own + usual) / 16)
    lonely = {"dynamic": np.array([1.0, 3.0]), "dynamic_cell": np.array([0.0, 1.0])}
    found = contributions([lonely], SIMULATED)
    assert found.order_error().variance == pytest.approx(2 * 2.0 / 4)
    alone = {"dynamic": np.array([1.0])}
    assert math.isnan(contributions([alone], SIMULATED).estimate().se)


def test_void_orders_count_in_no_training() -> None:
    rng = np.random.default_rng(4)
    own, other = training(rng, level=1.0), training(rng)
    own["dynamic"][3] = other["dynamic"][17] = own["static"][5] = other["static_total"][6] = np.nan
    found = difference([own], [other], RULE)
    kept = {**own}, {**other}
    orders, episodes = np.ones(72, bool), np.ones(60, bool)
    orders[[5, 6]] = episodes[[3, 17]] = False
    for one in kept:
        for name in one:
            one[name] = one[name][episodes if name.startswith("dynamic") else orders]
    wanted = difference([kept[0]], [kept[1]], RULE)
    assert found.score == pytest.approx(wanted.score)
    assert found.estimate().se == pytest.approx(wanted.estimate().se)
    own["static"][:6] = np.nan  # a whole day
    assert difference([own], [other], HISTORY).strata[0].units == 11
    own["dynamic"][:10] = np.nan  # a whole cell: nothing can be said of the same mix of orders
    assert math.isnan(difference([own], [other], RULE).score)


def test_a_single_day_has_no_score_and_two_have_no_error_of_their_risk() -> None:
    one = training(np.random.default_rng(0), days=1)
    assert math.isnan(contributions([one], HISTORY).score)
    two = day_contributions(np.array([1.0, 3.0]), np.array([0.0, 10.0]), 0.02)
    assert two.tolist() == pytest.approx([1.0 - 0.5, 3.0 - 0.5])


def test_differences_are_paired_and_seeds_add_their_error() -> None:
    rng = np.random.default_rng(5)
    default = [training(rng) for _ in range(3)]
    own = []
    for seed, one in enumerate(default):
        lift = (0.5, 1.0, 1.5)[seed]
        moved = {name: values + lift for name, values in one.items() if name[-3:] not in "day cell"}
        own.append({**one, **moved})
    found = difference(own, default, RULE)
    estimate = found.estimate()
    assert found.by_training.tolist() == pytest.approx([0.5, 1.0, 1.5])
    assert found.score == pytest.approx(1.0)
    assert estimate.se == pytest.approx(0.5 / math.sqrt(3)) and estimate.days == 3
    assert found.shared_order_error().variance == pytest.approx(0.0)
    alone = difference(own[:1], default[:1], RULE).estimate()
    assert alone.se == pytest.approx(SEED_SD)


def test_a_summary_adds_up() -> None:
    rng = np.random.default_rng(6)
    own, other = ([training(rng, level=level) for _ in range(4)] for level in (0.5, 0.0))
    for against in (None, other):
        found = score_summary(own, RULE, other=against, cells=("a", "b", "c"))
        assert found.history.mean == pytest.approx(found.specific.mean - found.risk_cost)
        assert found.score.mean == pytest.approx((found.history.mean + found.simulated.mean) / 2)
        assert list(found.cells) == ["a", "b", "c"]
        cells = [cell.mean for cell in found.cells.values()]
        assert found.simulated.mean == pytest.approx(np.mean(cells))
        assert found.score.has_interval and found.score.ci95[0] < found.score.mean
    mine, theirs = (score_summary(one, RULE) for one in (own, other))
    assert found.score.mean == pytest.approx(mine.score.mean - theirs.score.mean)
    assert found.tracking_error == pytest.approx(mine.tracking_error - theirs.tracking_error)
    alone = score_summary(own, SIMULATED)
    assert math.isnan(alone.history.mean) and alone.score == alone.simulated


@pytest.mark.parametrize("units", [12, 7, 40])
def test_the_score_spread_over_equal_units(units: int) -> None:
    rng = np.random.default_rng(7)
    found = contributions([training(rng) for _ in range(2)], RULE)
    assert found.spread_over(units).mean() == pytest.approx(found.score)
    history = contributions([training(rng)], HISTORY)
    assert history.spread_over(12) == pytest.approx(history.strata[0].values[0])
    variances = []
    for seed in range(300):
        one = contributions([training(np.random.default_rng(seed))], RULE)
        spread = one.spread_over(12)
        variances.append([spread.var(ddof=1) / 12, one.order_error().variance])
    mean = np.mean(variances, axis=0)
    assert mean[0] == pytest.approx(mean[1], rel=0.08)


def drawn(rng: np.random.Generator, *, seeds: int, luck: float, days: int) -> Any:
    """Trainings of one design: some luck each, a bet on the market that differs, shared orders."""
    market = rng.normal(0, 6, days)
    trainings = []
    for _ in range(seeds):
        level = rng.normal(0, luck)
        bet = market * rng.normal(0.8, 0.1) + rng.normal(0, 2, days)
        specific = level + 0.1 * market + rng.normal(0, 1.0, days)
        trainings.append(
            {
                "static": specific,
                "static_total": specific + bet,
                "static_day": np.arange(float(days)),
                "dynamic": rng.normal(level, 3, 300),
                "dynamic_cell": np.arange(300.0) % 6,
            }
        )
    return trainings


@pytest.mark.parametrize(("seeds", "luck"), [(5, 0.3), (5, 0.05), (10, 0.15)])
def test_intervals_of_equal_designs_cover_nothing(seeds: int, luck: float) -> None:
    """A/A: both sides are drawn alike, so that 0 is the truth."""
    rng, covered, searches = np.random.default_rng(0), 0, 400
    for _ in range(searches):
        trainings = drawn(rng, seeds=2 * seeds, luck=luck, days=50)
        low, high = difference(trainings[:seeds], trainings[seeds:], RULE).estimate().ci95
        covered += low <= 0.0 <= high
    assert 0.925 <= covered / searches <= 0.98


def test_parts_of_a_variance_together() -> None:
    """Welch: equal parts add their degrees, a large one decides alone."""
    assert together([Component(1.0, 5), Component(1.0, 5)]) == Component(2.0, 10.0)
    assert together([Component(1.0, 5), Component(0.0, 50)]) == Component(1.0, 5.0)
    assert combined(0.0, [Component(0.0, 4), Component(0.0, 9)]).ci95 == (0.0, 0.0)
    assert combined(1.0, [Component(1.0, math.inf)]).ci95[0] == pytest.approx(-0.96, abs=0.001)
    assert math.isnan(combined(1.0, [Component(math.nan, 3)]).ci95[0])
