"""One simulated order for people to look at."""

from __future__ import annotations

import json

import numpy as np
import pytest

from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.records.order_details import SimulatedReplay
from se_rl.records.plain import from_plain, to_plain
from se_rl.scoring.execution import ConstantSchedule, execute
from se_rl.scoring.simulated_replay import simulated_replay

HORIZON = 8


@pytest.mark.parametrize("takes_price", [True, False])
def test_the_largest_order_is_played_as_the_world_plays_it(takes_price: bool) -> None:
    world = DynamicWorld(horizon=HORIZON, bank=4, takes_price=takes_price, seed=3)
    episodes = world.bank.episodes(np.arange(4), horizon=HORIZON)
    found = simulated_replay(world, episodes, lambda *_: ConstantSchedule(1.0, 0.0))
    assert found is not None
    largest = int(np.argmax(episodes.orders.size))
    played = execute(world, ConstantSchedule(1.0, 0.0), episodes)
    assert sum(found.traded) == pytest.approx(1.0, abs=1e-4) and found.left[-1] == 0.0
    assert sum(found.passive) == pytest.approx(played.passive[largest])
    first = played.record.fills[largest, :-1]  # the last step holds the forced completion too
    assert found.traded[:-1] == pytest.approx(first, abs=1e-4)
    assert len(found.mid) == len(found.free) == len(found.ticks) == 1 + HORIZON + HORIZON // 2
    assert found.impact[0] == 0.0 and max(map(abs, found.impact)) > 0.0
    told = json.loads(json.dumps(to_plain(found)))
    assert from_plain(SimulatedReplay, told).impact == found.impact


def test_nobody_trading_moves_nothing() -> None:
    world = DynamicWorld(horizon=HORIZON, bank=2, seed=3)
    episodes = world.bank.episodes(np.arange(2), horizon=HORIZON)
    found = simulated_replay(world, episodes, lambda *_: ConstantSchedule(0.0))
    assert found is not None
    assert found.impact[:HORIZON] == pytest.approx([0.0] * HORIZON)  # the last step completes it
    assert all(len(row) == len(lots) for row, lots in zip(found.ticks, found.lots, strict=True))
