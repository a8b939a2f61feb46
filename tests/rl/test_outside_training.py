"""The trainer learns in markets that others built, whatever its outputs mean there."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from se_rl.environments.outside.lot_world import PLACES, LotWorld
from se_rl.environments.outside.queue_reactive_world import QueueReactiveWorld
from se_rl.environments.outside.task import OutsideWorld, SeededEpisodes
from se_rl.environments.worlds import World
from se_rl.modules.defaults import Modules
from se_rl.rl.action_maps import GridActions, SimplexActions
from se_rl.rl.learner import TrainConfig
from se_rl.rl.policy import Neutral
from se_rl.rl.policy_file import save_policy
from se_rl.rl.trainer import Training, train


def training(world: OutsideWorld, actions: str) -> Training:
    modules = Modules(reward=lambda step: step.marked, actions=actions)
    config = TrainConfig(samples=1000)
    return Training.of_design(modules, {"static": cast(World, world)}, config, seed=1)


@pytest.mark.parametrize(
    ("world", "actions"),
    [
        (QueueReactiveWorld(penalty=1.0), "price"),
        (QueueReactiveWorld(penalty=1.0), "grid"),
        (LotWorld("tactical", 20), "ratio"),
        (LotWorld("tactical", 20, from_rest=True), "simplex"),
    ],
)
def test_ppo_updates_on_its_episodes(world: OutsideWorld, actions: str) -> None:
    rows = training(world, actions).learn(["static", "static"])
    assert all(np.isfinite(row.rewards["static"]) for row in rows)
    assert rows[1].work > rows[0].work and np.isfinite(rows[1].stats.entropy)


def test_outputs_of_zero_take_the_first_ratio_and_spread_evenly() -> None:
    neutral = Neutral()
    grid, simplex = GridActions(), SimplexActions(scale=2.0)
    chosen, _ = grid.actions(torch.tensor([[0.0, 4.0]]), steps_left=3, neutral=neutral)
    assert chosen.tolist() == [0.0, 1.0]
    zeros = torch.zeros((PLACES - 1, 3))
    shares, _ = simplex.actions(zeros, steps_left=3, neutral=neutral)
    torch.testing.assert_close(shares, torch.full((3, PLACES), 1.0 / PLACES))
    zeros[0] = 1.0
    shares, _ = simplex.actions(zeros, steps_left=3, neutral=neutral)
    torch.testing.assert_close(shares[:, 0] / shares[:, -1], torch.full((3,), float(np.exp(2.0))))


def test_an_unknown_map_is_refused_and_a_choice_has_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="choose from price, ratio, slices, grid, simplex"):
        training(QueueReactiveWorld(), "mind reading")
    modules = Modules(reward=lambda step: step.reward, actions="grid")
    worlds = {"static": cast(World, QueueReactiveWorld())}
    trained = train(modules, worlds, TrainConfig(samples=500, budget=1e-6))
    with pytest.raises(ValueError, match="train with price, ratio, slices to keep it"):
        save_policy(tmp_path / "policy.safetensors", trained, design={}, facts={})


def test_what_is_over_is_worth_nothing() -> None:
    world = QueueReactiveWorld()
    learner = training(world, "grid")
    batch, _ = learner._batch("static", 1.0)
    assert batch.live is not None and 0 < len(batch.live) < len(batch.columns)
    dead = np.setdiff1d(np.arange(len(batch.columns)), batch.live.numpy())
    assert (batch.columns[dead, 2] == 0.0).all()  # values
    world.reset(SeededEpisodes(np.arange(4)))
    assert (world.remaining > 0).all()
