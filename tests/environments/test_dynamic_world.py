"""The dynamic world to train in: identities, the bank of episodes, both sides, broken markets, one thread or several."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import kstest, uniform

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import DataError
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.dynamic_core import DynamicCore
from se_rl.environments.dynamic_world import DynamicWorld, EpisodeBank
from se_rl.environments.metrics import price_advantage
from se_rl.environments.mixed_world import MixedWorld
from se_rl.environments.task import Orders
from se_rl.environments.worlds import FIELD_NAMES, HIGHEST, LOWEST, Episodes, new_fields
from se_rl.market.family import FAMILY, MarketKind
from se_rl.market.profile import MarketProfile
from se_rl.market.simulation import Markets
from se_rl.modules import defaults

HORIZON, BANK = 10, 64
DATA = synthetic_market(SyntheticConfig(symbols=3, sessions=4, seed=5))
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
Played = tuple[np.ndarray, dict[str, np.ndarray]]


def make(data=None, **options) -> DynamicWorld:
    return DynamicWorld(
        data, **{"horizon": HORIZON, "bank": BANK, "seed": 7, "fee_bps": 1.5} | options
    )


@pytest.fixture(scope="module")
def free() -> DynamicWorld:
    return make(takes_price=True)


@pytest.fixture(scope="module")
def crowd() -> DynamicWorld:
    return make(agents=3, sizes=(0.05, 0.05), bank=16)


def play(world, episodes: Episodes, ratios: np.ndarray, offset: np.ndarray | None = None) -> Played:
    """Observations [step + 1, order, 32] and fields, each [step, order]."""
    seen, kept, fields = [world.reset(episodes).copy()], [], new_fields(len(episodes))
    for step in range(world.horizon):
        seen.append(
            world.step(ratios[:, step], None if offset is None else offset[:, step], fields).copy()
        )
        kept.append(fields.copy())
    rows = np.moveaxis(np.array(kept), 1, 0)
    return np.array(seen), dict(zip(FIELD_NAMES, rows, strict=True))


def twap(n: int) -> np.ndarray:
    return np.tile(1.0 / (HORIZON - np.arange(HORIZON)), (n, 1))


def rewards(fields: dict[str, np.ndarray]) -> np.ndarray:
    return defaults.gain_over_twap(
        SimpleNamespace(**{name: torch.from_numpy(v) for name, v in fields.items()})
    ).numpy()


def same_bytes(first: Played, second: Played) -> bool:
    return first[0].tobytes() == second[0].tobytes() and all(
        first[1][name].tobytes() == second[1][name].tobytes() for name in FIELD_NAMES
    )


@pytest.mark.parametrize("price", [False, True])
def test_the_terms_of_an_episode_sum_to_the_price_advantage_over_arrival(
    free: DynamicWorld, price: bool
) -> None:
    rng = np.random.default_rng(0)
    episodes = free.draw(rng, 64)
    offset = rng.integers(-2, 3, (64, HORIZON)).astype(float) if price else None
    _, fields = play(free, episodes, rng.uniform(0, 0.5, (64, HORIZON)), offset)
    step = {name: values.astype(np.float64) for name, values in fields.items()}
    terms = step["traded_share"] * (step["fill_price"] - step["mid_before"])
    terms += step["inventory_left"] * (step["mid_after"] - step["mid_before"])
    record, whole = free.record(), ~free.broken
    wanted = price_advantage(record.net_price, free.benchmarks().arrival, record.orders.side) / 1e4
    assert whole.mean() > 0.9
    np.testing.assert_allclose(terms.sum(axis=0)[whole], wanted[whole], atol=1e-5)
    np.testing.assert_allclose(step["forced_share"][-1][whole], record.leftover[whole], atol=1e-6)
    assert (step["passive_share"].sum() > 0) == price
    np.testing.assert_array_equal(fields["mid_before"][1:], fields["mid_after"][:-1])
    np.testing.assert_allclose(
        step["own_impact"], step["no_order_mid"] - step["mid_after"], atol=2e-7
    )


@pytest.mark.parametrize("data", [None, DATA])
def test_news_is_the_public_value_alone_so_that_foreseeing_the_flow_is_paid(data) -> None:
    """Were the flow's moves counted as news, a policy that foresees them would earn nothing."""
    world = make(data, bank=16)
    episodes = world.draw(np.random.default_rng(1), 32)
    _, fields = play(world, episodes, twap(32))
    core = DynamicCore(data)
    core.reset(episodes.orders, seeds=episodes.seeds)
    before = core.books.news_ticks
    for step in range(HORIZON):
        core.step(np.full(32, 0.1))
        moved = (core.books.news_ticks - before) * core.books.tick_currency() / core.arrival
        news = episodes.orders.side * moved
        np.testing.assert_allclose(fields["news"][step], news, atol=1e-6)
        before = core.books.news_ticks
    flow = fields["no_order_mid"] - fields["no_order_mid_before"] - fields["news"]
    assert 0.02 < flow.std() / fields["news"].std() < 1.5


@pytest.mark.parametrize("data", [None, DATA])
def test_market_twap_gains_nothing_over_the_bank_twap(data) -> None:
    world = make(data, bank=16, sizes=(0.1, 0.3))
    _, fields = play(world, world.draw(np.random.default_rng(0), 32), twap(32))
    np.testing.assert_allclose(rewards(fields).sum(axis=0), 0.0, atol=2e-6)
    for ours, theirs in (
        ("fill_price", "twap_fill_price"),
        ("inventory_left", "twap_inventory_left"),
    ):
        np.testing.assert_allclose(fields[ours], fields[theirs], atol=3e-7)
    impact = fields["own_impact"][-1]
    assert impact.mean() > 3 * impact.std() / np.sqrt(len(impact)) > 0


def test_the_bank_says_what_a_shadow_market_says(free: DynamicWorld) -> None:
    episodes = free.draw(np.random.default_rng(3), 32)
    _, fields = play(free, episodes, np.full((32, HORIZON), 0.2))
    core = DynamicCore(shadow=True)
    core.reset(episodes.orders, seeds=episodes.seeds)
    for step in range(HORIZON):
        core.step(np.full(32, 0.2))
        turned = 1.0 + episodes.orders.side * (core.no_order_mid / core.arrival - 1.0)
        np.testing.assert_allclose(fields["no_order_mid"][step], turned, atol=2e-7)
        np.testing.assert_array_equal(
            fields["traded_share"][step] > 0, core.shares + core.forced_share > 0
        )


def test_a_bank_entry_is_the_same_episode_in_whatever_order_it_was_drawn() -> None:
    whole, parts = make(), make(bank=2 * BANK)
    entries = np.arange(24)
    play(whole, whole.bank.episodes(entries, horizon=HORIZON), twap(48))
    for some in (entries[17:], entries[3:9], entries[[0, 12, 5]], entries):
        play(parts, parts.bank.episodes(some, horizon=HORIZON), twap(2 * len(some)))
    for name in ("seed", "kind", "size", "row", "start", "side", "known", "mid"):
        np.testing.assert_array_equal(
            whole.bank[name][entries], parts.bank[name][entries], err_msg=name
        )
    for name in ("fill", "left", "void"):
        np.testing.assert_array_equal(
            whole.bank[name][:, entries], parts.bank[name][:, entries], err_msg=name
        )
    assert whole.bank["known"].sum() == parts.bank["known"].sum() == 24


def test_only_what_was_drawn_is_simulated() -> None:
    world = make()
    assert not world.bank["known"].any()
    world.reset(world.draw(np.random.default_rng(0), 20))
    assert world.bank["known"].sum() == 10


def test_a_shared_bank_is_read_and_never_written(free: DynamicWorld, tmp_path) -> None:
    episodes = free.draw(np.random.default_rng(1), 16)
    rng_ratios = np.random.default_rng(2).random((16, HORIZON))
    wanted = play(free, episodes, rng_ratios)
    mapped = {}
    for name, array in free.bank.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    other = make(takes_price=True, bank=EpisodeBank.from_arrays(mapped))
    assert same_bytes(wanted, play(other, episodes, rng_ratios))
    known = mapped["known"].copy()
    fresh = other.bank.episodes(np.flatnonzero(~known)[:2], horizon=HORIZON)
    assert same_bytes(play(free, fresh, twap(4)), play(other, fresh, twap(4)))
    np.testing.assert_array_equal(mapped["known"], known)
    with pytest.raises(DataError, match="other episodes"):
        make(sizes=(0.2, 0.2), bank=EpisodeBank.from_arrays(mapped))


def test_without_the_bank_the_numbers_are_the_same(free: DynamicWorld) -> None:
    episodes = free.draw(np.random.default_rng(4), 16)
    ratios = np.random.default_rng(5).random((16, HORIZON))
    live = make(takes_price=True, shadow_from_bank=False)
    assert same_bytes(play(free, episodes, ratios), play(live, episodes, ratios))
    assert not live.bank["known"].any()
    foreign = Episodes(episodes.orders, np.arange(16) * 1000)
    known = free.bank["known"].sum()
    assert same_bytes(play(free, foreign, ratios), play(live, foreign, ratios))
    assert free.bank["known"].sum() == known


def test_both_sides_share_a_seed_and_pay_alike(free: DynamicWorld) -> None:
    episodes = free.draw(np.random.default_rng(6), 2 * BANK)
    orders, seeds = episodes.orders, episodes.seeds
    np.testing.assert_array_equal(seeds[:BANK], seeds[BANK:])
    assert (orders.side[:BANK] == 1).all() and (orders.side[BANK:] == -1).all()
    assert len(np.unique(seeds)) == BANK
    _, fields = play(free, episodes, twap(2 * BANK))
    np.testing.assert_allclose(fields["news"][:, :BANK], -fields["news"][:, BANK:], atol=2e-7)
    np.testing.assert_array_equal(fields["imbalance"][0, :BANK], -fields["imbalance"][0, BANK:])
    assert fields["imbalance"][0].any()
    paid = (fields["traded_share"] * (fields["fill_price"] - fields["no_order_mid_before"])).sum(
        axis=0
    )
    sell, buy = paid[:BANK], paid[BANK:]
    assert sell.mean() < 0 and buy.mean() < 0
    assert abs((sell - buy).mean()) < 4 * (sell - buy).std() / np.sqrt(BANK)


def test_offsets_are_ticks_from_the_own_touch(free: DynamicWorld) -> None:
    episodes = free.draw(np.random.default_rng(8), 64)
    n, passive = 64, {}
    for ticks in (-40.0, 0.0, 3.0, 90.0):
        _, fields = play(free, episodes, twap(n), np.full((n, HORIZON), ticks))
        passive[ticks] = fields["passive_share"].sum(axis=0).mean()
        if ticks == 90.0:
            np.testing.assert_allclose(fields["forced_share"][-1], 1.0, atol=1e-6)
    assert passive[-40.0] < passive[3.0] < passive[0.0] and passive[90.0] == 0.0
    market, none = (
        play(free, episodes, twap(n), offset) for offset in (None, np.full((n, HORIZON), np.nan))
    )
    assert same_bytes(market, none)
    plain = make(takes_price=False)
    assert same_bytes(market, play(plain, episodes, twap(n), np.zeros((n, HORIZON))))


def test_a_limit_rests_at_the_touch_plus_whole_ticks(
    free: DynamicWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    wishes = free.core._wishes
    monkeypatch.setattr(
        free.core, "_wishes", lambda lots, limit: asked.append(limit) or wishes(lots, limit)
    )
    free.reset(free.draw(np.random.default_rng(0), 4))
    touch, tick = free.core.touch(), free.core.script.tick * free.core.script.reference
    free.step(np.full(4, 0.1), np.array([2.0, -1.2, 1.0, 0.4]), new_fields(4))
    np.testing.assert_allclose((asked[0] - touch) / tick, [2.0, -1.0, -1.0, 0.0], atol=1e-6)


def test_whoever_waits_to_the_end_is_forced_to_trade_everything() -> None:
    world = make(sizes=(0.02, 0.02))
    _, fields = play(world, world.draw(np.random.default_rng(0), 16), np.zeros((16, HORIZON)))
    np.testing.assert_array_equal(fields["forced_share"][-1], 1.0)
    np.testing.assert_array_equal(fields["traded_share"][-1], 1.0)
    np.testing.assert_array_equal(fields["traded_share"][:-1], 0.0)
    np.testing.assert_array_equal(fields["fill_price"][:-1], fields["benchmark_price"][:-1])
    assert not world.broken.any()


def test_what_the_market_refuses_is_dear() -> None:
    world = make(sizes=(1.0, 1.0))
    episodes = world.draw(np.random.default_rng(0), 16)
    _, fields = play(world, episodes, np.zeros((16, HORIZON)))
    refused = world.core.remaining_lots > 0
    assert refused.any() and not world.broken[refused].all()
    whole = refused & ~world.core.markets.broken
    np.testing.assert_allclose(fields["traded_share"].sum(axis=0)[whole], 1.0, atol=1e-6)
    np.testing.assert_allclose(fields["inventory_left"][-1], 0.0)
    np.testing.assert_allclose(fields["forced_share"][-1][whole], 1.0, atol=1e-6)
    collar = world.core.books.usual.collar * world.core.script.tick
    gap = (fields["mid_after"] - fields["fill_price"])[-1]
    assert (gap[whole] > 0.5 * collar[whole]).all()


def test_broken_markets_are_marked_and_leave_finite_fields() -> None:
    thinner = replace(FRAGILE, noise_market_rate=1.5)
    world = make(kinds=[MarketKind("fragile", thinner)], bank=128)
    episodes = world.draw(np.random.default_rng(0), 256)
    _, fields = play(world, episodes, np.full((256, HORIZON), 0.15))
    values = np.array(list(fields.values()))
    assert np.isfinite(values).all()
    assert (values >= LOWEST[:, None, None]).all() and (values <= HIGHEST[:, None, None]).all()
    lost, entry = world.core.markets.broken, world.bank.find(episodes)
    void = world.bank["void"][entry[1], entry[0], 0]
    assert (lost & ~void).any() and (void & ~lost).any() and not world.broken.all()
    assert world.broken[lost | void].all()
    np.testing.assert_array_equal(
        fields["mid_after"][-1][lost | void], fields["no_order_mid"][-1][lost | void]
    )
    gap = (fields["no_order_mid"] - fields["twap_fill_price"]).T[void]
    np.testing.assert_allclose(gap, 1.5e-4, atol=1e-5)  # the mid less the fee


def test_agents_of_a_book_share_its_mid_and_have_sides_of_their_own(crowd: DynamicWorld) -> None:
    episodes = crowd.draw(np.random.default_rng(0), 48)
    side = episodes.orders.side.reshape(2, 8, 3)
    np.testing.assert_array_equal(side[0], -side[1])
    assert len(episodes.seeds) == 16 and len(np.unique(side[0], axis=0)) > 2
    _, fields = play(crowd, episodes, twap(48))
    turned = 1.0 + (fields["mid_after"] - 1.0) * episodes.orders.side
    book = turned.reshape(HORIZON, 16, 3)
    np.testing.assert_allclose(book, np.broadcast_to(book[..., :1], book.shape), atol=2e-7)
    np.testing.assert_allclose(rewards(fields).sum(axis=0), 0.0, atol=2e-6)


def test_a_mixture_of_books_with_several_agents_keeps_books_whole(crowd: DynamicWorld) -> None:
    mixed = MixedWorld([crowd, make(agents=3, sizes=(0.05, 0.05), bank=16, seed=8)])
    episodes = mixed.draw(np.random.default_rng(0), 36)
    assert len(episodes.seeds) == 12
    np.testing.assert_array_equal(episodes.seeds[:6], episodes.seeds[6:])
    assert np.isin(episodes.seeds[:3], crowd.bank["seed"]).all()
    assert np.isin(episodes.seeds[3:6], mixed.worlds[1].bank["seed"]).all()
    _, fields = play(mixed, episodes, twap(36))
    np.testing.assert_allclose(rewards(fields).sum(axis=0), 0.0, atol=2e-6)
    assert mixed.worlds[1].bank["known"].sum() == 3


def test_twins_draw_windows_of_the_chosen_dates() -> None:
    world = make(DATA, dates=DATA.dates[:2], bank=256)
    orders = world.draw(np.random.default_rng(0), 512).orders
    assert set(DATA.dates[orders.row % len(DATA.dates)]) == set(DATA.dates[:2])
    assert orders.start.min() >= 0 and orders.start.max() + HORIZON <= len(DATA.grid)


@pytest.mark.parametrize("step", [0, 4])
def test_nothing_up_to_a_step_depends_on_later_bars_of_the_twin(step: int) -> None:
    scales, start = FeatureScales.fit(DATA), 100
    later = slice(start + step + 1, None)
    changed = {
        name: getattr(DATA, name).copy()
        for name in ("open", "high", "low", "close", "volume", "amount")
    }
    order = np.random.default_rng(0).permutation(len(DATA.grid) - start - step - 1)
    for values in changed.values():
        values[:, -1, later] = values[:, -1, later][..., order]
    row = np.tile(np.arange(1, 4) * len(DATA.dates) - 1, 2)
    orders = Orders.of_usual_size(
        row, np.full(6, start), np.repeat(np.array([1, -1], np.int8), 3), np.ones(6), HORIZON
    )
    episodes, ratios = Episodes(orders, np.arange(6) % 3 * 1000), np.full((6, HORIZON), 0.1)
    seen, fields = play(make(DATA, scales=scales, bank=1), episodes, ratios)
    other_seen, other = play(
        make(replace(DATA, **changed), scales=scales, bank=1), episodes, ratios
    )
    np.testing.assert_array_equal(seen[: step + 2], other_seen[: step + 2])
    for name in FIELD_NAMES:
        np.testing.assert_array_equal(
            fields[name][: step + 1], other[name][: step + 1], err_msg=name
        )
    assert not np.array_equal(fields["mid_after"], other["mid_after"])


def test_same_seed_same_bytes() -> None:
    runs = []
    for _ in range(2):
        world, rng = make(takes_price=True), np.random.default_rng(9)
        runs.append(
            play(
                world,
                world.draw(rng, 16),
                rng.random((16, HORIZON)),
                rng.integers(-2, 3, (16, HORIZON)) * 1.0,
            )
        )
    assert same_bytes(*runs)


def test_serial_and_parallel_kernels_agree() -> None:
    bars = [Markets(8, parallel=parallel).run(5)[0] for parallel in (False, True)]
    for name in bars[0]:
        np.testing.assert_array_equal(bars[0][name], bars[1][name], err_msg=name)


ONE_THREAD = """
import hashlib, json, numba, numpy as np
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.worlds import new_fields
world, fields = DynamicWorld(horizon=3, bank=8), new_fields(8)
world.reset(world.draw(np.random.default_rng(0), 8))
for _ in range(3):
    world.step(np.full(8, 0.4), None, fields)
try:
    layer = numba.threading_layer()
except ValueError:
    layer = None
print(json.dumps([layer, hashlib.sha256(fields.tobytes()).hexdigest()]))
"""


def test_one_thread_starts_no_threading_layer_and_gives_the_same_bytes() -> None:
    answers = []
    for threads in ("1", "2"):
        environment = os.environ | {"NUMBA_NUM_THREADS": threads}
        answer = subprocess.run(
            [sys.executable, "-c", ONE_THREAD],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(json.loads(answer.stdout))
    assert answers[0][0] is None and answers[1][0] is not None
    assert answers[0][1] == answers[1][1]


def test_impossible_settings_and_missing_seeds_are_refused_in_one_line(free: DynamicWorld) -> None:
    for options in ({"bank": 0}, {"horizon": 0}, {"sizes": (0.1, 2.0)}):
        with pytest.raises(DataError) as caught:
            make(**options)
        assert "\n" not in str(caught.value)
    zero = np.zeros(2, np.int64)
    orders = Orders.of_usual_size(zero, zero, np.array([1, -1], np.int8), np.ones(2), HORIZON)
    with pytest.raises(ValueError, match="no seeds"):
        free.reset(Episodes(orders))


FAMILY_KINDS = tuple(
    MarketKind(name, profile, twin) for twin in (False, True) for name, profile in FAMILY.items()
)


def test_one_batch_of_all_kinds_is_the_same_as_a_batch_of_each() -> None:
    world = make(DATA, kinds=FAMILY_KINDS, takes_price=True)
    episodes = world.draw(np.random.default_rng(0), 2 * BANK)
    orders = episodes.orders
    rng = np.random.default_rng(1)
    ratios, offsets = rng.random((2 * BANK, HORIZON)), rng.integers(-1, 3, (2 * BANK, HORIZON))
    seen, fields = play(world, episodes, ratios, offsets.astype(float))
    assert set(orders.kind.tolist()) == set(range(len(FAMILY_KINDS)))
    for number, kind in enumerate(world.kinds):
        own = orders.kind == number
        alone = make(DATA if kind.twin else None, kinds=[kind], takes_price=True)
        there = Episodes(
            replace(orders.take(own), kind=np.zeros(own.sum(), np.int64)), episodes.seeds[own]
        )
        got = play(alone, there, ratios[own], offsets[own].astype(float))
        want = {name: values[:, own] for name, values in fields.items()}
        assert same_bytes((seen[:, own], want), got), kind.name


def test_entries_draw_kinds_evenly_and_sizes_log_uniformly_whatever_the_banks_size() -> None:
    small, large = (make(DATA, kinds=FAMILY_KINDS, bank=n, agents=2) for n in (50, 3000))
    for name in ("kind", "size", "seed", "row", "start", "side"):
        np.testing.assert_array_equal(small.bank[name], large.bank[name][:50], err_msg=name)
    size, kind = large.bank["size"], large.bank["kind"]
    third = np.floor(3 * np.log(size[:, 0] / 0.01) / np.log(30.0)).astype(int)
    assert (np.bincount(3 * kind[:1800] + third[:1800]) == 100).all()  # cells are balanced
    law = uniform(np.log(0.01), np.log(30.0))
    assert kstest(np.log(size[:, 0]), law.cdf).pvalue > 0.001
    assert (size[:, 0] != size[:, 1]).all()
    for number in range(6):
        assert kstest(np.log(size[kind == number, 1]), law.cdf).pvalue > 0.001


def test_agents_of_one_book_have_unlike_orders() -> None:
    bank = make(DATA, kinds=FAMILY_KINDS, bank=600, agents=4).bank
    third = np.floor(3 * np.log(bank["size"] / 0.01) / np.log(30.0)).astype(int)  # [book, agent]
    assert all(len(set(book)) == 3 for book in third.tolist()), "small, middling and large ones"
    sides = bank["side"].sum(axis=1)
    assert 0.8 < float(np.mean(np.abs(sides) < 4)) < 0.95, "mostly both sides in one book"


def test_a_bank_of_other_kinds_or_sizes_is_refused_and_twins_need_data() -> None:
    bank = make(DATA, kinds=FAMILY_KINDS).bank
    make(DATA, kinds=FAMILY_KINDS, bank=bank)
    for other in ({"kinds": FAMILY_KINDS[:5]}, {"kinds": FAMILY_KINDS, "sizes": (0.01, 0.2)}):
        with pytest.raises(DataError, match="other episodes"):
            make(DATA, bank=bank, **other)
    with pytest.raises(DataError, match="give data"):
        make(None, kinds=FAMILY_KINDS)


def test_the_larger_the_order_the_more_twap_pays_in_every_kind() -> None:
    world = make(DATA, kinds=FAMILY_KINDS, fee_bps=0.0)
    episodes = world.draw(np.random.default_rng(0), 2 * BANK)
    cost = {}
    for size in (0.03, 0.3):
        orders = replace(episodes.orders, size=np.full(2 * BANK, size))
        _, fields = play(world, Episodes(orders, episodes.seeds), twap(2 * BANK))
        paid = (fields["traded_share"] * (1.0 - fields["fill_price"])).sum(axis=0)
        cost[size] = paid + (fields["no_order_mid"][-1] - 1.0)
    assert world.broken.mean() < 0.02
    for number, kind in enumerate(world.kinds):
        own = (episodes.orders.kind == number) & ~world.broken
        assert (cost[0.3] - cost[0.03])[own].mean() > 0, kind.name
