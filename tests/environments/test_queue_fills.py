"""Queue fills: every rule on a hand-made book, a plain reference on random FIFO books, and one real day."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from se_rl.data.books import BookHistory, read_lobster
from se_rl.data.market_data import DataError
from se_rl.environments.fill_model import StepFills
from se_rl.environments.queue_fills import QueueFills
from se_rl.environments.task import Orders

NEW, PARTIAL, DELETE, EXECUTION, HIDDEN, CROSS, HALT = range(1, 8)
BUY, SELL = -1, 1  # the project's order sides
BIDS, ASKS = +1, -1  # LOBSTER's directions of resting orders
OPEN_S = 34_200
NEWEST_ID = 50

Message = tuple[
    float, int, int, int, float, int
]  # second after the open, kind, id, size, price, direction
Levels = list[tuple[float, int]]

TIGHT_BIDS: Levels = [(10.00, 300), (9.98, 200)]
TIGHT_ASKS: Levels = [(10.02, 100), (10.03, 200)]


def e4(price: float) -> int:
    return round(price * 1e4)


def history(
    messages: list[Message], states: list[tuple[Levels, Levels]], *, levels: int
) -> BookHistory:
    """Messages and the book after each of them, as a BookHistory with that many levels."""

    def column(side: int, field: int) -> np.ndarray:
        rows = [[level[field] for level in state[side]][:levels] for state in states]
        filled = [row + [0] * (levels - len(row)) for row in rows]
        return np.array(
            [[e4(v) if field == 0 else v for v in row] for row in filled], dtype=np.int32
        )

    time, kind, order_id, size, price, direction = zip(*messages, strict=True)
    return BookHistory(
        symbol="TOY",
        date=20240102,
        time_ns=np.array([round((OPEN_S + t) * 1e9) for t in time], dtype=np.int64),
        kind=np.array(kind, dtype=np.int32),
        order_id=np.array(order_id, dtype=np.int64),
        size=np.array(size, dtype=np.int32),
        price_e4=np.array(
            [p if k == HALT else e4(p) for p, k in zip(price, kind, strict=True)], dtype=np.int32
        ),
        direction=np.array(direction, dtype=np.int32),
        bid_e4=column(0, 0),
        bid_size=column(0, 1),
        ask_e4=column(1, 0),
        ask_size=column(1, 1),
    )


def toy(*messages: Message, bids: Levels = TIGHT_BIDS, asks: Levels = TIGHT_ASKS) -> BookHistory:
    """A book that stands before the open and is not redrawn; only the arrival state matters in the first bar."""
    before: Message = (-1.0, NEW, NEWEST_ID, 300, 10.00, BIDS)
    return history([before, *messages], [(bids, asks)] * (len(messages) + 1), levels=2)


def fill_many(
    fills: QueueFills, row: Any, bar: Any, side: Any, want: Any, limit: Any
) -> np.ndarray:
    """[orders, 2]: shares and cash."""
    out = StepFills(*np.full((4, len(want)), np.nan))
    bars = np.asarray(bar, dtype=np.int64)
    wanted = np.asarray(want, dtype=np.float64)
    orders = Orders.of_usual_size(
        np.asarray(row, dtype=np.int64), bars, np.asarray(side, dtype=np.int8), wanted, 1
    )
    fills.fill(orders, bars, want=wanted, limit=np.asarray(limit, dtype=np.float64), out=out)
    assert not out.cost.any() and np.all(out.passive <= out.shares)
    return np.stack([out.shares, out.cash], axis=1)


def fill(
    book: BookHistory, side: int, want: float, limit: float = math.nan, bar: int = 0
) -> tuple[float, float]:
    """Shares and cash of one order."""
    shares, cash = fill_many(QueueFills([book]), [0], [bar], [side], [want], [limit])[0]
    return float(shares), float(cash)


def test_market_order_walks_the_displayed_levels_and_leaves_the_rest() -> None:
    assert fill(toy(), BUY, 150) == pytest.approx((150, 100 * 10.02 + 50 * 10.03))
    assert fill(toy(), BUY, 1000) == pytest.approx((300, 100 * 10.02 + 200 * 10.03))
    assert fill(toy(), SELL, 400.5) == pytest.approx((400.5, 300 * 10.00 + 100.5 * 9.98))


def test_crossing_limit_takes_no_worse_than_its_price_and_its_rest_is_first_in_line() -> None:
    assert fill(toy(), BUY, 150, 10.02) == pytest.approx((100, 1002))
    hit = toy((1, EXECUTION, 7, 30, 10.00, BIDS))
    assert fill(hit, BUY, 150, 10.02) == pytest.approx((130, 1002 + 30 * 10.02))
    lifted = toy((1, EXECUTION, 7, 30, 10.02, ASKS))
    assert fill(lifted, SELL, 320, 10.00) == pytest.approx((320, 320 * 10.00))


@pytest.mark.parametrize(
    ("side", "touch", "resting", "ahead"), [(BUY, 10.00, BIDS, 300), (SELL, 10.02, ASKS, 100)]
)
def test_execution_eats_the_queue_before_it_fills_us(
    side: int, touch: float, resting: int, ahead: int
) -> None:
    first: Message = (1, EXECUTION, 7, ahead - 20, touch, resting)
    assert fill(toy(first), side, 100, touch) == (0, 0)
    book = toy(first, (2, EXECUTION, 8, 50, touch, resting))
    assert fill(book, side, 100, touch) == pytest.approx((30, 30 * touch))
    book = toy(first, (2, EXECUTION, 8, 500, touch, resting))
    assert fill(book, side, 100, touch) == pytest.approx((100, 100 * touch))


def test_executions_of_the_other_side_do_not_fill_us() -> None:
    assert fill(toy((1, EXECUTION, 7, 900, 10.00, ASKS)), BUY, 100, 10.00) == (0, 0)
    assert fill(toy((1, EXECUTION, 7, 900, 10.02, BIDS)), SELL, 100, 10.02) == (0, 0)


@pytest.mark.parametrize("kind", [PARTIAL, DELETE])
def test_only_cancels_of_older_orders_shorten_the_queue(kind: int) -> None:
    execution: Message = (2, EXECUTION, 7, 260, 10.00, BIDS)
    older: Message = (1, kind, NEWEST_ID, 60, 10.00, BIDS)
    newer: Message = (1, kind, NEWEST_ID + 1, 60, 10.00, BIDS)
    elsewhere: Message = (1, kind, NEWEST_ID, 60, 9.98, BIDS)
    assert fill(toy(older, execution), BUY, 100, 10.00) == pytest.approx((20, 200))
    assert fill(toy(newer, execution), BUY, 100, 10.00) == (0, 0)
    assert fill(toy(elsewhere, execution), BUY, 100, 10.00) == (0, 0)


def test_cancels_cannot_make_the_queue_negative() -> None:
    book = toy((1, DELETE, 3, 900, 10.00, BIDS), (2, EXECUTION, 7, 40, 10.00, BIDS))
    assert fill(book, BUY, 100, 10.00) == pytest.approx((40, 400))


def test_an_order_that_improves_the_touch_or_stands_between_levels_has_nothing_ahead() -> None:
    assert fill(toy((1, EXECUTION, 7, 40, 10.00, BIDS)), BUY, 100, 10.01) == pytest.approx(
        (40, 400.4)
    )
    assert fill(toy((1, EXECUTION, 60, 40, 9.99, BIDS)), BUY, 100, 9.99) == pytest.approx(
        (40, 399.6)
    )


def test_trade_through_fills_up_to_its_size_at_our_price() -> None:
    assert fill(toy((1, EXECUTION, 7, 70, 9.98, BIDS)), BUY, 100, 10.00) == pytest.approx((70, 700))
    assert fill(toy((1, EXECUTION, 7, 70, 10.03, ASKS)), SELL, 100, 10.02) == pytest.approx(
        (70, 701.4)
    )


def test_below_the_levels_shown_only_a_trade_through_fills() -> None:
    at_price: Message = (1, EXECUTION, 7, 900, 9.90, BIDS)
    through: Message = (2, EXECUTION, 7, 25, 9.89, BIDS)
    assert fill(toy((0, DELETE, 3, 900, 9.90, BIDS), at_price), BUY, 100, 9.90) == (0, 0)
    assert fill(toy(at_price, through), BUY, 100, 9.90) == pytest.approx((25, 247.5))
    assert fill(toy((1, EXECUTION, 7, 900, 10.10, ASKS)), SELL, 100, 10.10) == (0, 0)


def test_a_book_with_fewer_orders_than_levels_is_known_to_be_empty_below() -> None:
    book = toy((1, EXECUTION, 7, 40, 9.90, BIDS), bids=[(10.00, 300)])
    assert fill(book, BUY, 100, 9.90) == pytest.approx((40, 396))


def test_hidden_executions_and_auctions_never_fill_us() -> None:
    book = toy((1, HIDDEN, 0, 900, 9.50, BIDS), (2, CROSS, -1, 900, 9.50, BIDS))
    assert fill(book, BUY, 100, 10.00) == (0, 0)


def test_prices_off_the_grid_round_to_the_passive_side() -> None:
    assert fill(toy(), BUY, 10, 10.0199) == (0, 0)
    assert fill(toy(), SELL, 10, 10.0001) == (0, 0)
    assert fill(toy((1, EXECUTION, 7, 40, 10.00, BIDS)), BUY, 10, 10.0199) == pytest.approx(
        (10, 100.1)
    )
    assert fill(toy(), BUY, 10, 10.02 - 1e-12) == pytest.approx((10, 100.2))


@pytest.mark.parametrize("want", [0.0, -5.0, math.nan])
def test_nothing_wanted_nothing_filled(want: float) -> None:
    assert fill(toy(), BUY, want) == (0, 0)


def test_extreme_limits_and_wants_stay_finite() -> None:
    assert fill(toy(), BUY, math.inf, math.inf)[0] == 300
    assert fill(toy((1, EXECUTION, 7, 40, 10.02, ASKS)), SELL, 510, -3.0) == pytest.approx(
        (510, 3000 + 1996 + 0.1)
    )
    assert fill(toy((1, EXECUTION, 7, 40, 10.00, BIDS)), BUY, 10, -3.0) == (0, 0)


def test_the_order_ends_with_its_bar_and_sees_the_book_at_its_start() -> None:
    first: tuple[Levels, Levels] = ([(10.00, 300)], [(10.02, 100)])
    second: tuple[Levels, Levels] = ([(10.00, 10)], [(10.05, 100)])
    messages: list[Message] = [
        (0, NEW, 1, 300, 10.00, BIDS),
        (30, NEW, 2, 10, 10.00, BIDS),
        (60, EXECUTION, 1, 60, 10.00, BIDS),
    ]
    book = history(messages, [first, second, second], levels=1)
    assert fill(book, BUY, 100, 10.00, bar=0) == (0, 0)
    assert fill(book, BUY, 100, 10.00, bar=1) == pytest.approx((50, 500))
    assert fill(book, BUY, 100, bar=0) == pytest.approx((100, 1002))
    assert fill(book, BUY, 100, bar=1) == pytest.approx((100, 1005))


def test_nothing_fills_before_the_file_begins_or_in_a_halt() -> None:
    late = history([(90, NEW, 1, 5, 10.00, BIDS)], [(TIGHT_BIDS, TIGHT_ASKS)], levels=2)
    assert [fill(late, BUY, 10, bar=bar)[0] for bar in range(3)] == [0, 10, 10]
    halted = toy((30, HALT, 0, 0, -1, -1), (90, HALT, 0, 0, 0, -1), (150, HALT, 0, 0, 1, -1))
    assert [fill(halted, BUY, 10, bar=bar)[0] for bar in range(4)] == [10, 0, 0, 10]


def test_bad_calls_are_refused() -> None:
    with pytest.raises(DataError, match="no historical book"):
        QueueFills([])
    with pytest.raises(IndexError, match="1 books of 390 bars"):
        fill(toy(), BUY, 10, bar=390)
    with pytest.raises(DataError, match="bar_seconds is 90"):
        QueueFills([toy()], bar_seconds=90)


class Exchange:
    """A tiny FIFO exchange that writes LOBSTER messages: orders by side and price in tick units, oldest first."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.orders: dict[int, dict[int, list[list[int]]]] = {BIDS: {}, ASKS: {}}
        self.messages: list[Message] = []
        self.states: list[tuple[Levels, Levels]] = []
        self.next_id = 1
        self.time = 0.0

    def levels(self, direction: int) -> list[int]:
        return sorted(
            (p for p, queue in self.orders[direction].items() if queue), reverse=direction == BIDS
        )

    def record(self, kind: int, order_id: int, size: int, ticks: int, direction: int) -> None:
        self.messages.append((self.time, kind, order_id, size, ticks / 100, direction))
        bids, asks = (
            [(p / 100, sum(size for _, size in self.orders[d][p])) for p in self.levels(d)]
            for d in (BIDS, ASKS)
        )
        self.states.append((bids, asks))

    def send(self, direction: int, ticks: int, size: int) -> None:
        """A limit order: trade with the other side as far as it crosses, then rest."""
        for price in self.levels(-direction):
            if direction * price > direction * ticks:
                break
            queue = self.orders[-direction][price]
            while queue and size:
                part = min(size, queue[0][1])
                queue[0][1] -= part
                size -= part
                order_id = queue[0][0]
                if not queue[0][1]:
                    queue.pop(0)
                self.record(EXECUTION, order_id, part, price, -direction)
        if size:
            self.orders[direction].setdefault(ticks, []).append([self.next_id, size])
            self.record(NEW, self.next_id, size, ticks, direction)
            self.next_id += 1

    def cancel(self) -> None:
        resting = [
            (d, p, order)
            for d in (BIDS, ASKS)
            for p, queue in self.orders[d].items()
            for order in queue
        ]
        if not resting:
            return
        direction, price, order = resting[self.rng.integers(len(resting))]
        part = int(self.rng.integers(1, order[1] + 1))
        order[1] -= part
        if not order[1]:
            self.orders[direction][price].remove(order)
        self.record(PARTIAL if order[1] else DELETE, order[0], part, price, direction)

    def run(self, events: int, *, minutes: float) -> None:
        for time in np.sort(self.rng.uniform(0, 60 * minutes, events)):
            self.time = float(time)
            luck = self.rng.random()
            direction = int(self.rng.choice([BIDS, ASKS]))
            if luck < 0.6:
                offset = int(self.rng.integers(-2, 6))
                self.send(direction, 1000 - direction * offset, int(self.rng.integers(1, 9)) * 10)
            elif luck < 0.9:
                self.cancel()
            else:
                self.record(HIDDEN, 0, 10, 1000, direction)


def random_book(seed: int, *, levels: int = 3, events: int = 120) -> BookHistory:
    exchange = Exchange(np.random.default_rng(seed))
    exchange.run(events, minutes=3)
    return history(exchange.messages, exchange.states, levels=levels)


def random_orders(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    limit = rng.integers(990, 1011, count) / 100 + rng.choice([0.0, 0.0, 0.004], count)
    return {
        "bar": rng.integers(0, 4, count),
        "side": rng.choice([BUY, SELL], count),
        "want": rng.choice([5.0, 33.3, 80.0, 400.0], count),
        "limit": np.where(rng.random(count) < 0.2, np.nan, limit),
    }


def reference(
    book: BookHistory, bar: int, side: int, want: float, limit: float
) -> tuple[float, float]:
    """The rules once more, said plainly: buy and sell apart, message by message, prices in e4."""
    ranges = book.bar_ranges()
    arrival = max(int(ranges[bar]) - 1, 0)
    if ranges[bar + 1] == 0:
        return 0.0, 0.0
    buying = side == BUY
    at = arrival
    asks = [(int(p), int(v)) for p, v in zip(book.ask_e4[at], book.ask_size[at], strict=True) if v]
    bids = [(int(p), int(v)) for p, v in zip(book.bid_e4[at], book.bid_size[at], strict=True) if v]
    own, opposite = (bids, asks) if buying else (asks, bids)
    market = math.isnan(limit)
    cents = round(limit * 100, 6) if not market else 0.0
    price = 100 * (math.floor(cents) if buying else math.ceil(cents))

    left, cash = want, 0.0
    for level, size in opposite:
        if market or (level <= price if buying else level >= price):
            part = min(left, float(size))
            left -= part
            cash += part * level / 1e4
    if market:
        return want - left, cash

    ahead: float = dict(own).get(price, 0)
    if len(own) == book.bid_e4.shape[1] and (price < own[-1][0] if buying else price > own[-1][0]):
        ahead = math.inf
    newest = max(book.order_id[: arrival + 1])
    for m in range(arrival + 1, int(ranges[bar + 1])):
        if book.direction[m] != (BIDS if buying else ASKS):
            continue
        kind, moved, at_price = int(book.kind[m]), float(book.size[m]), book.price_e4[m] == price
        worse = book.price_e4[m] < price if buying else book.price_e4[m] > price
        if kind in (PARTIAL, DELETE) and at_price and book.order_id[m] <= newest:
            ahead = max(0.0, ahead - moved)
        if kind == EXECUTION and (at_price or worse):
            reaches_us = moved if worse else max(0.0, moved - ahead)
            ahead = ahead if worse else max(0.0, ahead - moved)
            part = min(left, reaches_us)
            left -= part
            cash += part * price / 1e4
    return want - left, cash


def test_equals_the_plain_reference_on_random_books() -> None:
    rng = np.random.default_rng(5)
    passive_fills = 0
    books = [random_book(seed, levels=1 + seed % 4) for seed in range(40)]
    fills = QueueFills(books)
    for row, book in enumerate(books):
        orders = random_orders(rng, 25)
        got = fill_many(fills, np.full(25, row), **orders)
        expected = np.array(
            [reference(book, *order) for order in zip(*orders.values(), strict=True)]
        )
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
        passive_fills += int(np.sum((got[:, 0] > 0) & ~np.isnan(orders["limit"])))
    assert passive_fills > 200  # of 1,000 orders: the comparison is not one of zeros


def executed_within(book: BookHistory, bar: int, side: int, limit: float) -> int:
    """Visible executions of our side in the bar at our price or worse."""
    ranges, resting = book.bar_ranges(), BIDS if side == BUY else ASKS
    span = slice(max(ranges[bar], 1), ranges[bar + 1])
    reach = resting * book.price_e4[span] <= resting * e4(limit)
    ours = (book.kind[span] == EXECUTION) & (book.direction[span] == resting)
    return int(book.size[span][reach & ours].sum())


def is_passive(book: BookHistory, bar: int, side: int, limit: float) -> bool:
    row = max(int(book.bar_ranges()[bar]) - 1, 0)
    bid, ask = int(book.bid_e4[row, 0]), int(book.ask_e4[row, 0])
    return (ask == 0 or e4(limit) < ask) if side == BUY else (bid == 0 or e4(limit) > bid)


def test_fills_are_bounded_by_want_limit_and_what_the_file_executed() -> None:
    checked = 0
    for seed in range(30):
        book, rng = random_book(seed), np.random.default_rng(seed)
        orders = random_orders(rng, 30)
        orders["limit"] = np.round(orders["limit"], 2)
        got = fill_many(QueueFills([book]), np.zeros(30), **orders)
        assert np.all((got[:, 0] >= 0) & (got[:, 0] <= orders["want"]))
        for (shares, cash), bar, side, limit in zip(
            got, orders["bar"], orders["side"], orders["limit"], strict=True
        ):
            if math.isnan(limit):
                continue
            assert side * (cash - shares * limit) >= -1e-9  # never worse than the limit
            if is_passive(book, bar, side, limit):
                assert cash == pytest.approx(shares * limit)
                assert shares <= executed_within(book, bar, side, limit)
                checked += shares > 0
    assert checked > 50


def test_the_front_of_an_order_fills_first_and_a_keener_price_fills_no_less() -> None:
    for seed in range(20):
        book, rng = random_book(seed), np.random.default_rng(seed)
        orders = random_orders(rng, 30)
        fills = QueueFills([book])
        larger = {**orders, "want": orders["want"] + 30}
        sharper = {**orders, "limit": orders["limit"] - 0.01 * orders["side"]}
        base, more, keener = (
            fill_many(fills, np.zeros(30), **o)[:, 0] for o in (orders, larger, sharper)
        )
        assert np.all(base <= more + 1e-9)
        assert np.all(more <= base + 30 + 1e-9)
        assert np.all(keener >= base - 1e-9)
        front_unfilled = base < orders["want"]
        np.testing.assert_allclose(more[front_unfilled], base[front_unfilled], atol=1e-9)


def test_joining_the_queue_later_never_fills_more() -> None:
    """Minutes 0-1 as one bar against minute 1 alone, at one price: the later order stands behind the earlier one."""
    compared = 0
    for seed in range(60):
        book, rng = random_book(seed, levels=40), np.random.default_rng(seed)
        orders = random_orders(rng, 20)
        orders["limit"] = np.where(np.isnan(orders["limit"]), 10.0, np.round(orders["limit"], 2))
        early = fill_many(
            QueueFills([book], bar_seconds=120), np.zeros(20), **{**orders, "bar": np.zeros(20)}
        )
        late = fill_many(QueueFills([book]), np.zeros(20), **{**orders, "bar": np.ones(20)})
        passive = [
            is_passive(book, 0, side, limit) and is_passive(book, 1, side, limit)
            for side, limit in zip(orders["side"], orders["limit"], strict=True)
        ]
        assert np.all(early[passive, 0] >= late[passive, 0] - 1e-9)
        compared += int(np.sum(late[passive, 0] > 0))
    assert compared > 20


def test_rows_are_independent_of_their_neighbours_and_depths_may_differ() -> None:
    books = [random_book(1, levels=1), random_book(2, levels=5), random_book(3, levels=3)]
    orders = random_orders(np.random.default_rng(0), 60)
    rows = np.arange(60) % 3
    together = fill_many(QueueFills(books), rows, **orders)
    for row, book in enumerate(books):
        mine = rows == row
        alone = fill_many(
            QueueFills([book]), rows[mine] * 0, **{k: v[mine] for k, v in orders.items()}
        )
        np.testing.assert_array_equal(together[mine], alone)


@pytest.mark.parametrize("side", [BUY, SELL])
def test_passive_orders_on_a_real_day_fill_about_half_and_earn_the_spread(
    shared_data: Path, side: int
) -> None:
    book = read_lobster(shared_data / "lobster_AMZN_20120621_L5_messages.parquet")
    bars = np.arange(390)
    arrival = np.maximum(book.bar_ranges()[:-1] - 1, 0)
    touch = (book.bid_e4 if side == BUY else book.ask_e4)[arrival, 0] / 1e4
    fills = QueueFills([book])
    order = {"row": bars * 0, "bar": bars, "side": np.full(390, side), "want": np.full(390, 100.0)}
    passive, market = (
        fill_many(fills, **order, limit=touch),
        fill_many(fills, **order, limit=np.full(390, np.nan)),
    )
    assert 0.3 < passive[:, 0].mean() / 100 < 0.6
    assert market[:, 0].mean() > 98
    some = passive[:, 0] > 0
    price, taker_price = passive[some, 1] / passive[some, 0], market[some, 1] / market[some, 0]
    saving_bps = 1e4 * side * (price / taker_price - 1)
    assert np.all(saving_bps > 0)
    assert 4 < saving_bps.mean() < 8
    sample = bars[::13]
    expected = [reference(book, b, side, 100.0, touch[b]) for b in sample]
    np.testing.assert_allclose(passive[sample], expected, rtol=1e-9, atol=1e-9)
