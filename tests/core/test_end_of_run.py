"""The end of a run: a search that finds nothing says so, and leaves the sealed days sealed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from se_rl.baselines import task
from se_rl.core import proposer
from se_rl.core.run import run_search
from se_rl.core.stopping import CONVERGED
from se_rl.data.catalog import load_dataset
from se_rl.main import main
from se_rl.records.archive import Archive
from se_rl.records.results import (
    ACCEPTED,
    NO_IMPROVEMENT,
    NO_VALID_DESIGN,
    OURS,
    STRONG,
    RunResults,
)
from se_rl.report.results_table import print_results
from se_rl.sandbox.lockdown import isolation_level
from se_rl.scoring.comparison import compare
from se_rl.scoring.ladder import Ladder

TINY: Any = import_module("tiny_run")
SETTINGS = {"seeds": (1, 1, 1), "iterations": 1, "siblings": 3, "worlds": "static"}
RunIt = Callable[..., RunResults]
pytestmark = pytest.mark.skipif(
    not isolation_level().enough, reason="no sandbox is to be had on this machine"
)


@pytest.fixture
def run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunIt:
    """Runs a tiny search, which must not look at a test day."""
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path / "home"))
    TINY.make_data(tmp_path / "home")
    load = task.load_dataset

    def without_test_days(*words: Any, with_test: bool, **more: Any) -> Any:
        assert not with_test
        return load(*words, with_test=with_test, **more)

    monkeypatch.setattr(task, "load_dataset", without_test_days)
    return lambda **more: run_search(
        TINY.tiny_config(**SETTINGS, **more), tmp_path / "run", workers=2
    )


def test_nobody_ahead_of_the_default(
    run_it: RunIt,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Ladder, "champion", lambda ladder, _: ladder.default.id)
    monkeypatch.setattr(
        import_module("se_rl.core.run"),
        "evolve",
        _converged(import_module("se_rl.core.run").evolve),
    )
    results = run_it()
    assert results.outcome == NO_IMPROVEMENT and results.verdict.startswith("No improvement found")
    assert results.test_openings == 0 and results.score_by_day == {} and results.scores == {}
    assert results.stop_reason == "no improvement found: it stands still"
    assert OURS not in results.baselines and STRONG in results.baselines
    assert math.isfinite(results.final_metrics.PA) and results.measured_on == "validation days"
    assert results.final_metrics.score_over_default.score.mean == 0.0
    with Archive.open(tmp_path / "run" / "archive.sqlite", read_only=True) as archive:
        assert archive.test_openings() == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "No improvement found" in page and "Methods on the validation days" in page
    print_results(results)
    said = capsys.readouterr().out
    assert (
        said.startswith("No improvement found") and OURS not in said and "best design" not in said
    )
    assert main(["show", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "No improvement found" in said and f"best: {results.best}, the default" in said
    [group] = compare([tmp_path / "run"]).groups
    assert group.accepted == 0 and group.mean == 0.0
    assert run_it() == results, "the same command says the same again"


def test_no_valid_design(run_it: RunIt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = proposer.drawn

    def refused(*words: Any, **more: Any) -> Any:
        one = drawn(*words, **more)
        return replace(one, candidate=replace(one.candidate, reason="syntax"))

    monkeypatch.setattr(proposer, "drawn", refused)
    results = run_it()
    assert results.outcome == NO_VALID_DESIGN and results.test_openings == 0
    assert results.verdict.startswith("No valid design: none of 3 proposed designs could be scored")
    assert (tmp_path / "run" / "best.policy").is_file(), "the default's"
    told = json.loads((tmp_path / "run" / "results.json").read_text())
    assert told["outcome"] == NO_VALID_DESIGN and told["finalists"] == []


def test_an_accepted_design_opens_the_sealed_days_once_and_a_rival_is_beside_it(
    run_it: RunIt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "load_dataset", load_dataset)
    monkeypatch.setattr(Ladder, "champion", lambda _, finalists: finalists[0])
    results = run_it(rivals=("MacMic",))
    assert results.outcome == ACCEPTED and results.test_openings == 1
    assert (
        results.measured_on == "sealed test days" and results.best == results.finalists[0].candidate
    )
    assert results.stop_reason.startswith("budget")
    assert set(results.score_by_day) == {OURS, STRONG, "MacMic"}
    ours, strong = (results.baselines[name].over_TWAP_specific.mean for name in (OURS, STRONG))
    lead = results.final_metrics.over_default_specific.mean
    assert lead == pytest.approx(ours - strong, abs=1e-9)
    orders = results.order_details
    assert orders.method == OURS and set(orders.inventory) >= {OURS, STRONG}
    for groups in orders.groups.values():  # every order is in one group of each kind
        whole = sum(group.orders * group.over_TWAP for group in groups) / results.data.orders
        assert whole == pytest.approx(results.baselines[OURS].over_TWAP.mean, abs=1e-3)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Orders by side" in page and "One simulated order" not in page  # history alone
    _check_rival(results, page, tmp_path / "run")


def _check_rival(results: RunResults, page: str, folder: Path) -> None:
    row = results.baselines["MacMic"]
    assert row.over_TWAP_by_seed is not None and len(row.over_TWAP_by_seed) == 1
    assert row.ours_over is not None and row.score is not None and "MacMic" in page
    assert "MacMic" in results.scores and set(results.rivals) == {"MacMic"}
    comparison = compare([folder])
    [group] = [one for one in comparison.groups if one.rival]
    assert group.group == "MacMic"
    assert group.mean == pytest.approx(results.rivals["MacMic"].score.mean)
    assert comparison.family == "2 groups (1 of them rivals)"


def _converged(evolve: Any) -> Any:
    """The same search, stopped by its rule."""

    def stopped(*words: Any, **more: Any) -> str:
        evolve(*words, **more)
        return f"{CONVERGED}: it stands still"

    return stopped
