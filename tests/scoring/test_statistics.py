"""Intervals, the test over many policies, and the hurdle of a selection."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.scoring.statistics import (
    clustered_mean,
    day_means,
    selection_hurdle,
    spa_p_value,
    t_quantile,
)


@settings(deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=3, max_size=30))
def test_one_order_a_day_is_the_textbook_interval(values: list[float]) -> None:
    data = np.array(values)
    estimate = clustered_mean(data, np.arange(len(data)))
    se = data.std(ddof=1) / np.sqrt(len(data))
    assert estimate.se == pytest.approx(se, abs=1e-12)
    assert estimate.ci95[1] - estimate.mean == pytest.approx(
        se * t_quantile(0.975, len(data) - 1), abs=1e-9
    )


def test_orders_that_move_together_do_not_count_as_many() -> None:
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(10), 100)
    shared = rng.normal(size=10)[day]
    clustered, naive = clustered_mean(shared, day).se, shared.std(ddof=1) / np.sqrt(len(shared))
    assert clustered == pytest.approx(np.std(shared[::100], ddof=1) / np.sqrt(10))
    assert clustered > 8 * naive


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        day = np.repeat(np.arange(8), 20)
        values = rng.normal(size=8)[day] + rng.normal(size=160)
        low, high = clustered_mean(values, day).ci95
        hits += low <= 0 <= high
    assert 0.92 <= hits / 400 <= 0.98


def test_a_single_day_has_no_interval() -> None:
    estimate = clustered_mean(np.ones(5), np.zeros(5, int))
    assert estimate.mean == 1.0
    assert all(math.isnan(bound) for bound in estimate.ci95)
    assert math.isnan(estimate.p_value)


def test_p_value_of_an_exact_zero_is_one() -> None:
    assert clustered_mean(np.zeros(6), np.arange(6)).p_value == 1.0


def test_day_means_follow_the_order_of_days() -> None:
    np.testing.assert_allclose(
        day_means(np.array([1.0, 3.0, 10.0]), np.array([4, 4, 2])), [10.0, 2.0]
    )


def test_spa_sees_a_winner_and_not_the_best_of_noise() -> None:
    rng = np.random.default_rng(3)
    benchmark, noise = np.zeros(60), rng.normal(size=(60, 50))
    assert spa_p_value(benchmark, noise, reps=1000) > 0.05
    noise[:, 7] += 1.0
    assert spa_p_value(benchmark, noise, reps=1000) < 0.01
    assert spa_p_value(benchmark, np.zeros((60, 3))) == 1.0
    for days in (1, 2):  # too few, and no warning
        assert math.isnan(spa_p_value(np.zeros(days), np.ones((days, 2))))


@pytest.mark.parametrize(
    "tried, factor", [(1, 0.0), (10, 1.57), (50, 2.28), (200, 2.77), (1000, 3.26)]
)
def test_hurdle_is_the_expected_best_of_nothing(tried: int, factor: float) -> None:
    assert selection_hurdle(2.0, tried) == pytest.approx(2.0 * factor, abs=0.02)
