"""Limits in halves of a bar's volatility: one distance in markets of unlike ticks."""

from __future__ import annotations

import numpy as np
import pytest

from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.limit_units import LEAST_UNIT_TICKS, LimitUnit
from se_rl.market.family import LARGE_TICK, SMALL_TICK, free_kinds
from se_rl.rl.training_worlds import mixed_markets
from se_rl.scoring.execution import ConstantSchedule


def started(limit_unit: LimitUnit) -> DynamicWorld:
    """The same orders in markets of small and of large ticks."""
    world = DynamicWorld(
        kinds=free_kinds((SMALL_TICK, LARGE_TICK)),
        horizon=5,
        takes_price=True,
        limit_unit=limit_unit,
        bank=32,
    )
    world.reset(world.bank.episodes(np.arange(32), horizon=5))
    return world


def away_ticks(world: DynamicWorld, offset: float) -> np.ndarray:
    """How far limits lie from the own touch, in ticks, positive on the passive side."""
    core = world.core
    limit = core.limits(np.full(len(core.orders), offset))
    return core.orders.side * (limit - core.touch()) / core.books.tick_currency()


def test_offsets_in_ticks_are_ticks() -> None:
    assert away_ticks(started("ticks"), 3.0) == pytest.approx(3.0, abs=1e-6)
    assert away_ticks(started("ticks"), -1.4) == pytest.approx(-1.0, abs=1e-6)


def test_offsets_by_volatility_are_half_of_it_in_whole_ticks() -> None:
    world = started("volatility")
    core = world.core
    move = core.books.per_order(core._view.volatility) * core.arrival
    half = 0.5 * move / core.books.tick_currency()
    assert half.min() < LEAST_UNIT_TICKS < half.max()  # large ticks, small ticks
    for offset in (-3.0, 0.0, 2.0, 4.0):
        away = away_ticks(world, offset)
        assert away == pytest.approx(np.rint(offset * np.maximum(half, LEAST_UNIT_TICKS)), abs=1e-6)
        assert away == pytest.approx(np.rint(away), abs=1e-6)


def test_one_offset_is_many_small_ticks_and_few_large_ones() -> None:
    world = started("volatility")
    small = world.core.orders.kind == 0
    away = away_ticks(world, 4.0)
    assert away[small].min() > 2.0 * away[~small].max()


def test_no_offset_is_no_limit() -> None:
    world = started("volatility")
    assert np.isnan(world.core.limits(np.full(len(world.core.orders), np.nan))).all()


def test_designs_are_trained_and_scored_in_markets_that_measure_by_volatility() -> None:
    world = mixed_markets(None, free_kinds(), scales=None, horizon=5, takes_price=True, bank=4)
    assert world.limit_unit == "volatility"
    words = ConstantSchedule(2.0, 1.0).words(takes_price=True, unit=world.limit_unit)
    assert words == "2x the TWAP slice, limit +1 half volatilities from the touch"
