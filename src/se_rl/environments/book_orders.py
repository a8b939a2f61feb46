"""Orders and trades of `LimitOrderBook`, and the checks on numbers and names that come in."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar


class OrderSide(StrEnum):
    """Which side of the book an order belongs to."""

    BUY = "buy"
    SELL = "sell"


class OrderType(StrEnum):
    """LIMIT rests what it cannot trade; IOC trades up to its price, MARKET at any price.

    The latter two never rest.
    """

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
    """An order; the book keeps `remaining_quantity` and `status` up to date while it rests.

    A market order has no price.
    """

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


class Steps:
    """Floats as whole numbers of steps and back.

    Both ways are exact where the float is the step's nearest multiple.
    """

    def __init__(self, step: float, name: str) -> None:
        self._step = positive(step, name)
        inverse = 1.0 / self._step
        whole = math.isclose(inverse, round(inverse), rel_tol=1e-12)
        self._per_unit = round(inverse) if whole else None

    def count(self, value: Any, name: str) -> int:
        """The number of steps in `value`, refused unless it is a multiple of the step."""
        number = positive(value, name)
        steps = round(number / self._step)
        if steps < 1 or not math.isclose(self.value(steps), number, rel_tol=1e-12):
            raise ValueError(f"{name} is {number}; it must be a multiple of {self._step}")
        return steps

    def value(self, steps: float) -> float:
        """So many steps as a float; 10001 / 100 is 100.01, while 10001 * 0.01 is not."""
        return steps / self._per_unit if self._per_unit else steps * self._step


Member = TypeVar("Member", bound=StrEnum)


def member_of(kind: type[Member], value: Member | str, *, name: str) -> Member:
    """The member of an enumeration that a value or its name means."""
    try:
        return value if isinstance(value, kind) else kind(value.lower())
    except (ValueError, AttributeError):
        known = ", ".join(member.value for member in kind)
        raise ValueError(f"{name} is {value!r}; use one of {known}") from None


def finite(value: Any, name: str) -> float:
    """The value as a float, refused unless it is finite."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name} is {value!r}; give a finite number")
    return number


def positive(value: Any, name: str) -> float:
    """The value as a float, refused unless it is finite and positive."""
    number = finite(value, name)
    if number <= 0:
        raise ValueError(f"{name} is {number}; it must be positive")
    return number
