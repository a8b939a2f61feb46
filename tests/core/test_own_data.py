"""A run on a user's file: known by its content, with a row per order, and plain about what it lacks."""

from __future__ import annotations

import contextlib
import gzip
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from se_rl.config import ConfigError
from se_rl.core import run as core_run
from se_rl.core.framework import default_folder
from se_rl.core.run import run_search
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.data.understanding import WITHOUT_VOLUME
from se_rl.records.results import RunResults
from se_rl.sandbox.lockdown import isolation_level

TINY: Any = import_module("tiny_run")


@pytest.mark.skipif(not isolation_level().enough, reason="no sandbox is to be had here")
def test_a_run_on_a_file_without_volume_that_is_moved(tmp_path: Path) -> None:
    market = synthetic_market(SyntheticConfig(symbols=3, sessions=15, seed=4, bar_minutes=5))
    frame = market.to_frame()[["symbol", "timestamp", "open", "high", "low", "close"]]
    first, moved = tmp_path / "first.csv", tmp_path / "moved.csv.gz"
    frame.to_csv(first, index=False)

    def run(data: Path, said: list[str]) -> Any:
        settings = {"seeds": (1, 1, 1), "iterations": 1, "siblings": 3, "worlds": "static"}
        config = TINY.tiny_config(data=str(data), **settings)
        return run_search(config, tmp_path / "run", workers=1, say=said.append)

    said: list[str] = []
    results = run(first, said)
    assert any(WITHOUT_VOLUME in words for words in said) and WITHOUT_VOLUME in results.notes
    orders = pd.read_parquet(tmp_path / "run" / "orders.parquet")
    assert len(orders) == results.data.orders and {"split", "symbol", "date", "side"} <= set(orders)
    for method, row in results.baselines.items():
        assert orders[f"{method}: PA"].mean() == pytest.approx(row.PA, abs=1e-6)

    moved.write_bytes(gzip.compress(first.read_bytes()))
    first.rename(tmp_path / "gone.csv")
    assert run(moved, []) == results, "the same file under another name: nothing is run again"
    frame.iloc[:-1].to_csv(first, index=False)
    with pytest.raises(ConfigError, match="which holds something else; use the same data"):
        run(first, [])


@pytest.mark.parametrize("is_finished", [False, True])
def test_only_a_finished_run_loads_its_file_to_be_checked(
    is_finished: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that goes on loads it anyway."""
    done: list[str] = []

    def run(*_: Any, **__: Any) -> Any:
        done.append("run")
        raise KeyboardInterrupt

    monkeypatch.setattr(core_run, "check_device_and_model", lambda *_: None)
    monkeypatch.setattr(core_run, "check_data", lambda *_: done.append("checked"))
    monkeypatch.setattr(core_run, "Run", run)
    results = RunResults() if is_finished else None
    monkeypatch.setattr(core_run, "finished_results", lambda *_: results)
    with contextlib.suppress(KeyboardInterrupt):
        assert run_search(TINY.tiny_config(), tmp_path / "run") is results
    assert done == (["checked"] if is_finished else ["run"])


def test_the_default_folder_follows_the_content(tmp_path: Path) -> None:
    for name in ("a/bars.csv", "b/bars.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("the same\n")
    (tmp_path / "c.csv").write_text("something else\n")
    one, two, other = (
        default_folder(TINY.tiny_config(data=str(tmp_path / name)))
        for name in ("a/bars.csv", "b/bars.csv", "c.csv")
    )
    assert one == two != other and one.name.startswith("bars-")
