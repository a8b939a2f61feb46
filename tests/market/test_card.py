"""The card at small effort: complete, honest, repeatable, and beside a real book."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from se_rl.data.books import read_lobster
from se_rl.data.market_data import DataError
from se_rl.data.readers import read_bars
from se_rl.market.against import against
from se_rl.market.card import realism_card
from se_rl.market.card_tests import no_free_trip
from se_rl.market.evidence import Evidence, gather
from se_rl.market.impact import RoundTrips, Start
from se_rl.market.profile import MarketProfile
from se_rl.market.trials import MULTIPLES, OFFSETS, TWAP, both_ways, compare, constant, execute
from se_rl.records.files import to_json

EFFORT = 0.02


@pytest.fixture(scope="module")
def card() -> dict[str, Any]:
    said: list[str] = []
    made = realism_card(seed=11, effort=EFFORT, say=said.append).as_dict()
    assert len(said) >= 4
    return made


@pytest.fixture(scope="module")
def sample() -> Evidence:
    return gather(MarketProfile(), seed=12, effort=EFFORT).evidence


def test_the_card_has_its_parts(card: dict[str, Any]) -> None:
    names = [fact["name"] for fact in card["facts"]]
    assert len(set(names)) == 12 and "impact exponent" in names
    assert card["passed"] == sum(fact["ok"] for fact in card["facts"])
    assert {(row["multiple"], row["offset"]) for row in card["grid"]} == {
        (m, o) for m in MULTIPLES for o in OFFSETS
    }
    assert card["against"] is None and card["messages"] > 10**7
    json.loads(to_json(card))


def test_the_default_market_is_realistic_even_at_small_effort(card: dict[str, Any]) -> None:
    """Loose: most facts, and an exponent far from the linear law; the full card is for `effort` 1."""
    assert card["passed"] >= 7
    exponent = next(fact for fact in card["facts"] if fact["name"] == "impact exponent")
    assert 0.35 < exponent["value"] < 0.85 and 0 < exponent["se"] < 0.2


@pytest.mark.parametrize(
    "words",
    ["size 0", "conserved", "crossed", "round trip", "bleed", "filled whole", "worth using"],
)
def test_exact_tests_pass(card: dict[str, Any], words: str) -> None:
    test = next(test for test in card["tests"] if words in test["name"])
    assert test["ok"], test["detail"]


def test_the_cell_that_is_twap_costs_what_twap_costs(card: dict[str, Any]) -> None:
    same = [row for row in card["grid"] if (row["multiple"], row["offset"]) == (1.0, "market")]
    assert len(same) == 2 and all(row["cost_vs_twap"] == 0.0 for row in same)
    at_once = [
        row for row in card["grid"] if (row["multiple"], row["offset"]) == (MULTIPLES[-1], "market")
    ]
    assert all(row["cost_vs_twap"] > 0.1 for row in at_once)


def test_same_seed_same_facts() -> None:
    first, second = (gather(MarketProfile(), seed=4, effort=0.01).evidence for _ in range(2))
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))
    other = gather(MarketProfile(), seed=5, effort=0.01).evidence
    assert not np.array_equal(first.mid, other.mid)


def test_a_profitable_round_trip_fails_the_card() -> None:
    shape = np.tile([[8, 1], [1, 8], [0, 0]], (40, 1))
    noise = np.random.default_rng(0).normal(size=120)
    for level, ok in ((-3.0, True), (3.0, False)):
        trips = RoundTrips(level + noise, shape, np.ones(120, bool), 0)
        assert no_free_trip(trips).ok is ok
    hidden = (
        np.where(shape[:, 0] == 8, 5.0, -9.0) + noise
    )  # one kind pays although the mean does not
    assert not no_free_trip(RoundTrips(hidden, shape, np.ones(120, bool), 0)).ok


def test_orders_that_stay_open_are_failures_not_savings() -> None:
    start = Start(32, MarketProfile(), seed=6)
    stuck = execute(start, constant(1.0, "market"), lots=100_000, sign=np.ones(32, np.int64))
    assert not stuck.kept.any()
    row = compare(stuck, both_ways(start, TWAP, lots=100))
    assert np.isnan(row.cost_vs_twap) and row.failed == 32


def test_passive_orders_pay_less_than_taking_the_same_slices() -> None:
    start = Start(48, MarketProfile(), seed=7)
    lots = 120
    row = compare(both_ways(start, constant(1.0, 0), lots=lots), both_ways(start, TWAP, lots=lots))
    assert row.cost_vs_twap < -2 * row.se and row.failed <= 2


@pytest.mark.parametrize("effort", [0.0, -1.0, float("nan"), 1000.0])
def test_effort_must_make_sense(effort: float) -> None:
    with pytest.raises(DataError, match="effort"):
        realism_card(effort=effort)
    with pytest.raises(DataError, match="seed"):
        realism_card(seed=-1)


def test_beside_a_real_book(sample: Evidence, shared_data: Path) -> None:
    found = against(sample, read_lobster(shared_data / "lobster_AMZN_20120621_L5_messages.parquet"))
    rows = {row.name: row for row in found.rows}
    assert rows["spread, bps"].real == pytest.approx(5.76, abs=0.05)
    assert 1.5 < rows["spread, bps"].simulated < 12
    assert rows["sign autocorrelation near lag 13"].real > 0.03
    assert 0 < found.wasserstein["standardised returns"] < 0.5


def test_beside_real_bars(
    sample: Evidence, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars = read_bars(shared_data / "us_minute_2022.parquet")
    found = against(sample, bars)
    names = [row.name for row in found.rows]
    assert (
        "kurtosis, 1 bar" in names
        and "spread, bps" not in names
        and list(found.wasserstein) == ["standardised returns"]
    )
    monkeypatch.setattr("se_rl.market.against.LEAST_RETURNS", 10**9)
    with pytest.raises(DataError, match="returns"):
        against(sample, bars)
