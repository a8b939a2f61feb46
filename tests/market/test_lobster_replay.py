"""Real days of messages through the public book: it must fill the very order that the exchange filled.

The file shows the best levels only. What happened out of sight is put in from it, and counted: an order first named after
its arrival is added at its time (ids rise with time), and a level that comes into view with another size is corrected
AFTER the comparison, by taking back orders that the file never names again or adding an anonymous one.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from se_rl.data.books import DELETE, EXECUTION, NEW, PARTIAL_CANCEL, BookHistory, read_lobster
from se_rl.environments.limit_order_book import LimitOrderBook, Order, OrderSide

SIDES = {1: OrderSide.BUY, -1: OrderSide.SELL}


class Replay:
    """One LOBSTER day through a LimitOrderBook, and how often the book did the same as the exchange."""

    def __init__(self, day: BookHistory) -> None:
        self.day, self.book = day, LimitOrderBook(lot_size=1)
        self.kind, self.ident, self.size = (
            day.kind.tolist(),
            day.order_id.tolist(),
            day.size.tolist(),
        )
        self.direction, self.price = day.direction.tolist(), (day.price_e4 / 1e4).tolist()
        self.shown = [self._levels(1), self._levels(-1)]
        self.order: dict[int, Order] = {}
        self.file_id: dict[int, int] = {}
        self.at_price: defaultdict[tuple[OrderSide, float], list[Order]] = defaultdict(list)
        self.last_named = {ident: row for row, ident in enumerate(self.ident)}
        self.hidden = self._arrived_out_of_sight()
        self.executions = self.exact = self.in_view = self.equal = self.repairs = 0

    def run(self) -> Replay:
        """Every message in turn."""
        arrivals = np.where(self.day.kind == NEW, self.day.order_id, np.iinfo(np.int64).max)
        upcoming = [*np.minimum.accumulate(arrivals[::-1])[::-1].tolist(), np.iinfo(np.int64).max]
        self._add_hidden(upcoming[0])
        for row in range(len(self.kind)):
            self._message(row)
            self._add_hidden(upcoming[row + 1])
            self._compare(row)
        return self

    def _message(self, row: int) -> None:
        kind, ident, size, price = self.kind[row], self.ident[row], self.size[row], self.price[row]
        side = SIDES.get(self.direction[row])
        if kind in (PARTIAL_CANCEL, DELETE, EXECUTION) and ident not in self.order:
            self._add_hidden(ident + 1)
        if kind == NEW:
            assert side is not None
            assert self._add(ident, side, price, size) == 0, (
                "an order that rests on the exchange traded here"
            )
        elif kind in (PARTIAL_CANCEL, DELETE):
            self.book.cancel_order(self.order[ident].order_id, size)
        elif kind == EXECUTION:
            taker_side = OrderSide.SELL if side is OrderSide.BUY else OrderSide.BUY
            _, trades = self.book.submit_order("taker", taker_side, "ioc", price, size)
            makers = [
                t.buyer_order_id if side is OrderSide.BUY else t.seller_order_id for t in trades
            ]
            self.executions += 1
            self.exact += [self.file_id.get(m) for m in makers] == [ident] and trades[
                0
            ].quantity == size

    def _compare(self, row: int) -> None:
        levels = self.day.bid_e4.shape[1]
        ours, theirs = self.book.get_depth(levels), [side[row] for side in self.shown]
        if levels > 1 or not self._retreated(
            row
        ):  # one level tells nothing about the price behind the touch
            self.in_view += 1
            self.equal += all(mine[:1] == real[:1] for mine, real in zip(ours, theirs, strict=True))
        while list(ours) != theirs:
            for side, mine, real in zip((OrderSide.BUY, OrderSide.SELL), ours, theirs, strict=True):
                self._repair(side, dict(mine), dict(real), row)
            ours = self.book.get_depth(levels)

    def _retreated(self, row: int) -> bool:
        touch = [(side[max(row - 1, 0)][0][0], side[row][0][0]) for side in self.shown]
        return touch[0][1] < touch[0][0] or touch[1][1] > touch[1][0]

    def _repair(
        self, side: OrderSide, mine: dict[float, float], real: dict[float, float], row: int
    ) -> None:
        deepest = list(real)[-1]
        for price in {*mine, *real}:
            out_of_view = price < deepest if side is OrderSide.BUY else price > deepest
            missing = 0.0 if out_of_view else real.get(price, 0.0) - mine.get(price, 0.0)
            self.repairs += missing != 0
            if missing > 0:
                self._add(None, side, price, missing)
            elif missing < 0:
                self._take_back(self.at_price[side, price], -missing, row)

    def _take_back(self, queue: list[Order], surplus: float, row: int) -> None:
        def named_again(order: Order) -> tuple[bool, bool]:
            ident = self.file_id.get(order.order_id)
            return ident is not None, ident is not None and self.last_named[ident] > row

        queue[:] = [order for order in queue if order.status in ("open", "partially_filled")]
        for order in sorted(queue, key=named_again):
            if surplus == 0:
                return
            taken = min(surplus, order.remaining_quantity)
            self.book.cancel_order(order.order_id, taken)
            surplus -= taken

    def _add(self, ident: int | None, side: OrderSide, price: float, size: float) -> int:
        order, trades = self.book.submit_order("maker", side, "limit", price, size)
        self.at_price[side, price].append(order)
        if ident is not None:
            self.order[ident], self.file_id[order.order_id] = order, ident
        return len(trades)

    def _arrived_out_of_sight(self) -> list[tuple[int, OrderSide, float, int]]:
        """(id, side, price, quantity), latest first: orders that the file names later, but whose arrival it lacks."""
        arrived: set[int] = set()
        found: dict[int, tuple[int, OrderSide, float, int]] = {}
        for row, (kind, ident) in enumerate(zip(self.kind, self.ident, strict=True)):
            if kind == NEW:
                arrived.add(ident)
            elif kind in (PARTIAL_CANCEL, DELETE, EXECUTION) and ident not in arrived:
                before = found[ident][3] if ident in found else 0
                found[ident] = (
                    ident,
                    SIDES[self.direction[row]],
                    self.price[row],
                    before + self.size[row],
                )
        return sorted(found.values(), reverse=True)

    def _add_hidden(self, before: int) -> None:
        while self.hidden and self.hidden[-1][0] < before:
            assert self._add(*self.hidden.pop()) == 0, "an order that arrived out of sight traded"

    def _levels(self, direction: int) -> list[list[tuple[float, float]]]:
        day = self.day
        prices, sizes = (day.bid_e4, day.bid_size) if direction == 1 else (day.ask_e4, day.ask_size)
        rows = zip((prices / 1e4).tolist(), sizes.astype(float).tolist(), strict=True)
        return [[level for level in zip(p, s, strict=True) if level[1]] for p, s in rows]


@pytest.mark.parametrize("name", ["AMZN_20120621_L5", "AAPL_20120621_L1"])
def test_a_real_day_fills_the_orders_that_the_exchange_filled(shared_data: Path, name: str) -> None:
    replay = Replay(read_lobster(shared_data / f"lobster_{name}_messages.parquet")).run()
    exact, equal = replay.exact / replay.executions, replay.equal / replay.in_view
    print(
        f"\n{name}: {exact:.2%} of {replay.executions} visible executions hit the named order; touch equal after "
        f"{equal:.3%} of {replay.in_view} messages (of {len(replay.kind)}); {replay.repairs} levels corrected afterwards"
    )
    assert exact > 0.995
    assert equal > 0.9999
