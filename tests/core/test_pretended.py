"""A whole run against the design bank: nothing trained, nothing opened, and no result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_run

from se_rl.config import ConfigError
from se_rl.core.run import run_search
from se_rl.records.archive import Archive
from se_rl.records.plain import to_plain
from se_rl.records.results import PRETENDED_SEARCH
from se_rl.report.results_table import print_results
from se_rl.scoring.comparable import comparable_results


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SE_RL_CACHE", str(tmp_path / "cache"))
    tiny_run.make_data(tmp_path / "home")
    return tiny_run.tiny_config(arm="local", against="bank", iterations=3, siblings=3)


def test_a_run_against_the_bank_says_that_it_is_no_result(
    config: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    out = tmp_path / "run"
    results = run_search(config, out, say=said.append, workers=1)
    assert results.outcome == PRETENDED_SEARCH and not results.is_accepted
    assert results.verdict.startswith("Against the surrogate, not a result: ")
    assert results.designs.scored == 9 and results.finalists
    assert results.test_openings == 0 and results.scores == {} == results.baselines
    assert any(PRETENDED_SEARCH in line for line in said)
    # what scores the designs must not tell which to try
    assert results.kit.bank == ()
    assert "design bank: it scores the designs, so nothing else may use it" in results.kit.idle
    with Archive.open(out / "archive.sqlite", read_only=True) as archive:
        assert archive.test_openings() == 0 and archive.evaluations() == []
    page = (out / "report.html").read_text()
    assert "AGAINST THE SURROGATE, NOT A RESULT" in page
    assert not (out / "policy.pt").exists()
    print_results(results)
    assert "Against the surrogate, not a result" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="not a result"):
        comparable_results([out])
    again = run_search(config, out, workers=1)
    assert to_plain(again) == to_plain(results)


def test_a_scenario_that_the_bank_does_not_know_is_refused(config: Any, tmp_path: Path) -> None:
    multi = tiny_run.tiny_config(arm="local", against="bank", scenario="multi")
    with pytest.raises(ConfigError, match="no designs of the scenario multi"):
        run_search(multi, tmp_path / "multi", workers=1)
