"""Tasks in others' markets: their faces, their protocol, and what is left unfinished."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import se_rl.environments  # noqa: F401 (registers the ids)
from se_rl.data.market_data import DataError
from se_rl.environments.outside.lot_world import NAMES, LotWorld
from se_rl.environments.outside.queue_reactive_world import INPUTS, UNITS, QueueReactiveWorld
from se_rl.environments.outside.task import OutsideWorld, SeededEpisodes

N = 50


@pytest.mark.parametrize("name", ["qrm", *NAMES])
def test_gymnasium_knows_every_market(name: str) -> None:
    env = gym.make(f"se_rl/{name}-v0", disable_env_checker=True).unwrapped
    assert env.world.name == name  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["qrm", "cw-noise-20"])
def test_an_environment_is_a_whole_one(name: str) -> None:
    env = gym.make(f"se_rl/{name}-v0", disable_env_checker=True).unwrapped
    check_env(env, skip_render_check=True)
    env.action_space.seed(1)
    first, _ = env.reset(seed=3)
    total, ended = 0.0, False
    while not ended:
        _, reward, ended, _, info = env.step(env.action_space.sample())
        total += reward
    assert info["remaining"] == 0 or name == "qrm"
    assert total == pytest.approx(env.world.returned[0])  # type: ignore[attr-defined]
    again, _ = env.reset(seed=3)
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("world", [QueueReactiveWorld(), LotWorld("tactical", 20)])
def test_a_world_steps_as_the_trainer_asks(world: OutsideWorld) -> None:
    rng = np.random.default_rng(0)
    observation = world.reset(world.draw(rng, N))
    fields = np.zeros((1, N), np.float32)
    total = np.zeros(N)
    for _ in range(world.horizon):
        assert observation.shape == (N, world.observation_size)
        assert np.isfinite(observation).all()
        offset = rng.normal(size=N) if world.takes_price else None
        observation = world.step(rng.random(N), offset, fields)
        total += fields[0]
    np.testing.assert_allclose(total, world.returned, atol=1e-4)
    assert world.done.all() and not world.broken.any()


def test_what_is_left_is_bought_or_costs_its_penalty() -> None:
    episodes = SeededEpisodes(np.arange(N))
    bought, fined = QueueReactiveWorld(), QueueReactiveWorld(penalty=1.0)
    for world in (bought, fined):
        world.reset(episodes)
        for _ in range(world.horizon):
            world.buy(np.zeros(N, np.int64))
        assert (world.unfinished == UNITS).all()
    np.testing.assert_allclose(fined.returned, -1.0 * UNITS)
    assert -2.0 < bought.returned.mean() < -0.1


def test_inputs_are_asked_for_by_name() -> None:
    world = QueueReactiveWorld(inputs=tuple(INPUTS), share_of="inventory")
    seen = world.reset(SeededEpisodes(np.arange(N)))
    assert seen.shape == (N, len(INPUTS))
    assert (np.abs(seen[:, list(INPUTS).index("imbalance")]) <= 1.0).all()
    with pytest.raises(DataError, match="choose from inventory"):
        QueueReactiveWorld(inputs=("weather",))
    with pytest.raises(DataError, match="use 'queue' or 'inventory'"):
        QueueReactiveWorld(share_of="book")


def test_an_unknown_market_is_refused() -> None:
    with pytest.raises(DataError, match="use cw-noise-20, cw-noise-60"):
        LotWorld.named("cw-calm-20")
    with pytest.raises(DataError, match="give 1 or more"):
        LotWorld("noise", 0)
