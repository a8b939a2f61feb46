"""The grid of constant schedules: costs that agree with the records, TWAP beside itself, and what is never chosen."""

from __future__ import annotations

import numpy as np
import pytest

from se_rl.baselines.passive_grid import MULTIPLES, OFFSETS, best_constant, passive_grid
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.costs import Costs
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.metrics import price_advantage
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import arrival_price
from se_rl.market.family import MarketKind
from se_rl.market.profile import MarketProfile
from se_rl.scoring.execution import ConstantSchedule, execute

HORIZON = 10


@pytest.fixture(scope="module")
def passive() -> DynamicWorld:
    return DynamicWorld(horizon=HORIZON, takes_price=True, bank=128, sizes=(0.2, 0.2))


@pytest.fixture(scope="module")
def grid(passive: DynamicWorld):
    return passive_grid(passive, passive.draw(np.random.default_rng(0), 64))


def test_the_grid_has_every_pair_and_one_twap(grid) -> None:
    assert [(s.multiple, s.offset) for s, _ in grid] == [(m, o) for m in MULTIPLES for o in OFFSETS]
    costs = {done.summary()["twap_cost_bps"] for _, done in grid if not np.isnan(done.gain).any()}
    assert max(costs) - min(costs) < 1e-9 and min(costs) > 0


def test_market_twap_costs_what_twap_costs_and_all_at_once_more() -> None:
    world = DynamicWorld(horizon=HORIZON, bank=128, sizes=(0.2, 0.2))
    episodes = world.draw(np.random.default_rng(0), 64)
    twap = execute(world, ConstantSchedule(), episodes).over_twap()
    assert twap.mean == pytest.approx(0.0, abs=1e-3) and twap.se < 1e-3
    fast = execute(world, ConstantSchedule(HORIZON), episodes).over_twap()
    assert fast.mean < -3 * fast.se


def test_waiting_at_the_touch_beats_crossing_the_spread(grid, passive: DynamicWorld) -> None:
    resting = next(done for s, done in grid if (s.multiple, s.offset) == (1.5, 0.0)).over_twap()
    assert resting.mean > 3 * resting.se
    chosen = best_constant([passive], np.random.default_rng(0), episodes=64)
    best = max(grid, key=lambda pair: pair[1].over_twap().mean)[0]
    assert (chosen.multiple, chosen.offset) == (best.multiple, best.offset)


def test_on_history_the_gain_is_the_price_advantage_over_arrival() -> None:
    data = synthetic_market(
        SyntheticConfig(exchange="XSHG", bar_minutes=5, symbols=3, sessions=3, seed=2)
    )
    costs = Costs(half_spread_bps=2.0)
    world = StaticWorld(data, horizon=HORIZON, costs=costs)  # three symbols: no news
    episodes = world.draw(np.random.default_rng(0), 64)
    for schedule, done in passive_grid(world, episodes):
        record = done.record
        pa = price_advantage(
            record.net_price, arrival_price(data, record.orders), record.orders.side
        )
        np.testing.assert_allclose(done.gain, pa, atol=2e-2, err_msg=str(schedule.multiple))
        assert done.gain.mean() == pytest.approx(
            -2.0, abs=0.05
        )  # both sides pay the half-spread, nothing else


def test_a_schedule_that_never_finishes_pays_for_it() -> None:
    world = DynamicWorld(horizon=HORIZON, takes_price=True, bank=32, sizes=(0.6, 0.6))
    episodes = world.draw(np.random.default_rng(0), 16)
    far = execute(world, ConstantSchedule(1.0, 20.0), episodes)
    assert np.isnan(far.record.net_price).any(), "the market takes everything: raise the sizes"
    assert np.isfinite(far.gain).all() and far.over_twap().mean < 0


def test_a_market_in_which_everything_breaks_is_refused() -> None:
    world = DynamicWorld(
        kinds=[MarketKind("thin", MarketProfile(maker_lots=1, collar=5))],
        horizon=4,
        bank=4,
        sizes=(1.0, 1.0),
    )
    with pytest.raises(ValueError, match="all schedules are void"):
        best_constant([world], np.random.default_rng(0), episodes=8)
