"""Orders in groups: means and percentiles by hand, and what is left of orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from se_rl.data.calendar import session_grid
from se_rl.scoring.order_groups import inventory_band, order_groups


def columns() -> dict[str, Any]:
    return {
        "symbol": np.array(["A", "A", "B", "B"]),
        "date": np.array([1, 2, 1, 2]),
        "start": np.array([0, 150, 0, 150]),
        "side": np.array([1, -1, 1, -1]),
        "ours: PA": np.array([3.0, 1.0, 5.0, np.nan]),
        "TWAP: PA": np.array([1.0, 0.0, 1.0, 0.0]),
    }


def test_groups_have_the_gain_over_twap_of_their_own_orders() -> None:
    found = order_groups(columns(), "ours", twap="TWAP", grid=session_grid("XNYS"))
    by = {name: {group.name: group for group in groups} for name, groups in found.items()}
    assert {name: set(groups) for name, groups in by.items()} == {
        "side": {"buy", "sell"},
        "time of day": {"09:30", "12:00"},
        "symbol": {"A", "B"},
    }
    assert by["symbol"]["A"].over_TWAP == pytest.approx(1.5) and by["symbol"]["A"].orders == 2
    assert by["symbol"]["B"].orders == 1  # a void order counts nowhere
    assert pytest.approx((3.1, 3.5, 4.0, 4.5, 4.9)) == by["side"]["sell"].PA


def test_many_first_bars_are_put_together_by_the_hour() -> None:
    many = columns() | {"start": np.array([0, 31, 45, 89])}
    for name in many:
        many[name] = np.tile(many[name], 5)
    many["start"] = np.arange(20) * 10
    found = order_groups(many, "ours", twap="TWAP", grid=session_grid("XNYS"))
    assert [group.name for group in found["time of day"]] == ["09:00", "10:00", "11:00", "12:00"]


def test_a_band_holds_what_is_left() -> None:
    fills = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    band = inventory_band([fills, fills])
    assert band.steps == (1, 2, 3)
    assert band.left[2] == (0.75, 0.5, 0.0)  # the median of 0.5 and 1, of 0 and 1
    assert len(inventory_band([np.full((3, 240), 1 / 240)]).steps) <= 48
