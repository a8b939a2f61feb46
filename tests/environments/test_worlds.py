"""The worlds to train in: identities of the reward's fields, no peeking, pairs of both sides, mixtures, imagined history."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, uniform

from se_rl.data.features import OBSERVATION_PLACE, FeatureScales
from se_rl.data.market_data import DataError, MarketData
from se_rl.data.readers import read_bars
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.costs import FREE, Costs
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.imagined import imagined_data
from se_rl.environments.metrics import price_advantage
from se_rl.environments.mixed_world import MixedWorld
from se_rl.environments.static_core import StaticCore
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import arrival_price, sized_orders
from se_rl.environments.worlds import (
    FIELD_NAMES,
    FIELD_PLACE,
    HIGHEST,
    LOWEST,
    Episodes,
    World,
    new_fields,
)
from se_rl.modules import defaults

DATA = synthetic_market(
    SyntheticConfig(exchange="XSHG", bar_minutes=5, symbols=6, sessions=5, seed=1)
)
SCALES = FeatureScales.fit(DATA)
HORIZON = 12
CHARGED = Costs(half_spread_bps=2.0, fee_bps=3.0)
DECIDED = (
    "mid_before",
    "no_order_mid_before",
    "half_spread",
    "volatility",
    "imbalance",
    "time_left",
)
"""Fields that are known before the bar in which the step is filled."""


def make(data: MarketData = DATA, **options) -> StaticWorld:
    return StaticWorld(data, **{"horizon": HORIZON, "scales": SCALES, "costs": CHARGED} | options)


def play(
    world: World, episodes: Episodes, ratios: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Observations [step + 1, order, 32] and fields, each [step, order]."""
    seen, kept, fields = [world.reset(episodes).copy()], [], new_fields(len(episodes))
    for step in range(world.horizon):
        seen.append(world.step(ratios[:, step], None, fields).copy())
        kept.append(fields.copy())
    rows = np.moveaxis(np.array(kept), 1, 0)
    return np.array(seen), dict(zip(FIELD_NAMES, rows, strict=True))


def twap(n: int, horizon: int = HORIZON) -> np.ndarray:
    return np.tile(1.0 / (horizon - np.arange(horizon)), (n, 1))


def rewards(fields: dict[str, np.ndarray]) -> np.ndarray:
    return defaults.gain_over_twap(
        SimpleNamespace(**{name: torch.from_numpy(v) for name, v in fields.items()})
    ).numpy()


def own_terms(fields: dict[str, np.ndarray]) -> np.ndarray:
    """Our part of the reward, news left in: trades against the mid, and the rest marked to the mid."""
    step = {name: values.astype(np.float64) for name, values in fields.items()}
    marked = step["inventory_left"] * (step["mid_after"] - step["mid_before"])
    return step["traded_share"] * (step["fill_price"] - step["mid_before"]) + marked


@pytest.mark.parametrize("seed", range(4))
def test_the_terms_of_an_episode_sum_to_the_price_advantage_over_arrival(seed: int) -> None:
    world, rng = make(), np.random.default_rng(seed)
    episodes = world.draw(rng, 64)
    ratios = rng.uniform(0, 0.5, (64, HORIZON)) * rng.integers(0, 2, (64, HORIZON))
    _, fields = play(world, episodes, ratios)
    record = world.record()
    wanted = price_advantage(record.net_price, world.benchmarks().arrival, record.orders.side) / 1e4
    np.testing.assert_allclose(own_terms(fields).sum(axis=0), wanted, atol=1e-5)
    np.testing.assert_allclose(fields["traded_share"].sum(axis=0), 1.0, atol=1e-6)
    np.testing.assert_allclose(fields["forced_share"][-1], record.leftover, atol=1e-6)
    assert abs(wanted).max() > 1e-3


def test_default_reward_of_twap_is_nothing_and_its_sum_is_the_gain_over_twap() -> None:
    world, rng = make(), np.random.default_rng(0)
    episodes = world.draw(rng, 128)
    _, fields = play(world, episodes, twap(128))
    np.testing.assert_allclose(rewards(fields), 0.0, atol=3e-8)
    _, fields = play(world, episodes, rng.uniform(0, 0.4, (128, HORIZON)))
    plain = StaticCore(DATA, costs=CHARGED)
    gain = world.record().net_price - plain.execute(episodes.orders, twap(128)).net_price
    paid = episodes.orders.side * gain / arrival_price(DATA, episodes.orders)
    news = fields["news"] * (fields["inventory_left"] - fields["twap_inventory_left"])
    np.testing.assert_allclose(rewards(fields).sum(axis=0), paid - news.sum(axis=0), atol=1e-6)


def test_sizes_are_log_uniform_shares_of_the_usual_volume_of_the_window() -> None:
    world = make(sizes=(0.02, 0.2))
    orders = world.draw(np.random.default_rng(0), 4000).orders
    half = len(orders) // 2
    np.testing.assert_array_equal(orders.size[:half], orders.size[half:])  # both sides of a pair
    law = kstest(np.log(orders.size[:half]), uniform(np.log(0.02), np.log(10.0)).cdf)
    assert law.pvalue > 0.01
    symbol, day = np.divmod(orders.row, len(DATA.dates))
    usual = np.array(
        [
            SCALES.day_volume[s] * SCALES.volume_share[b : b + HORIZON].sum()
            for s, b in zip(symbol, orders.start, strict=True)
        ]
    )
    np.testing.assert_allclose(orders.quantity, orders.size * usual, rtol=1e-12)
    assert (day >= 0).all()
    with pytest.raises(DataError, match="no shares of the volume"):
        make(sizes=(0.3, 0.1))


def test_both_worlds_show_what_the_order_is_and_a_cap_binds_by_size() -> None:
    seen = {}
    for world in (make(), DynamicWorld(horizon=HORIZON, bank=16)):
        episodes = world.draw(np.random.default_rng(0), 32)
        first = world.reset(episodes).copy()
        later = world.step(np.full(32, 0.2), None, new_fields(32))
        for at in (first, later):
            shown = at[:, OBSERVATION_PLACE["order_size"]]
            np.testing.assert_allclose(shown, np.log(episodes.orders.size / 0.1), rtol=1e-5)
            np.testing.assert_allclose(at[:, OBSERVATION_PLACE["horizon"]], np.log(HORIZON / 60))
        seen[world.name] = first
    assert seen["static"].shape == seen["dynamic"].shape
    capped = make(costs=Costs(max_participation=0.1))
    leftover = []
    for size in (0.01, 0.3):
        few = sized_orders(
            capped.draw(np.random.default_rng(1), 200).orders, np.full(200, size), DATA, SCALES
        )
        leftover.append(capped.core.execute(few, twap(200)).leftover)
    # a tenth of the volume is far more than one percent of it, and far less than thirty
    assert (leftover[0] < 0.02).mean() > 0.9 and (leftover[1] > 0.3).mean() > 0.9


def test_fields_say_what_the_bars_say() -> None:
    half_spread = 1e-4 * (1.0 + np.arange(len(DATA.grid)))
    data = replace(DATA, bid=DATA.close * (1.0 - half_spread), ask=DATA.close * (1.0 + half_spread))
    world = make(data, costs=FREE)
    episodes = world.draw(np.random.default_rng(3), 32)
    orders = episodes.orders
    _, fields = play(world, episodes, twap(32))
    side, arrival = orders.side[:, None], arrival_price(data, orders)[:, None]
    turned = 1.0 + side * (orders.gather(data.price) / arrival - 1.0)
    np.testing.assert_allclose(fields["fill_price"].T, turned, atol=3e-7)
    np.testing.assert_allclose(fields["benchmark_price"].T, turned, atol=3e-7)
    closes = 1.0 + side * (orders.gather(data.close) / arrival - 1.0)
    np.testing.assert_allclose(fields["mid_after"].T, closes, atol=3e-7)
    np.testing.assert_array_equal(fields["mid_before"][1:], fields["mid_after"][:-1])
    np.testing.assert_array_equal(fields["mid_before"][0], 1.0)
    known = np.concatenate([data.open[..., :1], data.close], axis=2)
    market = np.broadcast_to(np.diff(np.log(known), axis=2).mean(axis=0), data.shape)
    np.testing.assert_allclose(fields["news"].T, side * orders.gather(market), atol=1e-7)
    np.testing.assert_allclose(
        fields["half_spread"].T, 1e-4 * orders.bars(), rtol=1e-5
    )  # that of the bar before
    first = data.bid_sizes[..., 0] - data.ask_sizes[..., 0]
    tilt = first / (data.bid_sizes[..., 0] + data.ask_sizes[..., 0])
    np.testing.assert_allclose(
        fields["imbalance"].T[:, 1:], side * orders.gather(tilt)[:, :-1], atol=1e-6
    )


def test_no_news_where_few_symbols_trade() -> None:
    few = DATA.select(symbols=DATA.symbols[:4])
    world = make(few, scales=None)
    _, fields = play(world, world.draw(np.random.default_rng(0), 16), twap(16))
    assert not fields["news"].any()
    assert fields["volatility"].min() > 0


def test_fields_stay_in_their_ranges_when_prices_leave_them() -> None:
    wild = replace(
        DATA,
        **{name: getattr(DATA, name).copy() for name in ("open", "high", "low", "close")},
        amount=None,
    )
    for name in ("open", "high", "low", "close"):
        getattr(wild, name)[..., 20:] *= 40.0
    world = make(wild, starts=[15])
    _, fields = play(world, world.draw(np.random.default_rng(0), 16), twap(16))
    values = np.array(list(fields.values()))
    assert np.isfinite(values).all()
    assert (values >= LOWEST[:, None, None]).all() and (values <= HIGHEST[:, None, None]).all()
    assert fields["mid_after"].max() == 2.0 and fields["mid_after"].min() == 0.5


@pytest.mark.parametrize("step", [0, 3, HORIZON - 2])
def test_nothing_up_to_a_step_depends_on_later_bars(step: int) -> None:
    start = 10
    later = slice(start + step + 1, None)
    changed = {
        name: getattr(DATA, name).copy()
        for name in ("open", "high", "low", "close", "volume", "amount")
    }
    order = np.random.default_rng(0).permutation(len(DATA.grid) - start - step - 1)
    for values in changed.values():
        values[:, -1, later] = values[:, -1, later][..., order]
    shuffled = replace(DATA, **changed)
    last = [DATA.dates[-1]]
    episodes = make(starts=[start], dates=last).draw(np.random.default_rng(1), 24)
    ratios = np.full((24, HORIZON), 0.1)
    seen, fields = play(make(starts=[start], dates=last), episodes, ratios)
    other_seen, other = play(make(shuffled, starts=[start], dates=last), episodes, ratios)
    np.testing.assert_array_equal(seen[: step + 2], other_seen[: step + 2])
    for name in FIELD_NAMES:
        until = step + 2 if name in DECIDED else step + 1
        np.testing.assert_array_equal(fields[name][:until], other[name][:until], err_msg=name)
    assert not np.array_equal(fields["fill_price"], other["fill_price"])


def test_both_sides_of_a_pair_trade_the_same_window_and_mirror_each_other() -> None:
    dates = DATA.dates[1:3]
    world = make(dates=dates, costs=FREE)
    episodes = world.draw(np.random.default_rng(5), 40)
    orders, half = episodes.orders, 20
    for name in ("row", "start", "quantity"):
        np.testing.assert_array_equal(getattr(orders, name)[:half], getattr(orders, name)[half:])
    assert (orders.side[:half] == 1).all() and (orders.side[half:] == -1).all()
    assert set(DATA.dates[orders.row % len(DATA.dates)]) <= set(dates)
    assert orders.start.min() >= 0 and orders.start.max() + HORIZON <= len(DATA.grid)
    _, fields = play(world, episodes, np.full((40, HORIZON), 0.2))
    for name in (
        "fill_price",
        "mid_before",
        "mid_after",
        "no_order_mid",
        "twap_fill_price",
        "benchmark_price",
    ):
        np.testing.assert_allclose(
            fields[name][:, :half] + fields[name][:, half:], 2.0, atol=3e-7, err_msg=name
        )
    for name in ("news", "imbalance"):
        np.testing.assert_array_equal(fields[name][:, :half], -fields[name][:, half:])
    for name in ("traded_share", "inventory_left", "forced_share", "volatility"):
        np.testing.assert_array_equal(fields[name][:, :half], fields[name][:, half:])


def test_whoever_waits_to_the_end_is_forced_to_trade_everything() -> None:
    world = make()
    _, fields = play(world, world.draw(np.random.default_rng(0), 8), np.zeros((8, HORIZON)))
    np.testing.assert_array_equal(fields["forced_share"][-1], 1.0)
    np.testing.assert_array_equal(
        fields["traded_share"], np.r_[np.zeros(HORIZON - 1), 1.0][:, None] * np.ones(8)
    )
    np.testing.assert_array_equal(fields["fill_price"][:-1], fields["benchmark_price"][:-1])


def test_same_seed_same_bytes() -> None:
    runs = []
    for _ in range(2):
        world, rng = make(), np.random.default_rng(9)
        seen, fields = play(world, world.draw(rng, 32), rng.random((32, HORIZON)))
        runs.append((seen.tobytes(), *(values.tobytes() for values in fields.values())))
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"starts": "none"}, "starts"),
        ({"starts": []}, "starts"),
        ({"starts": [len(DATA.grid)]}, "longer than the session"),
        ({"dates": [19000101]}, "no session"),
        ({"horizon": 10_000}, "longer than the session"),
        ({"costs": Costs(fills="queue")}, "historical order book"),
    ],
)
def test_impossible_settings_are_refused_in_one_line(options: dict, what: str) -> None:
    with pytest.raises(DataError, match=what) as caught:
        make(**options)
    assert "\n" not in str(caught.value)


def test_odd_batches_foreign_horizons_and_steps_after_the_end_are_refused() -> None:
    world = make()
    with pytest.raises(ValueError, match="multiple of 2"):
        world.draw(np.random.default_rng(0), 7)
    episodes = world.draw(np.random.default_rng(0), 4)
    with pytest.raises(ValueError, match="steps"):
        make(horizon=5).reset(episodes)
    play(world, episodes, twap(4))
    with pytest.raises(ValueError, match="finished"):
        world.step(np.ones(4), None, new_fields(4))


@settings(max_examples=25, deadline=None)
@given(pairs=st.integers(3, 20), worlds=st.integers(1, 3), seed=st.integers(0, 2**31))
def test_a_mixture_is_its_parts_side_by_side(pairs: int, worlds: int, seed: int) -> None:
    parts = [make(costs=Costs(half_spread_bps=2.0, fee_bps=5.0 * k)) for k in range(worlds)]
    mixed, n = MixedWorld(parts), 2 * pairs
    rng = np.random.default_rng(seed)
    episodes, ratios = mixed.draw(rng, n), rng.uniform(0, 0.5, (n, HORIZON))
    orders = episodes.orders
    np.testing.assert_array_equal(orders.row[:pairs], orders.row[pairs:])
    np.testing.assert_array_equal(orders.side[:pairs], -orders.side[pairs:])
    seen, fields = play(mixed, episodes, ratios)
    record, marks = mixed.record(), mixed.benchmarks()
    np.testing.assert_array_equal(record.orders.row, orders.row)
    places = [np.r_[part, part + pairs] for part in np.array_split(np.arange(pairs), worlds)]
    for k, place in enumerate(places):
        alone = make(costs=Costs(half_spread_bps=2.0, fee_bps=5.0 * k))
        own_seen, own = play(alone, Episodes(orders.take(place)), ratios[place])
        np.testing.assert_array_equal(seen[:, place], own_seen)
        for name in FIELD_NAMES:
            np.testing.assert_array_equal(fields[name][:, place], own[name], err_msg=name)
        np.testing.assert_array_equal(record.net_price[place], alone.record().net_price)
        np.testing.assert_array_equal(marks.vwap[place], alone.benchmarks().vwap)
    assert mixed.broken.shape == (n,) and not mixed.broken.any()


def test_a_mixture_refuses_worlds_that_do_not_fit_and_batches_that_do_not_reach_them() -> None:
    with pytest.raises(ValueError, match="horizon"):
        MixedWorld([make(), make(horizon=5)])
    with pytest.raises(ValueError, match="2 worlds"):
        MixedWorld([make(), make()]).draw(np.random.default_rng(0), 2)


def default_imagination(bars: np.ndarray) -> np.ndarray:
    return defaults.imagine(torch.from_numpy(bars), torch.Generator().manual_seed(3)).numpy()


def test_imagined_history_is_data_like_any_other_and_says_what_it_is() -> None:
    made = imagined_data(DATA, default_imagination)
    assert "imagined" in made.provenance.name and made.provenance.synthetic
    assert made.shape == DATA.shape and made.amount is None
    assert not np.allclose(made.close, DATA.close)
    np.testing.assert_array_equal(made.volume, DATA.volume)
    np.testing.assert_allclose(made.ask / made.close, DATA.ask / DATA.close)
    mixed = MixedWorld([make(), make(made)])
    _, fields = play(mixed, mixed.draw(np.random.default_rng(0), 16), twap(16))
    np.testing.assert_allclose(rewards(fields), 0.0, atol=3e-8)


def test_imagination_sees_all_symbols_of_a_date_and_no_absent_session() -> None:
    holes = {
        name: getattr(DATA, name).copy()
        for name in ("open", "high", "low", "close", "volume", "amount", "traded")
    }
    for name, values in holes.items():
        values[2, 1] = np.nan if name in ("open", "high", "low", "close") else 0
    data, shapes = replace(DATA, **holes), []
    made = imagined_data(data, lambda bars: shapes.append(bars.shape) or bars)
    assert [shape[0] for shape in shapes] == [6, 5, 6, 6, 6]
    np.testing.assert_array_equal(made.close, data.close)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda bars: bars[:, :-1], "shape"),
        (lambda bars: bars * np.nan, "not finite"),
        (lambda bars: -bars, "not positive"),
        (lambda bars: bars * [1, 1, 1, 1, -1], "negative in volume"),
        (lambda bars: bars * [1, 0.9, 1, 1, 1], "low <= open"),
        (lambda bars: bars * np.exp(2e-3 * np.arange(bars.shape[1]))[:, None], "drift"),
    ],
)
def test_imagined_bars_that_break_the_contract_are_refused_in_one_line(spoil, what: str) -> None:
    with pytest.raises(ValueError, match=what) as caught:
        imagined_data(DATA, spoil)
    assert "\n" not in str(caught.value)


def test_real_bars_have_finite_fields_and_no_free_reward(shared_data) -> None:
    data = read_bars(shared_data / "us_minute_2022.parquet")
    world = StaticWorld(data, horizon=60, dates=data.dates[:4])
    episodes = world.draw(np.random.default_rng(0), 512)
    _, fields = play(world, episodes, twap(512, 60))
    values = np.array(list(fields.values()))
    assert np.isfinite(values).all()
    assert (values >= LOWEST[:, None, None]).all() and (values <= HIGHEST[:, None, None]).all()
    np.testing.assert_allclose(rewards(fields), 0.0, atol=3e-8)


def test_the_class_of_the_fields_places_is_found_by_name() -> None:
    """Else numba's cache would miss in every process, and the kernel of the fields be compiled in each."""
    again = pickle.loads(pickle.dumps(FIELD_PLACE))
    assert again == FIELD_PLACE and type(again) is type(FIELD_PLACE)
