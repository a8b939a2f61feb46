"""The page of the realism card: what it says, what it must never load, and cards with holes."""

from __future__ import annotations

import html
import json
import math
import re
from typing import Any

import plotly.graph_objects as go
import pytest

from se_rl.records.files import to_json
from se_rl.report.card_page import band, card_page, read_card

FACTS = ("tail index", "sign memory", "impact exponent", "decay")


def fact(name: str, *, value: float, ok: bool = True) -> dict[str, Any]:
    part = {"label": "exponent", "value": value, "se": 0.01, "low": -0.05, "high": 0.7, "ok": ok}
    return {
        "name": name,
        "value": value,
        "se": 0.01,
        "low": -0.05,
        "high": 0.7,
        "ok": ok,
        "parts": [part],
    }


@pytest.fixture
def card() -> dict[str, Any]:
    """Twelve facts, all in their bands, in the shape of `realism_card`."""
    facts = [fact(f"{name} {k}", value=0.531) for k in range(3) for name in FACTS]
    cells = [(m, o) for m in (1.0, 40.0) for o in ("market", -1, 0)]
    cost = {"cost_vs_twap": 0.12, "se": 0.01, "ticks": 0.5, "failed": 0}
    curves = {
        "shares": [0.001, 0.01, 0.02, 0.04, 0.06],
        "impact_ticks": [0.5, 4.0, 6.0, 8.0, 10.0],
        "impact_se": [0.1] * 5,
        "fit": {"exponent": 0.5, "level": 40.0, "from": 0.01, "to": 0.06},
        "path_ticks": [[1.0, 2.0, 1.5, 1.0]] * 5,
        "order_bars": 2,
        "pulse_ticks": [1.0, 0.5],
        "abs_lags": [1, 2],
        "abs_acf": [0.2, 0.1],
        "sign_lags": [10.0, 20.0],
        "sign_acf": [0.1, 0.07],
        "sign_se": [0.01, 0.01],
    }
    return {
        "facts": facts,
        "passed": 12,
        "tests": [{"name": "cash and shares are conserved", "ok": True, "detail": "largest sum 0"}],
        "grid": [
            {"participation": p, "multiple": m, "offset": o} | cost
            for p in (0.1, 0.25)
            for m, o in cells
        ],
        "state_rule": {
            "rule": "look & act",
            "narrow_ticks": 3.0,
            "rows": [{"participation": 0.05, "lots": 9} | cost],
        },
        "against": None,
        "scales": {
            "daily_sd_ticks": 100.0,
            "daily_volume_lots": 20_000.0,
            "spread_ticks": 4.2,
            "touch_lots": 4.0,
            "trade_lots": 1.0,
        },
        "curves": curves,
        "profile": {"makers": 1.0, "learning": 0.0003},
        "seed": 7,
        "effort": 0.1,
        "messages": 123_456_789,
        "seconds": 12.3,
    }


def figures(page: str) -> list[dict[str, Any]]:
    return [
        json.loads(html.unescape(text)) for text in re.findall(r'data-figure="(.*?)"></div>', page)
    ]


def test_the_page_says_what_the_card_says(card: dict[str, Any]) -> None:
    page = card_page(card)
    for words in (
        "12 of 12 facts",
        "impact exponent 0",
        "0.531",
        "−0.05 to 0.7",
        "123,456,789",
        "look &amp; act",
        "+12.0 %",
    ):
        assert words in page
    assert "0.0003" in page and "Beside" not in page


def test_every_figure_is_one_that_plotly_draws(card: dict[str, Any]) -> None:
    drawn = figures(card_page(card))
    assert len(drawn) == 6
    for figure in drawn:
        go.Figure(data=figure["data"], layout=figure["layout"])
    assert drawn[-1]["data"][0]["z"] == [[12.0] * 3] * 2


def test_nothing_is_loaded_from_outside(card: dict[str, Any]) -> None:
    text = re.sub(r"<script>.*?</script>", "", card_page(card), flags=re.DOTALL)
    assert not re.search(r"(src|href)\s*=", text) and "default-src 'none'" in text


def test_a_miss_and_a_failed_test_are_named(card: dict[str, Any]) -> None:
    card["facts"][2] = fact("impact exponent", value=1.1, ok=False)
    card["tests"].append({"name": "no random round trip pays", "ok": False, "detail": "+2.00"})
    card["passed"] = 11
    verdict = read_card(card)
    assert (
        verdict.state == "open"
        and "impact exponent" in verdict.meaning
        and "round trip" in verdict.meaning
    )
    page = card_page(card)
    assert "✗ impact exponent" in page and "✗ no random round trip pays" in page


@pytest.mark.parametrize(
    ("passed", "state"), [(12, "shown"), (11, "shown"), (8, "open"), (7, "worse")]
)
def test_the_verdict_has_three_states(card: dict[str, Any], passed: int, state: str) -> None:
    card["passed"] = passed
    assert read_card(card).state == state


def test_a_card_with_holes_read_back_from_json_still_makes_a_page(card: dict[str, Any]) -> None:
    card["facts"][0]["parts"][0]["value"] = math.nan
    card["grid"][0]["cost_vs_twap"] = math.nan
    card["curves"]["impact_ticks"][0] = card["curves"]["sign_acf"][0] = math.nan
    card["curves"]["path_ticks"] = [[math.nan] * 4] * 5
    card["state_rule"]["rows"][0]["cost_vs_twap"] = math.nan
    page = card_page(json.loads(to_json(card)))
    assert "NaN" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)


def test_a_real_market_stands_beside(card: dict[str, Any]) -> None:
    rows = [{"name": "spread, bps", "real": 5.764, "simulated": 5.9361}]
    card["against"] = {
        "name": "AMZN <day>",
        "bps_per_tick": 1.4,
        "rows": rows,
        "wasserstein": {"spread, bps": 1.553},
    }
    page = card_page(card)
    assert (
        "Beside AMZN &lt;day&gt;" in page
        and "5.764" in page
        and "5.936" in page
        and "1.553" in page
    )


def test_a_band_is_words() -> None:
    assert band({"low": -0.05, "high": 0.05}) == "−0.05 to 0.05"
