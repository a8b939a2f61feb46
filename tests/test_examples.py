"""Every script in examples/ runs as it stands; what takes long is made smaller."""

from __future__ import annotations

import runpy
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from se_rl.records.settings import PRESETS
from se_rl.sandbox.lockdown import isolation_level

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
sys.path.append(str(HERE / "core"))
tiny_run: Any = import_module("tiny_run")
NEED_A_SANDBOX = ("design_with_your_model", "search_from_python")
SMALLER: dict[str, dict[str, Any]] = {
    "train_a_policy": {"work": 0.05, "orders": 100},
    "move_a_market": {"markets": 32},
}
PRINTED = {
    "execute_an_order": ("selling", "bar 12/12", "0.0 % left", "bps against the window's VWAP"),
    "train_a_policy": ("over TWAP on later days",),
    "move_a_market": ("in 20 slices", "all at once"),
    "design_with_your_model": ("asked in", "def reward(step):"),
    "search_from_python": ("TWAP", "page: out/example/report.html"),
}


def test_there_are_five() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PRINTED) and len(PRINTED) == 5


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PRINTED)
def test_example(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name in NEED_A_SANDBOX and not isolation_level().enough:
        pytest.skip("no sandbox is to be had on this machine")
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SE_RL_CACHE", str(tmp_path / "cache"))
    tiny_run.make_data(tmp_path / "home")
    small = {**tiny_run.SMALL, "seeds": (1, 1, 1), "iterations": 1, "siblings": 3}
    monkeypatch.setitem(PRESETS, "tiny", {**PRESETS["tiny"], **small})
    script = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    script["main"](**SMALLER.get(name, {}))
    out = capsys.readouterr().out
    for words in PRINTED[name]:
        assert words in out
