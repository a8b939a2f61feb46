"""The proof that a policy is blind to the future catches one that is not, and who may talk to whom."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import order_pairs
from se_rl.records.settings import RunConfig
from se_rl.scoring import future_blind as blindness
from se_rl.scoring.execution import ConstantSchedule
from se_rl.scoring.future_blind import future_blind, shuffled_future
from se_rl.scoring.seating import Seated, seats_of

MARKET = synthetic_market(SyntheticConfig(symbols=4, sessions=6))
SCALES = FeatureScales.fit(MARKET)
HORIZON = 20
DAY = len(MARKET.dates) - 2
"""The day that is executed."""


class Open:
    """A policy with nothing to end."""

    def close(self) -> None: ...


class Reads(Open):
    """An actor with data of its own: its actions follow the close of one bar, `ahead` of the one that is traded in."""

    def __init__(self, data: MarketData, ahead: int, day: int, *, offset: bool = False) -> None:
        self.prices, self.ahead, self.day, self.offset = data.close.mean(axis=0), ahead, day, offset

    def start(self, n: int, horizon: int) -> None:
        self.n, self.step = n, 0

    def act(
        self, _: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        seen = self.prices[self.day].take(self.step + self.ahead, mode="clip") % 1.0 / 2.0
        self.step += 1
        action = np.full(self.n, seen)
        return (np.full(self.n, 0.1), action) if self.offset else (action, np.zeros(self.n))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[MarketData]:
    """The data of every world that was made, in order: what a policy that peeks would get hold of."""
    seen: list[MarketData] = []

    def noted(data: MarketData, **options: Any) -> StaticWorld:
        seen.append(data)
        return StaticWorld(data, **options)

    monkeypatch.setattr(blindness, "StaticWorld", noted)
    return seen


def blind(
    made: list[MarketData], ahead: int, *, day: int = DAY, offset: bool = False, **settings: Any
) -> bool:
    config = RunConfig(horizons=(HORIZON,), **settings)
    return future_blind(
        MARKET, config, lambda *_: Reads(made[-1], ahead, day, offset=offset), SCALES
    )


def test_who_looks_at_finished_bars_or_days_is_blind(made: list[MarketData]) -> None:
    assert blind(made, -1) and blind(made, -3) and blind(made, 380, day=DAY - 1)


@pytest.mark.parametrize("ahead", [0, 1, 7, 15, 200])
def test_who_looks_ahead_is_caught(made: list[MarketData], ahead: int) -> None:
    assert not blind(made, ahead)
    assert not blind(made, ahead, offset=True), "a price tells as much as a ratio"
    assert not blind(made, ahead, scenario="multi", agents=3)


def test_who_knows_tomorrow_is_caught(made: list[MarketData]) -> None:
    assert not blind(made, -1, day=DAY + 1)


class Follows(Open):
    """An actor that acts on all that it is shown."""

    def start(self, n: int, horizon: int) -> None: ...

    def act(
        self, shown: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        ratio = np.abs(np.sin(shown.astype(np.float64).sum(axis=-1)))
        return ratio, np.zeros_like(ratio)


def test_who_acts_on_what_is_shown_is_blind_unless_the_world_shows_a_bar_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = RunConfig(horizons=(HORIZON,))
    assert future_blind(MARKET, config, lambda *_: ConstantSchedule(0.7), SCALES)
    assert future_blind(MARKET, config, lambda *_: Follows(), SCALES)

    def leaks(data: MarketData, **options: Any) -> StaticWorld:
        table = StaticWorld(data, **options).table
        return StaticWorld(data, **options, table=np.roll(table, -1, axis=-2))

    monkeypatch.setattr(blindness, "StaticWorld", leaks)
    assert not future_blind(MARKET, config, lambda *_: Follows(), SCALES)


@settings(max_examples=12, deadline=None)
@given(agents=st.integers(2, 5), horizon=st.sampled_from([20, 120, 390]))
def test_agents_that_talk_trade_in_the_same_bars(agents: int, horizon: int) -> None:
    orders, sessions = order_pairs(MARKET, horizon), len(MARKET.dates)
    seats = seats_of(orders, agents, sessions=sessions)
    tables = seats.reshape(-1, agents)
    for part in (orders.row % sessions, orders.start, orders.side):
        assert (part[tables] == part[tables[:, :1]]).all()
    assert set(seats) == set(range(len(orders)))
    shared = np.array([len(set(table)) for table in tables.tolist()])
    assert (shared == agents).sum() == len(orders) // 4 * (4 // agents), (
        "four symbols a window: whole tables first"
    )


def test_who_sits_elsewhere_acts_for_the_same_order() -> None:
    class Echo(Open):
        def start(self, n: int, horizon: int) -> None:
            self.n = n

        def act(
            self, shown: npt.NDArray[np.float32]
        ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
            assert len(shown) == self.n
            return shown[:, 0].astype(np.float64), -shown[:, 0].astype(np.float64)

    orders = order_pairs(MARKET, HORIZON)
    seats = seats_of(orders, 3, sessions=len(MARKET.dates))
    actor = Seated(Echo(), seats, len(orders))
    actor.start(len(orders), HORIZON)
    shown = np.arange(len(orders), dtype=np.float32)[:, None]
    ratio, offset = actor.act(shown)
    assert (
        np.array_equal(ratio, shown[:, 0])
        and np.array_equal(offset, -ratio)
        and len(seats) == len(orders) // 4 * 6
    )
    assert np.array_equal(seats_of(orders, 1, sessions=6), np.arange(len(orders)))


def test_who_listens_to_its_neighbour_is_blind() -> None:
    class Listens(Follows):
        """Does what its neighbours in a table of three see."""

        def act(
            self, shown: npt.NDArray[np.float32]
        ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
            heard = shown.reshape(-1, 3, shown.shape[1]).mean(axis=1)
            return super().act(np.repeat(heard, 3, axis=0))

    for horizon in (HORIZON, len(MARKET.grid)):
        config = RunConfig(horizons=(horizon,), scenario="multi", agents=3)
        assert future_blind(MARKET, config, lambda *_: Listens(), SCALES)


def test_the_past_stays_and_the_future_is_the_same_bars_in_another_order() -> None:
    bar = 100
    shuffled = shuffled_future(MARKET, DAY, bar, rng=np.random.default_rng(0))
    for f in fields(MARKET):
        before, after = getattr(MARKET, f.name), getattr(shuffled, f.name)
        if not isinstance(before, np.ndarray) or before.ndim < 3:
            continue
        assert np.array_equal(before[:, :DAY], after[:, :DAY]) and np.array_equal(
            before[:, DAY, :bar], after[:, DAY, :bar]
        )
        assert np.array_equal(np.sort(before, axis=2), np.sort(after, axis=2))
    for day, first in ((DAY, bar), (DAY + 1, 0)):
        assert (MARKET.close[:, day, first:] != shuffled.close[:, day, first:]).mean() > 0.9
