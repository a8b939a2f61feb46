"""The martingale twin: as volatile as the original, valid bars, and no past that tells the future."""

from __future__ import annotations

import numpy as np
import pytest

from se_rl.data.market_data import MarketData
from se_rl.data.martingale import martingale_twin
from se_rl.data.synthetic import SyntheticConfig, synthetic_market

DATA = synthetic_market(SyntheticConfig(symbols=20, sessions=12))


def moves(data: MarketData) -> np.ndarray:
    return np.diff(np.log(data.close), axis=2)


def test_sizes_stay_and_signs_are_those_of_one_coin_for_all_symbols() -> None:
    twin = martingale_twin(DATA, np.random.default_rng(0))
    np.testing.assert_allclose(np.abs(moves(twin)), np.abs(moves(DATA)), atol=1e-9)
    same = np.sign(moves(twin)) * np.sign(moves(DATA))
    for day in same.swapaxes(0, 1):
        assert np.all((day.max(axis=0) <= 0) | (day.min(axis=0) >= 0))
    np.testing.assert_array_equal(twin.volume, DATA.volume)


def test_bars_keep_their_form_and_spreads_their_width() -> None:
    twin = martingale_twin(
        DATA, np.random.default_rng(1)
    )  # MarketData checks open, high, low, close
    assert DATA.bid is not None and DATA.ask is not None
    assert twin.bid is not None and twin.ask is not None
    np.testing.assert_allclose(np.log(twin.ask / twin.bid), np.log(DATA.ask / DATA.bid), atol=1e-9)


@pytest.mark.parametrize("seed", [2, 3])
def test_reversal_is_gone(seed: int) -> None:
    def slope(data: MarketData) -> float:
        """Regression of the next 15 minutes' specific move on the last minute's."""
        specific = moves(data) - moves(data).mean(axis=0)
        ahead = np.cumsum(specific, axis=2)
        later = ahead[..., 15:] - ahead[..., :-15]
        now = specific[..., :-15]
        return float((later * now).sum() / np.square(now).sum())

    twin = martingale_twin(DATA, np.random.default_rng(seed))
    assert slope(DATA) < -0.05  # the original undoes a part of every specific move
    assert abs(slope(twin)) < 0.02


def test_another_coin_gives_another_path_and_the_same_coin_the_same() -> None:
    one, two, other = (martingale_twin(DATA, np.random.default_rng(s)) for s in (5, 5, 6))
    np.testing.assert_array_equal(one.close, two.close)
    assert not np.allclose(one.close, other.close)
