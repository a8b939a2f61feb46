"""Schedules against their formulas, and the foresight bound against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.baselines import schedules
from se_rl.environments.task import Orders


def orders(n: int, horizon: int) -> Orders:
    side = np.where(np.arange(n) % 2 == 0, 1, -1).astype(np.int8)
    return Orders.of_usual_size(np.zeros(n, int), np.zeros(n, int), side, np.ones(n), horizon)


def test_every_schedule_trades_the_whole_order() -> None:
    batch, profile = orders(4, 10), np.linspace(1, 2, 10)
    for weights in (
        schedules.twap(batch),
        schedules.vwap(batch, profile),
        schedules.almgren_chriss(batch),
    ):
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)
        assert (weights >= 0).all()


def test_vwap_follows_the_profile_of_its_own_window() -> None:
    batch = Orders.of_usual_size(
        np.zeros(1, int), np.array([2]), np.ones(1, np.int8), np.ones(1), 3
    )
    np.testing.assert_allclose(
        schedules.vwap(batch, np.array([9, 9, 1, 2, 1, 9.0]))[0], [0.25, 0.5, 0.25]
    )
    np.testing.assert_allclose(schedules.vwap(batch, np.zeros(6))[0], 1 / 3)


def test_almgren_chriss_minimises_its_own_objective() -> None:
    steps, urgency = 20, 3.0
    kappa = urgency / steps
    risk = 2 * (np.cosh(kappa) - 1)  # lambda sigma^2 / eta for unit time steps

    def cost(weights: np.ndarray) -> float:
        left = 1 - np.cumsum(weights)
        return float((weights**2).sum() + risk * (left[:-1] ** 2).sum())

    best = schedules.almgren_chriss(orders(1, steps), urgency=urgency)[0]
    rng = np.random.default_rng(0)
    for _ in range(200):
        move = rng.normal(0, 1e-3, steps)
        assert cost(best) <= cost(best + move - move.mean())
    assert cost(np.full(steps, 1 / steps)) / cost(best) == pytest.approx(1.35, abs=0.02)
    np.testing.assert_allclose(schedules.almgren_chriss(orders(1, steps), urgency=0.0), 1 / steps)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_foresight_with_caps_is_the_best_of_all_corner_schedules(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch, price = orders(2, 4), rng.uniform(90, 110, (2, 4))
    caps = rng.uniform(0.05, 0.6, (2, 4))
    weights = schedules.foresight(batch, price, max_shares=caps)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert (weights[:, :-1] <= caps[:, :-1] + 1e-12).all()
    for i in range(2):
        best = -np.inf
        for ranking in itertools.permutations(
            range(4)
        ):  # an optimum of this linear problem fills bars greedily in some order
            left, got = 1.0, 0.0
            for bar in ranking:
                amount = min(left, caps[i, bar] if bar < 3 else 1.0)
                left, got = left - amount, got + amount * price[i, bar]
            if left < 1e-12:
                best = max(best, batch.side[i] * got)
        assert batch.side[i] * (weights[i] * price[i]).sum() == pytest.approx(best)


def test_foresight_without_caps_is_the_single_best_bar() -> None:
    weights = schedules.foresight(orders(2, 3), np.array([[1, 3, 2], [1, 3, 2.0]]))
    np.testing.assert_array_equal(weights, [[0, 1, 0], [1, 0, 0]])
