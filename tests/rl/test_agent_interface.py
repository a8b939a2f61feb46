"""What a design sees and does: catalogues, trainings, files and scoring of designs that ask for more."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from rl.hostile_answers import real_answer
from se_rl.data.features import OBSERVATION_FIELDS
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.executors.stored_policy import training_bytes, training_from_bytes
from se_rl.modules.agent_interface import (
    ACTION_KINDS,
    FURTHER_INPUTS,
    AgentInterface,
    further_width,
)
from se_rl.modules.defaults import Modules, Network
from se_rl.modules.errors import ModuleError
from se_rl.modules.kinds.network import interface_of
from se_rl.modules.loading import load_design, load_module
from se_rl.modules.static_check import check_source
from se_rl.rl.action_maps import ACTION_MAPS, RatioActions, SliceActions, action_map_of
from se_rl.rl.expected_answer import ExpectedAnswer
from se_rl.rl.outside_training import MARKETS, rules_of
from se_rl.rl.policy import Neutral
from se_rl.rl.policy_file import PolicyFileError, policy_facts, read_policy, save_policy
from se_rl.rl.sandboxed_training import WEIGHT, TrainedDesign
from se_rl.rl.trainer import TrainConfig, Trained, train
from se_rl.rl.training_answer import AnswerError, checked
from se_rl.rl.training_worlds import TrainingWorldsConfig, make_worlds
from se_rl.scoring.execution import ConstantSchedule, execute
from se_rl.scoring.play import play

INPUTS = ("own_lots", "lots_ahead", "market_flow_5", "limit_flow_1", "drift")
WORLDS = TrainingWorldsConfig(horizons=(6,), dynamic_horizons=(5,), bank=16)
CONFIG = TrainConfig(budget=4e-3, samples=64)
ASKING = """
class Network(nn.Module):
    inputs = {inputs}
    actions = "{actions}"

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 8
        self.first = nn.Linear(obs_dim * history, 8)

    def forward(self, obs):
        return torch.tanh(self.first(obs.flatten(1)))
"""


def source(actions: str = "price", inputs: object = INPUTS) -> str:
    return ASKING.format(inputs=repr(inputs), actions=actions)


def trained_here(text: str) -> Trained:
    modules = load_design({"network": text})
    data = synthetic_market(SyntheticConfig(symbols=4, sessions=3))
    worlds = make_worlds(modules, WORLDS, data=data)
    neutral = {"dynamic": Neutral(2.0, 1.0)}
    return train(modules, worlds.train, CONFIG, seed=1, neutral=neutral, held_back=worlds.held_back)


@pytest.mark.parametrize(
    ("inputs", "actions", "line"),
    [
        (("mood",), "price", "inputs has 'mood', which is unknown; choose from own_lots"),
        (("drift", "drift"), "price", "inputs has 'drift' twice"),
        ("drift", "price", "inputs is 'drift'; give a tuple of names"),
        ((3,), "price", "inputs has 3, which is unknown"),
        ((), "telepathy", "actions is 'telepathy'; choose from price, ratio, slices"),
    ],
)
def test_what_is_not_in_the_catalogues_is_refused_in_one_line(
    inputs: object, actions: str, line: str
) -> None:
    text = source(actions, inputs)
    assert check_source(text, "network") is None
    with pytest.raises(ModuleError, match=line) as caught:
        load_module(text, "network")
    assert "\n" not in str(caught.value)


def test_who_asks_for_nothing_has_the_usual_interface() -> None:
    assert Modules().interface == AgentInterface() == interface_of(Network)
    assert action_map_of(Modules()).outputs(takes_price=True) == 2
    asking = load_module(source("slices"), "network")
    in_others_markets = Modules(network=asking, actions="grid")
    assert in_others_markets.interface == AgentInterface(actions="grid")
    assert list(ACTION_MAPS)[: len(ACTION_KINDS)] == list(ACTION_KINDS)


def test_pages_have_the_catalogues_and_say_where_each_map_is_used() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "environments.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    where = {name.strip("| `"): place for name, place, *_ in rows}
    assert [name for name in where if name in ACTION_MAPS] == list(ACTION_MAPS)
    for name in ACTION_MAPS:
        assert (where[name] == "history and our market") == (name in ACTION_KINDS)
    for market in MARKETS:
        assert where[rules_of(market).actions].strip("`") == market.partition("-")[0]
    told = (docs / "contracts.md").read_text()
    for name in FURTHER_INPUTS:
        assert f"`inputs = ('{name}',)`" in told


@pytest.mark.parametrize(("kind", "outputs"), [("ratio", 1), ("slices", 5)])
def test_outputs_of_zero_are_the_neutral_schedule(kind: str, outputs: int) -> None:
    neutral = Neutral(2.0, -3.0)
    made = ACTION_MAPS[kind]()
    assert made.outputs(True) == made.outputs(False) == outputs
    for left, share in ((8, 0.25), (1, 1.0)):
        ratio, offset = made.actions(torch.zeros(1, 3), steps_left=left, neutral=neutral)
        torch.testing.assert_close(ratio, torch.full((3,), share))
        torch.testing.assert_close(offset, torch.full((3,), -3.0))


def test_slices_are_multiples_and_never_more_than_all() -> None:
    chosen = torch.arange(5.0)[None]
    ratio, _ = SliceActions().actions(chosen, steps_left=3, neutral=Neutral())
    np.testing.assert_allclose(ratio, [1 / 3, 0.0, 1 / 6, 2 / 3, 1.0], rtol=1e-6)
    assert not RatioActions.chooses and SliceActions.chooses


@pytest.mark.parametrize("actions", ["price", "ratio", "slices"])
def test_a_design_is_trained_scored_and_kept_with_what_it_asks_for(
    actions: str, tmp_path: Path
) -> None:
    made = trained_here(source(actions))
    assert made.reason is None
    wide = len(OBSERVATION_FIELDS) + further_width(INPUTS)
    outputs = ACTION_MAPS[actions]().outputs(True)
    assert (made.policy.observation_size, made.policy.actions) == (wide, outputs)
    path = tmp_path / "asking.policy"
    save_policy(path, made, design={"network": source(actions)}, facts={"name": "asking"})
    facts = policy_facts(path)
    assert facts["inputs"] == list(INPUTS) and facts["actions"] == actions
    again, _ = read_policy(path, load_design(facts["design"]))
    assert type(again.action_map) is ACTION_MAPS[actions]
    with pytest.raises(PolicyFileError, match="asks for"):
        read_policy(path, Modules())
    data = synthetic_market(SyntheticConfig(symbols=4, sessions=3))
    usual = make_worlds(Modules(), WORLDS, data=data)  # the worlds that all designs are scored in
    for name, (world,) in usual.train.items():
        episodes = world.draw(np.random.default_rng(0), 8)
        runs = [execute(world, one.runner(name), episodes) for one in (made, again)]
        np.testing.assert_array_equal(runs[0].gain, runs[1].gain)
        opened = play(world, episodes, lambda where, *_: made.runner(where), lanes=2)
        np.testing.assert_allclose(opened.gain, runs[0].gain, rtol=1e-5, atol=1e-5)
        execute(world, ConstantSchedule(), episodes)
        assert world.observation_size == len(OBSERVATION_FIELDS)


def test_a_file_says_nothing_of_a_usual_interface(tmp_path: Path) -> None:
    made = trained_here(source(inputs=()))
    save_policy(tmp_path / "usual.policy", made, design={}, facts={})
    assert not {"inputs", "actions"} & set(policy_facts(tmp_path / "usual.policy"))


def test_worlds_must_show_what_a_network_asks_for() -> None:
    modules = load_design({"network": source()})
    worlds = make_worlds(Modules(), TrainingWorldsConfig(worlds="dynamic", bank=8), data=None)
    with pytest.raises(ValueError, match="train in worlds that are `showing` them"):
        train(modules, worlds.train, CONFIG)


def test_an_answer_of_the_locked_process_names_what_was_asked_for() -> None:
    sources = {"network": source("slices")}
    answer = real_answer(WORLDS, CONFIG, sources)
    expected = ExpectedAnswer.of(WORLDS, CONFIG)
    found = checked(answer, expected)
    assert found.interface == AgentInterface(INPUTS, "slices")
    for lie in (
        {"inputs": []},
        {"inputs": [*INPUTS, "mood"]},
        {"inputs": "drift"},
        {"actions": "price"},
        {"actions": "grid"},
        {"actions": None},
    ):
        with pytest.raises(AnswerError):
            checked({**answer, **lie}, expected)
    weights = {name: value for name, value in answer.items() if name.startswith(WEIGHT)}
    design = TrainedDesign(
        sources,
        "ok",
        None,
        "",
        0.0,
        work=found.work,
        shape=expected.shape_of(found.interface),
        action_map=found.action_map,
        weights=weights,
        interface=found.interface,
    )
    content = training_bytes(design)
    assert training_from_bytes(content, sources).interface == found.interface
    assert json.loads(json.dumps(design.shape))["actions"] == 5
