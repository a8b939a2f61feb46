"""What runs behind the lock: the trusted functions that train a design and act with its policy.

The whole training of a design happens in one locked process, which holds train data only and
answers with weights and a curve as plain numbers. For evaluation the policy sits behind the lock
again and only answers observations with actions. `se_rl.rl.sandboxed_training` is the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from se_rl.config import parse, to_dict
from se_rl.data.features import FeatureScales
from se_rl.environments.dynamic_world import EpisodeBank
from se_rl.modules.agent_interface import FURTHER_INPUTS
from se_rl.modules.kinds import KINDS
from se_rl.modules.loading import load_design
from se_rl.rl.action_maps import action_kind
from se_rl.rl.policy import Neutral, Policy, PolicyRunner
from se_rl.rl.trained import Trained
from se_rl.rl.trainer import TrainConfig, train
from se_rl.rl.training_worlds import (
    TrainingWorldsConfig,
    data_arrays,
    data_from_arrays,
    dynamic_worlds,
    make_worlds,
)
from se_rl.sandbox.message import Content
from se_rl.sandbox.worker import shared_data

TRAIN = "train"
"""The name under which the sandbox shares the train days."""
BANK = "bank "
"""The name, before the horizon, under which it shares the simulated episodes of usual markets."""
WEIGHT = "weight:"
"""What stands before the names of weights in messages."""

Message = Mapping[str, Any]
"""Plain numbers, text and arrays, as they cross the lock."""
Arrays = Mapping[str, npt.NDArray[Any]]
Actor = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]


def train_design(payload: Message) -> Content:
    """Load a design and train it on the sandbox's data; weights, curve and reason in plain form."""
    shared = shared_data()
    banks = {}
    for name, arrays in shared.items():
        if name.startswith(BANK):
            banks[int(name.removeprefix(BANK))] = EpisodeBank.from_arrays(arrays)
    return _train(payload, shared.get(TRAIN), banks)


def make_actor(payload: Message) -> Actor:
    """The design's policy with its trained weights as a function of observations."""
    torch.set_num_threads(1)
    modules = load_design(payload["sources"])
    policy = Policy(modules, **payload["shape"])
    set_weights(policy, payload)
    action_map = action_kind(modules)(**payload["action_map"])
    neutral = Neutral(**payload["neutral"])
    runner = PolicyRunner(policy, action_map, neutral=neutral, world=payload["world"])
    return _ServedPolicy(runner, int(payload["horizon"]))


def set_weights(policy: Policy, message: Message) -> None:
    """Give a policy the weights of a message, all of them; RuntimeError where they do not fit."""
    state = {}
    for name, value in message.items():
        if name.startswith(WEIGHT):
            state[name.removeprefix(WEIGHT)] = torch.from_numpy(value)
    policy.load_state_dict(state)


def warm_up() -> None:
    """Import, compile and run everything once: behind the lock nothing of that is possible."""
    from se_rl.data.synthetic import SyntheticConfig, synthetic_market
    from se_rl.modules import runtime_check

    torch.set_num_threads(1)
    runtime_check.warm_up()
    data = synthetic_market(SyntheticConfig(symbols=5, sessions=2))
    arrays = data_arrays(data, FeatureScales.fit(data))
    for array in arrays.values():  # as shared data is: kernels are compiled for what they are given
        array.flags.writeable = False
    imagining = {"imagination": KINDS["imagination"].contract.examples[0]}
    small = TrainingWorldsConfig(horizons=(4,), dynamic_horizons=(3,), bank=12)
    for world in dynamic_worlds(small):
        shown = world.showing(tuple(FURTHER_INPUTS))
        shown.reset(shown.draw(np.random.default_rng(0), 2))
    _train_and_act({}, arrays, small)
    _train_and_act(imagining, arrays, replace(small, agents=2, takes_price=False))
    # every fill model that history may be given, on shared bars and on imagined ones
    costly = replace(small, worlds="static", half_spread_bps=1.0, fee_bps=1.0)
    for sources in ({}, imagining):
        for fills, cap in (("price_taker", None), ("price_taker", 0.5), ("limit_on_bars", 0.5)):
            history = replace(costly, fill_model=fills, max_participation=cap)
            _train_and_act(sources, arrays, history)


def _train_and_act(
    sources: Mapping[str, str], arrays: Arrays, worlds: TrainingWorldsConfig
) -> None:
    """A training of a few steps and one action of its policy."""
    payload: Message = {
        "sources": sources,
        "worlds": to_dict(worlds),
        "train": to_dict(TrainConfig(budget=1e-4, samples=64)),
        "seed": 0,
        "neutral": {},
    }
    trained = _train(payload, arrays)
    where = "static" if worlds.worlds == "static" else "dynamic"
    actor = make_actor({**payload, **trained, "horizon": 3, "world": where})
    actor(np.zeros((trained["shape"]["agents"], trained["shape"]["observation_size"]), np.float32))


def _train(
    payload: Message, arrays: Arrays | None, banks: Mapping[int, EpisodeBank] | None = None
) -> Content:
    torch.set_num_threads(1)
    modules = load_design(payload["sources"])
    seed = int(payload["seed"])
    data, scales = data_from_arrays(arrays) if arrays else (None, None)
    worlds = make_worlds(
        modules,
        parse(TrainingWorldsConfig, payload["worlds"]),
        data=data,
        scales=scales,
        table=arrays["table"] if arrays else None,
        banks=banks,
        seed=seed,
    )
    config = parse(TrainConfig, payload["train"])
    neutral = {name: Neutral(**value) for name, value in payload["neutral"].items()}
    trained = train(
        modules, worlds.train, config, seed=seed, neutral=neutral, held_back=worlds.held_back
    )
    return answer_of(trained)


def answer_of(trained: Trained) -> Content:
    """A training as plain numbers, text and arrays (`rl.training_answer` checks them)."""
    answer: Content = {
        "reason": trained.reason,
        "work": trained.work,
        "shape": trained.policy.shape,
        "action_map": asdict(trained.action_map),
        "inputs": list(trained.policy.interface.inputs),
        "actions": trained.policy.interface.actions,
        "curve": [row.as_dict() for row in trained.curve],
    }
    for name, value in trained.policy.state_dict().items():
        answer[WEIGHT + name] = value.detach().numpy()
    return answer


class _ServedPolicy:
    """A runner that learns the number of orders from the first observation of an episode."""

    def __init__(self, runner: PolicyRunner, horizon: int) -> None:
        self._runner = runner
        self._horizon = horizon
        self._started = False

    def reset(self) -> None:
        """A new batch of orders begins."""
        self._started = False

    def __call__(self, observation: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        if not self._started:
            self._runner.start(len(observation), self._horizon)
            self._started = True
        actions = self._runner.act(np.ascontiguousarray(observation))
        return np.stack(actions, axis=1).astype(np.float32)  # [order, 2]
