"""Ordinary modules in the sandbox: none is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from se_rl.llm.code_validator import CodeValidator
from se_rl.modules.static_check import check_source
from se_rl.sandbox.server import Sandbox

sys.path.insert(0, str(Path(__file__).parents[1] / "modules"))
from zoo import ZOO

MODULES = [
    (code_type, name, source) for code_type, some in ZOO.items() for name, source in some.items()
]


def test_no_ordinary_module_is_refused() -> None:
    """Each is read, loaded in a locked process of its own, and held to its contract there."""
    refused = []
    needed = [
        "contract_runs:RUNS",
        "torch.distributed.tensor:DTensor",
    ]  # the second is what torch's assert_close imports
    with Sandbox(
        "se_rl.modules.runtime_check", functions=[*needed, "attack_sandbox:keep_contract"]
    ) as sandbox:
        for code_type, name, source in MODULES:
            problem = check_source(source, code_type)
            result = sandbox.call(
                "attack_sandbox:keep_contract",
                {"code_type": code_type, "source": source},
                seconds=60,
            )
            if problem or not result.ok:
                refused.append((code_type, name, problem, result.status, result.error))
    assert len(MODULES) >= 140
    assert refused == []


@pytest.mark.skipif(
    os.environ.get("SE_RL_ALL_ATTACKS") != "1", reason="SE_RL_ALL_ATTACKS=1 runs it"
)
def test_the_validator_refuses_no_ordinary_module() -> None:
    results = {
        (kind, name): CodeValidator().validate(source, kind) for kind, name, source in MODULES
    }
    assert {
        pair: result.error_message for pair, result in results.items() if not result.is_valid
    } == {}
