"""The trainer learns in markets that others built."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from se_rl.environments.outside.lot_world import LotWorld
from se_rl.environments.outside.queue_reactive_world import QueueReactiveWorld
from se_rl.environments.outside.task import OutsideWorld
from se_rl.environments.worlds import World
from se_rl.modules.defaults import Modules
from se_rl.rl.learner import TrainConfig
from se_rl.rl.trainer import Training


@pytest.mark.parametrize("world", [QueueReactiveWorld(penalty=1.0), LotWorld("tactical", 20)])
def test_ppo_updates_on_its_episodes(world: OutsideWorld) -> None:
    modules = Modules(reward=lambda step: step.reward)
    config = TrainConfig(samples=1000)
    training = Training.of_design(modules, {"static": cast(World, world)}, config, seed=1)
    rows = training.learn(["static", "static"])
    assert all(np.isfinite(row.rewards["static"]) for row in rows)
    assert rows[1].work > rows[0].work
