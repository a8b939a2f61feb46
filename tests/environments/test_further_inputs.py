"""Further inputs: against slow references, on hand-made books, both sides, and causal."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.data.bar_inputs import bar_inputs_of
from se_rl.data.features import CLIP, OBSERVATION_FIELDS, OBSERVATION_PLACE, Known
from se_rl.data.market_data import DataError
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments import further_inputs
from se_rl.environments.closed_forms import AlmgrenChriss
from se_rl.environments.dynamic_core import DynamicCore
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.further_inputs import CATALOGUE, FurtherInputs
from se_rl.environments.mixed_world import MixedWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import BUY, SELL, Orders
from se_rl.environments.worlds import Episodes, Observation, new_fields, showing
from se_rl.market.participants import AGENT_SLOT, FIRST_AGENT, SIGNED_VOLUME, TRADED
from se_rl.market.price_levels import BUY as BIDS
from se_rl.market.price_levels import LIMIT, NEXT, OWNER, PRICE, QUANTITY, SIDE
from se_rl.market.price_levels import SELL as ASKS
from se_rl.market.simulation import Markets
from se_rl.modules.agent_interface import FURTHER_INPUTS, further_width

ALL = tuple(FURTHER_INPUTS)
USUAL = len(OBSERVATION_FIELDS)
MIDDLE = 10_000
HORIZON = 20


def columns(seen: Observation, name: str, names: tuple[str, ...] = ALL) -> np.ndarray:
    """The numbers of one field, behind the usual ones."""
    start = USUAL + further_width(names[: names.index(name)])
    return seen[:, start : start + FURTHER_INPUTS[name].width]


def orders(sides: list[int], size: float = 0.1) -> Orders:
    n = len(sides)
    zeros = np.zeros(n, np.int64)
    share = np.full(n, size)
    return Orders(
        zeros, zeros, np.array(sides, np.int8), np.full(n, 1e4), share, zeros.copy(), HORIZON
    )


def started(inputs: tuple[str, ...], sides: list[int], *, agents: int = 1) -> DynamicCore:
    core = DynamicCore(agents=agents)
    core.inputs = inputs
    core.reset(orders(sides), seeds=np.full(len(sides) // agents, 7))
    return core


def slow_queue(core: DynamicCore, market: int, agent: int) -> tuple[int, int, int]:
    """Price and lots of an agent's resting order and the lots before it, by walking the orders."""
    book = core.markets.books.book.orders[market]
    slot = int(core.markets.sim.state[market, AGENT_SLOT + agent])
    alive = slot >= 0 and book[slot, OWNER] == FIRST_AGENT + agent and book[slot, QUANTITY] > 0
    if not alive:
        return 0, 0, 0
    ahead = 0
    for other in range(len(book)):
        if other == slot or book[other, QUANTITY] == 0 or book[other, PRICE] != book[slot, PRICE]:
            continue
        after, hops = int(book[other, NEXT]), 0
        while after >= 0 and after != slot and hops < len(book):
            after, hops = int(book[after, NEXT]), hops + 1
        ahead += int(book[other, QUANTITY]) if after == slot else 0
    return int(book[slot, PRICE]), int(book[slot, QUANTITY]), ahead


def resting(core: DynamicCore, market: int) -> int:
    book = core.markets.books.book.orders[market]
    signs = np.where(book[:, SIDE] == BIDS, 1, -1)
    return int((signs * book[:, QUANTITY]).sum())


def test_every_field_has_its_formula_and_its_width() -> None:
    assert list(CATALOGUE) == list(FURTHER_INPUTS)
    core = started(ALL, [SELL, BUY])
    assert core.observation.shape == (2, USUAL + further_width(ALL))


def test_the_fields_are_those_of_a_slow_reference_in_running_markets() -> None:
    agents = 2
    core = started(ALL, [SELL, SELL, BUY, BUY], agents=agents)
    rng = np.random.default_rng(3)
    usual = core.books.usual
    signed, traded, left, spreads, rested = [], [], [[resting(core, m) for m in (0, 1)]], [], 0
    spreads.append(core.markets.books.best(ASKS) - core.markets.books.best(BIDS))
    book = slice(OBSERVATION_PLACE["bid_size_1"], OBSERVATION_PLACE["imbalance"] + 1)
    np.testing.assert_array_equal(
        columns(core.observation, "book_before"), core.observation[:, book]
    )
    for step in range(HORIZON - 1):
        before_step = core.observation[:, book].copy()
        offset = rng.integers(0, 3, 4) * core.books.tick_currency()
        seen = core.step(rng.random(4) * 0.2, core.touch() + core.orders.side * offset)
        np.testing.assert_array_equal(columns(seen, "book_before"), before_step)
        state = core.markets.sim.state
        signed.append(state[:, SIGNED_VOLUME].copy())
        traded.append(state[:, TRADED].copy())
        left.append([resting(core, m) for m in (0, 1)])
        spreads.append(core.markets.books.best(ASKS) - core.markets.books.best(BIDS))
        for order in range(4):
            market, agent = divmod(order, agents)
            side = int(core.orders.side[order])
            price, lots, ahead = slow_queue(core, market, agent)
            rested += lots > 0
            depth = core.markets.books.depth(10)[market]
            own = depth[ASKS if side > 0 else BIDS, :5]
            wanted = np.where((own[:, 0] == price) & (own[:, 1] > 0), lots, 0)
            share = wanted / max(1, core.remaining_lots[order])
            np.testing.assert_allclose(columns(seen, "own_lots")[order], share, rtol=1e-6)
            before = ahead / (ahead + lots) if lots else 0.0
            assert columns(seen, "lots_ahead")[order, 0] == pytest.approx(before)
            views = depth[[BIDS, ASKS] if side > 0 else [ASKS, BIDS], 5:, 1].ravel()
            sizes = np.log((views + 1.0) / (usual.best_lots[market] + 1.0))
            np.testing.assert_allclose(columns(seen, "deep_queues")[order], sizes, rtol=1e-5)
            for span in (1, 5, 15):
                known = min(span, step + 1)
                net = sum(int(bar[market]) for bar in signed[-known:])
                volume = max(1, sum(int(bar[market]) for bar in traded[-known:]))
                flow = columns(seen, f"market_flow_{span}")[order, 0]
                assert flow == pytest.approx(side * net / volume, abs=1e-6)
                came = left[-1][market] - left[-1 - known][market] - net
                over = side * came / (span * usual.volume_lots[market])
                flow = columns(seen, f"limit_flow_{span}")[order, 0]
                assert flow == pytest.approx(np.clip(over, -CLIP, CLIP), abs=1e-5)
            same = 0
            while same < min(15, step + 1) and spreads[-2 - same][market] == spreads[-1][market]:
                same += 1
            assert columns(seen, "spread_age")[order, 0] == pytest.approx(same / 15)
            moved = side * np.log(core.mid_after[order] / core.arrival[order])
            usual_move = core.script.usual_volatility[market] * np.sqrt(step + 1)
            assert columns(seen, "drift")[order, 0] == pytest.approx(moved / usual_move, abs=1e-5)
    assert rested > 20 and np.abs(seen[:, USUAL:]).max() <= CLIP


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 9), st.booleans()), max_size=25),
    st.integers(1, 8),
    st.integers(1, 30),
)
def test_a_mirrored_book_looks_the_same_to_the_other_side(
    others: list[tuple[int, int, bool]], distance: int, lots: int
) -> None:
    """On hand-made books: `others` are orders (ticks from the middle, lots, on our side)."""
    names = ("own_lots", "lots_ahead", "deep_queues")
    seen = []
    for side in (SELL, BUY):
        markets = Markets(1, warm_up_bars=0, parallel=False)
        submit, ours = markets.books.submit, ASKS if side == SELL else BIDS
        for place, (away, size, with_us) in enumerate([*others, *others]):
            if place == len(others):  # in the middle: the second half stands behind us
                slot = submit(
                    0,
                    LIMIT,
                    side=ours,
                    price=MIDDLE + side * distance,
                    quantity=lots,
                    owner=FIRST_AGENT,
                )
                markets.sim.state[0, AGENT_SLOT] = slot
            its, sign = (ours, side) if with_us else (1 - ours, -side)
            submit(0, LIMIT, side=its, price=MIDDLE + sign * away, quantity=size, owner=0)
        if not others:
            continue
        ahead = sum(size for away, size, with_us in others if with_us and away == distance)
        core = stub(markets, side)
        shown = np.zeros((1, further_width(names)), np.float32)
        FurtherInputs(cast(DynamicCore, core), names).write(shown)
        assert shown[0, 5] == pytest.approx(ahead / (ahead + lots))
        better = {away for away, _, with_us in others if with_us and away < distance}
        level = np.eye(6)[min(len(better), 5), :5]
        np.testing.assert_allclose(shown[0, :5], level * lots / 100)
        seen.append(shown)
    if others:
        np.testing.assert_array_equal(seen[0], seen[1])


def stub(markets: Markets, side: int) -> SimpleNamespace:
    """As much of a core as the book's fields read."""
    books = SimpleNamespace(
        markets=markets,
        count=1,
        per_order=lambda values: values,
        usual=SimpleNamespace(best_lots=np.array([4.0])),
    )
    return SimpleNamespace(
        books=books, markets=markets, orders=orders([side]), remaining_lots=np.array([100])
    )


def test_both_sides_of_one_market_see_it_turned() -> None:
    core = started(ALL, [SELL, BUY])
    moved = 0.0
    for _ in range(HORIZON - 1):
        sell, buy = core.step(np.zeros(2))[:, None]
        for name in ALL:
            ours, theirs = columns(sell, name), columns(buy, name)
            if name == "deep_queues":
                theirs = np.roll(theirs, 5, axis=1)
            if name == "book_before":  # sizes change sides, the imbalance its sign
                theirs = np.concatenate([theirs[:, 5:10], theirs[:, :5], -theirs[:, 10:]], axis=1)
            turned = name.startswith(("market", "limit", "drift"))
            np.testing.assert_array_equal(ours, -theirs if turned else theirs)
            moved += float(np.abs(ours).sum())
    assert moved > 0.0


def test_what_is_seen_depends_on_the_past_alone_and_changes_nothing() -> None:
    paths = []
    for names, later in ((ALL, 0.3), (ALL, 0.0), ((), 0.3)):
        core = started(names, [SELL, BUY])
        seen = [core.observation.copy()]
        for step in range(10):
            ratio = np.full(2, 0.05 if step < 5 else later)
            seen.append(core.step(ratio, core.touch()).copy())
        paths.append(np.stack(seen))
    np.testing.assert_array_equal(paths[0][:6], paths[1][:6])
    assert not np.array_equal(paths[0][6:], paths[1][6:])
    np.testing.assert_array_equal(paths[0][..., :USUAL], paths[2])


def test_nothing_is_computed_that_nobody_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("nobody asked for it")

    monkeypatch.setattr(further_inputs, "own_orders", never)
    monkeypatch.setattr(further_inputs, "age", never)
    core = started(("drift", "market_flow_5"), [SELL, BUY])
    core.step(np.zeros(2))
    assert not core._further.resting
    monkeypatch.setattr(FurtherInputs, "_note_book", never)
    started((), [SELL, BUY]).step(np.zeros(2))
    with pytest.raises(AssertionError):
        started(("own_lots",), [SELL, BUY])


def test_history_shows_what_bars_tell_turned_for_buyers_and_markets_do_not() -> None:
    data = synthetic_market(SyntheticConfig(symbols=4, sessions=3))
    names = ("pressure_60", "own_lots", "pressure_5")
    world = StaticWorld(data, horizon=5).showing(names)
    table = bar_inputs_of(Known(data, world.scales))
    row, start = np.array([4, 4]), np.array([40, 40])
    both = replace(orders([SELL, BUY]), row=row, start=start, horizon=5)
    seen = world.reset(Episodes(both))
    for step in range(5):
        told = table[4, 40 + step]
        np.testing.assert_array_equal(seen[0, USUAL:], [told[2], 0, 0, 0, 0, 0, told[0]])
        np.testing.assert_array_equal(seen[1, USUAL:], -seen[0, USUAL:])
        assert told[0] and told[2]
        seen = world.step(np.full(2, 0.1), None, new_fields(2))
    assert not started(("pressure_60",), [SELL, BUY]).step(np.zeros(2))[:, USUAL:].any()


def test_worlds_show_what_is_asked_for_and_history_has_zeros() -> None:
    data = synthetic_market(SyntheticConfig(symbols=2, sessions=2))
    history = StaticWorld(data, horizon=5)
    names = ("drift", "own_lots")
    simulated = DynamicWorld(horizon=5, bank=4)
    for world in (history, simulated, MixedWorld([history, history])):
        plain = showing(world, ())
        wide = showing(world, names)
        assert plain is world and showing(wide, names) is wide
        assert (wide.further, wide.observation_size) == (names, USUAL + 6)
        episodes = world.draw(np.random.default_rng(0), 4)
        usual, seen = world.reset(episodes).copy(), wide.reset(episodes).copy()
        np.testing.assert_array_equal(seen[:, :USUAL], usual)
        fields = new_fields(4)
        seen = wide.step(np.full(4, 0.5), np.zeros(4), fields)
        assert seen[:, USUAL:].any() == (wide.name == "dynamic")
    with pytest.raises(ValueError, match="has no inputs drift to show"):
        showing(AlmgrenChriss(), ("drift",))
    with pytest.raises(DataError, match="choose from own_lots"):
        started(("mood",), [SELL, BUY])
