"""`se-rl bench sandbox`: what the lock costs, and how soon and how surely it ends what does not end by itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from importlib import import_module
from itertools import repeat
from typing import Any

import numpy as np

from se_rl.sandbox.policy_server import PolicyServer
from se_rl.sandbox.server import Sandbox

HERE = __name__
TRAIN = f"{HERE}:train_small"
HUNG = {"python loop": "python_loop", "C loop": "c_loop", "ignores signals": "deaf_loop"}
DEADLINE_SECONDS = 0.5
LEAST_FORKS, LEAST_TRAININGS, STEPS = 10, 9, 200
BOMB_BYTES = 256 << 20


def bench_sandbox(
    seconds: float = 2.0, say: Callable[[str], None] = lambda _: None, *, train: str = TRAIN
) -> dict[str, Any]:
    """Median time from request to locked process, beside a fresh interpreter that imports torch; the rest as detail.

    `train` names a function that makes payload["steps"] steps and returns its `loss` and `cpu_seconds`.
    The caller adds `machine`.
    """
    say("a fresh interpreter that imports torch")
    fresh = _fresh_interpreter_ms()
    say("warming the sandbox")
    with Sandbox(HERE) as sandbox:
        value, detail = measure(sandbox, seconds, say=say, train=train)
    peer = "fresh interpreter + import torch"
    return {
        "name": "sandbox",
        "unit": "ms from request to locked process, median, warm",
        "value": value,
        "peers": {peer: fresh},
        "ratios": {peer: value / fresh},
        "detail": detail,
    }


def measure(
    sandbox: Sandbox, seconds: float, *, say: Callable[[str], None], train: str
) -> tuple[float, dict[str, Any]]:
    """All figures of one room: the median milliseconds to a locked process, and the detail."""
    say("fork and lock")
    forks_ms = fork_and_lock_ms(sandbox, seconds)
    say("training inside and outside")
    ratio, equal = training(sandbox, train, seconds)
    say("hung designs, bombs, a policy")
    return float(np.median(forks_ms)), {
        "isolation": sandbox.isolation.level,
        "fork + lock, 90th percentile, ms": float(np.percentile(forks_ms, 90)),
        "training inside against outside, CPU time": ratio,
        "loss bit for bit equal": equal,
        "dead after its deadline, ms": kill_delays_ms(sandbox),
        "bombs": bombs(sandbox),
        "policy server, extra us per row": {
            f"{rows} rows": policy_us(sandbox, rows) for rows in (64, 1024)
        },
    }


def fork_and_lock_ms(sandbox: Sandbox, seconds: float) -> list[float]:
    """Milliseconds from request to lock, for as many empty calls as fit."""
    times: list[float] = []
    end = time.monotonic() + seconds
    while len(times) < LEAST_FORKS or time.monotonic() < end:
        times.append(1e3 * sandbox.call(f"{HERE}:nothing", seconds=10).lock_seconds)
    return times


def training(
    sandbox: Sandbox, train: str, seconds: float, *, steps: int = STEPS
) -> tuple[float, bool]:
    """CPU time of a training inside over outside (median of pairs in turns), and whether all losses are equal."""
    import torch

    module, _, name = train.partition(":")
    outside_of_the_room = getattr(import_module(module), name)
    ratios: list[float] = []
    losses: set[bytes] = set()
    threads, end = torch.get_num_threads(), time.monotonic() + seconds
    torch.set_num_threads(1)
    try:
        while len(ratios) < LEAST_TRAININGS or time.monotonic() < end:
            result = sandbox.call(train, {"steps": steps}, seconds=120)
            if not result.ok:
                raise RuntimeError(
                    f"the training in the sandbox ended: {result.status}, {result.error}"
                )
            plain = outside_of_the_room({"steps": steps})
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
        result = sandbox.call(f"{HERE}:{function}", seconds=DEADLINE_SECONDS)
        late = time.monotonic() - started - DEADLINE_SECONDS
        delays[name] = 1e3 * late if result.status == "timeout" else float("nan")
    return delays


def bombs(sandbox: Sandbox) -> dict[str, str]:
    """How a memory bomb, a fork bomb and two floods of output ended."""
    memory = sandbox.call(f"{HERE}:memory_bomb", seconds=20, memory_bytes=BOMB_BYTES)
    forks = sandbox.call(f"{HERE}:fork_bomb", seconds=20)
    prints = sandbox.call(f"{HERE}:print_flood", seconds=DEADLINE_SECONDS)
    large = sandbox.call(f"{HERE}:large_result", seconds=20, result_bytes=1 << 20)
    return {
        "memory": memory.status,
        "fork": f"{forks.value['made']} of {forks.value['tried']} made"
        if forks.ok
        else forks.status,
        "print": prints.status,
        "result": f"{large.status}: {large.error}",
    }


def policy_us(sandbox: Sandbox, rows: int, *, batches: int = 300) -> float:
    """Microseconds per row that the crossing adds to a linear policy, median batch."""
    obs = np.random.default_rng(0).random((rows, 32), np.float32)
    direct = linear_policy({})
    with PolicyServer(sandbox, f"{HERE}:linear_policy", rows=rows, obs_shape=(32,)) as server:
        across, inside = (
            [_timed(act, obs) for _ in range(batches)] for act in (server.act, direct)
        )
    return 1e6 * float(np.median(across) - np.median(inside)) / rows


def warm_up() -> None:
    """Make what the functions below use."""
    train_small({"steps": 3})


def train_small(payload: dict[str, Any]) -> dict[str, Any]:
    """A little convolutional and recurrent network on noise: the losses and the CPU seconds it took."""
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        conv, gru, head = nn.Conv1d(32, 32, 3), nn.GRU(32, 32, batch_first=True), nn.Linear(32, 1)
    optimiser = torch.optim.Adam(
        [p for m in (conv, gru, head) for p in m.parameters()], foreach=False
    )
    losses, started = [], time.process_time()
    for _step in range(payload["steps"]):
        obs = torch.randn(128, 32, 16, generator=generator)
        hidden, _last = gru(torch.relu(conv(obs)).transpose(1, 2))
        loss = (head(hidden[:, -1]).squeeze(-1) - obs.mean((1, 2))).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return {"loss": np.array(losses, np.float32), "cpu_seconds": time.process_time() - started}


def nothing(_: dict[str, Any]) -> None:
    """Return at once."""


def python_loop(_: dict[str, Any]) -> None:
    """Never return, in Python."""
    while True:
        pass


def c_loop(_: dict[str, Any]) -> None:
    """Never return, in C, where no signal handler of Python runs."""
    deque(repeat(None), maxlen=0)


def deaf_loop(_: dict[str, Any]) -> None:
    """Never return, and ignore every signal that can be ignored."""
    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    python_loop({})


def memory_bomb(_: dict[str, Any]) -> None:
    """Take memory until there is none."""
    taken = []
    while True:
        taken.append(np.ones(1 << 20))


def fork_bomb(_: dict[str, Any]) -> dict[str, Any]:
    """Try to become many; say how many times it worked."""
    made = 0
    for _try in range(1000):
        with contextlib.suppress(OSError):
            made += os.fork() >= 0
    return {"tried": 1000, "made": made}


def print_flood(_: dict[str, Any]) -> None:
    """Print for ever."""
    while True:
        print("x" * 65536)


def large_result(_: dict[str, Any]) -> dict[str, Any]:
    """Return more than the bench allows."""
    return {"large": np.zeros(1 << 20)}


def linear_policy(_: dict[str, Any]) -> Callable[[Any], Any]:
    """A policy that costs next to nothing."""
    weights = np.linspace(-1, 1, 32, dtype=np.float32)
    return lambda obs: obs @ weights


def _timed(act: Callable[[Any], Any], obs: Any) -> float:
    started = time.perf_counter()
    act(obs)
    return time.perf_counter() - started


def _fresh_interpreter_ms() -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return 1e3 * (time.monotonic() - started)
