"""Scores are paired, split into common and specific parts, and blocked where a self-check fails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from se_rl.baselines import schedules
from se_rl.data.market_data import DataError
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.costs import Costs
from se_rl.environments.static_core import StaticCore, ratios_from_weights
from se_rl.environments.task import order_pairs
from se_rl.scoring.checks import (
    Check,
    CheckError,
    bound_checks,
    collapse_check,
    identity_checks,
    no_edge_check,
    require,
)
from se_rl.scoring.order_scores import Panel, Score

DATA = synthetic_market(
    SyntheticConfig(exchange="XSHG", bar_minutes=15, symbols=6, sessions=12, seed=2)
)
ORDERS = order_pairs(DATA, 8)
PANEL = Panel.of(DATA, ORDERS)
CORE = StaticCore(DATA)


def score(name: str, weights: np.ndarray, **costs: float) -> Score:
    charged = Costs(half_spread_bps=costs.get("half", 0.0), fee_bps=costs.get("fee", 0.0))
    core = StaticCore(DATA, costs=charged)
    return Score(name, PANEL, core.execute(ORDERS, ratios_from_weights(weights)))


TWAP = score("TWAP", schedules.twap(ORDERS))
CHRISS = score("AC", schedules.almgren_chriss(ORDERS))
BOUND = score("bound", schedules.foresight(ORDERS, PANEL.price))


def test_twap_is_zero_against_twap_and_schedules_cancel_over_sides() -> None:
    assert np.abs(TWAP.pa("twap")).max() < 1e-9
    assert abs(CHRISS.pa().mean()) < 1e-9
    row = CHRISS.row(TWAP, bound=BOUND)
    assert row["by_side"]["buy"]["PA"] == pytest.approx(-row["by_side"]["sell"]["PA"])


def test_a_common_schedule_is_all_common_and_a_private_one_all_specific() -> None:
    row = CHRISS.row(TWAP)
    assert abs(row["over_TWAP_specific"]["mean"]) < 1e-9
    rng = np.random.default_rng(0)
    weights = schedules.twap(ORDERS)
    half = len(ORDERS) // 2
    weights[:half] = rng.dirichlet(np.ones(8), half)
    private = score("private", weights)
    total = private.pa(gross=True) - TWAP.pa(gross=True)
    split = private.row(TWAP)
    assert split["over_TWAP"]["mean"] == pytest.approx(total.mean())
    assert split["over_TWAP_common"]["mean"] + split["over_TWAP_specific"]["mean"] == pytest.approx(
        total.mean()
    )


def test_costs_lower_net_but_not_gross_and_leave_pairs_unchanged() -> None:
    paid = {"half": 2.0, "fee": 1.0}
    twap, chriss = (
        score("TWAP", schedules.twap(ORDERS), **paid),
        score("AC", schedules.almgren_chriss(ORDERS), **paid),
    )
    np.testing.assert_allclose(twap.pa(gross=True), TWAP.pa(), atol=1e-9)
    assert twap.pa("twap").mean() == pytest.approx(-3.0, abs=1e-6)
    assert chriss.row(twap)["over_TWAP"]["mean"] == pytest.approx(0.0, abs=0.01)


def test_foresight_beats_any_schedule_on_every_order() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        weights = rng.dirichlet(np.full(8, 0.2), len(ORDERS))
        assert (BOUND.pa("twap") >= score("any", weights).pa("twap") - 1e-9).all()


def test_honest_scores_pass_every_check() -> None:
    require(
        identity_checks([TWAP, CHRISS, BOUND], twap=TWAP, side_blind=[TWAP, CHRISS], capped=False)
    )
    require(bound_checks([TWAP, CHRISS], BOUND))
    require([collapse_check(TWAP)])


def test_each_check_can_fail() -> None:
    moved = Score(
        "moved",
        PANEL,
        replace(TWAP.record, gross_price=TWAP.record.gross_price * (1 + 1e-4 * ORDERS.side)),
    )
    failed = [
        c.name
        for c in identity_checks([moved], twap=moved, side_blind=[moved], capped=False)
        if not c.ok
    ]
    assert failed == [
        "TWAP against the TWAP benchmark without costs",
        "moved: buy and sell mirror each other",
    ]
    cheat = Score(
        "cheat",
        PANEL,
        replace(BOUND.record, gross_price=BOUND.record.gross_price * (1 + 0.01 * ORDERS.side)),
    )
    assert not bound_checks([cheat], BOUND)[0].ok
    assert not no_edge_check("edge", BOUND, TWAP).ok
    lazy = Score("lazy", PANEL, CORE.execute(ORDERS, np.zeros((len(ORDERS), 8))))
    assert not collapse_check(lazy).ok
    with pytest.raises(CheckError, match="no table is shown: a: b"):
        require([Check("a", False, "b")])


def test_vwap_without_volume_is_refused_and_other_benchmarks_work() -> None:
    bare = replace(DATA, volume=None, amount=None)
    with pytest.raises(DataError, match="no volume"):
        Panel.of(bare, ORDERS)
    assert Panel.of(bare, ORDERS, benchmark="twap").benchmarks.vwap is None
    with pytest.raises(DataError, match="benchmark 'close' is unknown"):
        Panel.of(DATA, ORDERS, benchmark="close")
