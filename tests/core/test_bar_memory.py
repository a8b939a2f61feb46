"""A frame that grows is read on, not again: the answer is that of a frame never seen before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from se_rl.core import bar_memory
from se_rl.core.bar_memory import BarMemory
from se_rl.core.live_bars import read_bars
from se_rl.core.parent_order import ParentOrder
from se_rl.data.features import FeatureScales, observation_table
from se_rl.data.frames import bars_from_frame
from se_rl.data.market_data import DataError, MarketData
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.costs import Costs
from se_rl.rl.policy_origin import PolicyOrigin, TrainedBars, TrainedScales

HORIZON = 20
START = 40
"""The position of the order's first bar."""


@pytest.fixture(scope="module")
def market() -> MarketData:
    """Bars as a frame has them: no quotes in minutes without a print."""
    made = synthetic_market(SyntheticConfig(symbols=4, sessions=9, seed=5))
    return bars_from_frame(made.to_frame())


@pytest.fixture(scope="module")
def frame(market: MarketData) -> pd.DataFrame:
    """The last sessions, up to the end of the orders' window."""
    whole = market.to_frame()
    return whole[whole["timestamp"] < bar_time(market, START + HORIZON)].reset_index(drop=True)


@pytest.fixture(scope="module")
def origin(market: MarketData) -> PolicyOrigin:
    train = market.select(dates=market.dates[:5])
    return PolicyOrigin(
        bars=TrainedBars.of(train, sha256="0" * 64),
        scales=TrainedScales.of(FeatureScales.fit(train)),
        costs=Costs(),
        horizons=(HORIZON,),
        dynamic_horizons=(6,),
        sizes=(0.01, 0.30),
    )


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one each time that a frame is read from its first row."""
    counted: list[int] = []

    def read(*args: Any) -> Any:
        counted.append(1)
        return read_bars(*args)

    monkeypatch.setattr(bar_memory, "read_bars", read)
    return counted


def bar_time(market: MarketData, bar: int, day: int = -1) -> pd.Timestamp:
    return pd.to_datetime(str(market.dates[day])) + pd.Timedelta(
        minutes=int(market.grid.minutes[bar])
    )


def order_in(market: MarketData, place: int, step: int, start: int = START) -> ParentOrder:
    symbol = market.symbols[place]
    order = ParentOrder("sell", 5_000, HORIZON, symbol=symbol, start=bar_time(market, start))
    return replace(order, filled=(10.0,) * step)


def outcome(read: Any, bars: pd.DataFrame, order: ParentOrder) -> tuple[Any, ...]:
    """All that a policy is shown, to the bit, or the message where there is nothing to show."""
    try:
        live = read(bars, order)
    except DataError as error:
        return ("error", str(error))
    now = live.start + len(order.filled)
    seen = live.observations()[:, : now + 1]
    return live.symbol, live.start, seen.tobytes(), live.data.close.tobytes(), live.known.data.grid


def test_bars_that_grow_are_read_on_and_show_what_training_saw(
    market: MarketData, frame: pd.DataFrame, origin: PolicyOrigin, readings: list[int]
) -> None:
    table = observation_table(market, origin.scales.feature_scales())
    memory = BarMemory(origin)
    for step in range(HORIZON - 1):
        known = frame[frame["timestamp"] < bar_time(market, START + step)]
        for place in (0, 3):
            live = memory.read(known, order_in(market, place, step))
            row = place * len(market.dates) + len(market.dates) - 1
            bars = slice(0, START + step + 1)
            assert live.observations()[0, bars].tobytes() == table[row, bars].tobytes()
    assert len(readings) == 1


def _changed_price(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    changed = frame.copy()
    row = rng.integers(len(frame))
    columns = ["open", "high", "low", "close"]
    changed.loc[changed.index[row], columns] *= 1.01
    return changed


def _changed_volume(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    changed = frame.copy()
    changed.loc[changed.index[rng.integers(len(frame))], "volume"] += 1.0
    return changed


def _without_rows(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    return frame.drop(frame.index[rng.integers(len(frame), size=3)])


def _without_a_session(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    days = frame["timestamp"].dt.normalize()
    return frame[days != rng.choice(days.unique())]


def _swapped(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    order = np.arange(len(frame))
    first, second = rng.integers(len(frame), size=2)
    order[first], order[second] = second, first
    return frame.iloc[order]


def _broken(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    changed = frame.copy()
    changed.loc[changed.index[rng.integers(len(frame))], "close"] = np.nan
    return changed


def _by_time(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    return frame.sort_values(["timestamp", "symbol"])


def _in_utc(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    zoned = frame["timestamp"].dt.tz_localize("America/New_York").dt.tz_convert("UTC")
    return frame.assign(timestamp=zoned)


def _recent(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    return frame[frame["timestamp"] >= frame["timestamp"].max() - pd.Timedelta(days=9)]


def _few_sessions(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    return frame[frame["timestamp"] >= frame["timestamp"].max() - pd.Timedelta(days=3)]


def _late_symbol(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """One symbol has not printed for some days."""
    days = int(rng.choice([0, 4, 20]))
    silent = frame["timestamp"] >= frame["timestamp"].max().normalize() - pd.Timedelta(days=days)
    return frame[~silent | (frame["symbol"] != frame["symbol"].iloc[0])]


def _one_symbol(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    own = frame[frame["symbol"] == frame["symbol"].iloc[0]]
    return own.drop(columns="symbol").set_index("timestamp")


def _before_hours(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Prints before the open, which are no bars."""
    last = frame["timestamp"].dt.normalize().max()
    early = frame[frame["timestamp"] >= last].groupby("symbol").head(1)
    early = early.assign(timestamp=last + pd.Timedelta(hours=8))
    return pd.concat([frame, early]).sort_values(["symbol", "timestamp"])


CHANGES = (
    _changed_price,
    _changed_volume,
    _without_rows,
    _without_a_session,
    _swapped,
    _broken,
    _by_time,
    _in_utc,
    _recent,
    _few_sessions,
    _late_symbol,
    _one_symbol,
    _before_hours,
)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_asked_the_answer_is_that_of_a_frame_never_seen(
    seed: int, market: MarketData, frame: pd.DataFrame, origin: PolicyOrigin
) -> None:
    """Grown frames, changed ones, other orders, other layouts, in any order."""
    rng = np.random.default_rng(seed)
    memory = BarMemory(origin)
    base = frame
    errors = 0
    for _ in range(14):
        drawn = rng.random()
        if drawn < 0.5:
            base = CHANGES[rng.integers(len(CHANGES))](frame, rng)
        step = int(rng.integers(HORIZON))
        start = START if rng.random() < 0.8 else 0
        order = order_in(market, int(rng.integers(4)), step, start)
        if rng.random() < 0.2:
            order = replace(order, start=None)
        if base.index.name == "timestamp":
            order = replace(order, symbol=None)
        times = pd.DatetimeIndex(base.index if base.index.name else base["timestamp"])
        end = bar_time(market, start + step)
        cut = times < (end if times.tz is None else end.tz_localize("America/New_York"))
        bars = base[cut] if rng.random() < 0.7 else base
        fresh = outcome(lambda b, o: read_bars(b, o, origin).live, bars, order)
        assert outcome(memory.read, bars, order) == fresh
        assert outcome(memory.read, bars, order) == fresh, "asked once more"
        errors += fresh[0] == "error"
    assert errors < 14


@pytest.mark.parametrize("change", [_changed_price, _changed_volume])
def test_a_row_changed_in_place_is_noticed(
    change: Any, market: MarketData, frame: pd.DataFrame, origin: PolicyOrigin
) -> None:
    """The same object, another number in it, of a session before or of today."""
    memory = BarMemory(origin)
    bars = frame.copy()
    order = order_in(market, 0, 3)
    first = memory.read(bars, order).observations()
    own = np.flatnonzero((bars["symbol"] == market.symbols[0]) & (bars["timestamp"] < order.start))
    for row in (own[-3], own[-300]):
        bars.loc[row, ["open", "high", "low", "close", "volume"]] *= 1.003
        again = memory.read(bars, order).observations()
        assert again.tobytes() != first.tobytes()
        assert again.tobytes() == read_bars(bars, order, origin).live.observations().tobytes()
        first = again


def test_sessions_that_are_handed_in_later_count(
    market: MarketData, frame: pd.DataFrame, origin: PolicyOrigin
) -> None:
    """First a frame of three days, then the whole one, in which the rows of the first are the same."""
    order = order_in(market, 1, 2)
    memory = BarMemory(origin)
    few = memory.read(_few_sessions(frame, np.random.default_rng(0)), order).observations()
    whole = memory.read(frame, order).observations()
    assert few.tobytes() != whole.tobytes()
    assert whole.tobytes() == read_bars(frame, order, origin).live.observations().tobytes()


def test_a_print_that_comes_late_is_read_with_its_bar(
    market: MarketData, frame: pd.DataFrame, origin: PolicyOrigin, readings: list[int]
) -> None:
    """A row older than the newest one that was read: not at the end of what was seen."""
    memory = BarMemory(origin)
    known = frame[frame["timestamp"] < bar_time(market, START)]
    own = np.flatnonzero(known["symbol"] == market.symbols[1])
    order = order_in(market, 1, 0)
    before = memory.read(known.drop(known.index[own[-2]]), order).observations()
    after = memory.read(known, order).observations()
    assert len(readings) == 2
    assert before.tobytes() != after.tobytes()
    assert after.tobytes() == read_bars(known, order, origin).live.observations().tobytes()


def test_old_rows_are_not_looked_at(
    market: MarketData, frame: pd.DataFrame, origin: PolicyOrigin
) -> None:
    """Rows from before the sessions that matter may be there, broken, or missing."""
    order = order_in(market, 2, 1)
    old = frame.copy()
    old["timestamp"] -= pd.Timedelta(days=28)
    old.loc[0, "close"] = np.nan
    long = pd.concat([old, frame], ignore_index=True)
    live = read_bars(long, order, origin).live
    assert live.observations().tobytes() == (
        read_bars(frame, order, origin).live.observations().tobytes()
    )


def test_a_symbol_that_has_printed_before_the_open_alone_has_not_printed(
    market: MarketData, frame: pd.DataFrame, origin: PolicyOrigin
) -> None:
    opening = bar_time(market, 0)
    known = frame[frame["timestamp"] < opening]
    early = known.groupby("symbol").tail(1).assign(timestamp=opening - pd.Timedelta(hours=1))
    bars = pd.concat([known, early]).sort_values(["symbol", "timestamp"])
    order = order_in(market, 0, 0, start=0)
    memory = BarMemory(origin)
    silent = read_bars(known, order, origin).live.observations()[:, :1]
    for _ in range(2):
        assert memory.read(bars, order).observations()[:, :1].tobytes() == silent.tobytes()
