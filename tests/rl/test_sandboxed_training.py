"""Training behind the lock: what each module changes, the same bits, and failures as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from se_rl.data.features import FeatureScales
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.modules.agent_interface import AgentInterface
from se_rl.modules.defaults import Modules
from se_rl.modules.loading import load_design
from se_rl.rl.expected_answer import ExpectedAnswer
from se_rl.rl.sandboxed_training import WEIGHT, SandboxedTrainer, TrainedDesign
from se_rl.rl.trainer import TrainConfig, train
from se_rl.rl.training_worlds import (
    TrainingWorldsConfig,
    data_arrays,
    data_from_arrays,
    make_worlds,
)
from se_rl.scoring.execution import execute

DATA = synthetic_market(SyntheticConfig(symbols=6, sessions=3))
WORLDS = TrainingWorldsConfig(horizons=(20,), dynamic_horizons=(8,), bank=32)
CONFIG = TrainConfig(budget=0.03, samples=256)
REWARDS = (
    "def reward(step):\n    return step.traded_share * (step.fill_price - step.twap_fill_price)\n",
    "def reward(step):\n    return -step.inventory_left.square() * step.volatility\n",
)
GRU = """
class Network(nn.Module):
    history = 4

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 16
        self.gru = nn.GRU(obs_dim, 16, batch_first=True)

    def forward(self, obs):
        return self.gru(obs)[0][:, -1]
"""
PROFILE = "def profile():\n    return {'maker_half_spread': 3.0, 'news_volatility': 2.5}\n"
SILENCE = """
class Communication(nn.Module):
    def __init__(self, agents, size):
        super().__init__()

    def forward(self, messages):
        return messages * 0.0
"""
IMAGINE = """
def imagine(bars, generator):
    start = bars[:, :1, :1].log()
    shape = (bars.shape[0], 1, 1)
    factor = torch.exp(0.3 * torch.randn(shape, generator=generator, dtype=bars.dtype))
    prices = torch.exp(start + factor * (bars[..., :4].log() - start))
    return torch.cat([prices, bars[..., 4:]], -1)
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxedTrainer]:
    with SandboxedTrainer(data=DATA) as opened:
        yield opened


def weights(trained: TrainedDesign) -> np.ndarray:
    assert trained.ok, (trained.status, trained.reason)
    return np.concatenate([trained.weights[name].ravel() for name in sorted(trained.weights)])


def trained(
    sandbox: SandboxedTrainer, sources: dict[str, str], worlds: TrainingWorldsConfig = WORLDS
) -> TrainedDesign:
    return sandbox.train(sources, training_worlds=worlds, config=CONFIG, seed=0)


def test_the_sandbox_trains_to_the_bits_of_this_process_and_acts_like_it(
    sandbox: SandboxedTrainer,
) -> None:
    torch.set_num_threads(1)
    locked = trained(sandbox, {})
    arrays = data_arrays(DATA, FeatureScales.fit(DATA))
    data, scales = data_from_arrays(arrays)
    worlds = make_worlds(Modules(), WORLDS, data=data, scales=scales)
    here = train(Modules(), worlds.train, CONFIG, seed=0, held_back=worlds.held_back)
    for name, value in here.policy.state_dict().items():
        np.testing.assert_array_equal(locked.weights[WEIGHT + name], value.numpy())
    assert locked.isolation in ("strong", "standard") and locked.work == here.work
    (world,) = worlds.train["static"]
    episodes = world.draw(np.random.default_rng(0), 64)
    actor = sandbox.actor(locked, world="static", horizon=world.horizon, rows=64)
    np.testing.assert_array_equal(
        execute(world, actor, episodes).gain, execute(world, here.runner("static"), episodes).gain
    )
    actor.close()


def test_a_network_behind_the_lock_sees_and_does_what_it_asks_for(
    sandbox: SandboxedTrainer,
) -> None:
    torch.set_num_threads(1)
    asking = GRU.replace("history = 4", "inputs = ('own_lots', 'drift')\n    actions = 'slices'")
    locked = trained(sandbox, {"network": asking})
    assert locked.ok, locked.reason
    assert locked.interface == AgentInterface(("own_lots", "drift"), "slices")
    modules = load_design({"network": asking})
    data, scales = data_from_arrays(data_arrays(DATA, FeatureScales.fit(DATA)))
    worlds = make_worlds(modules, WORLDS, data=data, scales=scales)
    here = train(modules, worlds.train, CONFIG, seed=0, held_back=worlds.held_back)
    for name, (world,) in make_worlds(Modules(), WORLDS, data=data, scales=scales).train.items():
        episodes = world.draw(np.random.default_rng(0), 16)
        actor = sandbox.actor(locked, world=name, horizon=world.horizon, rows=16)
        np.testing.assert_array_equal(
            execute(world, actor, episodes).gain, execute(world, here.runner(name), episodes).gain
        )
        actor.close()


def test_rewards_and_networks_change_the_policy(sandbox: SandboxedTrainer) -> None:
    default, one, two = (
        weights(trained(sandbox, s)) for s in ({}, *({"reward": r} for r in REWARDS))
    )
    assert not np.array_equal(one, two) and not np.array_equal(default, one)
    of_network = trained(sandbox, {"network": GRU})
    assert any("gru" in name for name in of_network.weights)
    assert not any("gru" in name for name in trained(sandbox, {}).weights)


def test_a_network_may_ask_for_a_teacher(sandbox: SandboxedTrainer) -> None:
    plain = weights(trained(sandbox, {"network": GRU}))
    taught = GRU.replace("    history = 4", '    history = 4\n    start = "ridge"')
    assert not np.array_equal(plain, weights(trained(sandbox, {"network": taught})))
    beside = trained(sandbox, {"network": taught, "imagination": IMAGINE})  # real bars teach
    assert beside.ok and beside.curve[0]["work"] > 0.1 * CONFIG.budget


def test_a_profile_changes_the_market(sandbox: SandboxedTrainer) -> None:
    worlds = TrainingWorldsConfig(worlds="dynamic", dynamic_horizons=(8,), bank=32)
    config = TrainConfig(budget=0.03, samples=2048)  # enough orders for all kinds of markets

    def first_reward(sources: dict[str, str]) -> float:
        done = sandbox.train(sources, training_worlds=worlds, config=config, seed=0)
        return float(done.curve[0]["reward_dynamic"])

    assert first_reward({}) != first_reward({"profiling": PROFILE})


def test_a_protocol_changes_the_messages(sandbox: SandboxedTrainer) -> None:
    worlds = TrainingWorldsConfig(
        worlds="dynamic", dynamic_horizons=(8,), bank=32, agents=2, takes_price=False
    )
    talking, silent = (
        trained(sandbox, {}, worlds),
        trained(sandbox, {"communication": SILENCE}, worlds),
    )
    speak = f"{WEIGHT}speak.weight"
    start = trained(sandbox, {"communication": SILENCE}, worlds)
    np.testing.assert_array_equal(silent.weights[speak], start.weights[speak])
    assert not np.array_equal(talking.weights[speak], silent.weights[speak])


def test_imagination_changes_the_data(sandbox: SandboxedTrainer) -> None:
    worlds = TrainingWorldsConfig(worlds="static", horizons=(20,))
    real, imagined = (
        trained(sandbox, {}, worlds),
        trained(sandbox, {"imagination": IMAGINE}, worlds),
    )
    assert real.curve[0]["reward_static"] != imagined.curve[0]["reward_static"]
    assert not np.array_equal(weights(real), weights(imagined))


@pytest.mark.parametrize(
    ("sources", "reason"),
    [
        ({"reward": "def reward(step):\n    return step.traded_share * torch.nan\n"}, "not finite"),
        ({"reward": "def reward(step):\n    return step.no_such_field\n"}, "no_such_field"),
        ({"network": "class Network(nn.Module):\n    pass\n"}, ""),
        ({"imagination": "def imagine(bars, generator):\n    return bars * -1.0\n"}, "positive"),
        ({"reward": "def reward(step:\n"}, ""),
    ],
)
def test_a_design_that_fails_is_data_with_a_reason(
    sandbox: SandboxedTrainer, sources: dict[str, str], reason: str
) -> None:
    failed = trained(sandbox, sources)
    assert not failed.ok and failed.reason and reason in failed.reason
    with pytest.raises(ValueError, match="no policy"):
        sandbox.actor(failed, world="static", horizon=20, rows=4)


def test_an_endless_design_ends_at_its_deadline(sandbox: SandboxedTrainer) -> None:
    call = sandbox.start(
        {"reward": "def reward(step):\n    while True:\n        pass\n"},
        training_worlds=WORLDS,
        config=CONFIG,
        seed=0,
        seconds=3.0,
    )
    assert TrainedDesign.of(call.wait(), {}, ExpectedAnswer.of(WORLDS, CONFIG)).status == "timeout"
    assert trained(sandbox, {}).ok


def test_train_data_travels_without_names_and_dates() -> None:
    data, scales = data_from_arrays(data_arrays(DATA, FeatureScales.fit(DATA)))
    np.testing.assert_array_equal(data.close, DATA.close)
    assert (
        data.grid == DATA.grid
        and not set(data.symbols) & set(DATA.symbols)
        and data.dates.max() <= len(data.dates)
    )
    np.testing.assert_array_equal(scales.variance, FeatureScales.fit(DATA).variance)


def test_the_static_world_needs_data() -> None:
    with pytest.raises(ValueError, match="needs data"):
        make_worlds(Modules(), TrainingWorldsConfig(), data=None)


@pytest.mark.parametrize(
    ("costs", "actions"),
    [
        ({"max_participation": 0.2, "half_spread_bps": 2.0}, 1),
        ({"fill_model": "limit_on_bars", "fee_bps": 1.0}, 2),
        ({"fill_model": "limit_on_bars", "max_participation": 0.1}, 2),
    ],
)
def test_every_cost_of_history_can_be_trained_under_behind_the_lock(
    sandbox: SandboxedTrainer, costs: dict[str, Any], actions: int
) -> None:
    worlds = TrainingWorldsConfig(worlds="static", horizons=(10,), **costs)
    done = trained(sandbox, {}, worlds)
    assert done.ok and done.shape is not None, (done.status, done.reason)
    assert done.shape["actions"] == actions
