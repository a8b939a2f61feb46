"""A sixth kind of module, added as CONTRIBUTING.md says, goes through every stage there is.

The kind here is a `schedule`: how much of the parent order to trade by each moment of its horizon.
In the package it would be one new file in `modules/kinds`, one line in `modules/kinds/__init__.py`,
and one field of `Modules` with its live default in `modules/defaults.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from se_rl.modules.contracts import ALWAYS, Contract
from se_rl.modules.contracts_page import contracts_page
from se_rl.modules.derivation import derivation, spell
from se_rl.modules.errors import need
from se_rl.modules.grammar import Rules, one_of
from se_rl.modules.kinds import KINDS
from se_rl.modules.kinds.kind import BEHAVIOUR, Floats, Load, ModuleKind, Recorded
from se_rl.modules.loading import load_module
from se_rl.modules.static_check import check_source

if TYPE_CHECKING:
    from se_rl.modules.module_probe import ModuleProbe

# ---- what would be src/se_rl/modules/kinds/schedule.py

CONTRACT = Contract(
    code_type="schedule",
    title="LLM4Schedule",
    entry="schedule",
    signature="def schedule(time) -> torch.Tensor",
    task="Say which share of the parent order is to be traded by each moment of its horizon.",
    rules=("time has shape [B], from 0 to 1; return shares of shape [B], from 0 to 1", *ALWAYS),
    examples=("def schedule(time):\n    return time * time * (3.0 - 2.0 * time)\n",),
    glossary=("time: share of the horizon, 0 to 1; time that has passed",),
)

RULES: Rules = {
    "start": ("def schedule(time):\n    return <curve>\n",),
    "curve": ("time ** <power>", "1.0 - (1.0 - time) ** <power>", "torch.sin(1.5707 * time)"),
    "power": one_of("0.5 1.0 1.5 2.0 3.0"),
}

DEFAULT_RULES: Rules = {
    "default": ("def schedule(time):\n    return <pace> * time\n",),
    "pace": one_of("0.9 1.0"),
}


def check_schedule(load: Load, recorded: Recorded, trial: ModuleProbe) -> Floats:
    """Shares of every moment lie between 0 and 1 and never fall."""
    import torch

    from se_rl.modules.module_probe import scaled

    moments = torch.linspace(0.0, 1.0, 1024)
    edges = {"the first and the last moment": torch.tensor([0.0, 1.0])}
    shares = trial.batches(load(), moments, edges=edges, tail=())
    need(shares.min() >= 0 and shares.max() <= 1, "shares leave 0 to 1; use clamp(0.0, 1.0)")
    need((shares.diff() >= 0).all(), "the share traded falls; let it grow with time")
    return scaled(shares[:: 1024 // BEHAVIOUR])


SCHEDULE = ModuleKind(
    contract=CONTRACT,
    part="schedule",
    default_source="def schedule(time):\n    return 1.0 * time\n",
    rules=RULES,
    default_rules=DEFAULT_RULES,
    check=check_schedule,
    draws="never",
)

# ---- the walk


@pytest.fixture(autouse=True)
def sixth_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of `modules/kinds/__init__.py`."""
    monkeypatch.setitem(KINDS, SCHEDULE.code_type, SCHEDULE)


def sources() -> list[str]:
    """The default, the example, and designs drawn from the grammar."""
    rng = np.random.default_rng(0)
    drawn = [SCHEDULE.random_source(rng) for _ in range(20)]
    return [SCHEDULE.default_source, *SCHEDULE.contract.examples, *drawn]


def test_the_grammar_draws_and_reads_back() -> None:
    rng = np.random.default_rng(0)
    for source in [SCHEDULE.default_source, SCHEDULE.random_source(rng)]:
        choices = derivation(source, "schedule")
        assert choices is not None and spell(choices, "schedule") == source
    assert derivation(SCHEDULE.contract.examples[0], "schedule") is None
    assert SCHEDULE.lark_grammar.startswith('start: "def" " " "schedule"')
    assert SCHEDULE.most_tokens > 0 and SCHEDULE.most_bytes >= max(map(len, sources()[2:]))


def test_the_static_check_knows_it() -> None:
    for source in sources():
        assert check_source(source, "schedule") is None
    missing = check_source("def plan(time):\n    return time\n", "schedule")
    assert missing is not None and "`schedule` is missing" in missing.message
    random = check_source("def schedule(time):\n    return torch.rand(3)\n", "schedule")
    assert random is not None and "a schedule must be deterministic" in random.message


def test_it_loads_and_passes_the_runtime_check() -> None:
    import torch

    from se_rl.modules.runtime_check import probe

    half = load_module(SCHEDULE.default_source, "schedule")(torch.tensor([0.5]))
    assert half.tolist() == [0.5]
    for source in sources():
        verdict = probe(source, "schedule", {})
        assert verdict.error == "" and verdict.behaviour.shape == (BEHAVIOUR,)
    falling = probe("def schedule(time):\n    return 1.0 - time\n", "schedule", {})
    assert falling.error == "the share traded falls; let it grow with time"


def test_page_and_prompts_show_it() -> None:
    from se_rl.llm.extraction import extract
    from se_rl.llm.prompts import build_prompt

    page = contracts_page()
    assert f"| `schedule` | {SCHEDULE.most_tokens} | {SCHEDULE.most_bytes} |" in page
    assert "## LLM4Schedule (`schedule`)" in page and SCHEDULE.contract.examples[0] in page
    answer = f"Here it is:\n```python\n{SCHEDULE.default_source}```\n"
    assert extract(answer, "schedule").source == SCHEDULE.default_source
    for constrained in (False, True):
        chat = build_prompt("schedule", constrained=constrained)
        assert SCHEDULE.contract.task in "".join(message["content"] for message in chat)
