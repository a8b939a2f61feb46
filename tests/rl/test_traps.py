"""Traps that fool a learner or its judge: collapse, drift, features of the wrong time.

And a signal that must be found. Gains are those over TWAP on days that nobody trained on. A stock's
session is one observation: the news of all stocks is taken out of every gain, and what is left of
these made-up prices is independent between stocks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from se_rl.data.market_data import MarketData
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.metrics import price_advantage
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import order_pairs
from se_rl.environments.worlds import Episodes, Observation, World
from se_rl.modules.defaults import Modules
from se_rl.rl.trainer import TrainConfig, Training, train
from se_rl.scoring.checks import collapse_check
from se_rl.scoring.execution import Actor, ConstantSchedule, Executed, execute
from se_rl.scoring.order_scores import Panel, Score
from se_rl.scoring.statistics import Estimate, clustered_mean

HORIZON, TRAIN_DAYS = 30, 8
MARKET = SyntheticConfig(symbols=10, sessions=12)
CONFIG = TrainConfig(budget=0.5, samples=4096)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def planted() -> MarketData:
    """Stock-specific moves are partly undone within minutes."""
    return synthetic_market(MARKET)


@pytest.fixture(scope="module")
def fair() -> MarketData:
    """Nothing can be predicted."""
    return synthetic_market(replace(MARKET, predictable=False))


def table_of(data: MarketData) -> Observation:
    """The observations as they are."""
    return StaticWorld(data, horizon=HORIZON, dates=data.dates[:TRAIN_DAYS]).table


def world(data: MarketData, table: Observation) -> StaticWorld:
    return StaticWorld(data, horizon=HORIZON, dates=data.dates[:TRAIN_DAYS], table=table)


def unseen(data: MarketData, actor: Actor, table: Observation) -> Executed:
    """The actor on the windows of the days kept apart, each bought and sold."""
    orders = order_pairs(data, HORIZON, dates=data.dates[TRAIN_DAYS:])
    return execute(world(data, table), actor, Episodes(orders), clusters=orders.row)


def learned(data: MarketData, table: Observation, *, seeds: tuple[int, ...] = (0,)) -> Estimate:
    """The gain over TWAP of an order split among the policies of these seeds."""
    runs = []
    for seed in seeds:
        trained = train(Modules(), {"static": world(data, table)}, CONFIG, seed=seed)
        assert trained.reason is None
        runs.append(unseen(data, trained.runner("static"), table))
    return clustered_mean(
        np.mean([run.gain - run.twap_gain for run in runs], axis=0), runs[0].clusters
    )


def with_drift(data: MarketData, bps_per_bar: float) -> MarketData:
    """The same market, every stock of it rising through every session."""
    rise = np.exp(1e-4 * bps_per_bar * np.arange(data.shape[2]))
    names = ("open", "high", "low", "close", "amount", "bid", "ask")
    return replace(data, **{name: getattr(data, name) * rise for name in names})


def test_a_planted_signal_is_learned(planted: MarketData) -> None:
    gain = learned(planted, table_of(planted), seeds=(0, 1))
    assert gain.mean > 2.0 * gain.se and gain.mean < 5.0, gain


def test_where_there_is_no_signal_nothing_is_found(fair: MarketData) -> None:
    gain = learned(fair, table_of(fair))
    assert abs(gain.mean) < 3.0 * gain.se and abs(gain.mean) < 0.3, gain


def test_features_of_the_wrong_stock_and_day_do_not_help(planted: MarketData) -> None:
    table = table_of(planted)
    wrong = table[np.random.default_rng(0).permutation(len(table))]
    gain = learned(planted, wrong)
    assert abs(gain.mean) < 3.0 * gain.se, gain


def test_features_of_the_next_minute_would_be_seen_at_once(planted: MarketData) -> None:
    """The judge is not blind: a bar of foresight gains several times what the signal does."""
    leaked = table_of(planted).copy()
    leaked[:, :-1] = leaked[:, 1:].copy()
    gain = learned(planted, leaked)
    assert gain.mean > 2.0 and gain.mean > 5.0 * gain.se, gain


def test_one_sided_drift_gives_no_edge(fair: MarketData) -> None:
    rising = with_drift(fair, 3.0)
    table = table_of(rising)
    early = unseen(rising, ConstantSchedule(3.0), table)
    orders, record = early.record.orders, early.record
    steady = unseen(rising, ConstantSchedule(1.0), table).record
    raw = price_advantage(record.net_price, steady.net_price, orders.side)
    buys, sells = raw[orders.side < 0].mean(), raw[orders.side > 0].mean()
    assert (
        buys > 15.0 and sells < -15.0 and abs(buys + sells) < 1.0
    )  # haste pays on one side what it costs on the other
    gain = learned(rising, table)
    assert abs(gain.mean) < 3.0 * gain.se and abs(gain.mean) < 2.0, gain


@pytest.mark.parametrize("name", ["static", "dynamic"])
def test_training_changes_every_weight(fair: MarketData, name: str) -> None:
    training_world: World = (
        world(fair, table_of(fair)) if name == "static" else DynamicWorld(horizon=10, bank=64)
    )
    training = Training.of_design(
        Modules(), {name: training_world}, TrainConfig(budget=0.03, samples=640)
    )
    before = [p.detach().clone() for p in training.learner.policy.parameters()]
    assert training.run().reason is None
    for old, new in zip(before, training.learner.policy.parameters(), strict=True):
        assert not torch.equal(old, new)


def test_noise_that_is_gone_ends_the_training_with_a_reason(fair: MarketData) -> None:
    training = Training.of_design(
        Modules(), {"static": world(fair, table_of(fair))}, replace(CONFIG, samples=1200)
    )
    with torch.no_grad():
        training.learner.policy.log_std.fill_(-9.0)
    reason = training.run().reason
    assert reason is not None and "collapsed to a single action" in reason


def test_a_policy_stuck_at_one_action_is_seen_and_harmless(planted: MarketData) -> None:
    table = table_of(planted)
    config = replace(CONFIG, budget=0.05)
    trained = train(Modules(), {"static": world(planted, table)}, config)
    assert unseen(planted, trained.runner("static"), table).distinct_actions > 20
    with torch.no_grad():
        trained.policy.heads.weight.zero_()
        trained.policy.heads.bias.zero_()
    stuck = unseen(planted, trained.runner("static"), table)
    assert stuck.distinct_actions == 1
    assert (
        np.abs(stuck.gain - stuck.twap_gain).max() < 0.01
    )  # an output of zero is TWAP, up to rounding


@pytest.mark.parametrize(("multiple", "ok"), [(0.0, False), (1.0, True)])
def test_orders_left_to_forced_completion_are_seen(
    planted: MarketData, multiple: float, ok: bool
) -> None:
    run = unseen(planted, ConstantSchedule(multiple), table_of(planted))
    assert run.forced.mean() == pytest.approx(0.0 if ok else 1.0, abs=1e-6)
    score = Score("constant", Panel.of(planted, run.record.orders), run.record)
    check = collapse_check(score)
    assert check.ok is ok and "forced share" in check.detail
