"""Sealed days of a synthetic market: train days never move, later ones follow from the seal alone."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt
import pytest

from se_rl.data import catalog
from se_rl.data.catalog import PRACTICE, DataSet, load_dataset
from se_rl.data.market_data import MarketData
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.data.synthetic_draws import SealedDays

FIRST = 12
CONFIG = SyntheticConfig(symbols=12, sessions=20, seed=3)
Floats = npt.NDArray[np.float64]


def sealed(seal: str, config: SyntheticConfig = CONFIG) -> MarketData:
    return synthetic_market(config, sealed=SealedDays(FIRST, seal, (config.sessions - FIRST,)))


def same(one: MarketData, two: MarketData, days: slice) -> list[bool]:
    """Whether each array of bars is the same, to the last bit, on these days."""
    found = []
    for field in fields(MarketData):
        value = getattr(one, field.name)
        if isinstance(value, np.ndarray) and value.ndim >= 3:
            other = getattr(two, field.name)
            found.append(value[:, days].tobytes() == other[:, days].tobytes())
    assert len(found) > 8
    return found


@pytest.mark.parametrize("predictable", [True, False])
@pytest.mark.parametrize("exchange", ["XNYS", "XSHG"])
def test_train_days_do_not_depend_on_the_seal_and_later_ones_on_nothing_else(
    exchange: str, predictable: bool
) -> None:
    config = replace(CONFIG, symbols=3, exchange=exchange, predictable=predictable)
    public, one, again, other = (
        synthetic_market(config),
        *(sealed(seal, config) for seal in ("one", "one", "other")),
    )
    train, later = slice(0, FIRST), slice(FIRST, None)
    assert all(same(public, one, train)) and all(same(public, other, train))
    assert all(same(one, again, later))
    for market in (public, other):
        close = one.close[:, later] != market.close[:, later]
        assert close.mean() > 0.99, "each bar of each later day is another draw"
        assert one.volume is not None and market.volume is not None
        assert (one.volume[:, later] != market.volume[:, later]).mean() > 0.8
    assert one.provenance.notes[-1].startswith(f"days from session {FIRST + 1} on follow from seal")
    assert "one" not in one.provenance.notes[-1].split()


def test_a_sealed_symbol_does_not_change_with_the_number_of_symbols() -> None:
    few = sealed("s", replace(CONFIG, symbols=2))
    assert all(same(few, sealed("s").select(symbols=few.symbols), slice(None)))


def minute_returns(market: MarketData, days: slice) -> Floats:
    return np.diff(np.log(market.close[:, days]), axis=2)


def test_prices_and_volatility_carry_over_and_statistics_stay() -> None:
    days = slice(FIRST, None)
    public = synthetic_market(CONFIG)
    # A night's move is the largest of a day: a market that began anew would miss by far more.
    gap = np.log(sealed("a").open[:, FIRST, 0] / public.close[:, FIRST - 1, -1])
    usual = np.log(public.open[:, 1:FIRST, 0] / public.close[:, : FIRST - 1, -1])
    assert np.abs(gap).max() < 2.5 * np.abs(usual).max()
    figures = []
    for seal in ("a", "b", "c", "d"):
        market = sealed(seal)
        moves = minute_returns(market, days)
        assert market.volume is not None and public.volume is not None
        volume = market.volume[:, days].mean(axis=(1, 2))
        figures.append((moves.std(), (volume / public.volume.mean(axis=(1, 2))).mean()))
    spread = np.array(figures)
    assert np.all(np.abs(spread[:, 0] / minute_returns(public, slice(None)).std() - 1.0) < 0.35)
    assert np.all(np.abs(spread[:, 1] - 1.0) < 0.3)


def test_draws_of_two_seals_have_nothing_in_common() -> None:
    days = slice(FIRST, None)
    one, two = (minute_returns(sealed(seal), days) for seal in ("a", "b"))
    apart = np.corrcoef(one.mean(axis=0).ravel(), two.mean(axis=0).ravel())[0, 1]
    assert abs(apart) < 4.0 / np.sqrt(one[0].size)


def test_a_universe_by_name_is_sealed_after_its_train_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog.UNIVERSES, "small", replace(CONFIG, symbols=2, bar_minutes=30))
    public, one = load_dataset("small"), load_dataset("small", seal="one")
    assert PRACTICE in public.data.provenance.notes and PRACTICE not in one.data.provenance.notes

    def equal(split: str) -> bool:
        parts = (DataSet(s.data).split(split).close for s in (public, one))
        return bool(np.array_equal(*parts))

    assert equal("train") and not equal("valid") and not equal("test")
    gap = int(np.flatnonzero(one.data.dates == one.dates("train")[-1])[0]) + 1
    assert not np.array_equal(public.data.close[:, gap], one.data.close[:, gap])


def test_a_block_of_sealed_days_does_not_depend_on_what_comes_after_it() -> None:
    config = replace(CONFIG, symbols=2)
    one, two = (
        synthetic_market(config, sealed=SealedDays(FIRST, "s", blocks))
        for blocks in ((5,), (5, 30))
    )
    assert len(two.dates) == FIRST + 35 > config.sessions
    assert all(same(one, two, slice(0, FIRST + 5)))
    assert all(same(synthetic_market(config), two, slice(0, FIRST)))


def test_a_universe_has_as_many_scored_days_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(CONFIG, symbols=2, bar_minutes=30, scored_days=40)
    monkeypatch.setitem(catalog.UNIVERSES, "small", config)
    whole = load_dataset("small", seal="one")
    closed = load_dataset("small", seal="one", with_test=False)
    few = load_dataset("small", seal="one", scored_days=3)
    for dataset, days in ((whole, 40), (closed, 40), (few, 3)):
        counts = [len(dataset.dates(split)) for split in ("train", "valid", "test")]
        assert counts == [FIRST, days, days]
    assert whole.data.provenance.sha256 == closed.data.provenance.sha256
    assert whole.data.provenance.sha256 != few.data.provenance.sha256
    assert len(closed.data.dates) == FIRST + 41
    assert all(same(whole.data, closed.data, slice(0, FIRST + 41)))
    assert all(same(synthetic_market(config), few.data, slice(0, FIRST)))


def test_the_ready_made_universes_have_power() -> None:
    assert all(config.scored_days == 120 for config in catalog.UNIVERSES.values())
