"""The Gymnasium faces of the dynamic world: official checkers, frames without a config, and void episodes."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from gymnasium.utils.env_checker import check_env

import se_rl.environments  # noqa: F401  (registers the ids)
from se_rl.data.market_data import DataError
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_env import DynamicEnvironment, DynamicVectorEnv
from se_rl.environments.execution_env import ExecutionEnvConfig
from se_rl.environments.task import Orders
from se_rl.market.profile import MarketProfile

DATA = synthetic_market(SyntheticConfig(symbols=3, sessions=3, seed=5))
SHORT = ExecutionEnvConfig(total_time=10, transaction_cost=0.0)


def ohlcv(rows: int, freq: str) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 1e-3, rows)))
    opening = np.r_[100, close[:-1]]
    high, low = np.maximum(opening, close) * 1.0005, np.minimum(opening, close) * 0.9995
    frame = {
        "open": opening,
        "high": high,
        "low": low,
        "close": close,
        "volume": rng.integers(100, 1000, rows),
    }
    return pd.DataFrame(frame, index=pd.date_range("2024-03-04 09:30", periods=rows, freq=freq))


def finish(env: DynamicEnvironment, *, seed: int, ratio: float | None = None) -> tuple[float, dict]:
    """Run one episode by TWAP or a constant ratio; the sum of rewards and the last info."""
    env.reset(seed=seed)
    total, horizon = 0.0, env.config.total_time
    for step in range(horizon):
        share = 1 / (horizon - step) if ratio is None else ratio
        _, reward, done, _, info = env.step(np.full(env.action_space.shape, share))
        total += reward
    assert done
    return total, info


@pytest.mark.parametrize("data", [None, DATA], ids=["free", "twin"])
@pytest.mark.parametrize("action", ["ratio", "ratio_and_price"])
def test_official_checker_passes(data, action: str) -> None:
    config = ExecutionEnvConfig(total_time=8, action=action)
    check_env(DynamicEnvironment(data, config), skip_render_check=True)


def test_registered_id_makes_a_working_environment() -> None:
    env = gym.make("se_rl/DynamicExecution-v0")
    observation, info = env.reset(seed=1)
    assert observation.shape == (32,) and "SIMULATED" in info["data"]
    assert len(env.step(np.array([0.5], np.float32))) == 5


@pytest.mark.parametrize("rows, freq", [(100, "min"), (600, "min"), (300, "D"), (200, "h")])
def test_any_ohlcv_frame_works_without_a_config(rows: int, freq: str) -> None:
    env = DynamicEnvironment(ohlcv(rows, freq))
    total, info = finish(env, seed=3)
    assert np.isfinite(total) and info["broken"] is False
    metrics = env.get_metrics()
    assert metrics["PA"] == info["PA"] and metrics["broken"] == 0
    assert -60 < metrics["PA"] < 0  # TWAP by market orders pays the spread and ten bps of fees


def test_same_seed_same_episode_and_options_fix_the_order() -> None:
    one, two = (DynamicEnvironment(DATA, SHORT) for _ in range(2))
    assert finish(one, seed=4) == finish(two, seed=4) != finish(two, seed=5)
    fixed = {"symbol": "SYN002", "session": int(DATA.dates[1]), "side": "buy", "start": 7}
    _, info = one.reset(seed=0, options=fixed)
    assert {key: info[key] for key in fixed} == fixed
    with pytest.raises(DataError, match="reset option 'symbol' is unknown; use side"):
        DynamicEnvironment(None, SHORT).reset(options={"symbol": "X"})


def test_arrival_is_the_sessions_price_or_one_hundred() -> None:
    free, twin = DynamicEnvironment(None, SHORT), DynamicEnvironment(DATA, SHORT)
    free.reset(seed=0)
    assert free.core.arrival[0] == 100.0
    twin.reset(seed=0, options={"symbol": "SYN001", "session": int(DATA.dates[0]), "start": 50})
    assert twin.core.arrival[0] == pytest.approx(DATA.close[1, 0, 49], rel=50e-4)


def test_void_episodes_are_counted_and_score_nothing() -> None:
    config = ExecutionEnvConfig(total_time=20, participation=1.0, transaction_cost=0.0)
    deep = MarketProfile(
        noise_market_rate=1.0,
        noise_limit_rate=0.02,
        maker_half_spread=1.0,
        news_volatility=0.9,
        collar=5,
    )
    env = DynamicEnvironment(None, config, profile=deep)
    reward, info = finish(env, seed=0, ratio=0.0)
    assert info["broken"] is True and np.isnan(info["PA"]) and info["AFI"] == 1.0
    core = env.core
    completed_at_mid = (
        1e4 * core.orders.side * (core.mid_after - core.benchmarks().twap) / core.arrival
    )
    assert reward < completed_at_mid[0] - 10.0
    finish(env, seed=1)
    metrics = env.get_metrics()
    assert metrics["broken"] == 1 and np.isfinite(metrics["PA"]) and metrics["AFI"] < 1.0


def test_bad_actions_and_steps_after_the_end_are_refused() -> None:
    env = DynamicEnvironment(None, SHORT)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(np.array([0.1]))
    env.reset(seed=0)
    for bad in (np.array([np.nan]), np.array([np.inf]), np.array([0.1, 0.2])):
        with pytest.raises(ValueError, match="does not fit"):
            env.step(bad)


def test_passive_orders_at_the_touch_cost_less_than_market_orders() -> None:
    config = ExecutionEnvConfig(
        total_time=30, transaction_cost=0.0, action="ratio_and_price", participation=0.02
    )
    costs = {}
    for name, distance in (("market", -1.0), ("touch", 0.0)):
        env = DynamicVectorEnv(None, config, num_envs=64)
        env.reset(seed=0)
        for step in range(30):
            *_, info = env.step(np.tile([1 / (30 - step), distance], (64, 1)).astype(np.float32))
        costs[name] = -np.nanmean(info["PA"])
    assert costs["touch"] < costs["market"]


def test_vector_env_steps_the_same_numbers_as_single_orders() -> None:
    vector = DynamicVectorEnv(DATA, SHORT, num_envs=4)
    first, _ = vector.reset(seed=4)
    orders, seeds, single = (
        vector.core.orders,
        vector.core.markets.seeds.copy(),
        DynamicEnvironment(DATA, SHORT),
    )
    steps = [vector.step(np.full((4, 1), 0.3, np.float32)) for _ in range(10)]
    assert steps[-1][2].all() and set(steps[-1][4]) == {"PA", "AFI", "broken"}
    for i in range(4):
        one: Orders = orders.take(np.array([i]))
        np.testing.assert_array_equal(single.core.reset(one, seeds=seeds[i : i + 1])[0], first[i])
        for observation, reward, *_ in steps:
            np.testing.assert_array_equal(
                single.core.step(np.full(1, np.float32(0.3)))[0], observation[i]
            )
            assert single.core.reward[0] == reward[i]
    assert not vector.step(np.full((4, 1), 0.3, np.float32))[2].any()
    with pytest.raises(ValueError, match="DynamicVectorEnv draws its orders"):
        vector.reset(options={"symbol": "SYN000"})
