"""The identities that the definitions imply, on any numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from se_rl.core.training_loop import FinancialMetricsCalculator
from se_rl.environments.metrics import Metrics, price_advantage

pa_lists = st.lists(st.floats(-500, 500).map(lambda x: round(x, 3)), min_size=2, max_size=60)


@given(pa_lists)
def test_pa_is_gains_minus_losses_and_the_spread_respects_its_bound(values: list[float]) -> None:
    metrics, pa = Metrics.of(values, np.zeros(len(values))), np.array(values)
    gains, losses = pa[pa > 0], -pa[pa < 0]
    share_up, share_down, tied = len(gains) / len(pa), len(losses) / len(pa), (pa == 0).mean()
    gain, loss = gains.mean() if len(gains) else 0.0, losses.mean() if len(losses) else 0.0
    assert metrics.pa_bps == pytest.approx(share_up * gain - share_down * loss, abs=1e-9)
    assert metrics.win_rate == pytest.approx(share_up + tied / 2)
    short_form = metrics.win_rate * gain - (1 - metrics.win_rate) * loss
    assert short_form == pytest.approx(metrics.pa_bps + tied * (gain - loss) / 2, abs=1e-9)
    assert (
        metrics.pa_std_bps**2
        >= share_up * gain**2 + share_down * loss**2 - metrics.pa_bps**2 - 1e-6
    )
    assert math.isnan(metrics.gain_loss_ratio) == (not len(gains) or not len(losses))


@given(st.floats(1, 1000), st.floats(1, 1000))
def test_buy_and_sell_mirror_each_other(price: float, benchmark: float) -> None:
    assert price_advantage(price, benchmark, 1) == -price_advantage(price, benchmark, -1)


def test_a_sell_above_and_a_buy_below_the_benchmark_are_gains() -> None:
    assert price_advantage(101, 100, 1) == pytest.approx(100)
    assert price_advantage(99, 100, -1) == pytest.approx(100)


def test_no_orders_have_no_metrics() -> None:
    with pytest.raises(ValueError, match="no orders"):
        Metrics.of([], [])


def test_calculator_is_a_face_of_the_same_code() -> None:
    found = FinancialMetricsCalculator().calculate_all_metrics(
        {
            "execution_prices": [101.0, 99.0, 100.0],
            "benchmark_prices": [100.0, 100.0, 100.0],
            "quantities": [1.0, 1.0, 2.0],
            "returns": [0.01, -0.01, 0.0],
            "final_inventories": [0.0, 50.0, 0.0],
            "initial_inventories": [100.0, 100.0, 100.0],
        }
    )
    assert found["PA"] == pytest.approx(0.0)
    assert found["PA_std"] == pytest.approx(100.0)
    assert (found["WR"], found["GLR"], found["AFI"]) == pytest.approx((0.5, 1.0, 0.5 / 3))
    buys = {"execution_prices": [99.0], "benchmark_prices": [100.0], "sides": [-1]}
    assert FinancialMetricsCalculator().calculate_all_metrics(buys)["PA"] == pytest.approx(100.0)


@pytest.mark.parametrize(
    "results, message",
    [
        ({"execution_prices": [1.0]}, "benchmark_prices is missing"),
        (
            {"execution_prices": [1.0, 2.0], "benchmark_prices": [1.0]},
            "benchmark_prices has 1 values for 2 orders",
        ),
        ({"execution_prices": [float("nan")], "benchmark_prices": [1.0]}, "finite"),
        ({"execution_prices": [1.0], "benchmark_prices": [0.0]}, "positive"),
    ],
)
def test_calculator_refuses_what_it_cannot_score(results: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FinancialMetricsCalculator().calculate_all_metrics(results)
