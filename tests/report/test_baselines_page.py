"""The page of baselines: what it says, what it must never load, and data it must survive."""

from __future__ import annotations

import copy
import html
import json
import math
import re
import subprocess
import sys
from typing import Any

import plotly.graph_objects as go
import pytest

from se_rl.records.files import to_json
from se_rl.report.baselines_page import baselines_page, command_line, read_verdict
from se_rl.report.numbers import p_value
from se_rl.report.page import packed_plotly
from se_rl.report.page_numbers import excludes_zero, interval, signed

DATES = [20250226, 20250227, 20250228]
DAYS = {
    "TWAP": [0.5, -0.25, 1.0],
    "VWAP": [0.5, -0.25, 1.0],
    "Almgren-Chriss": [0.5, -0.25, 1.0],
    "XS ridge": [1.5, -0.75, 2.0],
    "foresight bound": [90.0, 110.0, 100.0],
}


def estimate(mean: float, half: float) -> dict[str, Any]:
    return {
        "mean": mean,
        "se": half / 2,
        "ci95": [mean - half, mean + half],
        "detectable": 1.4 * half,
    }


def summary(pa: float, half: float) -> dict[str, Any]:
    metrics = {
        "PA": pa,
        "PA_std": 26.601,
        "WR": 0.5297,
        "GLR": math.nan if pa > 50 else 0.946,
        "AFI": 0.0215,
    }
    return metrics | {
        "PA_vs_twap": pa,
        "PA_vs_arrival": pa + 0.1,
        "PA_vs_vwap": pa,
        "ci95": [pa - half, pa + half],
    }


def method(over: float, half: float, *, common: float = 0.0) -> dict[str, Any]:
    row = summary(over, half) | {"PA_gross": over, "capture": over / 100.0}
    row["by_side"] = {"buy": summary(over + 2.0, half), "sell": summary(over - 2.0, half)}
    row["over_TWAP"], row["over_TWAP_common"] = estimate(over, half), estimate(common, half / 2)
    row["over_TWAP_specific"] = estimate(over - common, half)
    row["over_TWAP_full_bars"] = estimate(over / 2, half) | {"orders": 622}
    return row


@pytest.fixture
def results() -> dict[str, Any]:
    """A small table in the shape of `run_baselines`, with a ridge that is not told from TWAP."""
    rows = {name: method(0.0, 0.0) for name in ("TWAP", "VWAP", "Almgren-Chriss")}
    rows |= {"XS ridge": method(0.5, 1.2, common=-0.1), "foresight bound": method(100.0, 20.0)}
    path = {"buy": [0.75, 0.5, 0.0], "sell": [0.5, 0.25, 0.0]}
    data = {
        "name": "us_minute_2025",
        "synthetic": False,
        "sha256": "fa8d015c",
        "split": "test",
        "bars_missing": 0.0845,
    }
    config = {
        "data": "bars/us minute.parquet",
        "split": "test",
        "horizon": 3,
        "start": 0,
        "benchmark": "vwap",
    }
    config |= {
        "quantity": 10_000.0,
        "half_spread_bps": 0.0,
        "fee_bps": 0.0,
        "max_participation": None,
        "urgency": 2.0,
    }
    return {
        "orders": 1584,
        "symbols": 99,
        "days": 3,
        "horizon": 3,
        "data": data | {"first_date": DATES[0], "last_date": DATES[-1]},
        "benchmark": "vwap",
        "costs": {"half_spread_bps": 0.0, "fee_bps": 0.0, "cap": None},
        "methods": rows,
        "spa": {
            "policies": ["VWAP", "Almgren-Chriss", "XS ridge"],
            "over": "TWAP",
            "p_value": 0.168,
        },
        "ridge_fitted_on": ["us_minute_2018"],
        "checks": [{"name": "TWAP is TWAP", "ok": True, "detail": "off by 5e-11 bps"}],
        "notes": ["prices are unadjusted"],
        "config": config | {"seed": 0},
        "by_day": {"dates": DATES} | copy.deepcopy(DAYS),
        "paths": dict.fromkeys(rows, path),
    }


def drop(results: dict[str, Any], *names: str) -> dict[str, Any]:
    """The same table without some methods."""
    for name in names:
        for part in ("methods", "by_day", "paths"):
            del results[part][name]
    results["spa"]["policies"] = [name for name in results["spa"]["policies"] if name not in names]
    return results


def body(page: str) -> str:
    """The page without its inlined library."""
    return re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)


def words(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body(page))).split())


def figures(page: str) -> list[dict[str, Any]]:
    return [json.loads(html.unescape(text)) for text in re.findall(r'data-figure="([^"]*)"', page)]


def test_page_loads_nothing_from_elsewhere(results: dict[str, Any]) -> None:
    page = baselines_page(results)
    assert not re.search(r"<(script|img|iframe|link)\b[^>]*\b(src|href)=", page)
    assert not re.search(r"@import|url\(\s*['\"]?(https?:)?//", page)
    assert "http" not in body(page).replace("http-equiv", "")
    assert "default-src 'none'" in page
    assert page.count(packed_plotly()) == 1


def test_verdict_and_every_method_are_there(results: dict[str, Any]) -> None:
    text = words(baselines_page(results))
    assert "Not shown: XS ridge +0.50 bps over TWAP, 95 % interval [−0.70, +1.70]" in text
    assert "The interval contains 0" in text and "about 1.68 bps or more" in text
    assert all(
        part in text
        for part in ("SPA p 0.168", "days 3", "orders 1,584", "detectable effect 1.68 bps")
    )
    page = baselines_page(results)
    assert all(f'<th scope="row">{name}' in page for name in results["methods"])
    assert "foresight bound not a policy" in text
    assert "On the 622 orders" in text and "+0.25 bps over TWAP [−0.95, +1.45]" in text


def test_row_shows_every_metric(results: dict[str, Any]) -> None:
    row = re.search(
        r"XS ridge (\+0\.50 .*?) foresight bound",
        words(baselines_page(results)).split("capture %")[1],
    )
    assert row is not None
    shown = "+0.50 [−0.70, +1.70] +0.50 [−0.70, +1.70] +0.60 [−0.60, +1.80] −0.10 [−0.70, +0.50] +2.50 −1.50"
    assert row[1] == f"{shown} 26.6 53.0 0.95 2.1 +0.50 +0.60 0.5"


def test_undefined_figures_are_dashes(results: dict[str, Any]) -> None:
    text = words(baselines_page(results))
    assert "26.6 53.0 – 2.1 +100.00" in text
    assert "nan" not in text.lower().replace("finan", "")


@pytest.mark.parametrize("place", ["name", "note", "config", "check"])
def test_hostile_text_is_escaped(results: dict[str, Any], place: str) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x>"
    results["data"]["name"] = evil if place == "name" else "fine"
    results["notes"] = [evil] if place == "note" else []
    results["config"]["data"] = evil if place == "config" else "fine"
    results["checks"][0]["detail"] = evil if place == "check" else "fine"
    page = baselines_page(results)
    assert "alert(1)" in page
    assert "<script>alert" not in page and "<img" not in body(page)


def test_hostile_method_name_cannot_leave_its_chart(results: dict[str, Any]) -> None:
    evil = '"></div><script>alert(1)</script>'
    for part in ("methods", "by_day", "paths"):
        results[part][evil] = results[part].pop("XS ridge")
    page = baselines_page(results)
    assert "<script>alert" not in page
    assert figures(page)[0]["layout"]["yaxis"]["ticktext"][-1] == evil


def test_synthetic_banner_only_where_due(results: dict[str, Any]) -> None:
    assert "SYNTHETIC" not in baselines_page(results)
    results["data"]["synthetic"] = True
    page = baselines_page(results)
    assert '<p class="banner" role="alert">SYNTHETIC DATA' in page
    assert "only whether the structure put into them was found" in page


def test_in_sample_and_failed_checks_are_loud(results: dict[str, Any]) -> None:
    assert 'role="alert"' not in baselines_page(results)
    results["data"]["split"], results["checks"][0]["ok"] = "all", False
    page = baselines_page(results)
    assert (
        "IN-SAMPLE" in page
        and "SELF-CHECKS FAILED (1)" in page
        and "Self-checks: 0 of 1 passed" in page
    )


def test_without_ridge_and_volume(results: dict[str, Any]) -> None:
    drop(results, "XS ridge", "VWAP")["ridge_fitted_on"] = []
    results["spa"]["p_value"] = 1.0
    page = baselines_page(results)
    text = words(page)
    assert "Nothing beats TWAP: Almgren-Chriss 0.00 bps over TWAP" in text
    assert "Not drawn, being 0.00 bps from TWAP every day: Almgren-Chriss." in text
    assert "fitted on nothing" in text
    assert len(figures(page)) == 3


def test_single_day_has_no_interval(results: dict[str, Any]) -> None:
    results["days"], results["spa"]["p_value"] = 1, math.nan
    results["by_day"] = {name: values[:1] for name, values in results["by_day"].items()}
    for row in results["methods"].values():
        for part in (
            row,
            *row["by_side"].values(),
            row["over_TWAP"],
            row["over_TWAP_common"],
            row["over_TWAP_specific"],
        ):
            part |= {"ci95": [math.nan, math.nan], "se": math.nan, "detectable": math.nan}
        del row["over_TWAP_full_bars"]
    page = baselines_page(results)
    text = words(page)
    assert "Not shown: XS ridge +0.50 bps over TWAP, 95 % interval –" in text
    assert "One day gives no interval" in text and "SPA p –" in text
    assert figures(page)[0]["data"][0]["error_x"]["array"] == [0.0, 0.0, 0.0]
    assert baselines_page(json.loads(to_json(results))) == page


def test_same_page_from_json(results: dict[str, Any]) -> None:
    assert baselines_page(json.loads(to_json(results))) == baselines_page(results)


@pytest.mark.parametrize(
    ("over", "half", "p", "state", "said"),
    [
        (0.5, 1.0, 0.2, "open", "contains 0"),
        (0.5, 0.4, 0.2, "open", "best of 3 methods"),
        (0.5, 0.4, 0.01, "shown", "excludes 0"),
        (7.0, 1.0, 0.001, "shown", "leak"),
        (-0.5, 0.2, 0.9, "worse", "below 0"),
    ],
)
def test_verdict_follows_interval_and_choice(
    results: dict[str, Any], over: float, half: float, p: float, state: str, said: str
) -> None:
    results["methods"]["XS ridge"], results["spa"]["p_value"] = method(over, half), p
    if over < 0:
        drop(results, "VWAP", "Almgren-Chriss")
    verdict = read_verdict(results)
    assert (verdict.state, verdict.method) == (state, "XS ridge")
    assert said in verdict.meaning


def test_market_timing_is_called_luck(results: dict[str, Any]) -> None:
    assert "pure luck" not in read_verdict(results).meaning
    results["methods"]["XS ridge"] = method(0.5, 1.0, common=0.4)
    assert "pure luck" in read_verdict(results).meaning


def test_charts_hold_the_numbers(results: dict[str, Any]) -> None:
    forest, daily, buy, sell = figures(baselines_page(results))
    assert forest["layout"]["yaxis"]["ticktext"][-1] == "XS ridge" and "bound" not in json.dumps(
        forest
    )
    assert [trace["name"] for trace in forest["data"]] == ["total", "specific", "common"]
    assert forest["data"][0]["x"][-1] == 0.5 and forest["data"][0]["error_x"]["array"][
        -1
    ] == pytest.approx(1.2)
    bars, running = daily["data"]
    assert bars["x"] == ["2025-02-26", "2025-02-27", "2025-02-28"]
    assert bars["y"] == [1.0, -0.5, 1.0]
    assert running["y"] == pytest.approx([1.0, 0.25, 0.5])
    assert [trace["name"] for trace in buy["data"]] == [
        "TWAP",
        "VWAP",
        "Almgren-Chriss",
        "XS ridge",
    ]
    assert (
        buy["data"][3]["customdata"] == [1.0, 0.75, 0.5, 0.0]
        and sell["data"][3]["customdata"][1] == 0.5
    )


def test_charts_are_valid_plotly(results: dict[str, Any]) -> None:
    for figure in figures(baselines_page(results)):
        go.Figure(
            data=figure["data"], layout=figure["layout"]
        )  # raises for an attribute that plotly does not know


def test_command_line_reproduces_the_settings(results: dict[str, Any]) -> None:
    command = command_line(results["config"] | {"fee_bps": 0.5, "urgency": 0.0})
    assert command == (
        "se-rl baselines --data 'bars/us minute.parquet' --split test --horizon 3 --benchmark vwap --quantity 10000"
        " --fee-bps 0.5 --urgency 0 --html baselines.html"
    )
    assert html.escape(command_line(results["config"]), quote=False).replace(
        "'", "&#39;"
    ) in baselines_page(results)


def test_figures_are_written_for_people() -> None:
    assert (signed(0.001), signed(-0.001), signed(-1.5), signed(1.5), signed(None)) == (
        "0.00",
        "0.00",
        "−1.50",
        "+1.50",
        "–",
    )
    assert (interval([-1.0, 2.0]), interval([None, 1.0]), interval([math.nan, 1.0])) == (
        "[−1.00, +2.00]",
        "–",
        "–",
    )
    assert (p_value(0.0), p_value(0.0314), p_value(math.nan)) == ("< 0.001", "0.031", "–")
    assert excludes_zero([0.1, 0.2]) and excludes_zero([-0.2, -0.1])
    unclear: list[list[float | None]] = [
        [-0.1, 0.1],
        [1e-15, 1e-14],
        [math.nan, math.nan],
        [None, None],
    ]
    assert not any(excludes_zero(bounds) for bounds in unclear)


def test_importing_the_page_stays_light() -> None:
    code = "import sys, se_rl.report.baselines_page; print({'pandas', 'torch', 'plotly', 'numpy'} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )
