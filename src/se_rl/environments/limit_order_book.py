"""LimitOrderBook: one exact price-time-priority book as an object, on the kernel that also runs thousands of them.

Prices and quantities are floats at this door and whole ticks and lots inside. A number that is no multiple of its step,
not finite or not positive, or an unknown side or type, is a ValueError and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from se_rl.market import price_levels as at
from se_rl.market.book import Books

Levels = list[tuple[float, float]]
_POOL = 1024


class OrderSide(StrEnum):
    """Which side of the book an order belongs to."""

    BUY = "buy"
    SELL = "sell"


class OrderType(StrEnum):
    """LIMIT rests what it cannot trade; IOC trades up to its price, MARKET at any price, and neither ever rests."""

    LIMIT = "limit"
    MARKET = "market"
    IOC = "ioc"


class OrderStatus(StrEnum):
    """CANCELLED is also the end of a market or IOC order that was not filled completely."""

    OPEN = "open"
    PARTIALLY_FILLED = "partially_filled"
    FILLED = "filled"
    CANCELLED = "cancelled"


@dataclass
class Order:
    """An order; the book keeps `remaining_quantity` and `status` up to date while it rests. A market order has no price."""

    order_id: int
    agent_id: Hashable
    side: OrderSide
    order_type: OrderType
    price: float | None
    quantity: float
    remaining_quantity: float
    timestamp: float
    status: OrderStatus = OrderStatus.OPEN


@dataclass(frozen=True)
class Trade:
    """One fill, at the resting order's price; ids are those of agents and of orders."""

    buyer_id: Hashable
    seller_id: Hashable
    price: float
    quantity: float
    buyer_order_id: int
    seller_order_id: int
    timestamp: float


class _Resting(NamedTuple):
    order: Order
    slot: int


class _Steps:
    """Floats as whole numbers of steps and back, both ways exact where the float is the step's nearest multiple."""

    def __init__(self, step: float, name: str) -> None:
        self._step = _positive(step, name)
        inverse = 1.0 / self._step
        self._per_unit = (
            round(inverse) if math.isclose(inverse, round(inverse), rel_tol=1e-12) else None
        )

    def count(self, value: Any, name: str) -> int:
        number = _positive(value, name)
        steps = round(number / self._step)
        if steps < 1 or not math.isclose(self.value(steps), number, rel_tol=1e-12):
            raise ValueError(f"{name} is {number}; it must be a multiple of {self._step}")
        return steps

    def value(self, steps: float) -> float:
        return (
            steps / self._per_unit if self._per_unit else steps * self._step
        )  # 10001 / 100 is 100.01, 10001 * .01 not


class LimitOrderBook:
    """A limit order book: first the best price, then the first to arrive.

    `agent_id` may be any hashable. Quantities are multiples of `lot_size`, so whole numbers are exact. The book holds any
    price and any number of orders; it grows when it must.
    """

    def __init__(
        self, initial_price: float = 100.0, tick_size: float = 0.01, *, lot_size: float = 1e-6
    ) -> None:
        self.initial_price = _positive(initial_price, "initial_price")
        self.tick_size, self.lot_size = tick_size, lot_size
        self._ticks, self._lots = _Steps(tick_size, "tick_size"), _Steps(lot_size, "lot_size")
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
        """Match an order and rest what is left of a limit order; the order and its trades, first fill first.

        A market order ignores its price. `timestamp` defaults to the order's number; priority is arrival order always.
        """
        side, order_type = (
            _member(OrderSide, side, "side"),
            _member(OrderType, order_type, "order_type"),
        )
        if not isinstance(agent_id, Hashable):
            raise ValueError(
                f"agent_id is {agent_id!r}; give something hashable, such as a number or a name"
            )
        priced = order_type is not OrderType.MARKET
        ticks, lots = (
            self._ticks.count(price, "price") if priced else 0,
            self._lots.count(quantity, "quantity"),
        )
        self._make_room(ticks, lots)
        number = self._submitted + 1
        stamp = float(number) if timestamp is None else _finite(timestamp, "timestamp")
        size = self._lots.value(lots)
        order = Order(
            number,
            agent_id,
            side,
            order_type,
            self._ticks.value(ticks) if priced else None,
            size,
            size,
            stamp,
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
            order.remaining_quantity = self._lots.value(
                int(self._books.book.orders[0, slot, at.QUANTITY])
            )
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
        """The midpoint of best bid and best ask; where a side is empty the last midpoint, at first the initial price."""
        return self._mid

    def get_depth(self, levels: int = 5) -> tuple[Levels, Levels]:
        """(bids, asks), each a list of (price, quantity) per price level, best first."""
        rows = self._books.depth(levels)[0].tolist()
        bids, asks = (
            [(self._ticks.value(p), self._lots.value(q)) for p, q in side if q] for side in rows
        )
        return bids, asks

    def get_vwap(self) -> float | None:
        """The volume-weighted price of all trades since the reset, or None before the first."""
        return self._ticks.value(self._notional / self._volume_lots) if self._volume_lots else None

    def get_snapshot(self, levels: int = 5) -> dict[str, Any]:
        """The book as plain data: best prices, spread, mid, depth, last price, volume and VWAP of the trades so far."""
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
        """float32[6 + 4 L]: mid, spread, best bid, best ask, imbalance of the shown quantities in [-1, 1], last price; then
        L bid prices, L bid quantities, L ask prices, L ask quantities, best first. 0 where there is none.
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
        return np.concatenate([[x or 0.0 for x in top], sides.transpose(0, 2, 1).ravel()]).astype(
            np.float32
        )

    def _make_room(self, ticks: int, lots: int) -> None:
        meta, pool = self._books.book.meta[0], self._books.book.orders.shape[1]
        if meta[at.FREE] < 0:
            self._books.grow(2 * pool, log=2 * pool)
        for name, steps, most in (
            ("price", ticks, at.MAX_PRICE),
            ("quantity", lots, at.MAX_QUANTITY),
        ):
            if steps > meta[most]:
                raise ValueError(
                    f"{name} is {steps} steps, more than {meta[most]}; use a larger tick_size or lot_size"
                )

    def _settle(self, order: Order, lots: int) -> list[Trade]:
        """Read and clear the kernel's log of this order: its trades, with both sides' orders brought up to date."""
        trades = []
        for row in self._books.trades().tolist():
            size, (maker, slot) = row[at.LOG_QUANTITY], self._resting[row[at.MAKER_ID]]
            lots -= size
            self._volume_lots += size
            self._notional += size * row[at.LOG_PRICE]
            self._last_price = self._ticks.value(row[at.LOG_PRICE])
            in_slot = self._books.book.orders[0, slot]
            self._fill(order, lots)
            self._fill(maker, int(in_slot[at.QUANTITY]) if in_slot[at.ID] == maker.order_id else 0)
            buyer, seller = (order, maker) if order.side is OrderSide.BUY else (maker, order)
            parties = buyer.agent_id, seller.agent_id
            ids = buyer.order_id, seller.order_id
            trades.append(
                Trade(*parties, self._last_price, self._lots.value(size), *ids, order.timestamp)
            )
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


_KINDS = {OrderType.LIMIT: at.LIMIT, OrderType.MARKET: at.MARKET, OrderType.IOC: at.IOC}
_SIDES = {OrderSide.BUY: at.BUY, OrderSide.SELL: at.SELL}
_Member = TypeVar("_Member", bound=StrEnum)


def _member(kind: type[_Member], value: _Member | str, name: str) -> _Member:
    try:
        return value if isinstance(value, kind) else kind(value.lower())
    except (ValueError, AttributeError):
        raise ValueError(
            f"{name} is {value!r}; use one of {', '.join(member.value for member in kind)}"
        ) from None


def _finite(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name} is {value!r}; give a finite number")
    return number


def _positive(value: Any, name: str) -> float:
    number = _finite(value, name)
    if number <= 0:
        raise ValueError(f"{name} is {number}; it must be positive")
    return number
