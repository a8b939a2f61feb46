"""The tables of several agents in one book, from planted searches."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from se_rl.records.module_use import ModuleCredit, ModuleUse
from se_rl.records.settings import preset
from se_rl_benchmarks import multi_tables
from se_rl_benchmarks.forked_searches import SealedGain
from se_rl_benchmarks.multi_page import VARIANTS, MultiRow, page


def row(variant: str, seed: int, gain: float) -> MultiRow:
    credit = ModuleCredit("abc", "communication", 2, "silence", 0.25, 0.1, (0.05, 0.45), 3)
    uses = {"reward": ModuleUse(4, 4, 3, 1, "abc", gain), "communication": ModuleUse(2)}
    champion = "abc" if gain else ""
    return MultiRow(variant, seed, 8, 30, champion, gain, (0.0, 1.0), uses, (credit,), 9.0)


def test_tables_and_their_twin(tmp_path: Path) -> None:
    first, *_, last = VARIANTS
    rows = [row(first, 0, 0.2), row(first, 1, 0.4), row(last, 0, 0.0)]
    silent = Future[SealedGain]()
    head = {"agents": 4, "preset": "standard", "data": "bars"}
    found = head | multi_tables.found_so_far(rows, silent)
    assert found["silence"] == {} and "silence scores" not in page(found)
    silent.set_result(SealedGain(-0.3, (-0.5, -0.1), -0.4, -0.2, 0.1))
    multi_tables.keep(tmp_path, head | multi_tables.found_so_far(rows, silent))
    told = json.loads((tmp_path / "multi.json").read_text())
    all_five = told["variants"][first]
    assert (all_five["seeds"], all_five["accepted"]) == (2, 2)
    assert all_five["over_default"] == pytest.approx(0.3)
    half = 12.7062 * 0.1  # Student's t with one degree of freedom
    assert all_five["ci95"] == pytest.approx([0.3 - half, 0.3 + half], abs=1e-3)
    assert told["variants"][last]["accepted"] == 0 and list(told["variants"]) == [first, last]
    assert told["modules"]["reward"]["best_gain"] == pytest.approx(0.2)
    assert told["modules"]["communication"] == {
        "searches": 3,
        "proposed": 6,
        "scored": 0,
        "raced": 0,
        "best_gain": None,
    }
    text = (tmp_path / "multi.md").read_text()
    assert "| silence | 2 | +0.25 [0.05, 0.45] | 3 |" in text
    assert "The default in silence scores -0.30 [-0.50, -0.10] over the default." in text


def test_variants_leave_modules_as_they_are() -> None:
    workshop = cast(Any, SimpleNamespace(config=preset("tiny", scenario="multi")))
    configs = multi_tables.configs_of(workshop, 2)
    assert [config.seed for config in configs] == [0] * 4 + [1] * 4
    designed = [set(config.modules) for config in configs[:4]]
    assert len(designed[0]) == 5 and "communication" not in designed[1] | designed[3]
    assert "profiling" not in designed[2] | designed[3] and "communication" in designed[2]
    assert all(config.arm == "local" and config.book_agents == 4 for config in configs)
