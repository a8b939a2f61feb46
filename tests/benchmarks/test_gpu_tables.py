"""The page about the GPU says what its figures say."""

from __future__ import annotations

import json
from pathlib import Path

from se_rl_benchmarks.gpu_tables import CALLS, CUDA, GpuFigures, page

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


def test_the_page_is_made_of_the_stored_figures() -> None:
    stored = json.loads((RESULTS / "gpu.json").read_text())
    found = [GpuFigures(**one) for one in stored["trainings"]]
    assert page(stored["market"], found) == (RESULTS / "gpu.md").read_text()
    assert {one.worlds for one in found if one.side == CUDA} == set(CALLS)
    fastest = max(found, key=lambda one: one.steps_per_second)
    assert f"{fastest.steps_per_second:,.0f}" in (RESULTS / "gpu.md").read_text()
