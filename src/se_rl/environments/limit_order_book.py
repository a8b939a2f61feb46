"""LimitOrderBook: one exact price-time-priority book as an object, on the kernel of the market.

Prices and quantities are floats at this door and whole ticks and lots inside. A number that is no
multiple of its step, not finite or not positive, or an unknown side or type, is a ValueError and
changes nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from se_rl.environments.book_orders import (
    Order,
    OrderSide,
    OrderStatus,
    OrderType,
    Steps,
    Trade,
    finite,
    member_of,
    positive,
)
from se_rl.market import price_levels as at
from se_rl.market.book import Books

__all__ = ["LimitOrderBook", "Order", "OrderSide", "OrderStatus", "OrderType", "Trade"]

Levels = list[tuple[float, float]]
_POOL = 1024
_KINDS = {OrderType.LIMIT: at.LIMIT, OrderType.MARKET: at.MARKET, OrderType.IOC: at.IOC}
_SIDES = {OrderSide.BUY: at.BUY, OrderSide.SELL: at.SELL}


class _Resting(NamedTuple):
    order: Order
    slot: int


class LimitOrderBook:
    """A limit order book: first the best price, then the first to arrive.

    `agent_id` may be any hashable. Quantities are multiples of `lot_size`, so whole numbers are
    exact. The book holds any price and any number of orders; it grows when it must.
    """

    def __init__(
        self, initial_price: float = 100.0, tick_size: float = 0.01, *, lot_size: float = 1e-6
    ) -> None:
        self.initial_price = positive(initial_price, "initial_price")
        self.tick_size = tick_size
        self.lot_size = lot_size
        self._ticks = Steps(tick_size, "tick_size")
        self._lots = Steps(lot_size, "lot_size")
        self.reset()

    def reset(self) -> None:
        """Empty the book and forget all trades; order ids start again at 1."""
        self._books = Books(1, orders=_POOL, log=_POOL, owners=1, ids=0, dtype=np.int64)
        self._resting: dict[int, _Resting] = {}
        self._submitted = 0
        self._mid = self.initial_price
        self._last_price: float | None = None
        self._volume_lots = self._notional = 0  # Python integers: they never overflow

    def submit_order(
        self,
        agent_id: Hashable,
        side: OrderSide | str,
        order_type: OrderType | str,
        price: float | None,
        quantity: float,
        timestamp: float | None = None,
    ) -> tuple[Order, list[Trade]]:
        """Match an order and rest what is left of a limit order.

        Returns the order and its trades, first fill first.
        A market order ignores its price. `timestamp` defaults to the order's number; priority is
        arrival order always.
        """
        side = member_of(OrderSide, side, name="side")
        order_type = member_of(OrderType, order_type, name="order_type")
        if not isinstance(agent_id, Hashable):
            raise ValueError(
                f"agent_id is {agent_id!r}; give something hashable, such as a number or a name"
            )
        priced = order_type is not OrderType.MARKET
        ticks = self._ticks.count(price, "price") if priced else 0
        lots = self._lots.count(quantity, "quantity")
        self._make_room(ticks, lots)
        number = self._submitted + 1
        stamp = float(number) if timestamp is None else finite(timestamp, "timestamp")
        size = self._lots.value(lots)
        order = Order(
            order_id=number,
            agent_id=agent_id,
            side=side,
            order_type=order_type,
            price=self._ticks.value(ticks) if priced else None,
            quantity=size,
            remaining_quantity=size,
            timestamp=stamp,
        )
        self._submitted = number
        slot = self._books.submit(
            0, _KINDS[order_type], side=_SIDES[side], price=ticks, quantity=lots, id=number
        )
        trades = self._settle(order, lots)
        if slot >= 0:
            self._resting[number] = _Resting(order, slot)
        elif order.status is not OrderStatus.FILLED:
            order.status = OrderStatus.CANCELLED
        self._note_mid()
        return order, trades

    def cancel_order(self, order_id: int, quantity: float | None = None) -> Order | None:
        """Take back an order, or only this much of it; the order, or None if it is not resting."""
        lots = 0 if quantity is None else self._lots.count(quantity, "quantity")
        if order_id not in self._resting:
            return None
        order, slot = self._resting[order_id]
        left = self._books.submit(0, at.CANCEL, slot=slot, quantity=lots) >= 0
        if left:
            lots_left = int(self._books.book.orders[0, slot, at.QUANTITY])
            order.remaining_quantity = self._lots.value(lots_left)
        else:
            del self._resting[order_id]
            order.status = OrderStatus.CANCELLED
        self._note_mid()
        return order

    def get_best_bid(self) -> float | None:
        """The highest bid, or None."""
        return self._best(at.BUY)

    def get_best_ask(self) -> float | None:
        """The lowest ask, or None."""
        return self._best(at.SELL)

    def get_spread(self) -> float | None:
        """Best ask minus best bid, or None where a side is empty."""
        keys = self._books.book.meta[0, at.TOUCH : at.TOUCH + 2]
        return None if at.FAR in keys else self._ticks.value(int(keys.sum()))

    def get_mid_price(self) -> float:
        """The midpoint of best bid and best ask.

        Where a side is empty it is the last midpoint, at first the initial price.
        """
        return self._mid

    def get_depth(self, levels: int = 5) -> tuple[Levels, Levels]:
        """(bids, asks), each a list of (price, quantity) per price level, best first."""
        bids, asks = self._books.depth(levels)[0].tolist()
        return self._shown(bids), self._shown(asks)

    def get_vwap(self) -> float | None:
        """The volume-weighted price of all trades since the reset, or None before the first."""
        return self._ticks.value(self._notional / self._volume_lots) if self._volume_lots else None

    def get_snapshot(self, levels: int = 5) -> dict[str, Any]:
        """The book as plain data: prices, depth, and volume and VWAP of the trades so far."""
        bids, asks = self.get_depth(levels)
        return {
            "best_bid": self.get_best_bid(),
            "best_ask": self.get_best_ask(),
            "spread": self.get_spread(),
            "mid_price": self.get_mid_price(),
            "bids": bids,
            "asks": asks,
            "last_price": self._last_price,
            "volume": self._lots.value(self._volume_lots),
            "vwap": self.get_vwap(),
            "orders": len(self._resting),
        }

    def get_state_vector(self, depth_levels: int = 5) -> npt.NDArray[np.float32]:
        """The book as float32[6 + 4 L], 0 where there is no number.

        Mid, spread, best bid, best ask, imbalance of the shown quantities in [-1, 1], last price;
        then L bid prices, L bid quantities, L ask prices, L ask quantities, best first.
        """
        sides = np.zeros((2, depth_levels, 2))
        for side, shown in zip(sides, self.get_depth(depth_levels), strict=True):
            side[: len(shown)] = np.reshape(shown, (-1, 2))
        bid, ask = sides[:, :, 1].sum(axis=1)
        imbalance = (bid - ask) / (bid + ask) if bid + ask else 0.0
        top = (
            self._mid,
            self.get_spread(),
            self.get_best_bid(),
            self.get_best_ask(),
            imbalance,
            self._last_price,
        )
        numbers = [number or 0.0 for number in top]
        levels = sides.transpose(0, 2, 1).ravel()
        return np.concatenate([numbers, levels]).astype(np.float32)

    def _make_room(self, ticks: int, lots: int) -> None:
        """Grow the book where it is full; refuse numbers that the kernel cannot hold."""
        meta = self._books.book.meta[0]
        pool = self._books.book.orders.shape[1]
        if meta[at.FREE] < 0:
            self._books.grow(2 * pool, log=2 * pool)
        for name, steps, most in (
            ("price", ticks, at.MAX_PRICE),
            ("quantity", lots, at.MAX_QUANTITY),
        ):
            if steps > meta[most]:
                raise ValueError(
                    f"{name} is {steps} steps, more than {meta[most]}; "
                    "use a larger tick_size or lot_size"
                )

    def _shown(self, levels: list[tuple[int, int]]) -> Levels:
        """Price levels in ticks and lots as prices and quantities, empty ones left out."""
        shown = []
        for ticks, lots in levels:
            if lots:
                shown.append((self._ticks.value(ticks), self._lots.value(lots)))
        return shown

    def _settle(self, order: Order, lots: int) -> list[Trade]:
        """Read and clear the kernel's log of this order: its trades, both orders updated."""
        trades = []
        for row in self._books.trades().tolist():
            size = row[at.LOG_QUANTITY]
            maker, slot = self._resting[row[at.MAKER_ID]]
            lots -= size
            self._volume_lots += size
            self._notional += size * row[at.LOG_PRICE]
            self._last_price = self._ticks.value(row[at.LOG_PRICE])
            in_slot = self._books.book.orders[0, slot]
            self._fill(order, lots)
            self._fill(maker, int(in_slot[at.QUANTITY]) if in_slot[at.ID] == maker.order_id else 0)
            buyer, seller = (order, maker) if order.side is OrderSide.BUY else (maker, order)
            trade = Trade(
                buyer_id=buyer.agent_id,
                seller_id=seller.agent_id,
                price=self._last_price,
                quantity=self._lots.value(size),
                buyer_order_id=buyer.order_id,
                seller_order_id=seller.order_id,
                timestamp=order.timestamp,
            )
            trades.append(trade)
        self._books.clear_log()
        return trades

    def _fill(self, order: Order, lots_left: int) -> None:
        order.remaining_quantity = self._lots.value(lots_left)
        order.status = OrderStatus.PARTIALLY_FILLED if lots_left else OrderStatus.FILLED
        if not lots_left:
            self._resting.pop(order.order_id, None)

    def _best(self, side: int) -> float | None:
        key = int(self._books.book.meta[0, at.TOUCH + side])
        return None if key == at.FAR else self._ticks.value(key * (2 * side - 1))

    def _note_mid(self) -> None:
        minus_bid, ask = self._books.book.meta[0, at.TOUCH : at.TOUCH + 2].tolist()
        if at.FAR not in (minus_bid, ask):
            self._mid = self._ticks.value(ask - minus_bid) / 2
