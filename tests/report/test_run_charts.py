"""The charts of a run's page: the numbers they hold, and what they do without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from run_fixture import PER_ROUND, make_run

from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, Candidate, StoredStanding
from se_rl.records.iterations import IterationSummary
from se_rl.records.method_rows import SimulatedRow
from se_rl.report import evolution_chart, run_charts
from se_rl.report.replay_chart import replay
from se_rl.report.run_designs import Design, lineage, read_run


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("ended"))


def test_the_evolution_chart_holds_every_design(ended: Path) -> None:
    with Archive.open(ended / "archive.sqlite", read_only=True) as archive:
        run = read_run(archive, None)
    figure = evolution_chart.evolution(run.designs, run.best, run.iterations)
    traces = {trace["name"]: trace for trace in figure["data"]}
    shown = sorted(
        n
        for name in (*evolution_chart.MODULES, *evolution_chart.MARKS)
        for n in traces.get(name, {"x": []})["x"]
    )
    assert sorted(shown + traces["by hand, crossover"]["x"]) == list(range(1 + 3 * PER_ROUND))
    assert "shape: returned [8], wanted [B] &lt;b&gt;" in traces["not valid"]["text"][0]
    outlier = traces["network"]["x"].index(13)
    assert traces["network"]["marker"]["symbol"][outlier] == "square-open"
    assert "below the chart" in traces["network"]["text"][outlier]
    assert min(traces["network"]["y"]) == traces["network"]["y"][outlier] > run.designs[13].gain
    assert traces["held best"]["x"] == [0, 12, 24, 36]
    line = lineage(run.designs, run.best)
    assert line[0] == run.designs[0].candidate.id and line[-1] == run.best
    assert (
        len(traces["line of the best"]["x"]) == len(line) and f"{run.best}, +" in figure["summary"]
    )


def test_a_replay_is_in_shares_of_the_order_whatever_its_unit() -> None:
    order: dict[str, Any] = {
        "side": "buy",
        "minutes": [0, 1],
        "price": [10.0, 11.0],
        "fills": [300.0, 100.0],
        "inventory": [100.0, 0.0],
    }
    order |= {"twap_inventory": [200.0, 0.0], "fill_price": 10.25, "benchmark_price": 10.5}
    figure = replay(order)
    traces = {trace["name"]: trace for trace in figure["data"]}
    assert traces["our fills (area: size)"]["customdata"] == [75.0, 25.0]
    assert traces["we still hold"]["y"] == [25.0, 0.0] and traces["TWAP holds"]["y"] == [50.0, 0.0]
    assert figure["summary"].endswith(
        "executed at 10.2500 against 10.5000: +238.10 bps."
    )  # 1e4 * (1 - 10.25 / 10.5)


def test_a_replay_without_prices_shows_the_inventory() -> None:
    order = {
        "side": "sell",
        "minutes": [1, 2],
        "price": [0.0, 0.0],
        "fills": [0.5, 0.5],
        "inventory": [0.5, 0.0],
    }
    figure = replay(order | {"twap_inventory": [0.5, 0.0]})
    assert figure["summary"] == "A sell order over 2 minutes." and figure["data"][3]["y"] == [
        None,
        None,
    ]


def test_figures_without_numbers_are_drawn_without_them() -> None:
    shares, gains = run_charts.progress([IterationSummary(1)])
    assert shares["data"] == [] and gains["data"][0]["y"] == [None] and "–" in gains["summary"]
    assert run_charts.impact({"x1": {"TWAP": SimulatedRow()}})[0]["data"][0]["error_x"][
        "array"
    ] == [0.0]
    nothing = StoredStanding("abc", 0, 1, 0.0, 0.0, (0.0, 0.0), (0.0,), {})
    alone = [Design(0, Candidate("abc", {}, DEFAULT), "default", nothing)]
    go.Figure(evolution_chart.evolution(alone, "abc", [])["data"])
