"""The page that compares runs: what it says, and texts and holes that it must survive."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import plotly.graph_objects as go
import pytest
from run_fixture import HOSTILE
from test_comparison_table import compared
from test_run_page_browser import CHROMIUM, NEWS, Browser

from se_rl.records.results import Gain, LearningCurve
from se_rl.report.comparison_page import comparison_page
from se_rl.scoring.comparison import Comparison, GroupDifference, GroupResult


@pytest.fixture
def comparison() -> Comparison:
    curve = LearningCurve((10.0, 30.0), (1.0, 2.0), (0.5, 1.0))
    full = compared(f"a0 {HOSTILE}", "full", Gain(0.41, 0.1, (0.21, 0.61)))
    full = replace(full, gain_by_day=(0.5, -0.1, 0.8), learning=curve)
    return Comparison(
        runs=(full, compared("b0", "random", Gain())),
        groups=(
            GroupResult("full", 1, 0.3, (0.1, 0.5), (0.2, 0.4), 0.77, 0.0, 0.0, 0.0, accepted=1),
        ),
        tests=(GroupDifference("full", "random", 0.25, (-0.1, 0.6), 0.04),),
        by=("arm",),
        spa_p=0.03,
        sentence="full beats random by -0.25 bps",
        equal_budget=False,
    )


def test_it_says_what_the_terminal_says(comparison: Comparison) -> None:
    page = comparison_page(comparison)
    text = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())
    assert "full beats random by −0.25 bps" in text and "no fair test" in text
    assert "+0.41 [+0.21, +0.61]" in text and "full less random +0.25 [−0.10, +0.60] 0.040" in text
    assert "beats the default on the shared test days: 0.030" in text
    drawn = [json.loads(html.unescape(one)) for one in re.findall(r'data-figure="([^"]*)"', page)]
    forest, days, learning = drawn  # a run without numbers has no mark
    assert forest["data"][0]["x"] == [0.41] and days["data"][0]["y"] == [0.5, 0.4, 1.2]
    assert learning["data"][0]["y"] == [0.5, 1.0]
    for figure in drawn:
        go.Figure(data=figure["data"], layout=figure["layout"])


def test_nothing_is_drawn_of_nothing() -> None:
    page = comparison_page(Comparison(sentence="nothing to compare", spa_p=math.nan))
    assert "data-figure" not in page and "Differences between groups" not in page


def test_a_hostile_name_stays_text(comparison: Comparison, tmp_path: Path) -> None:
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium on this machine")
    page = tmp_path / "compare.html"
    page.write_text(comparison_page(comparison), encoding="utf-8")
    assert "<script>alert" not in page.read_text()
    with Browser(tmp_path / "profile") as tab:
        tab.open(page.as_uri(), width=390)
        assert tab.js("document.documentElement.scrollWidth") <= 390
        assert tab.js("charts.every(chart => chart.data.length)") and tab.asked() == {page.as_uri()}
        assert [m for m in tab.heard if m["method"] != NEWS[-1]] == []
