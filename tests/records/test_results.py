"""results.json: what is written is read back, older files are read too, and what cannot be read is one line."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from se_rl.config import ConfigError
from se_rl.records.method_rows import MethodRow, SimulatedRow
from se_rl.records.results import OURS, DataFacts, FinalistRow, FinalMetrics, Gain, RunResults
from se_rl.records.results_file import NoResults, read_results, write_results

RESULTS = RunResults(
    final_metrics=FinalMetrics(PA=1.2, over_default=Gain(0.4, 0.1)),
    best="abc",
    baselines={OURS: MethodRow(PA=1.2, GLR=math.inf, over_TWAP_by_seed=(0.1, math.nan))},
    dynamic={"x1": {OURS: SimulatedRow(saved_bps=3.0, schedule="2x")}},
    finalists=(FinalistRow("abc", 0.5, by_seed=(0.4, 0.6)),),
    data=DataFacts("mine", test_days=3),
    by_day={"dates": (20240102, 20240103), OURS: (0.5, -0.5)},
    config={"seed": 7, "seeds": [1, 2]},
)


def raw(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_results(path, RESULTS)
    found = read_results(path)
    assert raw(path)["schema_version"] == 1 and raw(path)["by_day"]["dates"] == [20240102, 20240103]
    assert raw(path)["baselines"][OURS]["GLR"] is None, "JSON knows no infinity"
    assert found.by_day == RESULTS.by_day and found.config == RESULTS.config
    assert found.finalist("abc") is not None and found.finalist("other") is None
    assert found.data.days == {"test": 3} and not found.final_metrics.over_default.has_interval
    again = tmp_path / "again.json"
    write_results(again, found)
    assert raw(again) == raw(path), "reading loses nothing"


def test_a_file_without_a_version_is_the_first(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_results(path, RESULTS)
    older = raw(path)
    del older["schema_version"]
    path.write_text(json.dumps(older))
    assert read_results(path).best == "abc"


@pytest.mark.parametrize("version", [2, 0, "one", None])
def test_another_version_is_refused_in_one_line(version: Any, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_results(path, replace(RESULTS, schema_version=version))
    path.write_text(json.dumps(raw(path) | {"schema_version": version}))
    with pytest.raises(
        ConfigError, match=f"has schema_version {version!r}, and this se-rl reads 1; use"
    ):
        read_results(path)


def test_lost_and_damaged_files_can_be_made_again(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with pytest.raises(NoResults, match=r"has no results\.json: the run has not finished"):
        read_results(path)
    path.write_text("{")
    with pytest.raises(NoResults, match="is damaged; run the same"):
        read_results(path)
    write_results(path, RESULTS)
    path.write_text(json.dumps(raw(path) | {"best": 3}))
    with pytest.raises(NoResults, match=r"is damaged \(best is 3, not str\)"):
        read_results(path)
    path.write_text('{"methods": {}}')
    with pytest.raises(ConfigError, match="holds no results of a run"):
        read_results(path)
