"""The dynamic world: accounts to the last unit, impact on paired seeds, twins, and markets that break."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.data.features import (
    CLIP,
    OBSERVATION_FIELDS,
    PUBLIC_FIELDS,
    PUBLIC_PLACES,
    TURNED_FIELD,
    TURNED_SIGN,
    FeatureScales,
    observation_table,
)
from se_rl.data.market_data import DataError, MarketData
from se_rl.data.readers import read_bars
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_core import DynamicCore
from se_rl.environments.market_pool import PARALLEL_MARKETS
from se_rl.environments.metrics import price_advantage
from se_rl.environments.task import Orders, order_pairs
from se_rl.environments.twin import twin_error
from se_rl.market.family import MarketKind
from se_rl.market.participants import AGENT_SLOT, FIRST_AGENT
from se_rl.market.price_levels import CASH, PRICE, SHARES
from se_rl.market.profile import MarketProfile

DATA = synthetic_market(SyntheticConfig(symbols=3, sessions=4, seed=5))
FIELD = {name: i for i, name in enumerate(OBSERVATION_FIELDS)}
FRAGILE = MarketProfile(
    noise_market_rate=1.0,
    noise_limit_rate=0.015,
    noise_cancel_rate=0.1,
    size_tail=3.0,
    maker_levels=2,
    maker_lots=1,
    maker_half_spread=1.0,
    news_volatility=0.9,
    stress_spread=1.0,
    collar=5,
)


@pytest.fixture(scope="module")
def free() -> DynamicCore:
    return DynamicCore()


@pytest.fixture(scope="module")
def twin() -> DynamicCore:
    return DynamicCore(DATA, shadow=True)


def orders(n: int, horizon: int, *, side: int | None = None, size: float = 0.1) -> Orders:
    sides = np.resize([1, -1], n) if side is None else np.full(n, side)
    zero = np.zeros(n, np.int64)
    quantity = np.full(n, 10_000.0)
    usual = Orders.of_usual_size(zero, zero, sides.astype(np.int8), quantity, horizon)
    return replace(usual, size=np.full(n, size))


def twap(n: int, horizon: int) -> np.ndarray:
    return np.tile(1.0 / (horizon - np.arange(horizon)), (n, 1))


def run(
    core: DynamicCore, parents: Orders, ratios: np.ndarray, limits=None, *, seeds=None
) -> dict[str, np.ndarray]:
    """Every step's observation and reward; `limits` turns the core into limit prices."""
    kept: dict[str, list] = {
        "observation": [core.reset(parents, seeds=seeds).copy()],
        "reward": [],
        "shares": [],
    }
    while not core.done:
        core.step(ratios[:, core.step_index], None if limits is None else limits(core))
        kept["observation"].append(core.observation.copy())
        kept["reward"].append(core.reward.copy())
        kept["shares"].append(core.shares.copy())
    return {name: np.array(values) for name, values in kept.items()}


def accounts(core: DynamicCore) -> tuple[np.ndarray, np.ndarray]:
    """Shares and cash of our accounts in the books, one row per order."""
    own = core.markets.books.book.owners[
        : len(core.orders) // core.agents, FIRST_AGENT : FIRST_AGENT + core.agents
    ]
    return own[..., SHARES].ravel(), own[..., CASH].ravel()


@pytest.mark.parametrize("seed", range(3))
def test_fills_and_cash_equal_the_books_accounts(free: DynamicCore, seed: int) -> None:
    n, horizon, rng = 24, 12, np.random.default_rng(seed)
    ratios, ticks = rng.random((n, horizon)) * 0.5, rng.integers(-3, 6, (horizon, n))

    def limits(core: DynamicCore) -> np.ndarray:
        away = core.touch() * (1 + core.orders.side * ticks[core.step_index] * 3e-4)
        return np.where(ticks[core.step_index] == 5, np.nan, away)

    out = run(free, orders(n, horizon), ratios, limits, seeds=np.arange(n) + 100 * seed)
    record = free.record(out["shares"].T / 10_000.0)
    np.testing.assert_allclose(record.forced_fills.sum(axis=1), 1.0, atol=1e-12)
    shares, cash = accounts(free)
    lots = np.abs(shares)
    assert (np.sign(shares) == -free.orders.side).all() and (lots == lots[0]).all()
    paid = free.price(np.abs(cash) / lots)
    np.testing.assert_allclose(record.gross_price, paid, rtol=1e-14)
    assert record.leftover.max() > 0 and not free.broken.any()


def test_slices_follow_the_schedule_to_half_a_lot(free: DynamicCore) -> None:
    horizon = 30
    out = run(free, orders(8, horizon), twap(8, horizon), seeds=np.arange(8))
    lot = 10_000.0 / round(0.1 * free.books.usual.volume_lots[0] * horizon)
    plan = 10_000.0 * np.arange(1, horizon + 1) / horizon
    assert np.abs(np.cumsum(out["shares"], axis=0) - plan[:, None]).max() <= lot / 2 + 1e-6
    assert (free.leftover == 0).all()


def test_rewards_sum_to_the_gain_over_twap() -> None:
    core = DynamicCore(fee_bps=3.0)
    n, horizon = 16, 10
    out = run(
        core,
        orders(n, horizon),
        np.random.default_rng(0).random((n, horizon)) * 0.3,
        seeds=np.arange(n),
    )
    record, marks = core.record(), core.benchmarks()
    twap_net = marks.twap * (1 - core.orders.side * 3e-4)
    own, plain = (
        price_advantage(p, marks.arrival, core.orders.side) for p in (record.net_price, twap_net)
    )
    np.testing.assert_allclose(out["reward"].sum(axis=0), own - plain, atol=1e-9)


def test_larger_orders_cost_more_on_the_same_seeds() -> None:
    n, horizon = 256, 8
    costs = []
    core = DynamicCore()
    for size in (0.02, 0.1, 0.3, 0.6):
        parents = orders(n, horizon, size=size)
        record = core.execute(parents, twap(n, horizon), seeds=np.arange(n) // 2)
        costs.append(
            -price_advantage(record.net_price, core.benchmarks().arrival, core.orders.side).mean()
        )
    assert (np.diff(costs) > 0).all() and costs[0] > 0


def test_passive_fills_save_the_spread(free: DynamicCore) -> None:
    n, horizon = 64, 10
    free.reset(orders(n, horizon), seeds=np.arange(n))
    filled = 0
    for _ in range(horizon - 1):
        limit = free.touch()
        free.step(np.full(n, 0.5), limit)
        passive = free.passive_share > 0
        np.testing.assert_allclose(free.fill_price[passive], limit[passive], rtol=1e-12)
        gain = free.orders.side * (free.fill_price / free.mid_before - 1.0)
        np.testing.assert_allclose(gain[passive], free.half_spread[passive], rtol=1e-3)
        filled += int(passive.sum())
    assert filled > n


def test_the_same_price_keeps_its_place_in_the_queue(free: DynamicCore) -> None:
    free.reset(orders(1, 20, side=-1), seeds=[3])
    limit = free.touch() * (1 - 40e-4)
    free.step(np.ones(1), limit)
    slot = int(free.markets.sim.state[0, AGENT_SLOT])
    ahead = free.markets.books.ahead(0, slot)
    for _ in range(5):
        free.step(np.ones(1), limit)
        assert int(free.markets.sim.state[0, AGENT_SLOT]) == slot
        assert free.markets.books.ahead(0, slot) <= ahead
        ahead = free.markets.books.ahead(0, slot)
    price = int(free.markets.books.book.orders[0, slot, PRICE])
    free.step(np.ones(1), limit * (1 - 10e-4))
    moved = int(free.markets.sim.state[0, AGENT_SLOT])
    assert int(free.markets.books.book.orders[0, moved, PRICE]) < price


def test_no_order_no_impact_and_orders_push_against_themselves(twin: DynamicCore) -> None:
    parents = order_pairs(DATA, 60).take(np.arange(40))
    twin.reset(parents, seeds=np.arange(40))
    for _ in range(10):
        twin.step(np.zeros(40))
        np.testing.assert_array_equal(twin.mid_after, twin.no_order_mid)
        assert (twin.own_impact == 0).all()
    for _ in range(5):
        twin.step(np.full(40, 0.2))
    assert twin.own_impact.mean() > 1.0


def test_batch_equals_single_and_seeds_decide(free: DynamicCore) -> None:
    n, horizon = 5, 6
    ratios = np.random.default_rng(1).random((n, horizon))
    batch = run(free, orders(n, horizon), ratios, seeds=np.arange(n))
    again = run(free, orders(n, horizon), ratios, seeds=np.arange(n))
    np.testing.assert_array_equal(batch["observation"], again["observation"])
    for i in range(n):
        one = run(free, orders(n, horizon).take(np.array([i])), ratios[i : i + 1], seeds=[i])
        np.testing.assert_array_equal(one["observation"][:, 0], batch["observation"][:, i])
        np.testing.assert_array_equal(one["reward"][:, 0], batch["reward"][:, i])
    other = run(free, orders(n, horizon), ratios, seeds=np.arange(n) + 99)
    assert not np.array_equal(batch["observation"], other["observation"])


def test_without_seeds_the_cores_own_seed_decides() -> None:
    first, second, third = (DynamicCore(seed=seed) for seed in (1, 1, 2))
    shown = [core.reset(orders(4, 5)).copy() for core in (first, second, third)]
    np.testing.assert_array_equal(shown[0], shown[1])
    assert not np.array_equal(shown[0], shown[2])
    assert not np.array_equal(shown[0], first.reset(orders(4, 5)))


def test_threads_do_not_matter(free: DynamicCore) -> None:
    n, horizon, threads = PARALLEL_MARKETS + 8, 4, numba.get_num_threads()
    results = []
    try:
        for count in {1, threads}:
            numba.set_num_threads(count)
            results.append(
                run(free, orders(n, horizon), twap(n, horizon), seeds=np.arange(n))["observation"]
            )
    finally:
        numba.set_num_threads(threads)
    np.testing.assert_array_equal(results[0], results[-1])


def test_an_order_the_book_cannot_take_is_void_and_never_free() -> None:
    core = DynamicCore(kinds=[MarketKind("strict", MarketProfile(collar=5))])
    n, horizon = 64, 30
    lazy = run(core, orders(n, horizon, size=1.0), np.zeros((n, horizon)), seeds=np.arange(n))
    record = core.record()
    assert core.broken.all() and np.isnan(record.net_price).all() and (record.leftover == 1.0).all()
    assert np.isfinite(lazy["reward"]).all()
    assert np.isfinite(core.observation).all()
    busy = run(core, orders(n, horizon, size=1.0), twap(n, horizon), seeds=np.arange(n))
    assert lazy["reward"].sum(axis=0).mean() < busy["reward"].sum(axis=0).mean()


def test_an_empty_book_voids_the_order() -> None:
    core = DynamicCore(kinds=[MarketKind("fragile", FRAGILE)])
    n, horizon = 64, 20
    out = run(core, orders(n, horizon), twap(n, horizon), seeds=np.arange(n))
    assert 0 < core.broken.sum() < n
    np.testing.assert_array_equal(np.isnan(core.record().net_price), core.broken)
    assert np.isfinite(out["reward"]).all() and np.isfinite(out["observation"]).all()
    hopeless = replace(
        FRAGILE, noise_market_rate=5.0, noise_limit_rate=0.002, noise_cancel_rate=0.2
    )
    with pytest.raises(DataError, match="broke while warming up"):
        DynamicCore(kinds=[MarketKind("hopeless", hopeless)])


@cache
def shared_core() -> DynamicCore:
    """One core for all examples: hypothesis refuses fixtures that it cannot reset."""
    return DynamicCore()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-3, 4), min_size=4, max_size=4))
def test_ratios_beyond_their_range_mean_its_ends(ratios: list[float]) -> None:
    core = shared_core()
    wild, tame = np.tile(ratios, (2, 1)), np.clip(np.tile(ratios, (2, 1)), 0, 1)
    first, second = (run(core, orders(2, 4), values, seeds=[1, 2]) for values in (wild, tame))
    np.testing.assert_array_equal(first["observation"], second["observation"])
    assert (core.remaining_lots == 0).all()
    assert (np.abs(core.observation) <= CLIP).all()


def test_wrong_calls_are_refused(free: DynamicCore) -> None:
    free.reset(orders(2, 2), seeds=[0, 1])
    with pytest.raises(ValueError, match="not finite"):
        free.step(np.array([np.nan, 0.1]))
    free.step(np.ones(2))
    free.step(np.ones(2))
    with pytest.raises(ValueError, match="finished"):
        free.step(np.ones(2))
    with pytest.raises(DataError, match="do not fill markets"):
        DynamicCore(agents=2).reset(orders(3, 2))
    with pytest.raises(ValueError, match="no session"):
        twin_error(free, orders(1, 2))


def as_a_seller(core: DynamicCore) -> np.ndarray:
    """The observation with a buyer's view turned back."""
    seen = core.observation.copy()
    public = seen[:, PUBLIC_PLACES]
    turned = public[:, TURNED_FIELD] * TURNED_SIGN
    seen[:, PUBLIC_PLACES] = np.where(core.orders.side[:, None] > 0, public, turned)
    return seen


def test_a_buyer_sees_the_market_upside_down(free: DynamicCore) -> None:
    zeros = np.zeros(2, np.int64)
    free.reset(
        Orders.of_usual_size(zeros, zeros, np.array([1, -1], np.int8), np.full(2, 1e4), 10),
        seeds=np.zeros(2, np.int64),
    )
    sell, buy = free.observation
    for name in ("return_5", "return_since_open", "imbalance", "range_position"):
        assert buy[FIELD[name]] == -sell[FIELD[name]] != 0, name
    assert buy[FIELD["bid_size_2"]] == sell[FIELD["ask_size_2"]]
    for name in ("spread", "volatility", "order_size", "horizon"):
        assert buy[FIELD[name]] == sell[FIELD[name]], name


def test_each_order_has_the_lots_of_its_own_size(free: DynamicCore) -> None:
    sizes = np.array([0.0001, 0.02, 0.1, 0.3])
    parents = replace(orders(4, 20), size=sizes)
    free.execute(parents, np.full((4, 20), 0.5), seeds=np.arange(4))
    lots = np.abs(accounts(free)[0])
    wanted = np.maximum(1, np.rint(sizes * free.books.usual.volume_lots[0] * 20))
    np.testing.assert_array_equal(lots, wanted)
    assert lots[0] == 1  # an order has a lot at least


def test_observation_shows_the_simulated_book(free: DynamicCore) -> None:
    free.reset(orders(6, 10), seeds=np.arange(6))
    for _ in range(3):
        free.step(np.full(6, 0.2))
    seen, depth = as_a_seller(free), free.markets.books.depth(5)
    sizes = depth[..., 1].reshape(6, 10)
    usual = free.books.usual.best_lots[0]
    np.testing.assert_allclose(
        seen[:, 3:13], np.log((sizes + 1) / (usual + 1)), rtol=1e-5, atol=1e-6
    )
    bids, asks = sizes[:, :5].sum(axis=1), sizes[:, 5:].sum(axis=1)
    np.testing.assert_allclose(
        seen[:, FIELD["imbalance"]], (bids - asks) / (bids + asks), rtol=1e-5, atol=1e-7
    )
    move = np.log(free.mid_after / free.mid_before) / np.sqrt(free._view._squared / (60 + 3))
    np.testing.assert_allclose(
        seen[:, FIELD["return_1"]], np.clip(move, -CLIP, CLIP), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(seen[:, FIELD["time_left"]], 0.7)
    np.testing.assert_allclose(seen[:, FIELD["inventory_left"]], free.remaining / 10_000.0)


def test_a_twin_starts_where_the_static_world_is(twin: DynamicCore) -> None:
    parents = order_pairs(DATA, 60, start=90)
    twin.reset(parents, seeds=np.arange(len(parents)))
    seen = as_a_seller(twin)
    table = observation_table(DATA, FeatureScales.fit(DATA))[parents.row, parents.start]
    for name in ("volatility", "time_of_day"):
        np.testing.assert_allclose(
            seen[:, FIELD[name]], table[:, PUBLIC_FIELDS.index(name)], atol=1e-5, err_msg=name
        )
    for name in ("return_15", "return_60", "return_since_open", "volume_5", "specific_return_60"):
        assert np.corrcoef(seen[:, FIELD[name]], table[:, PUBLIC_FIELDS.index(name)])[0, 1] > 0.6, (
            name
        )


def changed_after(data: MarketData, bar: int) -> MarketData:
    """The same sessions with another future: prices and volume from `bar` on are doubled."""
    factor = np.where(np.arange(len(data.grid)) >= bar, 2.0, 1.0)
    changed = {
        name: getattr(data, name) * factor for name in ("open", "high", "low", "close", "volume")
    }
    return replace(data, **changed, amount=None, bid=None, ask=None, bid_sizes=None, ask_sizes=None)


def test_a_twin_knows_nothing_of_the_future() -> None:
    day = DATA.select(dates=DATA.dates[-1:])
    parents, scales = order_pairs(day, 30, start=100), FeatureScales.fit(DATA)
    parents = parents.take(parents.start == 100)
    seen = []
    for data in (day, changed_after(day, 110)):
        core = DynamicCore(data, scales=scales)
        seen.append(
            run(core, parents, twap(len(parents), 30), seeds=np.arange(len(parents)))["observation"]
        )
    np.testing.assert_array_equal(seen[0][:11, :, :-2], seen[1][:11, :, :-2])
    assert not np.array_equal(seen[0][11, :, :-2], seen[1][11, :, :-2])


def test_a_twin_tracks_its_session(twin: DynamicCore) -> None:
    sessions = order_pairs(DATA, None).take(np.arange(12))
    error = twin_error(twin, sessions, seeds=np.arange(12))
    closes = sessions.gather(DATA.close)
    spread_bps = 1e4 * (closes / closes.mean(axis=1, keepdims=True) - 1.0).std()
    assert error.broken == 0
    assert error.rms_bps < 0.5 * spread_bps
    assert error.volume_correlation > 0.3


def test_a_twin_of_real_sessions_tracks_them(shared_data) -> None:
    data = read_bars(shared_data / "us_minute_2025.parquet")
    data = data.select(symbols=data.symbols[:4], dates=data.dates[:6])
    error = twin_error(
        DynamicCore(data), order_pairs(data, None).take(np.arange(24)), seeds=np.arange(24)
    )
    assert error.broken == 0
    assert error.rms_bps < 60.0
    assert error.volume_correlation > 0.3


def test_a_twin_takes_its_symbols_spread_and_depth() -> None:
    data = synthetic_market(SyntheticConfig(symbols=4, sessions=4, seed=4))
    found = {}
    for spread_bps, size in ((10.0, 1.0), (40.0, 20.0)):
        half = data.close * spread_bps / 2e4
        sizes = np.full((*data.shape, 1), size * data.volume.mean() / 10)
        quoted = replace(
            data, bid=data.close - half, ask=data.close + half, bid_sizes=sizes, ask_sizes=sizes
        )
        core, pairs = DynamicCore(quoted), order_pairs(quoted, 30)
        core.reset(pairs, seeds=np.arange(len(pairs)))
        bars = core.books.run_without_orders()
        spread = ((bars["ask"] - bars["bid"]) * core.script.tick * 1e4)[10:]
        found[spread_bps] = (
            float(np.median(spread)),
            float(core.markets.books.depth(1)[:, :, 0, 1].mean()),
        )
    assert found[10.0][0] == pytest.approx(10.0, rel=0.35)
    assert found[40.0][0] == pytest.approx(40.0, rel=0.35)
    assert found[40.0][1] > 1.8 * found[10.0][1]
