"""Where the parent orders of an environment come from, and the settings that shape them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.costs import Costs
from se_rl.environments.metrics import BPS
from se_rl.environments.task import (
    SIDES,
    Orders,
    check_window,
    checked_sizes,
    positive_quantity,
)

Info = dict[str, Any]
"""What Gymnasium and PettingZoo call `info` and `options`: plain values by name."""
ACTIONS = ("ratio", "ratio_and_price")


@dataclass(frozen=True, kw_only=True)
class ExecutionEnvConfig:
    """The task of an environment.

    `side` is buy, sell or both (drawn per episode); `start` None draws the first bar.
    `transaction_cost` is the fee as a share of the cash exchanged. `fills`, `half_spread_bps` and
    `max_participation` are assumptions of the static world, which the book of the dynamic one
    replaces; `participation` is the order's share of the usual volume: what the policy is told in
    both worlds, and how many lots the order has in the dynamic one.
    """

    initial_inventory: float = 10_000.0
    total_time: int = 240
    transaction_cost: float = 0.001
    action: str = "ratio"
    side: str = "both"
    start: int | None = None
    fills: str = "price_taker"
    half_spread_bps: float = 0.0
    max_participation: float | None = None
    price_range_bps: float = 10.0
    participation: float = 0.10

    def __post_init__(self) -> None:
        positive_quantity(self.initial_inventory)
        _check_known("action", self.action, ACTIONS)
        _check_known("side", self.side, (*SIDES, "both"))
        checked_sizes((self.participation, self.participation))
        _ = self.costs  # refuses impossible ones

    @property
    def costs(self) -> Costs:
        """What trading on history costs under these settings."""
        return Costs(
            fills=self.fills,
            half_spread_bps=self.half_spread_bps,
            fee_bps=self.transaction_cost * BPS,
            max_participation=self.max_participation,
        )


def default_config(data: MarketData | None) -> ExecutionEnvConfig:
    """The configuration of those who give none: 240 bars, or the session where it is shorter."""
    config = ExecutionEnvConfig()
    if data is None:
        return config
    return replace(config, total_time=min(config.total_time, len(data.grid)))


def _check_known(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise DataError(f"{name} {value!r} is unknown; use one of {', '.join(known)}")


class OrderSource:
    """Draws parent orders: from the windows of `data`, or for free markets without it."""

    def __init__(self, data: MarketData | None, config: ExecutionEnvConfig) -> None:
        self.data = data
        self.config = config
        self._rows = np.zeros(1, np.int64)
        self._latest_start = 0
        if data is not None:
            check_window(data, horizon=config.total_time, start=config.start or 0)
            self._rows = np.flatnonzero(data.has_session.ravel())
            self._latest_start = len(data.grid) - config.total_time

    def draw(
        self, rng: np.random.Generator, n: int, *, options: Mapping[str, Any] | None = None
    ) -> Orders:
        """Draw `n` orders; `options` may fix symbol, session, start and side."""
        fixed = self._checked(options or {})
        config = self.config
        side = fixed.get("side", config.side)
        start = fixed.get("start", None if self.data is None else config.start)
        rows = self._matching(fixed)
        first = self._starts(rng, n, start)
        sign = rng.choice([1, -1], size=n) if side == "both" else np.full(n, SIDES[side])
        row = rng.choice(rows, size=n)
        quantity = np.full(n, config.initial_inventory)
        orders = Orders.of_usual_size(row, first, sign.astype(np.int8), quantity, config.total_time)
        return replace(orders, size=np.full(n, config.participation))

    def _starts(self, rng: np.random.Generator, n: int, start: int | None) -> npt.NDArray[np.int64]:
        """The orders' first bars: drawn where `start` is None, refused where they do not fit."""
        if start is None:
            return rng.integers(self._latest_start + 1, size=n)
        if self.data is not None:
            check_window(self.data, horizon=self.config.total_time, start=int(start))
        return np.full(n, int(start))

    def describe(self, orders: Orders, *, which: int = 0) -> Info:
        """One order in words, for an environment's `info`."""
        side = "sell" if orders.side[which] > 0 else "buy"
        if self.data is None:
            return {"side": side, "data": "free market (SIMULATED)"}
        symbol, session = divmod(int(orders.row[which]), len(self.data.dates))
        return {
            "symbol": self.data.symbols[symbol],
            "session": int(self.data.dates[session]),
            "side": side,
            "start": int(orders.start[which]),
            "data": self.data.provenance.label,
        }

    def _checked(self, fixed: Mapping[str, Any]) -> Mapping[str, Any]:
        """The reset options, refused where they are unknown."""
        known = ("side",) if self.data is None else ("symbol", "session", "start", "side")
        unknown = sorted(set(fixed) - set(known))
        if unknown:
            names = "side" if self.data is None else "symbol, session, start or side"
            raise DataError(f"reset option {unknown[0]!r} is unknown; use {names}")
        side = fixed.get("side", self.config.side)
        if side not in (*SIDES, "both"):
            raise DataError(f"side {side!r} is unknown; use buy, sell or both")
        return fixed

    def _matching(self, fixed: Mapping[str, Any]) -> npt.NDArray[np.int64]:
        """Rows of the data that have the fixed symbol and session."""
        if self.data is None:
            return self._rows
        rows = self._rows
        sessions = len(self.data.dates)
        if "symbol" in fixed:
            rows = rows[rows // sessions == self.data.symbol_index(fixed["symbol"])]
        if "session" in fixed:
            rows = rows[self.data.dates[rows % sessions] == fixed["session"]]
        if not len(rows):
            raise DataError(f"no session matches {fixed}; see data.symbols and data.dates")
        return rows
