"""The table of baselines: its shape, its behaviour on worlds with and without an edge, and the known check values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from se_rl.baselines import task as task_module
from se_rl.baselines.fitting import fit_on_train
from se_rl.baselines.self_checks import mirrored
from se_rl.baselines.settings import BaselinesConfig
from se_rl.baselines.table import run_baselines
from se_rl.data.catalog import DataSet
from se_rl.data.features import FeatureScales
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.ridge import RidgeRecipe, XSRidge
from se_rl.environments.task import order_pairs
from se_rl.scoring.checks import CheckError

MEDIUM = SyntheticConfig(exchange="XSHG", symbols=40, sessions=30, seed=11)


@pytest.fixture(scope="module")
def on() -> DataSet:
    return DataSet(synthetic_market(MEDIUM))


@pytest.fixture(scope="module")
def results(on: DataSet) -> dict:
    return run_on(on, BaselinesConfig(horizon="session"))


def run_on(dataset: DataSet, config: BaselinesConfig) -> dict:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_module, "load_dataset", lambda _, **__: dataset)
        return run_baselines(config)


def test_symbols_and_days_are_those_that_were_executed() -> None:
    """Also where there are more days before than features look back to."""
    dataset = DataSet(
        synthetic_market(SyntheticConfig(exchange="XSHG", symbols=6, sessions=80, seed=2))
    )
    found = run_on(dataset, BaselinesConfig(horizon="session", split="test"))
    days = dataset.dates("test").tolist()
    assert found["symbols"] == 6 and found["days"] == len(days)
    assert found["by_day"]["dates"] == days
    assert (found["data"]["first_date"], found["data"]["last_date"]) == (days[0], days[-1])


def test_shape_of_the_results(results: dict) -> None:
    assert list(results["methods"]) == [
        "TWAP",
        "VWAP",
        "Almgren-Chriss",
        "XS ridge",
        "XS ridge (gentle)",
        "foresight bound",
    ]
    assert results["orders"] == 2 * 40 * results["days"]
    row = results["methods"]["XS ridge"]
    assert {
        "PA",
        "PA_std",
        "WR",
        "GLR",
        "AFI",
        "PA_vs_twap",
        "PA_vs_arrival",
        "ci95",
        "by_side",
    } <= set(row)
    assert set(row["by_side"]) == {"buy", "sell"}
    assert {"PA", "PA_std", "WR", "GLR", "AFI", "ci95"} <= set(row["by_side"]["buy"])
    assert results["data"]["synthetic"] is True
    assert all(check["ok"] for check in results["checks"])
    names = " ".join(check["name"] for check in results["checks"])
    for word in ("TWAP benchmark", "mirror", "foresight", "random", "shuffled", "delayed", "leak"):
        assert word in names
    assert results["config"]["horizon"] == "session"


def test_twap_is_zero_and_nothing_beats_the_bound(results: dict) -> None:
    assert abs(results["methods"]["TWAP"]["PA_vs_twap"]) < 1e-9
    bound = results["methods"]["foresight bound"]["PA"]
    assert all(row["PA"] <= bound for row in results["methods"].values())


def test_ridge_finds_planted_structure_and_nothing_where_there_is_none(results: dict) -> None:
    planted = results["methods"]["XS ridge"]["over_TWAP_specific"]
    assert planted["mean"] > 2 * planted["se"]
    fair = DataSet(synthetic_market(replace(MEDIUM, predictable=False)))
    none = run_on(fair, BaselinesConfig(horizon="session"))["methods"]["XS ridge"]["over_TWAP"]
    assert abs(none["mean"]) < 2 * none["se"]


def test_costs_and_caps_reach_the_table(on: DataSet) -> None:
    costly = run_on(
        on,
        BaselinesConfig(
            horizon=24, half_spread_bps=2.0, fee_bps=1.0, max_participation=0.001, quantity=1e6
        ),
    )
    twap = costly["methods"]["TWAP"]
    assert twap["AFI"] > 0.1
    assert twap["PA"] < -2.5 < -0.5 < twap["PA_gross"] + 1
    paid = {"half_spread_bps": 2.0, "fee_bps": 1.0, "cap": 0.001, "fill_model": "price_taker"}
    assert costly["costs"] == paid
    assert any(note.startswith("costs on history: half-spread 2 bps") for note in costly["notes"])


def test_a_broken_policy_blocks_the_table(on: DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    original = XSRidge.schedule
    monkeypatch.setattr(
        XSRidge,
        "schedule",
        lambda self, o, z, **kw: original(self, o, z, **kw) * (1 + 1e-3 * o.side[:, None]),
    )
    monkeypatch.setattr(task_module, "ratios_from_weights", lambda weights: np.clip(weights, 0, 1))
    with pytest.raises(CheckError, match="no table is shown"):
        run_on(on, BaselinesConfig(horizon="session"))


def test_small_sets_leave_methods_out_and_say_so() -> None:
    few = DataSet(synthetic_market(SyntheticConfig(symbols=2, sessions=6, seed=1)))
    found = run_on(few, BaselinesConfig(horizon=60, split="all"))
    assert "XS ridge" not in found["methods"]
    assert any("XS ridge is left out: it needs 5 symbols" in note for note in found["notes"])
    single = DataSet(synthetic_market(SyntheticConfig(symbols=2, sessions=1, seed=1)))
    found = run_on(single, BaselinesConfig(horizon=60, split="all"))
    assert list(found["methods"]) == ["TWAP", "Almgren-Chriss", "foresight bound"]
    assert any("no train days" in note for note in found["notes"])


def test_data_without_volume_is_scored_against_twap_only(on: DataSet) -> None:
    bare = DataSet(replace(on.data, volume=None, amount=None))
    found = run_on(bare, BaselinesConfig(horizon=24, benchmark="twap"))
    assert "VWAP" not in found["methods"]
    assert "PA_vs_vwap" not in found["methods"]["TWAP"]
    assert "XS ridge" in found["methods"]


def test_mirroring_turns_every_rise_into_a_fall(on: DataSet) -> None:
    data = replace(on.data, amount=None)
    flipped = np.diff(np.log(mirrored(data).close), axis=2)
    np.testing.assert_allclose(flipped, -np.diff(np.log(data.close), axis=2), atol=1e-12)


def test_ridge_schedules_are_feasible_and_tilt_the_right_way(on: DataSet) -> None:
    train = on.split("train")
    ridge = XSRidge.fit([(train, FeatureScales.fit(train))])
    orders = order_pairs(on.data, 24)
    rising = np.zeros(on.data.shape)
    rising[..., :12] = (
        1.0  # the price is expected to rise after each of the first bars: buy now, sell later
    )
    weights = ridge.schedule(orders, rising)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert weights.min() >= -1e-12 and weights.max() <= 3 / 24 + 1e-12
    first = order_pairs(on.data, 24).start == 0
    buys, sells = weights[first & (orders.side < 0)], weights[first & (orders.side > 0)]
    assert buys[:, :12].sum(axis=1).min() > 0.85 > 0.15 > sells[:, :12].sum(axis=1).max()


def test_recipes_follow_the_bar_length() -> None:
    assert RidgeRecipe.for_bars(1).lags[-1] == 60
    assert RidgeRecipe.for_bars(5).last_hour is None
    assert RidgeRecipe.for_bars(15).last_hour == 4


CHECK_VALUES = {  # over TWAP in bps, as published in the research that defined the recipe
    ("us_minute_2018", 240): 0.82,
    ("us_minute_2025", 240): 0.49,
    ("us_minute_2026", 240): 0.73,
    ("cn_15min_2025", "session"): 1.65,
}


UNTIL = {
    "us_minute_2018": ("2018-03-13", "2018-03-21"),
    "us_minute_2025": ("2025-02-05", "2025-02-18"),
    "us_minute_2026": ("2000-01-01", "2000-01-01"),  # test days only
    "cn_15min_2025": ("2025-08-07", "2025-10-23"),
}


@pytest.mark.parametrize(("name", "horizon"), CHECK_VALUES)
def test_check_values_are_reproduced_on_real_sets(shared_data, name: str, horizon) -> None:
    both = {"us_minute_2018": "2018-03-13", "us_minute_2025": "2025-02-05"}
    others = {other: day for other, day in both.items() if name != other and "us_" in name}
    config = BaselinesConfig(
        data=str(shared_data / f"{name}.parquet"),
        horizon=horizon,
        split="test",
        train_until=UNTIL[name][0],
        valid_until=UNTIL[name][1],
        fit_on=tuple(f"{shared_data / other}.parquet@{day}" for other, day in others.items()),
    )
    found = run_baselines(config)
    ridge = found["methods"]["XS ridge"]["over_TWAP"]["mean"]
    assert ridge == pytest.approx(CHECK_VALUES[name, horizon], abs=0.3)
    assert abs(found["methods"]["TWAP"]["PA_vs_twap"]) < 1e-9


def test_fitting_uses_train_days_only(on: DataSet) -> None:
    changed = on.data.close.copy()
    test_days = np.isin(on.data.dates, on.dates("test"))
    changed[:, test_days] = on.data.low[:, test_days]
    other = DataSet(replace(on.data, close=changed))
    one, two = fit_on_train(on).ridge, fit_on_train(other).ridge
    np.testing.assert_array_equal(one.weights, two.weights)
