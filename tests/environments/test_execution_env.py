"""The Gymnasium faces: official checkers, the seeds' way of calling, and clear refusals."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from gymnasium.utils.env_checker import check_env

import se_rl.environments  # noqa: F401  (registers the ids)
from se_rl.data.books import read_lobster
from se_rl.data.market_data import DataError
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_env import DynamicEnvironment
from se_rl.environments.execution_env import ExecutionEnvConfig, ExecutionEnvironment
from se_rl.environments.static_env import StaticEnvironment, StaticVectorEnv

DATA = synthetic_market(SyntheticConfig(symbols=3, sessions=3, seed=5))


def ohlcv(rows: int = 600, start: str = "2024-03-04 09:30", freq: str = "min") -> pd.DataFrame:
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
    return pd.DataFrame(frame, index=pd.date_range(start, periods=rows, freq=freq))


@pytest.mark.parametrize("action", ["ratio", "ratio_and_price"])
def test_official_checker_passes(action: str) -> None:
    config = ExecutionEnvConfig(
        total_time=30, action=action, fills="limit_on_bars" if action != "ratio" else "price_taker"
    )
    check_env(StaticEnvironment(DATA, config), skip_render_check=True)


def test_registered_id_makes_a_working_environment() -> None:
    env = gym.make("se_rl/StaticExecution-v0")
    observation, info = env.reset(seed=1)
    assert observation.shape == (32,)
    assert "SYNTHETIC" in info["data"]
    assert len(env.step(np.array([0.5], np.float32))) == 5


def test_the_seeds_way_of_calling() -> None:
    env = ExecutionEnvironment(
        ohlcv(),
        ExecutionEnvConfig(initial_inventory=10000.0, total_time=240, transaction_cost=0.001),
    )
    env.reset(seed=0)
    done = False
    while not done:
        _, _, done, _, info = env.step(np.array([0.02]))
    metrics = env.get_metrics()
    assert set(metrics) == {"PA", "PA_std", "WR", "GLR", "AFI"}
    assert metrics["PA"] == info["PA"]
    assert -100 < metrics["PA"] < 50


@pytest.mark.parametrize(
    "rows, freq", [(100, "min"), (240, "min"), (1000, "min"), (300, "D"), (500, "h")]
)
def test_any_ohlcv_frame_works_without_a_config(rows: int, freq: str) -> None:
    env = StaticEnvironment(ohlcv(rows, freq=freq))
    _, info = env.reset(seed=3)
    total, done = 0.0, False
    while not done:
        _, reward, done, _, info = env.step(np.array([0.1]))
        total += reward
    assert np.isfinite(total) and np.isfinite(info["PA"])


def test_twap_earns_nothing_over_twap_and_costs_show_in_pa() -> None:
    for cost, expected in ((0.0, 0.0), (0.001, -10.0)):
        env = StaticEnvironment(
            DATA, ExecutionEnvConfig(total_time=60, transaction_cost=cost, side="sell")
        )
        env.reset(seed=2)
        total = 0.0
        for step in range(60):
            _, reward, _, _, info = env.step(np.array([1 / (60 - step)]))
            total += reward
        assert total == pytest.approx(0.0, abs=1e-3)
        vwap_gap = info["PA"] - expected
        assert abs(vwap_gap) < 30


def test_same_seed_same_episode() -> None:
    one, two = (StaticEnvironment(DATA, ExecutionEnvConfig(total_time=20)) for _ in range(2))
    first, second = one.reset(seed=9), two.reset(seed=9)
    np.testing.assert_array_equal(first[0], second[0])
    assert first[1] == second[1]


def test_options_fix_the_order() -> None:
    env = StaticEnvironment(DATA, ExecutionEnvConfig(total_time=20))
    fixed = {"symbol": "SYN002", "session": int(DATA.dates[1]), "side": "buy", "start": 7}
    _, info = env.reset(seed=0, options=fixed)
    assert {key: info[key] for key in fixed} == fixed


@pytest.mark.parametrize(
    "options, message",
    [
        ({"symbol": "X"}, "symbol 'X' is not in"),
        ({"session": 1}, "no session matches"),
        ({"side": "up"}, "side 'up' is unknown"),
        ({"colour": 1}, "reset option 'colour' is unknown"),
        ({"start": 380}, "longer than the session"),
    ],
)
def test_bad_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        StaticEnvironment(DATA, ExecutionEnvConfig(total_time=20)).reset(options=options)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"initial_inventory": 0}, "quantity 0 is not positive"),
        ({"initial_inventory": -5}, "quantity -5 is not positive"),
        ({"side": "up"}, "side 'up' is unknown"),
        ({"action": "jump"}, "action 'jump' is unknown"),
        ({"fills": "magic"}, "fills 'magic' is unknown"),
        ({"max_participation": 2.0}, "max_participation 2.0"),
        ({"transaction_cost": -1}, "fee_bps -10000.0 is not a cost"),
    ],
)
def test_bad_settings_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ExecutionEnvConfig(**settings)


def test_queue_fills_need_a_book() -> None:
    with pytest.raises(DataError, match="needs a historical order book"):
        StaticEnvironment(DATA, ExecutionEnvConfig(fills="queue"))


def test_a_cap_without_volume_is_refused() -> None:
    frame = ohlcv().drop(columns="volume")
    with pytest.raises(DataError, match="has no volume"):
        StaticEnvironment(frame, ExecutionEnvConfig(total_time=60, max_participation=0.1))
    env = StaticEnvironment(frame, ExecutionEnvConfig(total_time=60))
    assert env.reset(seed=0)[1]["benchmark"] == "twap"


def test_step_without_reset_and_bad_actions_are_refused() -> None:
    env = StaticEnvironment(DATA, ExecutionEnvConfig(total_time=5))
    with pytest.raises(gym.error.ResetNeeded):
        env.step(np.array([0.1]))
    env.reset(seed=0)
    for bad in (np.array([np.nan]), np.array([0.1, 0.2])):
        with pytest.raises(ValueError, match="does not fit"):
            env.step(bad)


def test_vector_env_steps_the_same_numbers_as_single_ones() -> None:
    config = ExecutionEnvConfig(total_time=15)
    vector = StaticVectorEnv(DATA, config, num_envs=6)
    observations, _ = vector.reset(seed=4)
    orders = vector.core.orders
    single = StaticEnvironment(DATA, config)
    for i in range(6):
        symbol, session = divmod(int(orders.row[i]), len(DATA.dates))
        options = {
            "symbol": DATA.symbols[symbol],
            "session": int(DATA.dates[session]),
            "start": int(orders.start[i]),
        }
        observation, _ = single.reset(
            options=options | {"side": "sell" if orders.side[i] > 0 else "buy"}
        )
        np.testing.assert_array_equal(observation, observations[i])
    for _ in range(15):
        _, _, terminated, _, _ = vector.step(np.full((6, 1), 0.3, np.float32))
    assert terminated.all()
    assert not vector.step(np.full((6, 1), 0.3, np.float32))[2].any()
    with pytest.raises(ValueError, match="draws its orders"):
        vector.reset(options={"symbol": "SYN000"})


def test_stable_baselines3_trains_on_it() -> None:
    sb3 = pytest.importorskip("stable_baselines3", reason="the extra [baselines] is not installed")
    from stable_baselines3.common.env_checker import check_env as sb3_check

    env = StaticEnvironment(DATA, ExecutionEnvConfig(total_time=16))
    sb3_check(
        env, warn=False
    )  # its advice on the action range is against the task: a ratio lies in [0, 1]
    model = sb3.PPO("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=1, seed=0)
    before = model.policy.state_dict()["action_net.weight"].clone()
    model.learn(128)
    assert not before.equal(model.policy.state_dict()["action_net.weight"])


def test_queue_fills_on_a_real_book(shared_data) -> None:
    book = read_lobster(shared_data / "lobster_AMZN_20120621_L5_messages.parquet")
    config = ExecutionEnvConfig(
        initial_inventory=3000,
        total_time=60,
        transaction_cost=0.0,
        action="ratio_and_price",
        side="buy",
        fills="queue",
    )
    results = {}
    for name, distance in (("market", -1.0), ("touch", 0.0)):
        env = ExecutionEnvironment(book, config)
        env.reset(seed=0, options={"start": 100})
        for step in range(60):
            *_, info = env.step(np.array([1 / (60 - step), distance]))
        results[name] = info
    assert results["market"]["AFI"] < 0.01
    assert results["touch"]["execution_price"] < results["market"]["execution_price"]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_metrics_of_an_order_under_way(dynamic: bool) -> None:
    config = ExecutionEnvConfig(total_time=20, transaction_cost=0.0, side="sell")
    kind = DynamicEnvironment if dynamic else ExecutionEnvironment
    env = kind(ohlcv(), config)
    with pytest.raises(ValueError, match="metrics of no orders"):
        env.get_metrics()
    env.reset(seed=0)
    env.step(np.array([0.0]))
    assert np.isnan(env.get_metrics()["PA"]), "nothing was traded"
    env.step(np.array([0.25]))
    found = env.get_metrics()
    assert found["unfinished"] == 1.0 and found["AFI"] == pytest.approx(0.75, abs=0.01)
    if not dynamic:  # all of it at the second bar's price, against the VWAP of two bars
        orders = replace(env.core.orders, horizon=2)
        price, volume = (orders.gather(x)[0] for x in (env.data.price, env.data.volume))
        assert found["PA"] == pytest.approx(
            1e4 * (price[1] / np.average(price, weights=volume) - 1)
        )
    while not env.core.done:
        *_, info = env.step(np.array([1.0]))
    finished = env.get_metrics()
    assert "unfinished" not in finished and finished["PA"] == info["PA"]
    env.reset(seed=1)
    env.step(np.array([0.5]))
    assert env.get_metrics() == pytest.approx(finished, nan_ok=True), "finished orders count alone"


def test_an_order_is_drawn_as_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    config = ExecutionEnvConfig(total_time=4, side="buy")
    env = gym.make("se_rl.environments:se_rl/StaticExecution-v0", config=config, render_mode="ansi")
    env.reset(seed=0)
    assert "bar 0/4  buy 10000  [####################] 100.0 % left" in env.render()
    env.step(np.array([0.5], np.float32))
    line = env.render()
    assert "bar 1/4" in line and "[##########..........] 50.0 % left" in line
    assert "filled 50.00 %" in line and "\n" not in line
    loud = StaticEnvironment(ohlcv(), config, render_mode="human")
    loud.reset(seed=0)
    loud.step(np.array([0.5]))
    assert capsys.readouterr().out.count("\n") == 2 and loud.render() is None
    with pytest.raises(gym.error.ResetNeeded):
        StaticEnvironment(ohlcv(), config, render_mode="ansi").render()
    with pytest.raises(DataError, match="render_mode is 'film'; use ansi or human"):
        StaticEnvironment(ohlcv(), config, render_mode="film")


def test_gymnasium_finds_the_ids_by_their_module() -> None:
    code = (
        "import gymnasium as gym\n"
        "env = gym.make('se_rl.environments:se_rl/StaticExecution-v0')\n"
        "assert env.reset(seed=0)[0].shape == (32,)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
