"""Source text to live objects, and the one line that says why not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from contract_runs import RUNS, random_step
from zoo import ZOO

from se_rl.market.profile import MarketProfile
from se_rl.modules import defaults
from se_rl.modules.errors import ModuleError
from se_rl.modules.kinds import KINDS
from se_rl.modules.loading import load_design, load_module

SAMPLES = [
    pytest.param(code_type, source, id=f"{code_type}-{name}")
    for code_type, modules in ZOO.items()
    for name, source in modules.items()
]


@pytest.mark.parametrize("code_type, source", SAMPLES)
def test_ordinary_modules_work(code_type: str, source: str) -> None:
    RUNS[code_type](load_module(source, code_type))


@pytest.mark.parametrize(
    "code_type, live",
    [
        ("reward", defaults.reward),
        ("reward", defaults.naive_reward),
        ("network", defaults.Network),
        ("communication", defaults.Communication),
        ("profiling", MarketProfile()),
        ("imagination", defaults.imagine),
    ],
)
def test_the_defaults_keep_the_contracts(code_type: str, live: Any) -> None:
    RUNS[code_type](live)


def test_a_design_replaces_only_what_it_names() -> None:
    design = load_design(
        {
            "reward": "def reward(step):\n    return 2.0 * step.news\n",
            "profiling": "def profile():\n    return {'makers': 2}\n",
        }
    )
    step = random_step(5)
    assert torch.equal(design.reward(step), 2.0 * step.news)
    assert design.profile == MarketProfile(makers=2.0)
    assert design.network is defaults.Network and design.imagine is None


def test_constants_of_a_loaded_network_reach_the_trainer() -> None:
    design = load_design({"network": ZOO["network"]["constants"]})
    assert design.constant("learning_rate") == 3e-4 and design.constant("action_zero") == 1.5


NETWORK = "class Network(nn.Module):\n    {}\n    def __init__(self, obs_dim, history):\n        super().__init__()\n"


@pytest.mark.parametrize(
    "source, code_type, words",
    [
        ("def reward(step):\n    return 1 +\n", "reward", "line 2: SyntaxError"),
        ("x = 1 / 0\n", "reward", "line 1: ZeroDivisionError"),
        ("import os\n", "reward", "os may not be imported"),
        ("x = open('a')\n", "reward", "NameError"),
        ("reward = 3\n", "reward", "`reward` is missing or of the wrong kind"),
        ("class Network:\n    pass\n", "network", "wrong kind"),
        ("class reward(nn.Module):\n    pass\n", "reward", "wrong kind"),
        (NETWORK.format("learning_rate = 0.5"), "network", "learning_rate = 0.5 is out of range"),
        (NETWORK.format("epochs = 'many'"), "network", "epochs = 'many' is out of range"),
        (
            NETWORK.format("exploration = float('nan')"),
            "network",
            "exploration = nan is out of range",
        ),
        ("def profile():\n    return 3\n", "profiling", "returned int"),
        ("def profile():\n    return {'maker': 1}\n", "profiling", "'maker'"),
        ("def profile():\n    return {'makers': 'two'}\n", "profiling", "give a number"),
        ("def profile():\n    return {'makers': 9.0}\n", "profiling", "out of range"),
        ("def profile():\n    return {'makers': float('nan')}\n", "profiling", "out of range"),
        ("def profile():\n    return {'makers': 10 ** 400}\n", "profiling", "too large"),
        ("def profile():\n    return missing\n", "profiling", "line 2: NameError"),
        ("x = 1\n", "rewards", "there is no module 'rewards'"),
    ],
)
def test_errors_are_one_line(source: str, code_type: str, words: str) -> None:
    with pytest.raises(ModuleError) as caught:
        load_module(source, code_type)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_two_modules_share_no_names() -> None:
    first = load_module(
        "CALLS = []\ndef reward(step):\n    CALLS.append(1)\n    return len(CALLS) * step.news\n",
        "reward",
    )
    second = load_module(
        "CALLS = []\ndef reward(step):\n    return len(CALLS) * step.news\n", "reward"
    )
    step = random_step(4)
    first(step)
    assert not second(step).any()


def test_every_module_kind_can_be_loaded() -> None:
    assert set(RUNS) == set(KINDS) == set(ZOO)
