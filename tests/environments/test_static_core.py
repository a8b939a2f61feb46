"""The batched core against a plain loop, and the accounting that every world must keep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.data.features import (
    OBSERVATION_FIELDS,
    PUBLIC_FIELDS,
    PUBLIC_PLACES,
    TURNED_FIELD,
    TURNED_SIGN,
    FeatureScales,
    observation_table,
)
from se_rl.data.market_data import DataError
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.costs import Costs
from se_rl.environments.fills import LimitOnBars
from se_rl.environments.static_core import StaticCore, ratios_from_weights
from se_rl.environments.task import (
    Episode,
    Orders,
    WindowBenchmarks,
    arrival_price,
    order_from_episode,
    order_pairs,
)

DATA = synthetic_market(
    SyntheticConfig(exchange="XSHG", bar_minutes=5, symbols=3, sessions=4, seed=1)
)


def plain_execution(
    orders: Orders, i: int, ratios: np.ndarray, half_spread: float, fee: float, cap: float | None
):
    """One order by the book: gross and net average price, leftover share."""
    symbol, session = divmod(int(orders.row[i]), len(DATA.dates))
    left, gross, paid = orders.quantity[i], 0.0, 0.0
    for step in range(orders.horizon):
        bar = orders.start[i] + step
        price = (
            DATA.amount[symbol, session, bar] / DATA.volume[symbol, session, bar]
            if DATA.volume[symbol, session, bar]
            else None
        )
        if price is None:
            price = (
                sum(getattr(DATA, n)[symbol, session, bar] for n in ("high", "low", "close")) / 3
            )
        shares = ratios[i, step] * left
        if cap is not None:
            shares = min(shares, cap * DATA.volume[symbol, session, bar])
        left, gross, paid = (
            left - shares,
            gross + shares * price,
            paid + shares * price * (half_spread + fee),
        )
    leftover = left
    gross, paid = gross + left * price, paid + left * price * (half_spread + fee)
    return (
        gross / orders.quantity[i],
        (gross - orders.side[i] * paid) / orders.quantity[i],
        leftover / orders.quantity[i],
    )


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    horizon=st.integers(1, 20),
    half_spread_bps=st.sampled_from([0.0, 1.5]),
    fee_bps=st.sampled_from([0.0, 10.0]),
    cap=st.sampled_from([None, 0.01, 0.3]),
)
def test_core_equals_a_plain_loop(
    seed: int, horizon: int, half_spread_bps: float, fee_bps: float, cap: float | None
) -> None:
    rng = np.random.default_rng(seed)
    orders = order_pairs(
        DATA, horizon, start=int(rng.integers(0, 10)), quantity=float(rng.integers(1, 100_000))
    )
    ratios = rng.uniform(0, 1, (len(orders), horizon)) * rng.integers(0, 2, (len(orders), horizon))
    costs = Costs(half_spread_bps=half_spread_bps, fee_bps=fee_bps, max_participation=cap)
    record = StaticCore(DATA, costs=costs).execute(orders, ratios)
    for i in rng.integers(0, len(orders), 5):
        gross, net, leftover = plain_execution(
            orders, i, ratios, half_spread_bps / 1e4, fee_bps / 1e4, cap
        )
        assert record.gross_price[i] == pytest.approx(gross, rel=1e-12)
        assert record.net_price[i] == pytest.approx(net, rel=1e-12)
        assert record.leftover[i] == pytest.approx(leftover, abs=1e-9)
    np.testing.assert_allclose(record.forced_fills.sum(axis=1), 1.0, atol=1e-9)
    assert (record.fills >= 0).all()


def test_rewards_sum_to_the_gain_over_twap() -> None:
    orders = order_pairs(DATA, 24)
    rng = np.random.default_rng(0)
    costs = Costs(half_spread_bps=2.0, fee_bps=3.0)
    core = StaticCore(DATA, costs=costs)
    core.reset(orders)
    total = np.zeros(len(orders))
    while not core.done:
        core.step(rng.uniform(0, 0.3, len(orders)))
        total += core.reward
    own = core.record().net_price
    twap = StaticCore(DATA, costs=costs).execute(
        orders, ratios_from_weights(np.full((len(orders), 24), 1 / 24))
    )
    arrival = arrival_price(DATA, orders)
    np.testing.assert_allclose(
        total, 1e4 * orders.side * (own - twap.net_price) / arrival, atol=1e-8
    )


def test_nothing_traded_is_completed_at_the_last_price_and_pays_for_it() -> None:
    orders = order_pairs(DATA, 10)
    core = StaticCore(DATA, costs=Costs(half_spread_bps=5.0, fee_bps=5.0))
    record = core.execute(orders, np.zeros((len(orders), 10)))
    last = orders.gather(DATA.price)[:, -1]
    np.testing.assert_allclose(record.leftover, 1.0)
    np.testing.assert_allclose(record.net_price, last * (1 - orders.side * 1e-3))


def test_observation_holds_public_fields_then_time_and_inventory() -> None:
    table = observation_table(DATA, FeatureScales.fit(DATA))
    core = StaticCore(DATA, observations=table)
    orders = order_pairs(DATA, 12, start=3)
    first = core.reset(orders)[0].copy()
    np.testing.assert_array_equal(first[PUBLIC_PLACES], table[orders.row[0], orders.start[0]])
    assert first[-2:].tolist() == [1.0, 1.0]
    second = core.step(np.full(len(orders), 0.25))[0]
    np.testing.assert_array_equal(second[PUBLIC_PLACES], table[orders.row[0], orders.start[0] + 1])
    np.testing.assert_allclose(second[-2:], [11 / 12, 0.75])
    assert len(first) == len(OBSERVATION_FIELDS)


def test_a_buyer_sees_the_market_upside_down() -> None:
    core = StaticCore(DATA, observations=observation_table(DATA, FeatureScales.fit(DATA)))
    orders = order_pairs(DATA, 12, start=9)
    seen = core.reset(orders).copy()
    sell, buy = np.split(seen[:, PUBLIC_PLACES], 2)
    np.testing.assert_array_equal(buy, sell[:, TURNED_FIELD] * TURNED_SIGN)
    returns = [i for i, name in enumerate(PUBLIC_FIELDS) if "return" in name]
    np.testing.assert_array_equal(buy[:, returns], -sell[:, returns])
    assert np.abs(sell[:, returns]).max() > 0


def test_an_order_executes_the_same_whatever_runs_beside_it() -> None:
    orders = order_pairs(DATA, 24)
    ratios = np.random.default_rng(2).uniform(0, 0.2, (len(orders), 24))
    together = StaticCore(DATA).execute(orders, ratios)
    some = np.array([5, 1, 9])
    alone = StaticCore(DATA).execute(orders.take(some), ratios[some])
    np.testing.assert_array_equal(alone.net_price, together.net_price[some])


@pytest.mark.parametrize("side, sign", [("sell", 1), ("buy", -1)])
def test_a_limit_on_bars_fills_only_when_traded_through(side: str, sign: int) -> None:
    day = int(DATA.dates[1])
    orders = order_from_episode(DATA, Episode("SYN001", day, side, 1.0, start=5, horizon=1))
    model = LimitOnBars(DATA, half_spread_bps=0.0, max_participation=None, tick=0.001)
    extreme = (DATA.high if sign > 0 else DATA.low)[1, 1, 5]
    last = DATA.close[1, 1, 4]
    for limit, filled in (
        (extreme - sign * 0.002, True),
        (extreme, False),
        (extreme + sign * 0.01, False),
    ):
        if sign * (limit - last) <= 0:
            continue
        core = StaticCore(DATA, fills=model)
        core.reset(orders)
        core.step(np.ones(1), np.array([limit]))
        assert bool(core.leftover[0] == 0.0) is filled
        if filled:
            assert core.record().gross_price[0] == pytest.approx(limit)


def test_a_marketable_limit_takes_the_bar_price() -> None:
    orders = order_from_episode(
        DATA, Episode("SYN000", int(DATA.dates[0]), "buy", 1.0, start=5, horizon=1)
    )
    core = StaticCore(DATA, fills=LimitOnBars(DATA, max_participation=None))
    core.reset(orders)
    core.step(np.ones(1), np.array([DATA.close[0, 0, 4] * 1.01]))
    assert core.record().gross_price[0] == pytest.approx(DATA.price[0, 0, 5])


def test_pairs_cover_every_symbol_session_and_window_once_per_side() -> None:
    orders = order_pairs(DATA, 20, start=4)
    assert len(orders) == 2 * 3 * 4 * 2
    half = len(orders) // 2
    np.testing.assert_array_equal(orders.row[:half], orders.row[half:])
    assert (orders.side[:half] == 1).all() and (orders.side[half:] == -1).all()
    assert set(orders.start) == {4, 24}
    assert len(order_pairs(DATA, None)) == 2 * 3 * 4


def test_benchmarks_are_those_of_the_window() -> None:
    orders = order_pairs(DATA, 10, start=7)
    benchmarks = WindowBenchmarks.of(DATA, orders)
    symbol, session = divmod(int(orders.row[3]), len(DATA.dates))
    window = slice(orders.start[3], orders.start[3] + 10)
    amount, volume = DATA.amount[symbol, session, window], DATA.volume[symbol, session, window]
    assert benchmarks.named("vwap")[3] == pytest.approx(amount.sum() / volume.sum())
    assert benchmarks.named("twap")[3] == pytest.approx(DATA.price[symbol, session, window].mean())
    assert benchmarks.named("arrival")[3] == DATA.close[symbol, session, window.start - 1]
    first = order_pairs(DATA, 10)
    assert arrival_price(DATA, first)[0] == DATA.open.reshape(-1, 48)[first.row[0], 0]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"side": "up"}, "side 'up' is unknown"),
        ({"quantity": 0.0}, "quantity 0.0 is not positive"),
        ({"quantity": -3.0}, "quantity -3.0 is not positive"),
        ({"quantity": float("nan")}, "quantity nan is not positive"),
        ({"symbol": "AAPL"}, "symbol 'AAPL' is not in"),
        ({"session": 19990101}, "no session on 19990101"),
        ({"horizon": 49}, "longer than the session of 48 bars"),
        ({"horizon": 0}, "impossible"),
        ({"start": -1}, "impossible"),
    ],
)
def test_an_impossible_episode_is_refused_in_one_line(change: dict, message: str) -> None:
    episode = {
        "symbol": "SYN000",
        "session": int(DATA.dates[0]),
        "side": "buy",
        "quantity": 100.0,
        "horizon": 10,
    } | change
    with pytest.raises(DataError, match=message) as error:
        order_from_episode(DATA, Episode(**episode))
    assert "\n" not in str(error.value)
