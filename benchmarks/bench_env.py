"""`se-rl bench env`: order steps per second of the static and the dynamic world."""

from __future__ import annotations

import time
from collections.abc import Callable

import numba as nb
import numpy as np

from se_rl.data.market_data import MarketData
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_core import DynamicCore
from se_rl.environments.execution_env import ExecutionEnvConfig, make_static_core
from se_rl.environments.static_env import StaticEnvironment
from se_rl.environments.task import Orders
from se_rl_benchmarks.timing import Measurement, Say, best_rate, ratios_to, silent

ORDERS = 4096
STEPS = 240
DYNAMIC_ORDERS = 1024
DYNAMIC_STEPS = 30
VECTOR_ENVS = 8


def bench_env(*, seconds: float = 2.0, say: Say = silent) -> Measurement:
    """Steps per second of the static world on one core, beside SB3's vector env over our Gym face.

    Observations are included; the dynamic world's rate stands in the detail.
    """
    say("making data")
    data = synthetic_market(SyntheticConfig(symbols=20, sessions=20))
    config = ExecutionEnvConfig(total_time=STEPS)
    say("static core")
    ours = best_rate(_static_steps(data, config), seconds)
    peers = {}
    say("one Gymnasium environment")
    peers["our Gymnasium face, one order"] = best_rate(_gym_episode(data, config), seconds)
    say("dynamic world (the first run compiles)")
    dynamic, threads = dynamic_rate(seconds)
    say("SB3 vector env")
    vector = _sb3_steps(data, config)
    if vector is not None:
        peers["SB3 DummyVecEnv of 8 over our Gymnasium face"] = best_rate(vector, seconds)
    dynamic_label = (
        f"dynamic world, order steps/s of {DYNAMIC_ORDERS} orders on {threads} threads (wall)"
    )
    return Measurement(
        name="static world",
        unit="order steps/s on one core, 32-number observation included",
        value=ours,
        peers=peers,
        ratios=ratios_to(ours, peers),
        detail={
            "orders at once": ORDERS,
            "steps": STEPS,
            "data": data.provenance.label,
            dynamic_label: dynamic,
            "SB3": "measured" if vector else 'not installed: pip install "se-rl[baselines]"',
        },
    )


def dynamic_rate(seconds: float) -> tuple[float, int]:
    """Order steps per wall second in simulated markets on all threads, and how many threads."""
    core = DynamicCore()
    side = np.where(np.arange(DYNAMIC_ORDERS) % 2 == 0, 1, -1).astype(np.int8)
    zeros = np.zeros(DYNAMIC_ORDERS, np.int64)
    orders = Orders.of_usual_size(zeros, zeros, side, np.full(DYNAMIC_ORDERS, 1e4), DYNAMIC_STEPS)
    ratio = np.full(DYNAMIC_ORDERS, 1 / DYNAMIC_STEPS)
    best = 0.0
    end = 0.0
    while not end or time.perf_counter() < end:
        core.reset(orders, seeds=np.arange(DYNAMIC_ORDERS))
        started = time.perf_counter()
        while not core.done:
            core.step(ratio)
        elapsed = time.perf_counter() - started
        best = max(best, DYNAMIC_ORDERS * DYNAMIC_STEPS / elapsed)
        end = end or time.perf_counter() + seconds
    return best, nb.get_num_threads()


def _static_steps(data: MarketData, config: ExecutionEnvConfig) -> Callable[[], int]:
    """A function that executes ORDERS random orders at once in the static core."""
    core = make_static_core(data, config)
    rng = np.random.default_rng(0)
    rows = rng.choice(np.flatnonzero(data.has_session.ravel()), ORDERS)
    starts = rng.integers(len(data.grid) - STEPS + 1, size=ORDERS)
    side = rng.choice([1, -1], ORDERS).astype(np.int8)
    orders = Orders.of_usual_size(rows, starts, side, np.full(ORDERS, 1e4), STEPS)
    ratio = np.full(ORDERS, 0.01)

    def steps() -> int:
        core.reset(orders)
        while not core.done:
            core.step(ratio)
        return ORDERS * STEPS

    return steps


def _gym_episode(data: MarketData, config: ExecutionEnvConfig) -> Callable[[], int]:
    """A function that plays one whole episode through the Gymnasium face."""
    env = StaticEnvironment(data, config)
    action = np.array([0.01], np.float32)

    def episode() -> int:
        env.reset(seed=0)
        for _ in range(config.total_time):
            env.step(action)
        return config.total_time

    return episode


def _sb3_steps(data: MarketData, config: ExecutionEnvConfig) -> Callable[[], int] | None:
    """A function that plays one episode in SB3's vector env; None where SB3 is not installed."""
    try:
        from stable_baselines3.common.vec_env import DummyVecEnv
    except ImportError:
        return None
    envs = DummyVecEnv([lambda: StaticEnvironment(data, config)] * VECTOR_ENVS)
    action = np.full((VECTOR_ENVS, 1), 0.01, np.float32)

    def steps() -> int:
        envs.reset()
        for _ in range(config.total_time):
            envs.step(action)
        return VECTOR_ENVS * config.total_time

    return steps
