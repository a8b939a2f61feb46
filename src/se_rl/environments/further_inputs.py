"""The formulas of the further inputs in simulated markets, computed only where they are asked for.

`modules.agent_interface` says what each one means; bars before an order's start are not counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from se_rl.data.features import BOOK_LEVELS, CLIP, OBSERVATION_PLACE
from se_rl.environments.inputs import Array, Input, Inputs, Observation, age
from se_rl.market.own_orders import own_orders
from se_rl.market.price_levels import BUY, QUEUED, SELL
from se_rl.modules.agent_interface import DEEP_LEVELS, FLOW_STEPS, FURTHER_INPUTS, OWN_LEVELS

if TYPE_CHECKING:
    from se_rl.environments.dynamic_core import DynamicCore

Int = npt.NDArray[np.int64]

OLDEST = max(FLOW_STEPS)
"""Steps that are remembered."""
BOOK = slice(OBSERVATION_PLACE["bid_size_1"], OBSERVATION_PLACE["imbalance"] + 1)
"""Where the usual observation shows the book."""


class FurtherInputs:
    """Fields behind the usual observation of a batch that has just begun, `names` in their order."""

    def __init__(self, core: DynamicCore, names: Sequence[str]) -> None:
        self.core = core
        self._shown = Inputs(names, CATALOGUE) if names else None
        self._keeps_books = "book_before" in names
        self._counts_limits = any(name.startswith("limit_flow") for name in names)
        self.signed: deque[Array] = deque(maxlen=OLDEST)  # lots bought less sold by takers
        self.volume: deque[Array] = deque(maxlen=OLDEST)
        self.resting: deque[Int] = deque(maxlen=OLDEST + 1)  # bids less asks, all that rest
        self.spreads: deque[Array] = deque(maxlen=OLDEST + 1)
        self.shown_books: deque[Observation] = deque(maxlen=2)  # [order, field], the newest last
        if self._shown is not None:
            books = core.markets.books
            self._note_book((books.best(SELL) - books.best(BUY)).astype(np.float64))

    @property
    def size(self) -> int:
        """Numbers that they are."""
        return 0 if self._shown is None else self._shown.size

    def add(self, bars: Mapping[str, Array]) -> None:
        """One more bar has closed."""
        if self._shown is None:
            return
        ours = slice(0, self.core.books.count)
        self.signed.append(bars["signed_volume"][ours])
        self.volume.append(bars["volume"][ours])
        self._note_book(bars["ask"] - bars["bid"])

    def write(self, out: Observation) -> None:
        """Fill `out` [order, size] from the books as they stand now."""
        if self._keeps_books:
            self.shown_books.append(self.core.observation[:, BOOK].copy())
        if self._shown is not None:
            np.clip(self._shown.read(self, out), -CLIP, CLIP, out=out)

    def turned(self, values: Array) -> Array:
        """What favours sellers in each market [market] as what favours each order."""
        return self.core.orders.side * self.core.books.per_order(values)

    def last(self, notes: Sequence[Array], steps: int) -> Array:
        """The sum of the newest notes [market]; 0 before the first."""
        newest = list(notes)[-steps:]
        return sum(newest, np.zeros(self.core.books.count))

    def _note_book(self, spreads: Array) -> None:
        """Keep what later steps compare with."""
        count = self.core.books.count
        self.spreads.append(spreads[:count])
        if self._counts_limits:
            levels = self.core.markets.books.book.levels[:count, :, :, QUEUED]
            queued = levels.sum(axis=2, dtype=np.int64)  # [market, side]
            self.resting.append(queued[:, BUY] - queued[:, SELL])


def _own_lots(seen: FurtherInputs) -> Array:
    """[order, level]: our order's lots where it rests at one of the best prices of its side."""
    core, books = seen.core, seen.core.books
    own = own_orders(books.markets, books.count)
    depth = books.markets.books.depth(OWN_LEVELS)[: books.count]
    sides = books.per_order(depth)  # [order, side, level, (price, lots)]
    side = np.where(core.orders.side > 0, SELL, BUY)
    levels = sides[np.arange(len(sides)), side]  # [order, level, (price, lots)]
    here = (levels[..., 0] == own.price.reshape(-1, 1)) & (levels[..., 1] > 0)
    share = own.lots.ravel() / np.maximum(core.remaining_lots, 1)
    return here * share[:, None]


def _lots_ahead(seen: FurtherInputs) -> Array:
    """[order]: lots before our order at its price, over these and ours."""
    own = own_orders(seen.core.markets, seen.core.books.count)
    both = np.maximum(own.ahead + own.lots, 1)
    return np.where(own.lots > 0, own.ahead / both, 0.0).ravel()


def _deep_queues(seen: FurtherInputs) -> Array:
    """[order, own view of bids | asks]: log sizes behind the levels that everybody sees."""
    books = seen.core.books
    depth = books.markets.books.depth(BOOK_LEVELS + DEEP_LEVELS)[: books.count]
    lots = depth[:, :, BOOK_LEVELS:, 1]  # [market, side, level]
    sizes = np.log(lots + 1.0) - np.log(books.usual.best_lots + 1.0)[:, None, None]
    by_order = books.per_order(sizes)
    is_sell = seen.core.orders.side[:, None, None] > 0
    turned = np.where(is_sell, by_order, by_order[:, ::-1])
    return turned.reshape(len(turned), -1)


def _book_before(seen: FurtherInputs) -> Array:
    return seen.shown_books[0].astype(np.float64)


def _market_flow(steps: int, seen: FurtherInputs) -> Array:
    traded = np.maximum(seen.last(seen.volume, steps), 1.0)
    return seen.turned(seen.last(seen.signed, steps) / traded)


def _limit_flow(steps: int, seen: FurtherInputs) -> Array:
    """What came to rest less what was taken back, by way of what rests and what takers took."""
    known = min(steps, len(seen.signed))
    # of bids less asks: resting now = resting then + limit flow + bought - sold
    came = seen.resting[-1] - seen.resting[-1 - known] - seen.last(seen.signed, steps)
    return seen.turned(came / (steps * seen.core.books.usual.volume_lots))


def _spread_age(seen: FurtherInputs) -> Array:
    return seen.core.books.per_order(age(list(seen.spreads)) / OLDEST)


def _drift(seen: FurtherInputs) -> Array:
    core = seen.core
    usual = core.books.per_order(core.script.usual_volatility)
    moved = np.log(core.mid_after / core.arrival)
    return core.orders.side * moved / (usual * np.sqrt(max(1, core.step_index)))


def _nothing(seen: FurtherInputs) -> Array:
    """Bars before the order's start are not counted here."""
    return np.zeros(len(seen.core.orders))


def _catalogue() -> dict[str, Input[FurtherInputs]]:
    formulas = {
        "own_lots": _own_lots,
        "lots_ahead": _lots_ahead,
        "deep_queues": _deep_queues,
        "book_before": _book_before,
        "spread_age": _spread_age,
        "drift": _drift,
    }
    for steps in FLOW_STEPS:
        formulas[f"market_flow_{steps}"] = partial(_market_flow, steps)
        formulas[f"limit_flow_{steps}"] = partial(_limit_flow, steps)
    found = {}
    for name, meant in FURTHER_INPUTS.items():
        formula = _nothing if meant.of_bars else formulas[name]
        found[name] = Input(meant.help, formula, meant.width)
    return found


CATALOGUE = _catalogue()
"""The fields by name, read from the notes of a batch."""
