"""The defaults as text: valid modules that do what the live ones do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from se_rl.modules import defaults
from se_rl.modules.contracts import REWARD_FIELDS
from se_rl.modules.default_sources import naive_reward_source
from se_rl.modules.kinds import KINDS
from se_rl.modules.loading import load_module
from se_rl.modules.static_check import check_source


@pytest.mark.parametrize("code_type", KINDS)
def test_each_default_is_a_module_that_a_designer_might_write(code_type: str) -> None:
    text = KINDS[code_type].default_source
    assert check_source(text, code_type) is None and '"""' not in text and "->" not in text


def test_the_text_of_the_reward_does_what_the_reward_does() -> None:
    noise = torch.Generator().manual_seed(0)
    step = SimpleNamespace(**{name: torch.rand(32, generator=noise) for name in REWARD_FIELDS})
    assert torch.equal(
        load_module(KINDS["reward"].default_source, "reward")(step), defaults.reward(step)
    )


def test_the_naive_reward_stands_in_one_place() -> None:
    """Its text is part of the id of a design in every archive: it must not change by a byte."""
    text = naive_reward_source()
    assert text == "def reward(step):\n    return step.traded_share * (step.fill_price - 1.0)\n"
    assert check_source(text, "reward") is None


def test_the_text_of_the_profile_is_the_default_market() -> None:
    assert load_module(KINDS["profiling"].default_source, "profiling") == defaults.Modules().profile
