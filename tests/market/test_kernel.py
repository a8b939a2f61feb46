"""The kernel against an obvious Python book, message by message: every trade, every counter, the whole state."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.data.market_data import DataError
from se_rl.market import book as book_module
from se_rl.market import price_levels as at
from se_rl.market.book import CPU, Books
from se_rl.market.compiling import make_kernel
from se_rl.market.price_levels import best as best_price

Array = npt.NDArray[Any]
BATCH = 1000


class PlainBook:
    """The reference: a dict of deques per side, nothing clever. An order is a list [id, owner, quantity]."""

    def __init__(
        self, *, orders: int, owners: int, collar: int | None, prevent_self_trade: bool
    ) -> None:
        self.sides: tuple[dict[int, deque[list[int]]], ...] = ({}, {})
        self.where: dict[int, tuple[int, int]] = {}
        self.sandbox, self.owners, self.collar, self.prevent = (
            orders,
            owners,
            collar,
            prevent_self_trade,
        )
        self.most = (2**31 - 1) // orders
        self.trades: list[tuple[int, ...]] = []
        self.cash, self.shares = [0] * owners, [0] * owners
        self.rejected = self.dropped = self.self_cancelled = self.unknown = 0

    def best(self, side: int) -> int | None:
        prices = self.sides[side]
        return (min(prices) if side else max(prices)) if prices else None

    def run(self, kind: int, side: int, price: int, quantity: int, owner: int, ident: int) -> None:
        if kind in (at.CANCEL, at.REPLACE) and ident not in self.where:
            self.unknown += 1
        elif kind == at.CANCEL:
            order = self.find(ident)
            if quantity == 0 or quantity >= order[2]:
                self.remove(ident)
            else:
                order[2] -= quantity
        elif not (0 < quantity <= self.most and (kind == at.MARKET or abs(price) <= 2**31 // 8)):
            self.rejected += 1
        elif kind == at.REPLACE:
            self.replace(ident, price, quantity)
        else:
            self.order(kind, side, price, quantity, owner, ident)

    def find(self, ident: int) -> list[int]:
        side, price = self.where[ident]
        return next(order for order in self.sides[side][price] if order[0] == ident)

    def remove(self, ident: int) -> None:
        side, price = self.where.pop(ident)
        queue = self.sides[side][price]
        queue.remove(next(order for order in queue if order[0] == ident))
        if not queue:
            del self.sides[side][price]

    def replace(self, ident: int, price: int, quantity: int) -> None:
        order, (side, old_price) = self.find(ident), self.where[ident]
        if price == old_price and quantity <= order[2]:
            order[2] = quantity
            return
        self.remove(ident)
        self.order(at.LIMIT, side, price, quantity, order[1], ident)

    def order(
        self, kind: int, side: int, price: int, quantity: int, owner: int, ident: int
    ) -> None:
        sign, arrival = (-1 if side else 1), self.best(1 - side)

        def crosses() -> bool:
            touch = self.best(1 - side)
            return touch is not None and (kind == at.MARKET or sign * (price - touch) >= 0)

        while quantity and crosses():
            touch = self.best(1 - side)
            assert touch is not None and arrival is not None
            if self.collar is not None and sign * (touch - arrival) > self.collar:
                break
            maker = self.sides[1 - side][touch][0]
            if self.prevent and maker[1] == owner:
                self.self_cancelled += maker[2]
                self.remove(maker[0])
                continue
            size = min(quantity, maker[2])
            self.trade(touch, size, maker, owner, ident, side)
            quantity, maker[2] = quantity - size, maker[2] - size
            if not maker[2]:
                self.remove(maker[0])
        if not quantity:
            return
        if kind != at.LIMIT or crosses():
            self.dropped += quantity
        elif len(self.where) == self.sandbox:
            self.rejected += 1
        else:
            self.sides[side].setdefault(price, deque()).append([ident, owner, quantity])
            self.where[ident] = (side, price)

    def trade(
        self, price: int, size: int, maker: list[int], owner: int, ident: int, side: int
    ) -> None:
        self.trades.append((price, size, maker[1], maker[0], owner, ident, side))
        for who, bought in (
            (owner, size if side == at.BUY else -size),
            (maker[1], -size if side == at.BUY else size),
        ):
            self.shares[min(who, self.owners - 1)] += bought
            self.cash[min(who, self.owners - 1)] -= price * bought

    def state(self) -> list[list[tuple[int, list[tuple[int, ...]]]]]:
        """Per side, best price first: the price and its queue of (id, owner, quantity)."""
        order = [sorted(self.sides[at.BUY], reverse=True), sorted(self.sides[at.SELL])]
        return [
            [(p, [tuple(o) for o in self.sides[side][p]]) for p in order[side]]
            for side in (at.BUY, at.SELL)
        ]


def walk(books: Books, b: int, side: int, row: int) -> Iterator[int]:
    """The slots of a row's queue, checked for its links and its sum."""
    head, tail, queued, _ = books.book.levels[b, side, row].tolist()
    if queued == 0:
        return
    before, slot, total = -1, head, 0
    while slot >= 0:
        order = books.book.orders[b, slot]
        assert order[at.PREV] == before and order[at.SIDE] == side and order[at.QUANTITY] > 0
        total += int(order[at.QUANTITY])
        yield slot
        before, slot = slot, int(order[at.NEXT])
    assert before == tail and total == queued


def state(books: Books, b: int = 0) -> list[list[tuple[int, list[tuple[int, ...]]]]]:
    """The same as PlainBook.state, read from the arrays; on the way every invariant of the layout is checked."""
    meta, orders, beyond = books.book.meta[b], books.book.orders[b], books.book.levels.shape[2] - 1
    out, live = [], 0
    for side, sign in ((at.BUY, -1), (at.SELL, 1)):
        queues: dict[int, list[tuple[int, ...]]] = {}
        for row in range(beyond + 1):
            for slot in walk(books, b, side, row):
                price = int(orders[slot, at.PRICE])
                place = price * sign - int(meta[at.BASE + side])
                assert place == row if row < beyond else place >= beyond
                queues.setdefault(price, []).append(
                    tuple(orders[slot, [at.ID, at.OWNER, at.QUANTITY]].tolist())
                )
                live += 1
        price_levels = sorted(queues.items(), key=lambda item: item[0] * sign)
        assert meta[at.TOUCH + side] == (price_levels[0][0] * sign if price_levels else at.FAR)
        out.append(price_levels)
    free, slot = 0, int(meta[at.FREE])
    while slot >= 0:
        free, slot = free + 1, int(orders[slot, at.NEXT])
    assert live == meta[at.LIVE] and live + free == len(orders)
    return out


def stream(seed: int, n: int, *, owners: int = 5, wild: float = 0.02, drift: float = 0.3) -> Array:
    """Random messages of every kind around a wandering price; some prices are far away, some numbers absurd."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(5, n, p=[0.5, 0.08, 0.08, 0.22, 0.12])
    side = rng.integers(2, size=n)
    fair = 1000 + np.cumsum(rng.normal(0, drift, n))
    away = np.where(rng.random(n) < wild, rng.integers(-3000, 3000, n), rng.geometric(0.2, n) - 3)
    price = np.rint(fair - (1 - 2 * side) * away).astype(np.int64)
    quantity = rng.integers(1, 30, n)
    quantity[(kind == at.CANCEL) & (rng.random(n) < 0.6)] = 0
    absurd = rng.random(n) < 0.002
    quantity[absurd] = rng.choice([0, 2**31 - 1], int(absurd.sum()))
    price[rng.random(n) < 0.001] = -(2**31 - 1)
    ident = np.arange(n)
    refers = kind >= at.CANCEL
    ident[refers] = np.maximum(0, ident[refers] - rng.geometric(0.02, int(refers.sum())))
    return np.stack([kind, side, price, quantity, rng.integers(owners, size=n), ident], axis=1)


def compare(messages: Array, *, keep_log: bool = False, **rules: Any) -> Books:
    """Run both books side by side and compare them after every batch."""
    plain = PlainBook(
        **{name: rules[name] for name in ("orders", "owners", "collar", "prevent_self_trade")}
    )
    books = Books(1, **rules, log=20 * BATCH, ids=len(messages))
    columns = [
        at.LOG_PRICE,
        at.LOG_QUANTITY,
        at.MAKER_OWNER,
        at.MAKER_ID,
        at.TAKER_OWNER,
        at.TAKER_ID,
        at.TAKER_SIDE,
    ]
    for start in range(0, len(messages), BATCH):
        batch = messages[start : start + BATCH]
        books.apply(batch)
        for message in batch.tolist():
            plain.run(*message)
        assert [tuple(row) for row in books.trades()[:, columns].tolist()] == plain.trades
        assert state(books) == plain.state()
        counters = [
            int(books.total(f)[0]) for f in (at.REJECTED, at.DROPPED, at.SELF_CANCELLED, at.UNKNOWN)
        ]
        assert counters == [plain.rejected, plain.dropped, plain.self_cancelled, plain.unknown]
        assert books.book.owners[0].tolist() == [
            list(pair) for pair in zip(plain.cash, plain.shares, strict=True)
        ]
        check_depth(books, plain)
        if not keep_log:
            plain.trades.clear()
            books.clear_log()
    return books


def check_depth(books: Books, plain: PlainBook) -> None:
    """Depth as deep as asked, and the queue position of each order, also beyond the window."""
    wanted = 12
    shown = books.depth(wanted)[0].tolist()
    slots = {
        int(row[at.ID]): slot
        for slot, row in enumerate(books.book.orders[0])
        if row[at.QUANTITY] > 0
    }
    for side, price_levels in enumerate(plain.state()):
        levels = [[price, sum(order[2] for order in queue)] for price, queue in price_levels][
            :wanted
        ]
        assert shown[side] == levels + [[0, 0]] * (wanted - len(levels))
        for _, queue in price_levels[:: max(1, len(price_levels) // 3)]:
            assert books.ahead(0, slots[queue[-1][0]]) == sum(order[2] for order in queue[:-1])


@pytest.mark.parametrize(
    ("seed", "levels", "orders", "owners", "collar", "prevent"),
    [
        (0, 128, 256, 5, None, False),
        (1, 2, 64, 5, None, False),
        (2, 3, 32, 3, None, True),
        (3, 8, 128, 5, 4, False),
        (4, 16, 256, 8, 0, True),
        (5, 64, 24, 1, None, False),
        (6, 128, 512, 5, 10, True),
        (7, 32, 256, 5, None, False),
        (8, 5, 200, 5, 2, False),
        (9, 256, 256, 5, None, True),
    ],
)
def test_equals_the_plain_book(
    seed: int, levels: int, orders: int, owners: int, collar: int | None, prevent: bool
) -> None:
    messages = stream(
        seed, 100_000, wild=(0.02, 0.3, 0.001)[seed % 3], drift=(0.05, 0.5, 3.0)[seed % 3]
    )
    rules: dict[str, Any] = {
        "levels": levels,
        "orders": orders,
        "owners": owners,
        "collar": collar,
        "prevent_self_trade": prevent,
    }
    books = compare(messages, **rules)
    assert books.total(at.TRADES)[0] > 5_000
    assert (books.total(at.SELF_CANCELLED)[0] > 0) == prevent
    assert orders > 32 or books.total(at.REJECTED)[0] > 1_000


MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([at.LIMIT, at.LIMIT, at.LIMIT, at.IOC, at.MARKET, at.CANCEL, at.REPLACE]),
        st.integers(0, 1),
        st.one_of(st.integers(95, 105), st.integers(-(10**6), 10**6)),
        st.integers(0, 9),
        st.integers(0, 2),
        st.integers(0, 79),
    ),
    min_size=80,
    max_size=80,
)


@settings(max_examples=100, deadline=None)
@given(
    MESSAGES,
    st.integers(2, 12),
    st.sampled_from([3, 8, 64]),
    st.sampled_from([None, 0, 1, 5]),
    st.booleans(),
)
def test_any_messages_under_any_rules(
    messages: list[tuple[int, ...]], levels: int, orders: int, collar: int | None, prevent: bool
) -> None:
    stream = np.array(messages)
    own = stream[:, 0] < at.CANCEL
    stream[own, 5] = np.flatnonzero(
        own
    )  # an order's id is its place; cancels and replaces name any
    books = compare(
        stream,
        levels=levels,
        orders=orders,
        owners=3,
        collar=collar,
        prevent_self_trade=prevent,
        keep_log=True,
    )
    trades = books.trades()
    assert not prevent or (trades[:, at.MAKER_OWNER] != trades[:, at.TAKER_OWNER]).all()
    assert (books.book.owners.sum(axis=1) == 0).all()
    bid, ask = books.best(at.BUY, otherwise=-(10**9))[0], books.best(at.SELL, otherwise=10**9)[0]
    assert bid < ask
    for taker in np.unique(trades[:, at.TAKER_ID]):
        prices = trades[trades[:, at.TAKER_ID] == taker, at.LOG_PRICE]
        replaced = (stream[:, 0] == at.REPLACE) & (stream[:, 5] == taker)
        assert collar is None or replaced.any() or prevent or np.ptp(prices) <= collar


def test_far_jumps_move_the_window_both_ways_without_loss() -> None:
    prices = [1000, 5, 10**8, 7, 1000, 10**8 - 1, 900, 5, 1000, 2]
    rests = [(at.LIMIT, at.BUY, price, 10 + i, 0, i) for i, price in enumerate(prices)]
    sells = [(at.MARKET, at.SELL, 0, 7, 1, 10 + i) for i in range(25)]
    rules: dict[str, Any] = {
        "levels": 8,
        "orders": 16,
        "owners": 2,
        "collar": None,
        "prevent_self_trade": False,
    }
    books = compare(np.array(rests + sells), **rules)
    assert books.total(at.VOLUME)[0] == sum(range(10, 20))
    assert books.total(at.LIVE)[0] == 0


def test_python_and_machine_code_agree() -> None:
    messages = stream(11, 4_000, wild=0.1)
    rules: dict[str, Any] = {
        "levels": 16,
        "orders": 64,
        "owners": 4,
        "log": 300,
        "ids": len(messages),
    }
    compiled, plain = Books(1, **rules), Books(1, **rules)
    compiled.apply(messages)
    kernel, slots = make_kernel(lambda function: function), np.full(len(messages), -1)
    book = plain.book
    for kind, side, price, quantity, owner, ident in messages.tolist():
        slot = int(slots[ident]) if kind >= at.CANCEL else -1
        if kind >= at.CANCEL and (
            slot < 0 or book.orders[0, slot, at.ID] != ident or not book.orders[0, slot, 1]
        ):
            book.meta[0, at.UNKNOWN] += 1
            continue
        slot = kernel.handle(book, 0, slot, kind, side, price, quantity, owner, ident)
        if kind in (at.LIMIT, at.REPLACE):
            slots[ident] = slot
    for ours, theirs in zip(compiled.book, book, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    shown = np.zeros((1, 2, 9, 2), np.int64)
    for side in (at.BUY, at.SELL):
        kernel.depth(book, 0, side, shown)
        assert kernel.best(book, 0, side, 0) == compiled.best(side)[0]
    np.testing.assert_array_equal(shown, compiled.depth(9))
    assert kernel.mid_x2(book, 0, 0) == compiled.best(at.BUY)[0] + compiled.best(at.SELL)[0]
    live = int(np.flatnonzero(book.orders[0, :, at.QUANTITY])[-1])
    assert kernel.ahead(book, 0, live) == compiled.ahead(0, live)


def test_a_book_depends_neither_on_threads_nor_on_the_others() -> None:
    n = 7
    rules: dict[str, Any] = {"levels": 32, "orders": 64, "ids": 3_000}
    messages = np.stack([stream(20 + b, 3_000) for b in range(n)])
    serial, threads = Books(n, **rules), Books(n, **rules)
    serial.apply(messages)
    threads.apply(messages, parallel=True)
    for one, other in zip(
        (*serial.book, serial.slots), (*threads.book, threads.slots), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    alone, shared = Books(1, **rules), Books(n, **rules)
    alone.apply(messages[3])
    shared.apply(messages[3])
    for one, many, same in zip(alone.book, serial.book, shared.book, strict=True):
        np.testing.assert_array_equal(one[0], many[3])
        assert (same == one).all()


def test_wide_numbers_give_the_same_trades() -> None:
    messages = stream(31, 20_000)
    narrow, wide = (
        Books(1, orders=64, log=30_000, ids=20_000, dtype=dtype) for dtype in (np.int32, np.int64)
    )
    sane = (messages[:, 3] < 2**20) & (np.abs(messages[:, 2]) < 2**20)
    narrow.apply(messages[sane])
    wide.apply(messages[sane])
    np.testing.assert_array_equal(narrow.trades(), wide.trades())
    far = np.array(
        [(at.LIMIT, at.SELL, 10**15, 10**15, 0, 1), (at.IOC, at.BUY, 10**15, 10**14, 1, 2)]
    )
    wide.reset()
    wide.apply(far)
    assert wide.trades()[0, :2].tolist() == [10**15, 10**14]


def test_a_short_log_counts_what_it_could_not_keep() -> None:
    messages = stream(41, 5_000)
    full, short, none = (Books(1, log=log, ids=5_000) for log in (10_000, 8, 0))
    for books in (full, short, none):
        books.apply(messages)
        assert books.total(at.LOGGED)[0] == books.total(at.TRADES)[0] > 100
    np.testing.assert_array_equal(short.trades(), full.trades()[:8])
    assert len(none.trades()) == 0
    np.testing.assert_array_equal(none.book.owners, full.book.owners)
    paid = full.trades()[:, at.LOG_PRICE] @ full.trades()[:, at.LOG_QUANTITY].astype(np.int64)
    assert paid == full.total(at.NOTIONAL)[0] == none.total(at.NOTIONAL)[0]


def test_growing_the_pool_keeps_every_order() -> None:
    messages = stream(51, 4_000, wild=0.1)
    grown, roomy = (
        Books(1, levels=16, orders=400, ids=4_000),
        Books(1, levels=16, orders=800, ids=4_000),
    )
    grown.apply(messages[:2_000])
    before = state(grown)
    grown.grow(800, log=100)
    assert state(grown) == before and grown.book.log.shape[1] == 100
    grown.apply(messages[2_000:])
    roomy.apply(messages)
    assert state(grown) == state(roomy)
    with pytest.raises(DataError, match="only grow"):
        grown.grow(800)


def test_reset_forgets_everything_but_the_rules() -> None:
    used, fresh = (
        Books(2, orders=32, ids=2_000, collar=3, prevent_self_trade=True) for _ in range(2)
    )
    used.apply(stream(61, 2_000))
    used.reset()
    for books in (used, fresh):
        books.apply(stream(62, 2_000))
    assert state(used) == state(fresh)
    np.testing.assert_array_equal(used.book.meta, fresh.book.meta)
    np.testing.assert_array_equal(used.book.owners, fresh.book.owners)


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        (np.zeros((3, 5), int), r"shape \(1, 3, 5\)"),
        (np.zeros((2, 3, 6), int), r"give \[m, 6\] for all books"),
        (np.zeros((3, 6)), "float64"),
        (np.array([[0, 0, 5, 1, 0, 0], [7, 0, 5, 1, 0, 0]]), "message 1 has kind 7"),
        (np.array([[0, 2, 5, 1, 0, 0]]), "side 2; it must lie in 0 to 1"),
        (np.array([[0, 0, 5, 1, -1, 0]]), "owner -1"),
        (np.array([[0, 0, 5, 1, 0, 1024]]), "id 1024; it must lie in 0 to 1023"),
        (np.array([[0, 0, 2**31, 1, 0, 0]]), "price 2147483648"),
    ],
)
def test_bad_messages_are_refused_whole(messages: Array, says: str) -> None:
    books = Books(1)
    with pytest.raises(DataError, match=says):
        books.apply(messages)
    assert books.total(at.LIVE)[0] == 0


@pytest.mark.parametrize(
    "bad", [{"levels": 1}, {"orders": 0}, {"log": -1}, {"owners": 0}, {"ids": -1}, {"collar": -1}]
)
def test_impossible_sizes_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=next(iter(bad))):
        Books(1, **bad)


def double_touch(book: at.Book, b: int, side: int) -> int:
    """A caller's own function, compiled together with the kernel."""
    return 2 * best_price(book, b, side, BATCH)


def test_own_functions_are_compiled_with_the_kernel() -> None:
    books = Books(1)
    kernel = make_kernel(lambda function: function, double_touch)
    assert kernel.double_touch(books.book, 0, at.BUY) == 2 * BATCH
    books.submit(0, at.LIMIT, side=at.BUY, price=70, quantity=1)
    assert kernel.double_touch(books.book, 0, at.BUY) == 140
    assert kernel.source_hash != CPU.source_hash


def test_cached_callers_change_with_the_kernel() -> None:
    for caller in vars(book_module._CALL).values():
        assert inspect.getclosurevars(caller.py_func).nonlocals == {"source_hash": CPU.source_hash}
