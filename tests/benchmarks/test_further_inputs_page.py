"""The page of further inputs: designs of the catalogues, paired differences, kept trainings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from se_rl.modules.agent_interface import AgentInterface
from se_rl_benchmarks import further_inputs
from se_rl_benchmarks.further_inputs import DESIGNS, keep, network_of, page, read_kept


def test_designs_ask_for_what_there_is() -> None:
    for asked in DESIGNS.values():
        network = network_of(asked)
        inputs = getattr(network, "inputs", ())
        actions = getattr(network, "actions", "price")
        assert AgentInterface.checked(inputs, actions) == asked


def test_the_page_shows_paired_differences_of_kept_trainings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(further_inputs, "KEPT", tmp_path / "kept.jsonl")
    luck = np.random.default_rng(0).standard_normal(60)  # of the books, which all designs share
    for place, name in enumerate(DESIGNS):
        for seed in range(3):
            scores = {"dynamic": luck + 0.5 * place, "dynamic_cell": np.arange(60) % 3.0}
            keep(further_inputs.KEPT, name, seed, 1.0, 120, scores)
    assert not read_kept(2.0, 120)
    found = read_kept(1.0, 120)
    text, whole = page(found, ("a", "b", "c"), {"work": 1.0, "seeds": 3, "orders": 120})
    designs = json.loads(whole)["designs"]
    for place, name in enumerate(list(DESIGNS)[1:], 1):
        assert designs[name]["over"] == pytest.approx(0.5 * place, abs=1e-5)
        assert name in text and "over" not in designs["default"]
