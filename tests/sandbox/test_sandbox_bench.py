"""The benchmark's figures come from real runs."""

from __future__ import annotations

import math

from se_rl.sandbox.server import Sandbox
from se_rl_benchmarks import bench_sandbox as bench


def test_every_figure_is_measured(sandbox: Sandbox) -> None:
    forks = bench.fork_and_lock_ms(sandbox, 0.0)
    assert len(forks) == bench.LEAST_FORKS and all(0 < each < 60_000 for each in forks)
    ratio, equal = bench.training(sandbox, bench.TRAIN, 0.0, steps=2)
    assert equal and ratio > 0
    delays = bench.kill_delays_ms(sandbox)
    assert delays.keys() == bench.HUNG.keys() and not any(
        math.isnan(delay) for delay in delays.values()
    )
    assert math.isfinite(bench.policy_us(sandbox, 64, batches=5))


def test_bombs_hurt_nobody(sandbox: Sandbox) -> None:
    ended = bench.bombs(sandbox)
    assert ended.pop("result").startswith("invalid: the message has")
    assert ended == {"memory": "memory", "fork": "0 of 1000 made", "print": "timeout"}


def test_unequal_losses_are_told(sandbox: Sandbox) -> None:
    assert bench.training(sandbox, "sandbox_functions:drifting", 0.0)[1] is False
