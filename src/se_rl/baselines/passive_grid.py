"""Constant schedules: what one multiple of the TWAP slice and one limit price get without learning.

In the dynamic world the best of them is the bar that a learned policy must clear, and the neutral
schedule: what an output of zero means.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from se_rl.environments.worlds import Episodes, World
from se_rl.scoring.execution import ConstantSchedule, Executed, execute

MULTIPLES = (0.75, 1.0, 1.5, 2.0, 3.0)
OFFSETS = (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0)
"""Limits by their distance from the own touch, in the world's unit; positive lies on the passive
side."""


def passive_grid(world: World, episodes: Episodes) -> list[tuple[ConstantSchedule, Executed]]:
    """Every constant schedule on the same episodes; market orders only where none has a price."""
    offsets = OFFSETS if world.takes_price else (0.0,)
    grid = []
    for multiple in MULTIPLES:
        for offset in offsets:
            schedule = ConstantSchedule(multiple, offset)
            grid.append((schedule, execute(world, schedule, episodes)))
    return grid


def best_constant(
    worlds: Sequence[World], rng: np.random.Generator, *, episodes: int = 256
) -> ConstantSchedule:
    """The cheapest schedule of the grid on `episodes` drawn orders of each world, both sides.

    One schedule for the whole mix of orders and markets.
    """
    gains: dict[tuple[float, float], float] = {}
    for world in worlds:
        for schedule, done in passive_grid(world, world.draw(rng, episodes)):
            whole = np.isfinite(done.gain).sum() > 1
            gain = done.over_twap().mean if whole else -np.inf
            key = (schedule.multiple, schedule.offset)
            gains[key] = gains.get(key, 0.0) + gain
    best = max(gains, key=lambda key: gains[key])
    if not np.isfinite(gains[best]):
        raise ValueError(
            f"all schedules are void in {worlds[0].name}; lower the sizes or mend the profile"
        )
    return ConstantSchedule(*best)
