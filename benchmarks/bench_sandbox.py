"""`se-rl bench sandbox`: what the lock costs, and how soon it ends what does not end by itself."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from se_rl.sandbox.policy_server import PolicyServer
from se_rl.sandbox.server import Sandbox
from se_rl_benchmarks import sandbox_payloads
from se_rl_benchmarks.timing import Measurement, Say, silent

PAYLOADS = sandbox_payloads.__name__
TRAIN = f"{PAYLOADS}:train_small"
HUNG = {"python loop": "python_loop", "C loop": "c_loop", "ignores signals": "deaf_loop"}
DEADLINE_SECONDS = 0.5
LEAST_FORKS = 10
LEAST_TRAININGS = 9
STEPS = 200
BOMB_BYTES = 256 << 20
POLICY_ROWS = (64, 1024)


def bench_sandbox(*, seconds: float = 2.0, say: Say = silent, train: str = TRAIN) -> Measurement:
    """Median time from request to locked process, beside a fresh interpreter that imports torch.

    `train` names a function that makes payload["steps"] steps and returns its `loss` and
    `cpu_seconds`.
    """
    say("a fresh interpreter that imports torch")
    fresh_ms = _fresh_interpreter_ms()
    peer = "fresh interpreter + import torch"
    say("warming the sandbox")
    with Sandbox(PAYLOADS) as sandbox:
        say("fork and lock")
        forks_ms = fork_and_lock_ms(sandbox, seconds)
        value_ms = float(np.median(forks_ms))
        say("training inside and outside")
        ratio, equal = training(sandbox, train, seconds)
        say("hung designs, bombs, a policy")
        detail: dict[str, object] = {
            "isolation": sandbox.isolation.level,
            "fork + lock, 90th percentile, ms": float(np.percentile(forks_ms, 90)),
            "training inside against outside, CPU time": ratio,
            "loss bit for bit equal": equal,
            "dead after its deadline, ms": kill_delays_ms(sandbox),
            "bombs": bombs(sandbox),
            "policy server, extra us per row": {
                f"{rows} rows": policy_us(sandbox, rows) for rows in POLICY_ROWS
            },
        }
    return Measurement(
        name="sandbox",
        unit="ms from request to locked process, median, warm",
        value=value_ms,
        peers={peer: fresh_ms},
        ratios={peer: value_ms / fresh_ms},
        detail=detail,
    )


def fork_and_lock_ms(sandbox: Sandbox, seconds: float) -> list[float]:
    """Milliseconds from request to lock, for as many empty calls as fit."""
    times: list[float] = []
    end = time.monotonic() + seconds
    while len(times) < LEAST_FORKS or time.monotonic() < end:
        times.append(1e3 * sandbox.call(f"{PAYLOADS}:nothing", seconds=10).lock_seconds)
    return times


def training(
    sandbox: Sandbox, train: str, seconds: float, *, steps: int = STEPS
) -> tuple[float, bool]:
    """CPU time of a training inside over outside, and whether all losses are equal.

    The ratio is the median of pairs that take turns.
    """
    import torch

    module, _, name = train.partition(":")
    outside = getattr(import_module(module), name)
    ratios: list[float] = []
    losses: set[bytes] = set()
    threads = torch.get_num_threads()
    end = time.monotonic() + seconds
    torch.set_num_threads(1)
    try:
        while len(ratios) < LEAST_TRAININGS or time.monotonic() < end:
            result = sandbox.call(train, {"steps": steps}, seconds=120)
            if not result.ok:
                raise RuntimeError(
                    f"the training in the sandbox ended: {result.status}, {result.error}"
                )
            plain = outside({"steps": steps})
            ratios.append(result.value["cpu_seconds"] / plain["cpu_seconds"])
            losses |= {result.value["loss"].tobytes(), plain["loss"].tobytes()}
    finally:
        torch.set_num_threads(threads)
    return float(np.median(ratios)), len(losses) == 1


def kill_delays_ms(sandbox: Sandbox) -> dict[str, float]:
    """Milliseconds between a hung design's deadline and the news of its death."""
    delays = {}
    for name, function in HUNG.items():
        started = time.monotonic()
        result = sandbox.call(f"{PAYLOADS}:{function}", seconds=DEADLINE_SECONDS)
        late = time.monotonic() - started - DEADLINE_SECONDS
        delays[name] = 1e3 * late if result.status == "timeout" else float("nan")
    return delays


def bombs(sandbox: Sandbox) -> dict[str, str]:
    """How a memory bomb, a fork bomb and two floods of output ended."""
    memory = sandbox.call(f"{PAYLOADS}:memory_bomb", seconds=20, memory_bytes=BOMB_BYTES)
    forks = sandbox.call(f"{PAYLOADS}:fork_bomb", seconds=20)
    made = forks.status
    if forks.ok:
        made = f"{forks.value['made']} of {forks.value['tried']} made"
    prints = sandbox.call(f"{PAYLOADS}:print_flood", seconds=DEADLINE_SECONDS)
    large = sandbox.call(f"{PAYLOADS}:large_result", seconds=20, result_bytes=1 << 20)
    return {
        "memory": memory.status,
        "fork": made,
        "print": prints.status,
        "result": f"{large.status}: {large.error}",
    }


def policy_us(sandbox: Sandbox, rows: int, *, batches: int = 300) -> float:
    """Microseconds per row that the crossing adds to a linear policy, median batch."""
    obs = np.random.default_rng(0).random((rows, 32), np.float32)
    direct = sandbox_payloads.linear_policy({})
    policy = f"{PAYLOADS}:linear_policy"
    with PolicyServer(sandbox, policy, rows=rows, obs_shape=(32,)) as server:
        across = [_timed(server.act, obs) for _ in range(batches)]
        inside = [_timed(direct, obs) for _ in range(batches)]
    return 1e6 * float(np.median(across) - np.median(inside)) / rows


def _timed(act: Callable[[Any], Any], obs: Any) -> float:
    started = time.perf_counter()
    act(obs)
    return time.perf_counter() - started


def _fresh_interpreter_ms() -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return 1e3 * (time.monotonic() - started)
