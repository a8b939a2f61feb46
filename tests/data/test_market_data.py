"""MarketData: what it refuses, in one line each, and how it is cut and priced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from se_rl.data.calendar import session_grid
from se_rl.data.market_data import DataError, MarketData, Provenance

GRID = session_grid("XSHG", bar_minutes=15, label="end")
DATES = np.array([20250102, 20250103, 20250106], np.int32)
SHAPE = (2, 3, 16)


def market(**changes: Any) -> MarketData:
    """Two names on three days, B absent on the second; prices differ everywhere."""
    close = 10.0 + np.arange(96).reshape(SHAPE) / 100
    close[1, 1] = np.nan
    sizes = np.ones((*SHAPE, 2))
    parts: dict[str, Any] = {
        "symbols": ("A", "B"),
        "dates": DATES,
        "grid": GRID,
        "open": close - 0.01,
        "high": close + 0.05,
        "low": close - 0.05,
        "close": close,
        "traded": np.isfinite(close),
        "volume": np.full(SHAPE, 100.0),
        "amount": np.where(np.isfinite(close), 100.0 * close + 1, 0.0),
        "bid": close - 0.02,
        "ask": close + 0.02,
        "bid_sizes": sizes,
        "ask_sizes": 2 * sizes,
        "provenance": Provenance("toy"),
    }
    return MarketData(**(parts | changes))


def changed(name: str, value: float, *, cell: tuple[int, int, int] = (1, 2, 3)) -> MarketData:
    values = getattr(market(), name).copy()
    values[cell] = value
    return market(**{name: values})


def refusal(error: pytest.ExceptionInfo[DataError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        *(
            (name, value, f"{name} is not a positive number")
            for name in ("open", "close")
            for value in (0.0, -1.0)
        ),
        *(
            (name, value, f"{name} is not a positive number")
            for name in ("high", "low")
            for value in (np.nan, np.inf)
        ),
        ("open", 99.0, "open or close lies outside [low, high]"),
        ("close", 5.0, "open or close lies outside [low, high]"),
        ("high", 5.0, "open or close lies outside [low, high]"),
        ("low", 50.0, "open or close lies outside [low, high]"),
        ("volume", -1.0, "volume is negative or not finite"),
        ("volume", np.nan, "volume is negative or not finite"),
        ("amount", np.inf, "amount is negative or not finite"),
        ("bid", 99.0, "bid is above ask"),
    ],
)
def test_a_bad_number_is_refused_with_its_symbol_date_and_minute(
    name: str, value: float, words: str
) -> None:
    with pytest.raises(DataError) as error:
        changed(name, value)
    assert refusal(error) == (
        f"{words} for B on 20250106 at minute {GRID.minutes[3]} (1 bars in all); `se-rl data check` lists every defect"
    )


def test_the_first_of_several_bad_bars_is_named_and_all_are_counted() -> None:
    volume = np.full(SHAPE, 100.0)
    volume[0, 1, 4] = volume[1, 0, 2] = volume[1, 2, 9] = -1.0
    with pytest.raises(DataError, match=r"for A on 20250103 at minute \d+ \(3 bars in all\)"):
        market(volume=volume)


@pytest.mark.parametrize("name", ["close", "volume", "bid"])
def test_a_session_that_a_symbol_does_not_have_is_not_looked_at(name: str) -> None:
    data = changed(name, -1.0, cell=(1, 1, 0))
    assert data.has_session.tolist() == [[True] * 3, [True, False, True]]


def test_missing_quotes_are_accepted() -> None:
    data = changed("bid", np.nan)
    assert data.bid is not None and np.isnan(data.bid[1, 2, 3])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"close": np.ones((2, 3, 15))}, "close has shape (2, 3, 15), expected (2, 3, 16)"),
        (
            {"bid_sizes": np.ones((2, 2, 16, 5))},
            "bid_sizes has shape (2, 2, 16, 5), expected (2, 3, 16)",
        ),
        ({"symbols": ("A", "A")}, "a symbol appears twice"),
        ({"dates": DATES[::-1]}, "dates are not strictly increasing"),
        ({"dates": DATES[[0, 0, 1]]}, "dates are not strictly increasing"),
        ({"traded": np.zeros(SHAPE, bool)}, "toy holds no session"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_one_line(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(DataError) as error:
        market(**changes)
    assert words in refusal(error)


@given(
    st.sets(st.sampled_from("AB"), min_size=1), st.sets(st.sampled_from(DATES.tolist()), min_size=1)
)
def test_a_selection_holds_the_same_numbers(symbols: set[str], dates: set[int]) -> None:
    if (symbols, dates) == ({"B"}, {20250103}):
        return  # no session: refused, as below
    data, names = market(), sorted(symbols, reverse=True)
    part = data.select(symbols=names, dates=dates)
    rows = np.ix_(
        np.array([data.symbol_index(s) for s in names]), np.flatnonzero(np.isin(DATES, list(dates)))
    )
    assert (
        part.symbols == tuple(names)
        and part.dates.tolist() == sorted(dates)
        and part.grid == data.grid
    )
    for name in (
        "open",
        "high",
        "low",
        "close",
        "traded",
        "volume",
        "amount",
        "bid",
        "ask",
        "bid_sizes",
        "ask_sizes",
    ):
        np.testing.assert_array_equal(getattr(part, name), getattr(data, name)[rows])


def test_consecutive_dates_are_a_view() -> None:
    data = market()
    assert np.shares_memory(data.select(dates=[20250103, 20250106]).close, data.close)


def test_one_session_of_one_symbol() -> None:
    data = market()
    one = data.session("B", 20250106)
    assert (
        one.shape == (1, 1, 16)
        and one.bid_sizes is not None
        and one.bid_sizes.shape == (1, 1, 16, 2)
    )
    np.testing.assert_array_equal(one.close[0, 0], data.close[1, 2])


@pytest.mark.parametrize(
    ("symbol", "date", "words"),
    [
        ("C", 20250102, "symbol 'C' is not in toy; it has A, B"),
        ("A", 20250104, "no session"),
        ("B", 20250103, "no session"),
    ],
)
def test_a_session_that_is_not_there_is_refused_in_one_line(
    symbol: str, date: int, words: str
) -> None:
    with pytest.raises(DataError) as error:
        market().session(symbol, date)
    assert words in refusal(error)


def test_few_of_many_symbols_are_named() -> None:
    prices: dict[str, Any] = dict.fromkeys(("open", "high", "low", "close"), np.ones((7, 1, 16)))
    many = MarketData(tuple("ABCDEFG"), DATES[:1], GRID, **prices, traded=np.ones((7, 1, 16), bool))
    with pytest.raises(DataError, match=r"it has A, B, C, D, E, \.\.\.$"):
        many.symbol_index("Z")
    assert many.symbol_index("G") == 6


def test_the_price_is_amount_over_volume_else_the_typical_price() -> None:
    data = market()
    typical = (data.high + data.low + data.close) / 3
    np.testing.assert_allclose(data.price[0], data.close[0] + 0.01, rtol=1e-12)
    np.testing.assert_array_equal(market(amount=None).price, typical)
    np.testing.assert_array_equal(market(volume=None).price, typical)
    assert data.volume is not None and data.amount is not None
    silent = changed("volume", 0.0)
    assert silent.price[1, 2, 3] == typical[1, 2, 3]
    np.testing.assert_allclose(
        np.delete(silent.price[1, 2], 3), np.delete(data.close[1, 2] + 0.01, 3)
    )


def test_volume_is_never_invented() -> None:
    data = market()
    assert data.require_volume("VWAP") is data.volume
    with pytest.raises(DataError, match="toy has no volume, which VWAP needs") as error:
        market(volume=None).require_volume("VWAP")
    refusal(error)


def test_the_first_bar_is_the_first_that_printed() -> None:
    traded = market().traded.copy()
    traded[0, 0, :5] = False
    assert market(traded=traded).first_bar[0].tolist() == [5, 0, 0]


def test_synthetic_bars_say_so() -> None:
    assert Provenance("x").label == "x" and Provenance("x", synthetic=True).label == "x (SYNTHETIC)"
