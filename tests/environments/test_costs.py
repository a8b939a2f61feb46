"""Costs and fill models in the static world: what is refused, and what the reward's fields say under each."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from se_rl.data.books import read_lobster
from se_rl.data.market_data import DataError
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.costs import FREE, Costs
from se_rl.environments.fills import fill_model
from se_rl.environments.metrics import price_advantage
from se_rl.environments.mixed_world import MixedWorld
from se_rl.environments.order_source import ExecutionEnvConfig
from se_rl.environments.static_core import StaticCore
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import FIELD_NAMES, Episodes, new_fields
from se_rl.executors.training_settings import training_worlds_of
from se_rl.modules import defaults
from se_rl.records.settings import preset

DATA = synthetic_market(
    SyntheticConfig(exchange="XSHG", bar_minutes=5, symbols=6, sessions=5, seed=1)
)
HORIZON, ORDERS = 12, 64
CAPPED = Costs(half_spread_bps=2.0, fee_bps=3.0, max_participation=0.002)
LIMITS = Costs(fills="limit_on_bars", half_spread_bps=2.0, fee_bps=3.0)
CAPPED_LIMITS = Costs(fills="limit_on_bars", fee_bps=1.0, max_participation=0.005)
TWAP = 1.0 / (HORIZON - np.arange(HORIZON))


def play(
    world: StaticWorld, episodes: Episodes, ratios: np.ndarray, offsets: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """The reward's fields, each [step, order], of ratios and offsets [order, step]."""
    world.reset(episodes)
    kept, fields = [], new_fields(len(episodes))
    for step in range(world.horizon):
        world.step(ratios[:, step], None if offsets is None else offsets[:, step], fields)
        kept.append(fields.copy())
    return dict(zip(FIELD_NAMES, np.moveaxis(np.array(kept), 1, 0), strict=True))


def random_actions(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Ratios, some 0, and whole ticks from the touch, some of them market orders."""
    ratios = rng.uniform(0, 0.5, (n, HORIZON)) * (rng.random((n, HORIZON)) < 0.8)
    ticks = rng.integers(-2, 6, (n, HORIZON)).astype(float)
    return ratios, np.where(rng.random((n, HORIZON)) < 0.2, np.nan, ticks)


def traded_value(fields: dict[str, np.ndarray], prefix: str = "") -> np.ndarray:
    """An episode's sum of share times (price over arrival - 1)."""
    share = fields[f"{prefix}traded_share"].astype(np.float64)
    return (share * (fields[f"{prefix}fill_price"].astype(np.float64) - 1.0)).sum(axis=0)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"fills": "magic"}, "fills 'magic' is unknown"),
        ({"half_spread_bps": -1.0}, "half_spread_bps -1.0 is not a cost"),
        ({"fee_bps": float("nan")}, "fee_bps nan is not a cost"),
        ({"max_participation": 0.0}, "max_participation 0.0"),
        ({"max_participation": 1.5}, "max_participation 1.5"),
        ({"fills": "queue", "half_spread_bps": 1.0}, "takes spread and size from the book"),
        ({"fills": "queue", "max_participation": 0.1}, "takes spread and size from the book"),
    ],
)
def test_impossible_costs_are_refused_in_one_line(options: dict, what: str) -> None:
    with pytest.raises(DataError, match=what) as caught:
        Costs(**options)
    assert "\n" not in str(caught.value)


def test_an_environment_has_the_costs_of_its_settings() -> None:
    config = ExecutionEnvConfig(
        fills="limit_on_bars", half_spread_bps=2.0, max_participation=0.1, transaction_cost=0.0005
    )
    wanted = Costs(fills="limit_on_bars", half_spread_bps=2.0, max_participation=0.1, fee_bps=5.0)
    assert config.costs == wanted
    assert ExecutionEnvConfig(transaction_cost=0.0).costs == FREE == Costs()


def test_only_fill_models_that_take_limits_ask_for_a_price() -> None:
    assert not StaticWorld(DATA, horizon=HORIZON, costs=CAPPED).takes_price
    assert StaticWorld(DATA, horizon=HORIZON, costs=LIMITS).takes_price


@pytest.mark.parametrize("costs", [CAPPED, LIMITS, CAPPED_LIMITS], ids=lambda c: str(c.fills))
@pytest.mark.parametrize("seed", range(3))
def test_fields_sum_to_the_price_advantage_under_every_fill_model(costs: Costs, seed: int) -> None:
    world, rng = StaticWorld(DATA, horizon=HORIZON, costs=costs), np.random.default_rng(seed)
    episodes = world.draw(rng, ORDERS)
    ratios, offsets = random_actions(rng, ORDERS)
    fields = play(world, episodes, ratios, offsets)
    record = world.record()
    arrival = world.benchmarks().arrival
    wanted = price_advantage(record.net_price, arrival, record.orders.side) / 1e4
    np.testing.assert_allclose(traded_value(fields), wanted, atol=1e-6)
    np.testing.assert_allclose(fields["traded_share"].sum(axis=0), 1.0, atol=1e-6)
    np.testing.assert_allclose(fields["forced_share"][-1], record.leftover, atol=1e-6)
    earned = fields["traded_share"] - fields["forced_share"]
    assert (fields["passive_share"] <= earned + 1e-6).all()
    assert fields["passive_share"].any() == world.takes_price


@pytest.mark.parametrize("costs", [CAPPED, LIMITS, CAPPED_LIMITS], ids=lambda c: str(c.fills))
def test_twap_fields_are_twap_executed_at_the_same_costs(costs: Costs) -> None:
    world, rng = StaticWorld(DATA, horizon=HORIZON, costs=costs), np.random.default_rng(5)
    episodes = world.draw(rng, ORDERS)
    fields = play(world, episodes, *random_actions(rng, ORDERS))
    core = StaticCore(DATA, costs=costs)
    twap = core.execute(episodes.orders, np.tile(TWAP, (ORDERS, 1)))
    arrival = core.benchmarks().arrival
    wanted = price_advantage(twap.net_price, arrival, episodes.orders.side) / 1e4
    np.testing.assert_allclose(traded_value(fields, "twap_"), wanted, atol=1e-6)
    np.testing.assert_allclose(fields["twap_traded_share"].T, twap.forced_fills, atol=1e-6)
    left = 1.0 - np.cumsum(twap.forced_fills, axis=1)
    np.testing.assert_allclose(fields["twap_inventory_left"].T, left, atol=1e-6)
    if costs.max_participation is not None:
        assert twap.leftover.max() > 0.01  # the cap binds


@pytest.mark.parametrize("costs", [FREE, CAPPED, LIMITS, CAPPED_LIMITS])
def test_the_default_reward_of_twap_is_nothing_at_any_costs(costs: Costs) -> None:
    world = StaticWorld(DATA, horizon=HORIZON, costs=costs)
    episodes = world.draw(np.random.default_rng(0), ORDERS)
    fields = play(world, episodes, np.tile(TWAP, (ORDERS, 1)))
    step = SimpleNamespace(**{name: torch.from_numpy(v) for name, v in fields.items()})
    np.testing.assert_allclose(defaults.gain_over_twap(step).numpy(), 0.0, atol=3e-8)


def test_a_passive_fill_is_at_its_limit_and_pays_the_fee_alone() -> None:
    costs = Costs(fills="limit_on_bars", half_spread_bps=0.0, fee_bps=3.0)
    world = StaticWorld(DATA, horizon=HORIZON, costs=costs)
    episodes = world.draw(np.random.default_rng(2), ORDERS)
    orders = episodes.orders
    world.reset(episodes)
    limit = world.core.touch() + orders.side * 2 * 0.01
    fields = new_fields(ORDERS)
    world.step(np.full(ORDERS, 0.5), np.full(ORDERS, 2.0), fields)
    got = dict(zip(FIELD_NAMES, fields, strict=True))
    filled = got["passive_share"] > 0
    assert 0 < filled.sum() < ORDERS
    np.testing.assert_allclose(got["passive_share"][filled], 0.5)
    np.testing.assert_array_equal(got["fill_price"][~filled], got["benchmark_price"][~filled])
    net = limit * (1.0 - orders.side * 3e-4)
    turned = 1.0 + orders.side * (net / world.core.arrival - 1.0)
    np.testing.assert_allclose(got["fill_price"][filled], turned[filled], atol=1e-6)


def test_worlds_with_and_without_limits_mix() -> None:
    mixed = MixedWorld(
        [StaticWorld(DATA, horizon=HORIZON, costs=costs) for costs in (FREE, LIMITS)]
    )
    rng = np.random.default_rng(0)
    assert mixed.takes_price
    fields = play(mixed, mixed.draw(rng, ORDERS), *random_actions(rng, ORDERS))
    assert np.isfinite(np.array(list(fields.values()))).all()


def test_a_historical_book_fills_the_static_world_from_its_queue(shared_data: Path) -> None:
    book = read_lobster(shared_data / "lobster_AMZN_20120621_L5_messages.parquet")
    costs = Costs(fills="queue", fee_bps=1.0)
    world = StaticWorld(book.bars(), horizon=HORIZON, costs=costs, book=book)
    rng = np.random.default_rng(0)
    episodes = world.draw(rng, ORDERS)
    fields = play(world, episodes, *random_actions(rng, ORDERS))
    record = world.record()
    arrival = world.benchmarks().arrival
    wanted = price_advantage(record.net_price, arrival, record.orders.side) / 1e4
    np.testing.assert_allclose(traded_value(fields), wanted, atol=1e-6)
    assert fields["passive_share"].any() and fields["half_spread"].max() > 0
    twap = StaticCore(world.data, costs=costs, fills=world.core.model).execute(
        episodes.orders, np.tile(TWAP, (ORDERS, 1))
    )
    wanted = price_advantage(twap.net_price, arrival, record.orders.side) / 1e4
    np.testing.assert_allclose(traded_value(fields, "twap_"), wanted, atol=1e-6)


def test_the_costs_of_a_run_reach_its_trainings_and_its_validation() -> None:
    config = preset("tiny", half_spread_bps=2.0, fee_bps=0.5, max_participation=0.2)
    costs = Costs(half_spread_bps=2.0, fee_bps=0.5, max_participation=0.2)
    assert Costs.of(config) == Costs.of(training_worlds_of(config)) == costs
    assert costs.words() == (
        "half-spread 2 bps, fee 0.5 bps, cap 0.2 of a bar's volume, fill model price_taker"
    )


def test_the_queue_is_refused_on_bars_in_one_line() -> None:
    with pytest.raises(DataError, match="needs a historical order book, and") as error:
        fill_model(Costs(fills="queue"), DATA)
    assert "\n" not in str(error.value)
