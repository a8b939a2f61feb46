"""The synthetic market: same seed, same bytes; sound bars; statistics of real markets; an edge only on demand."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.data import synthetic
from se_rl.data.market_data import DataError, MarketData
from se_rl.data.synthetic import UNIVERSES, SyntheticConfig, synthetic_market
from se_rl.data.synthetic_prices import print_bars

Floats = npt.NDArray[np.float64]
MEDIUM = SyntheticConfig(symbols=40, sessions=40, seed=7)
CHINA_TURNOVER = (20.4, 10.4, 7.8, 6.0, 5.2, 4.4, 4.0, 3.7, 5.2, 4.2, 4.1, 4.0, 4.1, 4.1, 5.0, 7.2)


@pytest.fixture(scope="module")
def medium() -> MarketData:
    return synthetic_market(MEDIUM)


@pytest.fixture(scope="module")
def martingale() -> MarketData:
    return synthetic_market(replace(MEDIUM, predictable=False))


def arrays(market: MarketData) -> dict[str, bytes]:
    return {
        f.name: value.tobytes()
        for f in fields(market)
        if isinstance(value := getattr(market, f.name), np.ndarray)
    }


def minute_returns(market: MarketData, *, minutes: int = 1) -> Floats:
    """Log returns inside sessions, each stock in units of its own one-minute standard deviation."""
    log_close = np.log(market.close)
    scale = np.sqrt((np.diff(log_close, axis=2) ** 2).mean(axis=(1, 2), keepdims=True))
    return np.diff(log_close[:, :, ::minutes], axis=2) / scale


def test_the_same_configuration_gives_the_same_bytes() -> None:
    config = SyntheticConfig(symbols=3, sessions=2, seed=5)
    first, again = arrays(synthetic_market(config)), arrays(synthetic_market(config))
    other = arrays(synthetic_market(replace(config, seed=6)))
    assert first == again
    assert len(first) == 12
    assert all(first[name] != other[name] for name in ("open", "close", "volume", "bid_sizes"))


def test_a_symbol_does_not_change_with_the_number_of_symbols() -> None:
    few, many = (synthetic_market(SyntheticConfig(symbols=n, sessions=2)) for n in (2, 5))
    assert arrays(few) == arrays(many.select(symbols=few.symbols))


@settings(max_examples=20, deadline=None)
@given(
    config=st.builds(
        SyntheticConfig,
        exchange=st.sampled_from(["XNYS", "XSHG"]),
        bar_minutes=st.sampled_from([1, 5, 15]),
        symbols=st.integers(1, 4),
        sessions=st.integers(1, 4),
        seed=st.integers(0, 2**40),
        predictable=st.booleans(),
    )
)
def test_every_market_is_sound(config: SyntheticConfig) -> None:
    market = synthetic_market(config, name="made up")
    day_minutes = {"XNYS": 390, "XSHG": 240}[config.exchange]
    assert market.shape == (config.symbols, config.sessions, day_minutes // config.bar_minutes)
    assert market.volume is not None and market.bid is not None and market.ask is not None
    assert market.bid_sizes is not None and market.ask_sizes is not None
    assert market.dates[0] == 20240102
    days = np.array(
        [f"{d // 10000}-{d // 100 % 100:02d}-{d % 100:02d}" for d in market.dates],
        dtype="datetime64[D]",
    )
    assert np.is_busday(days).all()
    assert market.traded[:, :, 0].all()
    assert np.array_equal(market.volume > 0, market.traded)
    paid = market.price[market.traded]
    assert np.all((market.low[market.traded] <= paid) & (paid <= market.high[market.traded]))
    assert np.all((market.low <= market.close) & (market.open <= market.high))
    flat = ~market.traded[:, :, 1:]
    for name in ("open", "high", "low", "close"):
        assert np.array_equal(getattr(market, name)[:, :, 1:][flat], market.close[:, :, :-1][flat])
    assert np.all(market.ask - market.bid > 0.01 - 1e-9)
    assert np.allclose((market.ask + market.bid) / 2, market.close)
    assert market.bid_sizes.shape == market.ask_sizes.shape == (*market.shape, 1)
    assert min(market.bid_sizes.min(), market.ask_sizes.min()) >= (
        1 if config.exchange == "XNYS" else 100
    )
    assert market.provenance.label == "made up (SYNTHETIC)"
    assert (
        f"seed {config.seed}, predictable structure {'on' if config.predictable else 'off'}"
        in market.provenance.notes[0]
    )


def test_longer_bars_are_the_minute_bars_put_together() -> None:
    minutes = synthetic_market(SyntheticConfig(symbols=6, sessions=3))
    bars = synthetic_market(SyntheticConfig(symbols=6, sessions=3, bar_minutes=15))
    assert (
        minutes.volume is not None
        and bars.volume is not None
        and minutes.bid is not None
        and bars.bid is not None
    )
    grouped = minutes.volume.reshape(*bars.shape, 15)
    assert np.allclose(grouped.sum(axis=3), bars.volume)
    printed = minutes.traded.reshape(*bars.shape, 15)
    assert np.array_equal(
        np.where(printed, minutes.high.reshape(printed.shape), 0.0).max(axis=3), bars.high
    )
    assert np.array_equal(
        np.where(printed, minutes.low.reshape(printed.shape), np.inf).min(axis=3), bars.low
    )
    assert np.array_equal(minutes.close[:, :, 14::15], bars.close)
    assert np.allclose(minutes.bid[:, :, 14::15], bars.bid)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("exchange", "XLON", "'XLON' has no synthetic market; use one of XNYS, XSHG"),
        ("bar_minutes", 7, "bar_minutes 7 does not divide 390"),
        ("bar_minutes", 0, "bar_minutes 0"),
        ("symbols", 0, "symbols is 0; use 1 or more"),
        ("sessions", 0, "sessions is 0; use 1 or more"),
        ("seed", -1, "seed is -1; use 0 or more"),
    ],
)
def test_a_bad_configuration_is_refused_in_one_line(field: str, value: Any, words: str) -> None:
    with pytest.raises(DataError, match=words) as refused:
        replace(SyntheticConfig(), **{field: value})
    assert "\n" not in str(refused.value)


def test_bars_may_not_straddle_the_lunch_break() -> None:
    with pytest.raises(DataError, match="does not divide 120 minutes"):
        SyntheticConfig(exchange="XSHG", bar_minutes=80)


def test_the_universes_have_a_hundred_names_on_their_own_exchange() -> None:
    assert {name: (c.exchange, c.symbols, c.predictable) for name, c in UNIVERSES.items()} == {
        "csi100": ("XSHG", 100, True),
        "csi100-fair": ("XSHG", 100, False),
        "nasdaq100": ("XNYS", 100, True),
        "nasdaq100-fair": ("XNYS", 100, False),
    }


def test_us_volume_and_volatility_are_u_shaped(medium: MarketData) -> None:
    assert medium.volume is not None
    share = (
        (medium.volume / medium.volume.sum(axis=2, keepdims=True))
        .mean(axis=(0, 1))
        .reshape(13, 30)
        .sum(axis=1)
    )
    assert 0.12 < share[0] < 0.18 and 0.14 < share[-1] < 0.22 and 0.04 < share[5:9].max() < 0.06
    wild = np.abs(np.diff(np.log(medium.close), axis=2)).mean(axis=(0, 1))
    assert wild[:30].mean() > 2.2 * wild[180:240].mean()
    assert wild[-15:].mean() > 1.15 * wild[180:240].mean()


def test_us_returns_have_the_size_tails_and_clustering_of_real_ones(medium: MarketData) -> None:
    returns_bps = 1e4 * np.diff(np.log(medium.close), axis=2)
    assert 9.0 < returns_bps.std() < 13.0
    assert 3.8 < np.median(np.abs(returns_bps)) < 5.0
    by_scale = [kurtosis(minute_returns(medium, minutes=k)) for k in (1, 5, 30)]
    assert 5 < by_scale[0] < 20 and by_scale[0] > by_scale[1] > by_scale[2] > 3
    returns = minute_returns(medium)
    assert 2.5 < hill(returns, top=0.02) < 4.5
    assert abs(autocorrelation(returns, lag=1)) < 0.05
    size = np.abs(returns) / np.abs(returns).mean(axis=(0, 1))
    size -= size.mean(axis=2, keepdims=True)
    lags = range(1, 51)
    memory = np.array([autocorrelation(size, lag=k) for k in lags])
    assert memory[0] > 0.08 and memory.min() > 0
    assert 0.2 < -np.polyfit(np.log(lags), np.log(memory), 1)[0] < 0.65


def test_big_moves_come_with_big_volume(medium: MarketData) -> None:
    assert medium.volume is not None
    both = medium.traded[:, :, 1:]
    size = np.log(
        np.abs(np.diff(np.log(medium.close), axis=2)), where=both, out=np.full(both.shape, np.nan)
    )
    volume = np.log(medium.volume[:, :, 1:], where=both, out=np.full(both.shape, np.nan))
    pair = [(x - np.nanmean(x, axis=1, keepdims=True))[both] for x in (size, volume)]
    assert 0.15 < np.corrcoef(pair)[0, 1] < 0.4


def test_thin_names_have_silent_minutes_and_liquid_ones_none(medium: MarketData) -> None:
    assert medium.amount is not None
    money = medium.amount.sum(axis=2).mean(axis=1)
    silent = 1 - medium.traded.mean(axis=(1, 2))
    order = np.argsort(money)
    assert silent[order[:3]].min() > 0.03 and silent[order[-15:]].max() < 1e-3
    assert 80e6 < np.quantile(money, 0.1) < 250e6 and 2e9 < np.quantile(money, 0.9) < 6e9


def test_cheap_names_are_tick_bound_and_others_a_few_bps_wide(medium: MarketData) -> None:
    assert medium.ask is not None and medium.bid is not None
    spread = medium.ask - medium.bid
    cheap, dear = medium.close < 15, medium.close > 60
    assert cheap.any() and np.allclose(spread[cheap].min(), 0.01)
    assert 2 < np.median((1e4 * spread / medium.close)[dear]) < 6


def test_china_has_its_own_day() -> None:
    market = synthetic_market(
        SyntheticConfig(exchange="XSHG", bar_minutes=15, symbols=60, sessions=60)
    )
    assert market.amount is not None
    share = 100 * (market.amount / market.amount.sum(axis=2, keepdims=True)).mean(axis=(0, 1))
    assert np.abs(share - CHINA_TURNOVER).max() < 1.0
    returns_bps = 1e4 * np.diff(np.log(market.close), axis=2)
    assert 42 < returns_bps.std() < 58
    lunch = np.abs(np.log(market.open[:, :, 8] / market.close[:, :, 7])).mean()
    other = np.abs(np.log(market.open[:, :, 9] / market.close[:, :, 8])).mean()
    overnight = np.abs(np.log(market.open[:, 1:, 0] / market.close[:, :-1, -1])).mean()
    assert overnight > 2 * lunch > 4 * other


def test_without_structure_each_minute_is_exactly_fair() -> None:
    """Over all signs of a minute's moves, the close and the average price paid come back to the price before it."""
    closes, paid = [], []
    for signs in product((-1.0, 1.0), repeat=synthetic.STEPS):
        bars = np.empty((6, 1, 1))
        move = np.array(signs) * np.linspace(0.001, 0.05, synthetic.STEPS)
        one = np.ones((1, 1))
        print_bars(bars, 100.0, 0.7, move[None, None], 2 * move[None, None], 30 * one, 0 * one, 1)
        closes.append(bars[3, 0, 0])
        paid.append(bars[5, 0, 0] / bars[4, 0, 0])
    assert np.std(closes) > 1
    assert np.mean(closes) == pytest.approx(100, abs=1e-10)
    assert np.mean(paid) == pytest.approx(100, abs=1e-10)


@pytest.mark.parametrize("past_minutes", [1, 5, 15, 30])
def test_specific_moves_revert_only_with_the_structure_on(
    medium: MarketData, martingale: MarketData, past_minutes: int
) -> None:
    on, off = (
        slope_t(specific(m), past_minutes=past_minutes, ahead=10) for m in (medium, martingale)
    )
    assert abs(off) < 4
    assert on < -6


@pytest.mark.parametrize("past_minutes", [1, 5, 15, 30])
def test_the_market_itself_never_reverts(medium: MarketData, past_minutes: int) -> None:
    market = minute_returns(medium).mean(axis=0, keepdims=True)
    assert abs(slope_t(market, past_minutes=past_minutes, ahead=10)) < 4


def specific(market: MarketData) -> Floats:
    returns = minute_returns(market)
    return returns - returns.mean(axis=0)


def slope_t(returns: Floats, *, past_minutes: int, ahead: int) -> float:
    """t value, by days, of the covariance of the last minutes' return with the next minutes' return."""
    total = np.concatenate([np.zeros((*returns.shape[:2], 1)), returns.cumsum(axis=2)], axis=2)
    now = np.arange(past_minutes, returns.shape[2] - ahead)
    past = total[:, :, now] - total[:, :, now - past_minutes]
    future = total[:, :, now + ahead] - total[:, :, now]
    by_day = (past * future).mean(axis=(0, 2))
    return float(by_day.mean() / (by_day.std(ddof=1) / np.sqrt(len(by_day))))


def kurtosis(returns: Floats) -> float:
    return float((returns**4).mean() / (returns**2).mean() ** 2)


def hill(returns: Floats, *, top: float) -> float:
    size = np.sort(np.abs(returns), axis=None)
    tail = size[-int(top * size.size) :]
    return float(1 / np.log(tail / tail[0]).mean())


def autocorrelation(values: Floats, *, lag: int) -> float:
    return float((values[:, :, lag:] * values[:, :, :-lag]).mean() / (values**2).mean())
