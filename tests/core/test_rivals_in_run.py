"""Rivals in a run: trained once, in every table beside the others, and on the same sealed days."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from se_rl.baselines import task
from se_rl.config import ConfigError
from se_rl.core.run import run_search
from se_rl.data.catalog import load_dataset
from se_rl.records.results import OURS, STRONG
from se_rl.report.comparison_table import print_comparison
from se_rl.sandbox.lockdown import isolation_level
from se_rl.scoring.comparison import compare
from se_rl.scoring.ladder import Ladder

TINY: Any = import_module("tiny_run")
SETTINGS = {
    "seeds": (1, 1, 1),
    "iterations": 1,
    "siblings": 3,
    "horizons": (20, 10),
    "rivals": ("MacMic",),
}


class Killed(Exception):
    """The run ends here."""


@pytest.mark.skipif(not isolation_level().enough, reason="no sandbox is to be had on this machine")
def test_a_rival_is_trained_once_and_stands_in_every_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path / "home"))
    TINY.make_data(tmp_path / "home")
    monkeypatch.setattr(Ladder, "champion", lambda _, finalists: finalists[0])
    opened = []

    def load(*words: Any, with_test: bool, **more: Any) -> Any:
        opened.append(with_test)
        return load_dataset(*words, with_test=with_test, **more)

    monkeypatch.setattr(task, "load_dataset", load)
    told: list[tuple[str, bool]] = []

    def tell(kind: str, payload: Mapping[str, Any], *, stored: bool = False) -> None:
        if kind == "rival_trained":
            assert payload["work"] >= 3 * 0.006 / 2, "half of the last rung's budget"
            told.append((payload["world"], stored))
            if len(told) == 1:
                raise Killed

    def run() -> Any:
        return run_search(TINY.tiny_config(**SETTINGS), tmp_path / "run", workers=2, tell=tell)

    with pytest.raises(Killed):
        run()
    assert opened == [], "rivals are trained before any test day is seen"
    results = run()
    assert told == [("static", False), ("static", True), ("dynamic", False)]
    assert opened == [True] and results.test_openings == 1
    row = results.baselines["MacMic"]
    assert row.over_TWAP_by_seed is not None and len(row.over_TWAP_by_seed) == 1
    assert row.ours_over is not None and row.score is not None
    assert all("MacMic" in rows for rows in results.dynamic.values())
    assert "MacMic" in results.scores and set(results.rivals) == {"MacMic"}
    assert set(results.score_by_day) == {OURS, STRONG, "MacMic"}
    assert "MacMic" in (tmp_path / "run" / "report.html").read_text()
    comparison = compare([tmp_path / "run"])
    rival = next(group for group in comparison.groups if group.rival)
    assert rival.group == "MacMic"
    assert rival.mean == pytest.approx(results.rivals["MacMic"].score.mean)
    print_comparison(comparison)
    said = capsys.readouterr().out
    assert "none of the 2 groups (1 of them rivals) beats" in " ".join(said.split())


def test_an_unknown_rival_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rival 'SARSA' is unknown; known are DDQN, OPD"):
        run_search(TINY.tiny_config(rivals=("SARSA",)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
