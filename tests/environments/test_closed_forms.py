"""The closed-form worlds against brute force: quadratic programmes, dynamic programming and long simulations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.data.market_data import DataError
from se_rl.environments.closed_forms import (
    CLOSED_FORMS,
    AlmgrenChriss,
    BertsimasLo,
    ClosedForm,
    Draws,
    ObizhaevaWang,
)


def best_trades(hessian: np.ndarray, gradient: np.ndarray, total: float) -> np.ndarray:
    """The trades x that minimise x'Hx/2 + g'x with sum(x) = total, from the first-order conditions."""
    n = len(gradient)
    system = np.block([[hessian, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    return np.linalg.solve(system, np.append(-gradient, total))[:n]


def ratios_of(trades: np.ndarray) -> np.ndarray:
    """Trades as shares of what remained before each."""
    return trades / np.cumsum(trades[::-1])[::-1]


def twap_ratios(world: ClosedForm) -> np.ndarray:
    return 1.0 / np.arange(world.horizon, 0, -1)


def risk_hessian(world: AlmgrenChriss) -> np.ndarray:
    """x_after = 1 - L n, so the programme over trades n has Hessian 2 (I / tau + risk tau L'L)."""
    after = np.tril(np.ones((world.horizon, world.horizon)))
    return 2.0 * (np.eye(world.horizon) / world.tau + world.risk * world.tau * after.T @ after)


@pytest.mark.parametrize("urgency", [0.5, 3.0, 5.0])
def test_almgren_chriss_is_the_quadratic_programme(urgency: float) -> None:
    world = AlmgrenChriss(urgency)
    lower = np.tril(np.ones((world.horizon, world.horizon)))
    gradient = -2.0 * world.risk * world.tau * lower.T @ np.ones(world.horizon)
    trades = best_trades(risk_hessian(world), gradient, 1.0)
    np.testing.assert_allclose(-np.diff(world.trajectory()), trades, atol=1e-10)
    by_hand = np.sum(trades**2) / world.tau + world.risk * world.tau * np.sum(
        (1.0 - np.cumsum(trades)) ** 2
    )
    assert world.optimum() == pytest.approx(by_hand, rel=1e-10)
    assert world.cost_of(ratios_of(trades)).mean == pytest.approx(by_hand, rel=1e-10)


@pytest.mark.parametrize(("decay", "intervals"), [(2.0, 10), (5.0, 60), (20.0, 60)])
def test_obizhaeva_wang_is_the_quadratic_programme(decay: float, intervals: int) -> None:
    world = ObizhaevaWang(decay, intervals)
    step = np.arange(world.horizon)
    kernel = np.exp(-decay / intervals * np.abs(step[:, None] - step))
    trades = best_trades(kernel, np.zeros(world.horizon), 1.0)
    assert world.optimum() == pytest.approx(trades @ kernel @ trades / 2.0, rel=1e-10)
    assert world.cost_of(ratios_of(trades)).mean == pytest.approx(world.optimum(), rel=1e-10)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 58), st.floats(0.05, 1.0), st.floats(0.0, 0.3))
def test_obizhaeva_wangs_rule_is_best_from_any_state(
    gone: int, inventory: float, impact: float
) -> None:
    world = ObizhaevaWang()
    world.reset(Draws(np.zeros((1, 0))))
    world.step_index, world.inventory, world.state = gone, np.array([inventory]), np.array([impact])
    step = np.arange(world.steps_left)
    trades = best_trades(
        world.keep ** np.abs(step[:, None] - step), impact * world.keep**step, inventory
    )
    assert world.optimal_ratio()[0] * inventory == pytest.approx(trades[0], abs=1e-9)


@pytest.mark.parametrize(
    ("world", "excess"),
    [
        (AlmgrenChriss(1.0), 0.016),
        (AlmgrenChriss(2.0), 0.13),
        (AlmgrenChriss(3.0), 0.35),
        (AlmgrenChriss(5.0), 0.98),
        (ObizhaevaWang(2.0), 0.127),
        (ObizhaevaWang(5.0), 0.108),
        (ObizhaevaWang(20.0), 0.031),
        (ObizhaevaWang(5.0, 10), 0.058),
        (BertsimasLo(), 0.114),
    ],
    ids=lambda value: value.name if isinstance(value, ClosedForm) else None,
)
def test_equal_slices_cost_as_much_more_as_is_known(world: ClosedForm, excess: float) -> None:
    assert world.twap_cost() / world.optimum() - 1.0 == pytest.approx(
        excess, abs=0.0055 if excess > 0.12 else 0.0006
    )
    measured = world.cost_of(twap_ratios(world))
    assert measured.mean == pytest.approx(
        world.twap_cost(), abs=4.0 * measured.standard_error + 1e-12
    )


def test_bertsimas_los_optimum_is_what_its_rule_pays_with_all_noise_in() -> None:
    """The papers' own cost, prices walked one by one, with price noise, and no term left out."""
    world, rng = BertsimasLo(), np.random.default_rng(5)
    n = 400_000
    world.reset(world.draw(rng, n))
    price, paid = np.zeros(n), np.zeros(n)
    for _ in range(world.horizon):
        signal, shares = world.state, world.optimal_ratio() * world.inventory
        price += shares + signal + 0.02 * rng.standard_normal(n)
        paid += price * shares
        world._trade(shares)
    error = paid.std() / np.sqrt(n)
    assert error < 0.002 * world.optimum()
    assert paid.mean() == pytest.approx(world.optimum(), abs=4.0 * error)


def test_the_clipped_rule_and_the_best_constrained_policy() -> None:
    world = BertsimasLo()
    outside: list[float] = []

    def clipped(observation: np.ndarray, steps_left: int) -> np.ndarray:
        shares = world._optimal_shares()
        outside.append(float(np.mean((shares < 0.0) | (shares > world.inventory))))
        return world.optimal_ratio()

    cost, best = world.cost_of(clipped), world.constrained_optimum()
    assert cost.standard_error < 0.001 * cost.mean
    assert cost.mean / world.optimum() == pytest.approx(1.0145, abs=0.001)
    assert np.mean(outside[:-1]) == pytest.approx(0.19, abs=0.015)  # the last step leaves no choice
    assert world.optimum() < best < cost.mean
    assert best / world.optimum() == pytest.approx(1.0131, abs=0.0003)


def test_the_dynamic_programme_finds_the_closed_form_where_nothing_is_clipped() -> None:
    world = BertsimasLo(innovation=0.001)
    assert world.constrained_optimum() == pytest.approx(world.optimum(), rel=3e-5)


def test_the_control_variate_does_not_shift_the_cost() -> None:
    world = BertsimasLo()
    ratios = np.array([0.3, 0.2, 0.1, 0.4, 0.1, 0.2, 0.5, 1.0])
    draws = world.draw(np.random.default_rng(0), world.sample_size)
    plain = world._costs(draws, lambda: world._shares(ratios[world.step_index])).sum(0)
    cost = world.cost_of(ratios, seed=0)
    error = plain.std() / np.sqrt(len(plain))
    assert cost.mean == pytest.approx(plain.mean(), abs=4.0 * (error + cost.standard_error))
    assert plain.mean() == pytest.approx(
        np.sum(np.diff(np.cumprod([1, *(1 - ratios)])) * -np.cumprod([1, *(1 - ratios[:-1])]))
    )


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_an_episode_keeps_to_the_interface(name: str) -> None:
    """Rewards sum to the gain over TWAP, everything is traded, repeats are equal to the byte, observations small."""
    world, n = CLOSED_FORMS[name](), 64
    draws = world.draw(np.random.default_rng(1), n)
    ratio = np.random.default_rng(2).uniform(-0.2, 0.6, (world.horizon, n))

    def run() -> tuple[np.ndarray, np.ndarray]:
        observation = world.reset(draws)
        fields, total, seen = np.zeros((1, n), np.float32), np.zeros(n), []
        for step in range(world.horizon):
            seen.append(observation.copy())
            observation = world.step(ratio[step], None, fields)
            total += fields[0]
        assert not world.inventory.any()
        assert not world.broken.any()
        return total, np.stack(seen)

    total, seen = run()
    again, seen_again = run()
    assert seen.shape == (world.horizon, n, world.observation_size)
    assert seen.dtype == np.float32
    assert total.tobytes() == again.tobytes()
    assert seen.tobytes() == seen_again.tobytes()
    assert np.abs(seen).max() < 6.0
    cost = world._costs(draws, lambda: world._shares(ratio[world.step_index])).sum(0)
    twap = world._costs(draws, lambda: world.inventory / world.steps_left).sum(0)
    np.testing.assert_allclose(total, twap - cost, atol=2e-5)


def test_draws_are_antithetic_and_even() -> None:
    shocks = BertsimasLo().draw(np.random.default_rng(0), 10).shocks
    np.testing.assert_array_equal(shocks[:5], -shocks[5:])
    with pytest.raises(DataError, match="even number"):
        BertsimasLo().draw(np.random.default_rng(0), 3)


def test_settings_that_make_no_world_are_named() -> None:
    with pytest.raises(DataError, match="urgency is 0"):
        AlmgrenChriss(0.0)
    with pytest.raises(DataError, match="persistence 1"):
        BertsimasLo(persistence=1.0)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_nothing_beats_the_optimum(name: str) -> None:
    """Random disturbances of the rule cost more, never less."""
    world, rng = CLOSED_FORMS[name](), np.random.default_rng(4)
    floor = world.constrained_optimum() if isinstance(world, BertsimasLo) else world.optimum()
    for size in (0.02, 0.1, 0.5):
        push = np.exp(size * rng.standard_normal(world.horizon))

        def pushed(observation: np.ndarray, steps_left: int, push: np.ndarray = push) -> np.ndarray:
            return world.optimal_ratio() * push[-steps_left]

        cost = world.cost_of(pushed, episodes=20_000)
        assert cost.mean > floor - 3.0 * cost.standard_error
