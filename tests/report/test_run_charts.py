"""The charts of a run's page: the numbers they hold, and what they do without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from run_fixture import BEST, OURS, PER_ROUND, make_run, results

from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, Candidate, StoredStanding
from se_rl.records.iterations import IterationSummary
from se_rl.records.method_rows import SimulatedRow
from se_rl.records.plain import from_plain
from se_rl.records.results import RunResults
from se_rl.report import evolution_chart, run_charts, run_days, run_edits
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
    held = traces["held best, as scored then"]
    assert held["x"] == [0, 12, 24, 36] and held["y"] == [0.0, 0.06, 0.21, 0.41]
    assert held["text"][2].endswith("+0.21 [+0.06, +0.36] bps then")
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
    assert shares["data"] == [] and gains["data"] == [] and "–" in gains["summary"]
    assert run_charts.impact({"x1": {"TWAP": SimulatedRow()}})[0]["data"][0]["error_x"][
        "array"
    ] == [0.0]
    nothing = StoredStanding("abc", 0, 1, 0.0, 0.0, (0.0, 0.0), (0.0,), {})
    alone = [Design(0, Candidate("abc", {}, DEFAULT), "default", nothing)]
    go.Figure(evolution_chart.evolution(alone, "abc", [])["data"])


def test_what_edits_gained_is_read_where_both_stand(ended: Path) -> None:
    with Archive.open(ended / "archive.sqlite", read_only=True) as archive:
        run = read_run(archive, None)
    rows = run_edits.edit_rows(run.designs)
    assert [row.design.number for row in rows] == list(range(3 * PER_ROUND, 0, -1))
    best = next(row for row in rows if row.design.number == BEST)
    assert best.design.rung == 2 and best.gain == pytest.approx(0.3)  # rung 1: (1.2 - 0.6) / 2
    assert best.ci95 == pytest.approx((0.3 - 1.96 * 0.07, 0.3 + 1.96 * 0.07))
    dots, means = run_edits.edit_gains(rows)[0]["data"]
    scored = [row for row in rows if row.design.state == "scored"]
    assert len(dots["x"]) == len(scored) and len(means["x"]) < len(scored)
    assert run_edits.edit_gains([]) == []


def test_every_scored_design_has_its_parts(ended: Path) -> None:
    with Archive.open(ended / "archive.sqlite", read_only=True) as archive:
        run = read_run(archive, None)
    table = run_edits.part_table(run.designs)
    assert list(table.names) == ["specific", "risk", "small tick, 1-3 %"]
    assert table.rows[0].design.number == BEST
    specific = table.rows[0].cells[0]
    assert specific.value == pytest.approx(0.6) and specific.tint < 1.0  # one very bad design
    assert specific.ci95 == pytest.approx((0.6 - 0.098, 0.6 + 0.098))
    assert len(table.rows) == sum(design.standing is not None for design in run.designs)


def test_gains_of_days_are_over_twap_and_add_up() -> None:
    summed, single = run_days.day_gains(from_plain(RunResults, results("abc")))
    assert [trace["name"] for trace in summed["data"]] == [OURS, "PPO strong"]
    assert summed["data"][0]["y"] == [1.0, 0.5, 1.5] and single["data"][0]["y"] == [1.0, -0.5, 1.0]
    assert "ahead of TWAP on 2 of 3 days; its worst is 2024-03-12" in single["summary"]
    assert run_days.day_gains(RunResults()) == []


def test_all_learning_curves_lie_over_each_other(ended: Path) -> None:
    with Archive.open(ended / "archive.sqlite", read_only=True) as archive:
        run = read_run(archive, None)
        chart = run_days.all_curves(run)[0]
    numbers = {number for trace in chart["data"] for number in trace["customdata"]}
    assert numbers == {d.number for d in run.designs if d.state in ("scored", "default")}
    best = next(trace for trace in chart["data"] if trace["name"] == "best design")
    assert [x for x in best["x"] if x is not None] == [60.0, 117.0] * 3  # a curve for every rung


def test_the_weights_of_the_worlds_are_drawn_with_what_moves_them(ended: Path) -> None:
    with Archive.open(ended / "archive.sqlite", read_only=True) as archive:
        run = read_run(archive, None)
        rows = run_days.training_rows(run, run.best)
    [chart] = run_charts.world_weights(rows)
    lines = {trace["name"]: trace for trace in chart["data"]}
    alpha = lines["alpha: history"]
    beta = lines["beta: simulated"]
    assert len(alpha["x"]) == len(rows) and alpha["y"][0] == 0.5
    assert [a + b for a, b in zip(alpha["y"], beta["y"], strict=True)] == [1.0] * len(rows)
    share = lines["history's share of the losses"]
    assert share["x"][0] == 72.0 and share["y"] == pytest.approx([2 / 3] * 16)
    assert "until the joint phase begins, at 72.00 work units" in chart["summary"]
    assert "ends at alpha 0.56 and beta 0.44" in chart["summary"]
    alone = [row for row in rows if row["phase"] == "static"]
    assert run_charts.world_weights(alone) == []
    assert len(run_charts.training(alone)) == 1
