"""Features see the past only, and mean what their names say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.data.features import (
    OBSERVATION_FIELDS,
    PUBLIC_FIELDS,
    FeatureScales,
    Known,
    demean_over_symbols,
    observation_table,
)
from se_rl.data.market_data import MarketData
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.ridge import RidgeRecipe, ridge_features

SMALL = synthetic_market(
    SyntheticConfig(exchange="XSHG", bar_minutes=5, symbols=4, sessions=5, seed=3)
)
SCALES = FeatureScales.fit(SMALL)


def with_other_future(data: MarketData, day: int, bar: int, seed: int) -> MarketData:
    """The same data up to bar `bar` (exclusive) of `day`; everything later is drawn anew, gaps in trading included."""
    rng = np.random.default_rng(seed)
    later = np.zeros(data.shape, np.bool_)
    later[:, day, bar:] = True
    later[:, day + 1 :] = True
    changed = {}
    level = data.close[:, :1, :1] * np.exp(rng.normal(0, 0.05, data.shape))
    changed["open"] = np.where(later, level, data.open)
    changed["close"] = np.where(later, level * np.exp(rng.normal(0, 0.01, data.shape)), data.close)
    top, bottom = (
        np.maximum(changed["open"], changed["close"]),
        np.minimum(changed["open"], changed["close"]),
    )
    changed["high"], changed["low"] = (
        np.where(later, top * 1.01, data.high),
        np.where(later, bottom * 0.99, data.low),
    )
    volume = rng.integers(0, 10_000, data.shape).astype(float)
    changed["volume"] = np.where(later, volume, data.volume)
    changed["amount"] = np.where(later, volume * changed["close"], data.amount)
    changed["bid"], changed["ask"] = (
        np.where(later, level * 0.98, data.bid),
        np.where(later, level * 1.02, data.ask),
    )
    wide = later[..., None]
    changed["bid_sizes"] = np.where(wide, 7.0, data.bid_sizes)
    changed["ask_sizes"] = np.where(wide, 3.0, data.ask_sizes)
    return replace(data, **changed)


@settings(max_examples=40, deadline=None)
@given(day=st.integers(0, 4), bar=st.integers(0, 48), seed=st.integers(0, 10_000))
def test_no_observation_moves_when_the_future_does(day: int, bar: int, seed: int) -> None:
    honest = observation_table(SMALL, SCALES).reshape(*SMALL.shape[:2], -1, len(PUBLIC_FIELDS))
    other = observation_table(with_other_future(SMALL, day, bar, seed), SCALES).reshape(
        honest.shape
    )
    np.testing.assert_array_equal(other[:, :day], honest[:, :day])
    np.testing.assert_array_equal(other[:, day, : bar + 1], honest[:, day, : bar + 1])


@settings(max_examples=30, deadline=None)
@given(day=st.integers(0, 4), bar=st.integers(1, 48), seed=st.integers(0, 10_000))
def test_no_ridge_feature_moves_when_the_future_does(day: int, bar: int, seed: int) -> None:
    recipe = RidgeRecipe.for_bars(15)
    honest = ridge_features(SMALL, SCALES, recipe)
    other = ridge_features(with_other_future(SMALL, day, bar, seed), SCALES, recipe)
    np.testing.assert_array_equal(other[:, :, :day], honest[:, :, :day])
    np.testing.assert_array_equal(other[:, :, day, : bar + 1], honest[:, :, day, : bar + 1])


def test_the_causality_test_can_fail() -> None:
    recipe = RidgeRecipe.for_bars(15)
    honest = ridge_features(SMALL, SCALES, recipe, shift=-1)
    other = ridge_features(with_other_future(SMALL, 2, 20, 1), SCALES, recipe, shift=-1)
    assert not np.array_equal(other[:, :, 2, :21], honest[:, :, 2, :21])


def test_there_are_32_fields_and_the_private_ones_come_last() -> None:
    assert len(OBSERVATION_FIELDS) == len(set(OBSERVATION_FIELDS)) == 32
    assert OBSERVATION_FIELDS[-2:] == ("time_left", "inventory_left")


def test_returns_sigma_and_range_match_a_plain_loop() -> None:
    known = Known(SMALL, SCALES)
    symbol, day, t = 1, 3, 17
    closes, opening = SMALL.close[symbol], SMALL.open[symbol]
    path = np.log(np.concatenate([[opening[day, 0]], closes[day]]))
    squares = np.diff(path)[:t] ** 2
    history = np.mean(
        [np.mean(np.diff(np.log(np.r_[opening[d, 0], closes[d]])) ** 2) for d in range(3)]
    )
    prior = 60 / 5
    sigma = np.sqrt((prior * history + squares.sum()) / (prior + t))
    assert known.sigma[symbol, day, t] == pytest.approx(sigma)
    assert known.scaled_return(6)[symbol, day, t] == pytest.approx(
        (path[t] - path[t - 6]) / (sigma * np.sqrt(6))
    )
    top, bottom = (
        np.log(SMALL.high[symbol, day, t - 4 : t].max()),
        np.log(SMALL.low[symbol, day, t - 4 : t].min()),
    )
    assert known.range_position(4)[symbol, day, t] == pytest.approx(
        2 * (path[t] - bottom) / (top - bottom) - 1
    )
    assert known.volume_known[symbol, day, t] == pytest.approx(SMALL.volume[symbol, day, :t].sum())


def test_minutes_before_the_first_print_are_missing() -> None:
    traded = SMALL.traded.copy()
    traded[0, 2, :10] = False
    prices = {name: getattr(SMALL, name).copy() for name in ("open", "high", "low", "close")}
    for values in prices.values():
        values[0, 2, :10] = SMALL.open[0, 2, 10]
    data = replace(SMALL, traded=traded, amount=None, **prices)
    table = observation_table(data, SCALES).reshape(*data.shape[:2], -1, len(PUBLIC_FIELDS))
    unknown = [i for i, name in enumerate(PUBLIC_FIELDS) if name != "time_of_day"]
    assert not table[0, 2, :11, unknown].any()
    assert table[0, 2, 12, unknown].any()


def test_specific_returns_sum_to_zero_over_symbols_and_skip_absent_sessions() -> None:
    values = np.random.default_rng(0).normal(size=(4, 3, 5))
    has = np.ones((4, 3), np.bool_)
    has[0, 1] = False
    result = demean_over_symbols(values, has)
    np.testing.assert_allclose(result.sum(axis=0), 0, atol=1e-12)
    assert not result[0, 1].any()
    np.testing.assert_allclose(result[1:, 1], values[1:, 1] - values[1:, 1].mean(axis=0))


def test_scales_of_unknown_symbols_are_the_median_and_other_grids_are_refused() -> None:
    other = replace(SMALL, symbols=("SYN000", "NEW", "SYN002", "SYN003"))
    scales = SCALES.of(other)
    assert scales.variance[1] == np.median(SCALES.variance)
    assert scales.variance[2] == SCALES.variance[2]
    short = synthetic_market(
        SyntheticConfig(exchange="XSHG", bar_minutes=15, symbols=2, sessions=1)
    )
    with pytest.raises(ValueError, match="48 bars a session, the data has 16"):
        SCALES.of(short)


def test_data_without_volume_and_quotes_gives_zeros_there_and_nothing_else_changes() -> None:
    bare = replace(
        SMALL, volume=None, amount=None, bid=None, ask=None, bid_sizes=None, ask_sizes=None
    )
    table, full = observation_table(bare, FeatureScales.fit(bare)), observation_table(SMALL, SCALES)
    position = {name: i for i, name in enumerate(PUBLIC_FIELDS)}
    for name in ("spread", "bid_size_1", "imbalance", "volume_1"):
        assert not table[..., position[name]].any()
        assert full[..., position[name]].any()
    np.testing.assert_array_equal(table[..., position["return_5"]], full[..., position["return_5"]])
