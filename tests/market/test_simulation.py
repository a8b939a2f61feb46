"""Markets: the same to the last bit whatever runs beside them; money and shares are never made or lost."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.data.market_data import DataError
from se_rl.market import bar, participants, price_levels
from se_rl.market.compiling import make_kernel
from se_rl.market.participants import (
    ANSWERED,
    FIRST_AGENT,
    NEWS,
    PASSIVE,
    POST,
    RESTING,
    SPENT,
    TAKE,
    Sim,
    event_rates,
    numbers,
)
from se_rl.market.price_levels import Book
from se_rl.market.profile import FIXED, PROFILE_RANGES, MarketProfile
from se_rl.market.simulation import FAMILY, START_TICKS, Markets, stream_seeds
from se_rl.market.trading import draw
from se_rl.modules.kinds import profiling


def same(one: Markets, two: Markets) -> bool:
    return all(
        np.array_equal(a, b) for a, b in zip(one.copy_state(), two.copy_state(), strict=True)
    )


def wish(n: int, bars: int, kind: int, side: int, lots: int, price: int = 0) -> np.ndarray:
    return np.broadcast_to(np.array([kind, side, price, lots], np.int64), (bars, n, 1, 4)).copy()


def test_threads_batches_and_single_steps_do_not_matter() -> None:
    whole, serial = Markets(12, warm_up_bars=5), Markets(12, warm_up_bars=5, parallel=False)
    orders = wish(12, 6, TAKE, price_levels.BUY, 2)
    bars, answers = whole.run(6, orders)
    for k in range(6):
        assert np.array_equal(serial.step(orders[k]), answers[k])
    assert same(whole, serial)
    alone = Markets(2, seeds=[3, 7], warm_up_bars=5)
    few, _ = alone.run(6, orders[:, :2])
    for name in bars:
        np.testing.assert_array_equal(few[name], bars[name][:, [3, 7]])


def test_same_seed_same_market_and_another_seed_another() -> None:
    one, two, other = (Markets(1, seeds=[seed], warm_up_bars=3) for seed in (5, 5, 6))
    assert same(one, two) and not same(one, other)
    state = one.copy_state()
    one.run(4)
    one.restore_state(state)
    assert same(one, two)


def test_without_orders_nothing_moves_and_with_them_only_the_book_does() -> None:
    """Common random numbers: the exogenous news and every stream are those of the run without our order."""
    quiet, busy, empty = (Markets(20, warm_up_bars=10) for _ in range(3))
    base, _ = quiet.run(10)
    empty.run(10, wish(20, 10, TAKE, price_levels.BUY, 0))
    moved, _ = busy.run(10, wish(20, 10, TAKE, price_levels.BUY, 5))
    assert same(quiet, empty)
    np.testing.assert_array_equal(moved["news"], base["news"])
    streams = slice(participants.STREAM, participants.STREAM + participants.STREAMS)
    np.testing.assert_array_equal(busy.sim.state[:, streams], quiet.sim.state[:, streams])
    assert (moved["close"][-1] - base["close"][-1]).mean() > 0


def test_buys_push_up_and_sells_push_down_alike() -> None:
    moves = {}
    for side, sign in ((price_levels.BUY, 1), (price_levels.SELL, -1)):
        quiet, busy = Markets(300, warm_up_bars=10), Markets(300, warm_up_bars=10)
        change = (
            busy.run(10, wish(300, 10, TAKE, side, 3))[0]["close"][-1]
            - quiet.run(10)[0]["close"][-1]
        )
        moves[sign] = sign * change / 2
    for impact in moves.values():
        assert impact.mean() > 4 * impact.std() / np.sqrt(300)
    gap = moves[1].mean() - moves[-1].mean()
    assert abs(gap) < 3 * np.sqrt((moves[1].var() + moves[-1].var()) / 300)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 10_000),
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 12), st.integers(-8, 8)),
        min_size=4,
        max_size=4,
    ),
)
def test_cash_and_shares_are_conserved_and_the_book_never_crosses(
    seed: int, plan: list[tuple[int, int, int, int]]
) -> None:
    markets = Markets(4, agents=2, seeds=np.arange(4) + seed, warm_up_bars=2, parallel=False)
    for _ in range(3):
        wishes = np.zeros((4, 2, 4), np.int64)
        for b, (kind, side, lots, offset) in enumerate(plan):
            wishes[b, b % 2] = kind, side, round(markets.mid_ticks[b]) + offset, lots
        before = markets.books.book.owners.copy()
        answers = markets.step(wishes)
        owners = markets.books.book.owners
        np.testing.assert_array_equal(owners.sum(axis=1), 0)
        change = np.abs(owners - before)[:, FIRST_AGENT : FIRST_AGENT + 2]
        one_sided = (
            np.abs(owners[:, FIRST_AGENT : FIRST_AGENT + 2, 1])
            == np.abs(before[:, FIRST_AGENT : FIRST_AGENT + 2, 1]) + change[..., 1]
        )
        assert np.array_equal(answers[..., ANSWERED][one_sided], change[..., 1][one_sided])
        np.testing.assert_array_equal(answers[..., SPENT], change[..., 0])
        assert (answers[..., PASSIVE][one_sided] <= answers[..., ANSWERED][one_sided]).all()
        bid, ask = (
            markets.books.best(price_levels.BUY),
            markets.books.best(price_levels.SELL, otherwise=10**9),
        )
        assert (bid < ask).all()


def test_a_posted_order_rests_keeps_its_place_and_is_withdrawn() -> None:
    markets = Markets(30, warm_up_bars=10)
    price = markets.books.best(price_levels.BUY) - 25
    post = np.stack(
        [np.full(30, POST), np.full(30, price_levels.BUY), price, np.full(30, 4)], axis=1
    )[:, None].astype(np.int64)
    answers = markets.step(post)
    kept = answers[:, 0, RESTING] == 4
    assert kept.sum() > 20
    slots = markets.sim.state[:, participants.AGENT_SLOT].copy()
    again = markets.step(post)
    still = kept & (again[:, 0, RESTING] == 4)
    np.testing.assert_array_equal(markets.sim.state[still, participants.AGENT_SLOT], slots[still])
    assert (markets.step(np.zeros((30, 1, 4), np.int64))[:, 0, RESTING] == 0).all()


def test_passive_orders_at_the_touch_fill_some_and_cheaper_than_the_market() -> None:
    take, post = Markets(400, warm_up_bars=10), Markets(400, warm_up_bars=10)
    bid = post.books.best(price_levels.BUY)
    passive = np.stack(
        [np.full(400, POST), np.full(400, price_levels.BUY), bid, np.full(400, 2)], axis=1
    )[:, None]
    posted, taken = post.step(passive), take.step(wish(400, 1, TAKE, price_levels.BUY, 2)[0])
    filled = posted[:, 0, ANSWERED] > 0
    assert 0.05 < filled.mean() < 1.0
    assert (posted[:, 0, PASSIVE] == posted[:, 0, ANSWERED]).all()
    assert (taken[:, 0, PASSIVE] == 0).all()
    paid = posted[filled, 0, SPENT] / posted[filled, 0, ANSWERED]
    assert (paid <= bid[filled]).all()
    assert (taken[:, 0, SPENT] / np.maximum(taken[:, 0, ANSWERED], 1)).mean() > bid.mean()


def test_neighbours_in_one_book_never_fill_a_wish_beyond_itself() -> None:
    markets = Markets(100, agents=2, warm_up_bars=10)
    bid, ask = markets.books.best(price_levels.BUY), markets.books.best(price_levels.SELL)
    inside = np.where(ask - bid > 1, ask - 1, bid)
    wishes = np.zeros((100, 2, 4), np.int64)
    wishes[:, 0] = np.stack(
        [np.full(100, POST), np.full(100, price_levels.BUY), inside, np.full(100, 3)], axis=1
    )
    total = markets.step(wishes)[:, 0, ANSWERED]
    for _ in range(
        4
    ):  # the first rests, the second sells into it before the first one's next wish is read
        wishes[:, 1] = TAKE, price_levels.SELL, 0, 6
        wishes[:, 0, participants.WISH_LOTS] = 3 - total
        total = total + markets.step(wishes[:, ::1])[:, 0, ANSWERED]
    assert (total <= 3).all() and (total == 3).any()


def test_an_empty_side_is_reported() -> None:
    thin = MarketProfile(
        noise_limit_rate=0.002,
        noise_limit_ticks=5,
        maker_levels=2,
        maker_lots=1,
        maker_wake_rate=0.2,
        collar=200,
    )
    markets = Markets(20, thin, warm_up_bars=5)
    assert not markets.broken.any()
    markets.run(3, wish(20, 3, TAKE, price_levels.BUY, 500))
    assert markets.broken.any()


def test_the_profile_really_changes_the_market() -> None:
    def spread(**change: float) -> float:
        bars, _ = Markets(60, MarketProfile(**change), warm_up_bars=20).run(20)
        return float((bars["ask"] - bars["bid"]).mean())

    assert spread(maker_half_spread=4.0) > spread(maker_half_spread=1.0) + 1
    calm, wild = (
        Markets(60, MarketProfile(news_volatility=v), warm_up_bars=20).run(20)[0]["close"]
        for v in (0.2, 3.0)
    )
    assert np.diff(wild, axis=0).std() > 3 * np.diff(calm, axis=0).std()


def test_drift_and_events_make_a_twin() -> None:
    still = replace(MarketProfile(), news_volatility=0.0, parent_share=0.0, momentum_rate=0.0)
    markets = Markets(50, still, warm_up_bars=20)
    before = markets.mid_ticks.copy()
    drift = np.full((10, 50), 3 * FIXED, np.int64)
    bars, _ = markets.run(10, drift=drift, events=np.full((10, 50), 200, np.int64))
    moved = bars["close"][-1] / 2 - before
    assert 20 < moved.mean() < 35
    np.testing.assert_array_equal(bars["news"][-1] - bars["news"][0], 9 * 3 * FIXED)


@pytest.mark.parametrize("drift", [0, 5, 12_345, -1_001])
def test_the_value_drifts_by_whole_parts_of_its_way(drift: int) -> None:
    seen: list[int] = []

    def note(book: Book, sim: Sim, b: int, event: int) -> None:
        seen.append(int(sim.state[b, NEWS]))

    note.py_func = note  # type: ignore[attr-defined]
    kernel = make_kernel(lambda function: function, *bar.FUNCTIONS, ready={bar.look_ahead: note})
    still = Markets(1, replace(MarketProfile(), news_volatility=0.0), warm_up_bars=0)
    nothing = np.zeros((1, 1, 4), np.int64)
    kernel.run_bar(
        still.books.book, still.sim, nothing, nothing.copy(), np.array([drift]), np.array([7]), 0
    )
    assert [*seen, still.sim.state[0, NEWS]] == [drift * event // 7 for event in range(8)]


def test_plain_python_gives_the_same_market_as_machine_code() -> None:
    compiled = Markets(1, seeds=[11], warm_up_bars=0, parallel=False)
    plain = Markets(1, seeds=[11], warm_up_bars=0, parallel=False)
    kernel = make_kernel(lambda function: function, *bar.FUNCTIONS)
    wishes, answers = np.zeros((1, 1, 4), np.int64), np.zeros((1, 1, 4), np.int64)
    for k in range(4):
        wishes[0, 0] = TAKE, k % 2, 0, 2
        kernel.run_bar(
            plain.books.book, plain.sim, wishes, answers, np.zeros(1, np.int64), np.array([150]), 0
        )
        compiled.step(wishes, events=np.array([150]))
    assert same(plain, compiled)


def test_constants_that_clash_are_refused() -> None:
    def stranger() -> int:
        return TAIL  # type: ignore[name-defined]  # noqa: F821

    stranger.__globals__["TAIL"] = 99
    try:
        with pytest.raises(NameError, match="TAIL"):
            make_kernel(lambda function: function, stranger)
    finally:
        del stranger.__globals__["TAIL"]


@pytest.mark.parametrize("name", PROFILE_RANGES)
def test_every_number_of_a_profile_has_a_range_that_is_kept(name: str) -> None:
    low, high = PROFILE_RANGES[name]
    for edge in (low, high):
        row = numbers(MarketProfile(**{name: edge}), pool=256)
        assert np.isfinite(row).all()
    for outside in (low - 1e-6 - abs(low), high * 1.01 + 1e-6, float("nan")):
        with pytest.raises(DataError, match=f"profile {name} .* is out of range"):
            MarketProfile(**{name: outside})


def test_contracts_state_the_same_ranges() -> None:
    assert profiling.PROFILE_RANGES is PROFILE_RANGES
    assert set(asdict(MarketProfile())) == set(PROFILE_RANGES)


def test_events_add_up_and_streams_are_apart() -> None:
    rates = event_rates(MarketProfile(), 256)
    markets = Markets(2, warm_up_bars=0)
    assert markets.events_per_bar[0] == round(
        MarketProfile().units_per_minute * sum(rates.values())
    )
    seeds = stream_seeds(np.arange(2 * FAMILY))
    assert len(np.unique(seeds[:, 1:])) == seeds[:, 1:].size
    assert len(np.unique(seeds[:, participants.CLOCK])) == 2
    assert (seeds >= 1).all() and (seeds > 2**32).mean() > 0.99
    assert markets.mid_ticks.tolist() == [START_TICKS, START_TICKS]


def _next_state(state: int) -> int:
    sim = Sim(np.full((1, participants.STATE_FIELDS), state, np.int64), np.zeros((1, 1), np.int64))
    drawn = draw(sim, 0, participants.CLOCK)
    after = int(sim.state[0, participants.STREAM + participants.CLOCK])
    assert drawn == after >> 32
    return after


def test_a_stream_visits_every_state_before_it_comes_back() -> None:
    """The step is linear over bits; its matrix has the order 2**63 - 1, and no smaller one."""
    bits = 63
    one = [1 << bit for bit in range(bits)]  # the unit matrix by columns

    def times(left: list[int], right: list[int]) -> list[int]:
        product = []
        for column in right:
            total = 0
            for bit in range(bits):
                total ^= left[bit] * (column >> bit & 1)
            product.append(total)
        return product

    def power(matrix: list[int], exponent: int) -> list[int]:
        result = one
        while exponent:
            result = times(result, matrix) if exponent & 1 else result
            matrix = times(matrix, matrix)
            exponent >>= 1
        return result

    step = [_next_state(state) for state in one]
    order = 2**bits - 1
    assert power(step, order) == one
    for prime in (7, 73, 127, 337, 92737, 649657):  # all that divide the order
        assert order % prime == 0 and power(step, order // prime) != one


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(DataError, match="2 profiles for 3 markets"):
        Markets(3, [MarketProfile(), MarketProfile()])
    with pytest.raises(DataError, match="wishes have shape"):
        Markets(2, warm_up_bars=0).run(3, np.zeros((2, 2, 1, 4), np.int64))
