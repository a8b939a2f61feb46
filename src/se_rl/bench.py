"""`se-rl bench`: speeds on this machine, beside peers in the same run. Ratios travel between machines; figures do not."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from se_rl.data.market_data import MarketData
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.execution_env import ExecutionEnvConfig, make_static_core
from se_rl.environments.static_env import StaticEnvironment
from se_rl.environments.task import Orders

ORDERS = 4096
DYNAMIC_ORDERS = 1024


def bench_env(
    *, seconds: float = 2.0, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Steps per second of the static world on one core, observation included, beside SB3's vector env over our Gym face."""
    say("making data")
    data = synthetic_market(SyntheticConfig(symbols=20, sessions=20))
    config = ExecutionEnvConfig(total_time=240)
    core = make_static_core(data, config)
    rng = np.random.default_rng(0)
    rows = rng.choice(np.flatnonzero(data.has_session.ravel()), ORDERS)
    starts = rng.integers(len(data.grid) - 240 + 1, size=ORDERS)
    orders = Orders(
        rows, starts, rng.choice([1, -1], ORDERS).astype(np.int8), np.full(ORDERS, 1e4), 240
    )
    ratio = np.full(ORDERS, 0.01)

    def batched() -> int:
        core.reset(orders)
        while not core.done:
            core.step(ratio)
        return ORDERS * 240

    say("static core")
    ours = best_rate(batched, seconds)
    peers = {}
    say("one Gymnasium environment")
    peers["our Gymnasium face, one order"] = best_rate(_gym_episode(data, config), seconds)
    say("dynamic world (the first run compiles)")
    dynamic, threads = dynamic_rate(seconds)
    say("SB3 vector env")
    vector = _sb3_steps(data, config)
    if vector is not None:
        peers["SB3 DummyVecEnv of 8 over our Gymnasium face"] = best_rate(vector, seconds)
    return {
        "name": "static world",
        "unit": "order steps/s on one core, 32-number observation included",
        "value": ours,
        "peers": peers,
        "ratios": {name: ours / value for name, value in peers.items()},
        "detail": {
            "orders at once": ORDERS,
            "steps": 240,
            "data": data.provenance.label,
            f"dynamic world, order steps/s of {DYNAMIC_ORDERS} orders on {threads} threads (wall)": dynamic,
            "SB3": "measured" if vector else 'not installed: pip install "se-rl[baselines]"',
        },
        "machine": machine(),
    }


def dynamic_rate(seconds: float) -> tuple[float, int]:
    """Order steps per wall second in simulated markets, observations included, on all threads; and their number."""
    import numba as nb

    from se_rl.environments.dynamic_core import DynamicCore

    core = DynamicCore()
    side = np.where(np.arange(DYNAMIC_ORDERS) % 2 == 0, 1, -1).astype(np.int8)
    zeros = np.zeros(DYNAMIC_ORDERS, np.int64)
    orders = Orders(zeros, zeros, side, np.full(DYNAMIC_ORDERS, 1e4), 30)
    ratio, best, end = np.full(DYNAMIC_ORDERS, 1 / 30), 0.0, 0.0
    while not end or time.perf_counter() < end:
        core.reset(orders, seeds=np.arange(DYNAMIC_ORDERS))
        started = time.perf_counter()
        while not core.done:
            core.step(ratio)
        best = max(best, DYNAMIC_ORDERS * 30 / (time.perf_counter() - started))
        end = end or time.perf_counter() + seconds
    return best, nb.get_num_threads()


def run_bench(
    what: str,
    *,
    seconds: float,
    device: str = "cpu",
    books: int | None = None,
    model: str = "smollm2",
    designs: int = 32,
    repairs: int = 3,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """One of the benchmarks by name, with the machine it ran on."""
    if what == "env":
        return bench_env(seconds=seconds, say=say)
    if what == "book":
        from se_rl.market.bench import bench_book

        return {**bench_book(seconds=seconds, say=say), "machine": machine()}
    if what == "ppo":
        from se_rl.rl.bench import bench_ppo

        return {**bench_ppo(seconds=seconds, say=say), "machine": machine()}
    if what == "llm":
        from se_rl.llm.bench import bench_llm

        return {**bench_llm(model, n=designs, tries=repairs, say=say), "machine": machine()}
    if what == "sandbox":
        from se_rl.sandbox.bench import bench_sandbox

        return {**bench_sandbox(seconds=seconds, say=say), "machine": machine()}
    from se_rl.market.bench_market import bench_market

    return {
        **bench_market(device=device, seconds=seconds, books=books, say=say),
        "machine": machine(),
    }


def best_rate(work: Callable[[], int], seconds: float) -> float:
    """Units of work per CPU second, the best of as many repeats as fit; the first call only warms up."""
    work()
    best, end = 0.0, time.perf_counter() + seconds
    while True:
        started = time.process_time()
        units = work()
        best = max(best, units / max(time.process_time() - started, 1e-9))
        if time.perf_counter() >= end:
            return best


def machine() -> dict[str, Any]:
    """Where it was measured."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "python": platform.python_version(),
    }


def _gym_episode(data: MarketData, config: ExecutionEnvConfig) -> Callable[[], int]:
    """A function that plays one whole episode through the Gymnasium face."""
    env, action = StaticEnvironment(data, config), np.array([0.01], np.float32)

    def episode() -> int:
        env.reset(seed=0)
        for _ in range(config.total_time):
            env.step(action)
        return config.total_time

    return episode


def _sb3_steps(data: MarketData, config: ExecutionEnvConfig) -> Callable[[], int] | None:
    """A function that makes 8 x 240 steps in SB3's vector env, or None where SB3 is not installed."""
    try:
        from stable_baselines3.common.vec_env import DummyVecEnv
    except ImportError:
        return None
    envs = DummyVecEnv([lambda: StaticEnvironment(data, config)] * 8)
    action = np.full((8, 1), 0.01, np.float32)

    def steps() -> int:
        envs.reset()
        for _ in range(config.total_time):
            envs.step(action)
        return 8 * config.total_time

    return steps
