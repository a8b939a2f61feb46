"""Tasks in others' markets: their faces, their protocol, and what is left unfinished."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import se_rl.environments  # noqa: F401 (registers the ids)
from se_rl.data.market_data import DataError
from se_rl.environments.outside.lot_world import NAMES, PLACES, LotWorld
from se_rl.environments.outside.queue_reactive_world import UNITS, QueueReactiveWorld
from se_rl.environments.outside.task import OutsideWorld, SeededEpisodes
from se_rl.market.outside.lot_numbers import LEVELS
from se_rl.market.outside.queue_reactive import ASK, BID

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
    fields = np.zeros((len(world.field_names), N), np.float32)
    total = np.zeros(N)
    marked = np.zeros(N)
    before = world._rest_at_mid()
    for _ in range(world.horizon):
        assert observation.shape == (N, world.observation_size)
        assert np.isfinite(observation).all()
        offset = rng.normal(size=N) if world.takes_price else None
        open_ = world.remaining > 0
        observation = world.step(rng.random(N), offset, fields)
        np.testing.assert_array_equal(fields[2] > 0, open_)
        total += fields[0]
        marked += fields[1]
    np.testing.assert_allclose(total, world.returned, atol=1e-4)
    np.testing.assert_allclose(marked, world.returned - before, atol=1e-4)
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


def test_inputs_of_the_queue_reactive_market_are_asked_for_by_name() -> None:
    world = QueueReactiveWorld(inputs=("imbalance", "queues", "spread_age", "drift", "spread"))
    seen = world.reset(SeededEpisodes(np.arange(N)))
    assert seen.shape == (N, 10)
    assert (np.abs(seen[:, 0]) <= 1.0).all() and (seen[:, 7] == 0.0).all()
    first = world.spread
    seen = world.buy(np.zeros(N, np.int64))
    np.testing.assert_allclose(5.0 * seen[:, 7], world.spread == first)
    depths = world.markets.best(ASK)[0] - world.markets.best(BID)[0]
    np.testing.assert_allclose(5.0 * seen[:, 8], world.markets.state.moved + depths / 2, atol=1e-6)
    with pytest.raises(DataError, match="choose from inventory"):
        QueueReactiveWorld(inputs=("weather",))


def test_inputs_of_the_lot_markets_are_asked_for_by_name() -> None:
    """Own lots and those ahead of them, flows over several decisions."""
    names = ("own_lots", "lots_ahead", "market_flow_1", "market_flow_5", "queues")
    world = LotWorld("noise", 20, inputs=names)
    empty = world.reset(SeededEpisodes(np.arange(N))).copy()
    assert (empty[:, :LEVELS] == 0.0).all()
    flows = [world.markets.flows[:, :2]]
    world.markets.offer(world.best_bid + 2, np.full(N, 3))
    places = world.markets.places()
    assert (places[:, 1] == 3).all()
    np.testing.assert_allclose(places[:, LEVELS + 1] / 20.0, empty[:, LEVELS + 1])  # others' first
    seen = world.spread(np.eye(PLACES)[np.full(N, PLACES - 1)])
    flows.append(world.markets.flows[:, :2])
    total = np.sum(flows, axis=0)
    share = (total[:, 0] - total[:, 1]) / np.maximum(total.sum(axis=1), 1)
    np.testing.assert_allclose(seen[:, 2 * LEVELS + 1], share, atol=1e-6)
    with pytest.raises(DataError, match="choose from time"):
        LotWorld("noise", 20, inputs=("weather",))


def test_even_weights_leave_offers_in_their_queues() -> None:
    world = LotWorld("noise", 20, from_rest=True)
    world.reset(SeededEpisodes(np.arange(N)))
    world.markets.spread(np.tile([0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0], (N, 1)))
    before = world.markets.places()
    even = np.full((N, PLACES), 1.0 / PLACES)
    world.markets.spread(world._moved(even))
    np.testing.assert_array_equal(world.markets.places(), before)
    sell = even.copy()
    sell[:, 0] = 1e6
    np.testing.assert_allclose(world._moved(sell)[:, 0], 1.0, atol=1e-2)


def test_the_published_observation_is_what_the_kernel_shows() -> None:
    world = LotWorld("tactical", 20)
    np.testing.assert_array_equal(world.reset(SeededEpisodes(np.arange(N))), world.markets.seen)


def test_an_unknown_market_is_refused() -> None:
    with pytest.raises(DataError, match="use cw-noise-20, cw-noise-60"):
        LotWorld.named("cw-calm-20")
    with pytest.raises(DataError, match="give 1 or more"):
        LotWorld("noise", 0)
