"""The contracts, their examples, and the page made from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract_runs import RUNS

from se_rl.market.profile import PROFILE_RANGES
from se_rl.modules.contracts import (
    NETWORK_CONSTANTS,
    REWARD_FIELDS,
)
from se_rl.modules.contracts_page import contracts_page
from se_rl.modules.kinds import KINDS
from se_rl.modules.loading import load_module
from se_rl.modules.static_check import check_source

PAGE = Path(__file__).resolve().parents[2] / "docs" / "contracts.md"


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("code_type", KINDS)
def test_examples_are_good(code_type: str, number: int) -> None:
    example = KINDS[code_type].contract.examples[number]
    assert check_source(example, code_type) is None
    RUNS[code_type](load_module(example, code_type))


def test_glossaries_name_everything() -> None:
    for code_type, names in (
        ("reward", REWARD_FIELDS),
        ("network", NETWORK_CONSTANTS),
        ("profiling", PROFILE_RANGES),
    ):
        text = "\n".join(KINDS[code_type].contract.glossary)
        assert all(name in text for name in names)


def test_the_committed_page_is_the_generated_one() -> None:
    made = "python -m se_rl.modules.contracts_page > docs/contracts.md"
    assert PAGE.read_text() == contracts_page(), f"run: {made}"
