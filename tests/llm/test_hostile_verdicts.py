"""Hostile verdicts and imagined bars: refused with one printable line, never an exception."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[1] / "rl"))
from hostile_answers import VALUES

from se_rl.llm.code_validator import _judged
from se_rl.llm.imagination import _fault
from se_rl.modules.kinds.kind import BEHAVIOUR
from se_rl.sandbox.calls import Result

EXAMPLES = int(os.environ.get("SE_RL_FUZZ", "300"))
VERDICT = {
    "error": "",
    "fingerprint": "0" * 64,
    "behaviour": np.zeros(BEHAVIOUR, np.float32),
    "warnings": [],
}


class Parts:
    """Changed parts of a verdict, printed by their names alone."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts

    def __repr__(self) -> str:
        return f"Parts({sorted(self.parts)})"


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.sampled_from(sorted(VERDICT)), VALUES, min_size=1).map(Parts))
def test_no_verdict_is_an_exception(made: Parts) -> None:
    runs = [Result("ok", VERDICT | parts, "", 1.0, "strong") for parts in (made.parts, {})]
    judged = _judged(runs[0], runs[1], seconds=1.0, deadline=20.0)
    for line in (judged.error_message, *judged.warnings):
        assert len(line) <= 500 and (line.isprintable() or not line)
    assert judged.is_valid == (judged.error_message == "") and len(judged.warnings) <= 10


@pytest.mark.parametrize("size", [np.nan, np.inf, -1.0, 0.0, 1.7e308, 5e-324])
def test_no_bars_are_an_exception(size: float) -> None:
    for place in np.ndindex(2, 3, 5):
        bars = np.ones((2, 3, 5))
        bars[place] = size
        assert isinstance(_fault(bars, (2, 3, 5)), str)
    assert _fault(np.full((2, 3, 5), size), (2, 3, 5)) or size == 5e-324


@settings(max_examples=EXAMPLES // 3, deadline=None, suppress_health_check=list(HealthCheck))
@given(VALUES.map(lambda value: Parts({"bars": value})))
def test_what_is_no_bars_is_refused(made: Parts) -> None:
    assert _fault(made.parts["bars"], (2, 3, 5)).isprintable()
