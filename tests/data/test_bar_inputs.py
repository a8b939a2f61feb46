"""Inputs that bars tell: against a plain loop, from the past alone, and what they are there for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_features import SCALES, SMALL, with_other_future

from se_rl.data.bar_inputs import BAR_INPUTS, PRESSURE_MINUTES, BarInputs, bar_inputs_of
from se_rl.data.features import CLIP, OBSERVATION_FIELDS, FeatureScales, Known
from se_rl.data.market_data import MarketData
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.modules.agent_interface import FURTHER_INPUTS, further_width, shown_bars


def table_of(data: MarketData, scales: FeatureScales) -> np.ndarray:
    """[symbol, session, bar + 1, input]."""
    made = bar_inputs_of(Known(data, scales))
    return made.reshape(*data.shape[:2], -1, len(BAR_INPUTS))


@settings(max_examples=30, deadline=None)
@given(day=st.integers(0, 4), bar=st.integers(0, 48), seed=st.integers(0, 10_000))
def test_no_input_moves_when_the_future_does(day: int, bar: int, seed: int) -> None:
    honest = table_of(SMALL, SCALES)
    other = table_of(with_other_future(SMALL, day, bar, seed), SCALES)
    np.testing.assert_array_equal(other[:, :day], honest[:, :day])
    np.testing.assert_array_equal(other[:, day, : bar + 1], honest[:, day, : bar + 1])


def test_pressures_are_those_of_a_plain_loop() -> None:
    known = Known(SMALL, SCALES)
    assert SMALL.volume is not None and SMALL.has_session.all()
    found = table_of(SMALL, SCALES)
    bar_minutes = SMALL.grid.bar_minutes
    day, last = 3, 30
    for place, minutes in enumerate(PRESSURE_MINUTES):
        decay = np.exp(-bar_minutes / max(minutes, bar_minutes))
        raw = np.zeros((len(SMALL.symbols), last + 1))
        for symbol in range(len(SMALL.symbols)):
            pressure, before = 0.0, SMALL.open[symbol, day, 0]
            for bar in range(last):
                close = SMALL.close[symbol, day, bar]
                usual = known.expected_day_volume[symbol, day, bar]
                usual *= known.scales.volume_share[bar]
                surprise = min((SMALL.volume[symbol, day, bar] + 1) / (usual + 1), 3.0)
                pressure = decay * pressure + surprise * np.log(close / before)
                before = close
                sd = known.sigma[symbol, day, bar + 1] / np.sqrt(1 - decay**2)
                raw[symbol, bar + 1] = np.clip(pressure / sd, -CLIP, CLIP)
        raw *= known.started[:, day, : last + 1]
        np.testing.assert_allclose(
            found[:, day, : last + 1, place], raw - raw.mean(axis=0), atol=2e-6
        )


def test_data_without_volume_counts_all_bars_alike() -> None:
    bare = replace(SMALL, volume=None, amount=None)
    found = table_of(bare, FeatureScales.fit(bare))
    assert np.isfinite(found).all() and found.std() > 0.3


def test_only_what_bars_tell_has_columns_and_each_its_place() -> None:
    names = ("drift", "pressure_60", "own_lots", "pressure_5")
    told = shown_bars(names, BarInputs(lambda: Known(SMALL, SCALES)))
    usual = len(OBSERVATION_FIELDS)
    assert told.width == further_width(names) == 8
    assert [list(BAR_INPUTS)[place] for place in told.columns] == ["pressure_60", "pressure_5"]
    assert told.places.tolist() == [usual + 1, usual + 7]
    assert [name for name, one in FURTHER_INPUTS.items() if one.of_bars] == list(BAR_INPUTS)


def test_nothing_is_computed_that_nobody_asks_for() -> None:
    def never() -> Known:
        raise AssertionError("nobody asked for it")

    assert shown_bars(("drift",), BarInputs(never)).width == 1
    with pytest.raises(AssertionError):
        shown_bars(("pressure_60",), BarInputs(never))


@pytest.mark.parametrize(("structure", "sure"), [(True, True), (False, False)])
def test_slow_pressure_is_given_back_in_synthetic_markets(structure: bool, sure: bool) -> None:
    config = SyntheticConfig(symbols=40, sessions=40, seed=5, predictable=structure)
    data = synthetic_market(config)
    slow = table_of(data, FeatureScales.fit(data))[..., PRESSURE_MINUTES.index(60)]
    now = np.arange(30, len(data.grid) - 60, 10)
    price = np.log(data.close)
    ahead = price[:, :, now + 59] - price[:, :, now - 1]
    ahead -= ahead.mean(axis=0)
    by_day = (slow[:, :, now] * ahead).mean(axis=(0, 2))
    t = by_day.mean() / (by_day.std(ddof=1) / np.sqrt(len(by_day)))
    assert (t < -6) == sure and t < 4
