"""The table of demos: every run is in it, and what other commands wrote stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from se_rl_benchmarks import demo_table, search_results
from se_rl_benchmarks.demo_table import DemoRow, page

WON = DemoRow(1, "ab", "7f2f66", "network trunk: a -> b", 0.3, (0.1, 0.5), 0.6, 0.0, 0.2, 18, 5.0)
KEPT = DemoRow(0, "cd", "default", "none", 0.0, (0.0, 0.0), 0.0, 0.0, 0.0, 18, 4.0)


def test_a_kept_default_is_no_win() -> None:
    told = page([KEPT, WON], "nasdaq100")
    assert "1 of 2 champions are ahead" in told
    assert (
        "| 1 | +0.30 [0.10, 0.50] | +0.60 | +0.00 | +0.20 | 5.0 | network trunk: a -> b |" in told
    )


def test_both_commands_keep_what_the_other_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = iter([WON, KEPT])
    monkeypatch.setattr(demo_table, "row_of", lambda _: next(rows))
    first = demo_table.RunResults()
    monkeypatch.setattr(demo_table, "read_results", lambda _: first)
    search_results.keep_set(tmp_path / "search.json", "here", {"arms": {}})
    assert demo_table.main(["a", "b", "--out", str(tmp_path)]) == 0
    search_results.keep_set(tmp_path / "search.json", "there", {"arms": {}})
    told = json.loads((tmp_path / "search.json").read_text())
    assert set(told["sets"]) == {"here", "there"}
    assert told["demo"]["wins"] == 1 and told["demo"]["over_default"] == [0.0, 0.3]
