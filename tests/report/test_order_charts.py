"""The charts of orders: groups, inventories, and one simulated order in its book."""

from __future__ import annotations

from dataclasses import replace

import pytest
from run_fixture import order_details, simulated_order

from se_rl.records.order_details import OrderDetails, SimulatedReplay
from se_rl.records.plain import from_plain
from se_rl.report import order_charts


@pytest.fixture
def replay() -> SimulatedReplay:
    return from_plain(SimulatedReplay, simulated_order("abc"))


def test_orders_are_drawn_by_group_and_a_single_group_is_not() -> None:
    drawn = order_charts.order_charts(from_plain(OrderDetails, order_details()))
    titles = {chart["title"]: chart for chart in drawn}
    assert set(titles) == {"Orders by side", "Orders by symbol", f"Inventory, {drawn_method()}"}
    gains = titles["Orders by side"]["data"][-1]
    assert gains["x"] == [1.0, 1.0] and gains["error_x"]["array"] == pytest.approx([0.8, 0.8])
    symbols = titles["Orders by symbol"]
    assert symbols["data"][-1]["x"] == sorted(symbols["data"][-1]["x"])
    assert not symbols["layout"]["yaxis"]["showticklabels"]
    assert all("<script>" not in text for text in symbols["data"][-1]["text"])
    assert order_charts.order_charts(OrderDetails()) == []


def drawn_method() -> str:
    return str(order_details()["method"])


def test_an_inventory_begins_whole_and_its_bands_lie_in_each_other() -> None:
    drawn = order_charts.order_charts(from_plain(OrderDetails, order_details()))
    band = next(chart for chart in drawn if chart["title"].startswith("Inventory"))
    low, high, lower, upper, middle, twap = (trace["y"] for trace in band["data"])
    assert low == [100.0, 20.0, 0.0] and middle == [100.0, 40.0, 0.0] and twap == [100.0, 50.0, 0.0]
    for rows in zip(low, lower, middle, upper, high, strict=True):
        assert list(rows) == sorted(rows)


def test_impact_is_against_the_order_and_told_after_its_end(replay: SimulatedReplay) -> None:
    assert replay.impact == (0.0, 1.0, 5.0, 3.0)  # a sell order: the mid is lower than it would be
    assert replace(replay, side="buy").impact == (0.0, -1.0, -5.0, -3.0)
    book, impact = order_charts.simulated_order(replay)
    assert "5.0 bps at most, 5.0 at the order's end and 3.0 1 steps later" in impact["summary"]
    assert "50 % filled by its own limit orders" in book["summary"]


def test_the_heat_map_has_every_level_at_its_price(replay: SimulatedReplay) -> None:
    heat = order_charts.simulated_order(replay)[0]["data"][0]
    assert heat["y"] == [-6.0, -4.0, -2.0, 0.0, 2.0, 4.0]  # ticks of 2 bps
    at = dict(zip(heat["y"], heat["z"], strict=True))
    assert at[-2.0][0] < 0 < at[2.0][0] and at[0.0] == [None] * 4  # bids below, offers above
    assert order_charts.simulated_order(SimulatedReplay()) == []
