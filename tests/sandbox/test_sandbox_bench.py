"""The benchmark's figures come from real runs."""

from __future__ import annotations

import math

from se_rl.sandbox import bench
from se_rl.sandbox.server import Room


def test_every_figure_is_measured(room: Room) -> None:
    forks = bench.fork_and_lock_ms(room, 0.0)
    assert len(forks) == bench.LEAST_FORKS and all(0 < each < 60_000 for each in forks)
    ratio, equal = bench.training(room, bench.TRAIN, 0.0, steps=2)
    assert equal and ratio > 0
    delays = bench.kill_delays_ms(room)
    assert delays.keys() == bench.HUNG.keys() and not any(math.isnan(delay) for delay in delays.values())
    assert math.isfinite(bench.policy_us(room, 64, batches=5))


def test_bombs_hurt_nobody(room: Room) -> None:
    ended = bench.bombs(room)
    assert ended.pop("result").startswith("invalid: the message has")
    assert ended == {"memory": "memory", "fork": "0 of 1000 made", "print": "timeout"}


def test_unequal_losses_are_told(room: Room) -> None:
    assert bench.training(room, "room_functions:drifting", 0.0)[1] is False
