"""Several agents in one book: PettingZoo's own tests, accounts, messages, and what neighbours cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from se_rl.data.market_data import DataError
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_core import DynamicCore
from se_rl.environments.execution_env import ExecutionEnvConfig, OrderSource
from se_rl.environments.metrics import price_advantage
from se_rl.environments.multi_agent_env import (
    MultiAgentCore,
    MultiAgentEnvironment,
    draw_shared_orders,
    mean_of_others,
)
from se_rl.environments.task import Orders
from se_rl.market.participants import FIRST_AGENT
from se_rl.market.price_levels import CASH, SHARES

DATA = synthetic_market(SyntheticConfig(symbols=3, sessions=3, seed=5))


def orders(sides: list[int], horizon: int) -> Orders:
    zero = np.zeros(len(sides), np.int64)
    return Orders.of_usual_size(
        zero, zero, np.array(sides, np.int8), np.full(len(sides), 10_000.0), horizon
    )


@pytest.mark.parametrize("action, data", [("ratio", None), ("ratio_and_price", DATA)])
def test_official_tests_pass(action: str, data, capsys) -> None:
    config = ExecutionEnvConfig(total_time=8, action=action)
    parallel_api_test(MultiAgentEnvironment(data, config), num_cycles=20)
    parallel_seed_test(lambda: MultiAgentEnvironment(data, config), num_cycles=20)
    assert "Passed" in capsys.readouterr().out


def test_spaces_hold_every_observation_and_all_end_together() -> None:
    env = MultiAgentEnvironment(None, ExecutionEnvConfig(total_time=6), agents=3, message_size=2)
    observations, infos = env.reset(seed=1)
    assert {info["side"] for info in infos.values()} <= {"buy", "sell"}
    while env.agents:
        for name, seen in observations.items():
            assert env.observation_space(name).contains(seen) and seen.shape == (34,)
        observations, rewards, done, _, infos = env.step(
            {name: env.action_space(name).sample() for name in env.agents}
        )
    assert all(done.values()) and all(np.isfinite(list(rewards.values())))
    assert env.get_metrics()["PA"] == pytest.approx(
        np.mean([info["PA"] for info in infos.values()])
    )
    with pytest.raises(ValueError, match="call reset"):
        env.step({})


def test_metrics_of_orders_under_way() -> None:
    env = MultiAgentEnvironment(None, ExecutionEnvConfig(total_time=6), agents=3, message_size=0)
    with pytest.raises(ValueError, match="metrics of no orders"):
        env.get_metrics()
    env.reset(seed=1)
    with pytest.raises(ValueError, match="metrics of no orders"):
        env.get_metrics()
    for share in (0.0, 0.25):
        env.step(dict.fromkeys(env.agents, np.array([share], np.float32)))
    found = env.get_metrics()
    assert found["unfinished"] == 1.0 and found["broken"] == 0.0
    assert found["AFI"] == pytest.approx(np.mean(env.world.remaining / env.world.orders.quantity))
    record = env.world.record()
    vwap = env.world.benchmarks().vwap
    expected = 1e4 * record.orders.side * (record.net_price / vwap - 1.0)
    assert found["PA"] == pytest.approx(np.mean(expected))
    while env.agents:
        env.step(dict.fromkeys(env.agents, np.array([1.0], np.float32)))
    finished = env.get_metrics()
    assert "unfinished" not in finished
    env.reset(seed=2)
    env.step(dict.fromkeys(env.agents, np.array([0.5], np.float32)))
    assert env.get_metrics() == pytest.approx(finished, nan_ok=True), "finished orders count alone"


def test_one_agent_equals_the_dynamic_world() -> None:
    alone, multi = DynamicCore(DATA), MultiAgentCore(DynamicCore(DATA, agents=1), message_size=3)
    source = OrderSource(DATA, ExecutionEnvConfig(total_time=8))
    parents = source.draw(np.random.default_rng(0), 5)
    seeds = np.arange(5)
    np.testing.assert_array_equal(
        alone.reset(parents, seeds=seeds), multi.reset(parents, seeds=seeds)[:, 0, :32]
    )
    for _ in range(8):
        limit = alone.touch()
        seen = multi.step(np.full((5, 1), 0.4), limit[:, None], messages=np.ones((5, 1, 3)))
        np.testing.assert_array_equal(alone.step(np.full(5, 0.4), limit), seen[:, 0, :32])
        np.testing.assert_array_equal(alone.reward, multi.reward[:, 0])
        assert (seen[..., 32:] == 0).all()  # nobody else to hear


@pytest.mark.parametrize("seed", range(3))
def test_nobody_is_filled_beyond_its_order_and_cash_is_the_books(seed: int) -> None:
    core, rng = DynamicCore(agents=4), np.random.default_rng(seed)
    parents = replace(orders([1, -1] * 12, 10), size=np.full(24, 0.3))
    core.reset(parents, seeds=np.arange(6) + seed)
    while not core.done:
        near = core.touch() * (1 + parents.side * rng.integers(-2, 3, 24) * 3e-4)
        core.step(rng.random(24), np.where(rng.random(24) < 0.3, np.nan, near))
        assert (core.remaining_lots >= 0).all()
    own = core.markets.books.book.owners[:6, FIRST_AGENT : FIRST_AGENT + 4].reshape(24, 2)
    lots = np.abs(own[:, SHARES])
    assert not core.broken.any() and (lots == lots[0]).all()
    by_book = core.price((np.abs(own[:, CASH]) / lots).reshape(6, 4).T).T
    np.testing.assert_allclose(core.record().gross_price, by_book.ravel(), rtol=1e-14)
    everyone = core.markets.books.book.owners
    assert (
        everyone.sum(axis=1) == everyone.sum(axis=1)[0]
    ).all()  # trades move cash and shares, they make none


def test_books_of_a_batch_are_strangers() -> None:
    core, one = DynamicCore(agents=2), DynamicCore(agents=2)
    batch = core.execute(orders([1, -1, -1, -1, 1, 1], 6), np.full((6, 6), 0.3), seeds=[4, 5, 6])
    alone = one.execute(orders([-1, -1], 6), np.full((2, 6), 0.3), seeds=[5])
    np.testing.assert_array_equal(batch.gross_price[2:4], alone.gross_price)


def test_neighbours_on_my_side_cost_me_and_opposite_ones_help() -> None:
    books, horizon = 128, 8
    costs = {}
    for name, side in (("same", -1), ("opposite", 1)):
        core = DynamicCore(agents=3)
        parents = orders([-1, side, side] * books, horizon)
        ratios = np.tile(1.0 / (horizon - np.arange(horizon)), (3 * books, 1))
        record = core.execute(parents, ratios, seeds=np.arange(books))
        pa = price_advantage(record.net_price, core.benchmarks().arrival, parents.side)
        costs[name] = -np.nanmean(pa[::3])
    assert costs["same"] > costs["opposite"] + 1.0


def test_the_inbox_is_the_mean_of_the_others_or_what_a_protocol_makes_of_it() -> None:
    messages = np.arange(6, dtype=np.float64).reshape(1, 3, 2)
    np.testing.assert_allclose(mean_of_others(messages)[0], [[3, 4], [2, 3], [1, 2]])
    core = MultiAgentCore(DynamicCore(agents=3), message_size=2)
    core.reset(orders([1, 1, -1], 4), seeds=[0])
    said = np.array([[[1.0, 0.0], [0.0, 5.0], [-0.5, 0.0]]])
    seen = core.step(np.zeros((1, 3)), messages=said)
    np.testing.assert_allclose(seen[0, :, 32:], [[-0.25, 0.5], [0.25, 0.0], [0.5, 0.5]])
    swapped = MultiAgentCore(core.core, message_size=2, inbox=lambda sent: sent[:, ::-1])
    swapped.reset(orders([1, 1, -1], 4), seeds=[0])
    np.testing.assert_allclose(
        swapped.step(np.zeros((1, 3)), messages=said)[0, 0, 32:], [-0.5, 0.0]
    )


def test_agents_see_their_own_inventory_only() -> None:
    core = MultiAgentCore(DynamicCore(agents=2), message_size=0)
    core.reset(orders([1, 1], 4), seeds=[0])
    seen = core.step(np.array([[1.0, 0.0]]))
    assert seen[0, 0, 31] == 0.0 and seen[0, 1, 31] == 1.0
    np.testing.assert_array_equal(seen[0, 0, :31], seen[0, 1, :31])


def test_shared_orders_share_their_window() -> None:
    source = OrderSource(DATA, ExecutionEnvConfig(total_time=8))
    drawn = draw_shared_orders(source, np.random.default_rng(0), 20, agents=3)
    assert (drawn.row.reshape(20, 3) == drawn.row[::3, None]).all() and len(set(drawn.side)) == 2
    wrong = Orders.of_usual_size(
        np.arange(3), drawn.start[:3], drawn.side[:3], drawn.quantity[:3], 8
    )
    with pytest.raises(DataError, match="differ in row"):
        MultiAgentCore(DynamicCore(DATA, agents=3)).reset(wrong)


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(DataError, match="agents is 0"):
        MultiAgentEnvironment(agents=0)
    with pytest.raises(DataError, match="message_size is -1"):
        MultiAgentEnvironment(message_size=-1)
    env = MultiAgentEnvironment(None, ExecutionEnvConfig(total_time=4), agents=2, message_size=1)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="no action for agent_1"):
        env.step({"agent_0": np.zeros(2)})
    with pytest.raises(ValueError, match="does not fit"):
        env.step({"agent_0": np.zeros(2), "agent_1": np.array([np.nan, 0.0])})
    with pytest.raises(ValueError, match="messages have shape"):
        env.core.step(np.zeros((1, 2)), messages=np.zeros((1, 2, 4)))
    with pytest.raises(ValueError, match="the inbox has shape"):
        MultiAgentCore(env.world, message_size=1, inbox=lambda sent: sent[:, :1]).step(
            np.zeros((1, 2))
        )


def test_every_agent_is_drawn_as_a_line() -> None:
    config = ExecutionEnvConfig(total_time=6)
    env = MultiAgentEnvironment(None, config, agents=2, render_mode="ansi")
    env.reset(seed=1)
    text = env.render()
    assert text is not None
    for name, line in zip(env.agents, text.splitlines(), strict=True):
        assert line.startswith("bar 0/6") and name in line
