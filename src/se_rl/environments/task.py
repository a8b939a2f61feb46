"""The execution task: parent orders, the windows they live in, and what their execution came to.

Episode -> Orders (many at once) -> a world -> ExecutionRecord -> metrics. Side +1 is a sell, -1 a
buy, everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from se_rl.data.feature_scales import FeatureScales
from se_rl.data.features import CLIP, OBSERVATION_PLACE
from se_rl.data.market_data import DataError, MarketData

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
Observation = npt.NDArray[np.float32]

SELL, BUY = 1, -1
SIDES = {"sell": SELL, "buy": BUY}
SIZES = (0.01, 0.30)
"""Drawn parent orders are this share of the usual volume of their window, from least to most."""
USUAL_SIZE = 0.10
"""The size of an order that nobody states; it is observed as 0."""
USUAL_HORIZON = 60
"""The length in bars that is observed as 0."""


@dataclass(frozen=True)
class Episode:
    """One parent order: who, when, which side, how much, and how long it may take."""

    symbol: str
    session: int
    side: str
    quantity: float
    start: int = 0
    horizon: int = 240
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Orders:
    """Many parent orders as arrays; `row` is symbol * sessions + session in their data.

    `quantity` counts shares, `size` is the order as a share of the usual volume of its window, and
    `kind` says which of a world's kinds of market the order trades in (0 on history).
    """

    row: Index
    start: Index
    side: npt.NDArray[np.int8]
    quantity: Array
    size: Array
    kind: Index
    horizon: int

    @classmethod
    def of_usual_size(
        cls, row: Index, start: Index, side: npt.NDArray[np.int8], quantity: Array, horizon: int
    ) -> Orders:
        """Orders whose share of the volume nobody states, in markets of the first kind."""
        size = np.full(len(row), USUAL_SIZE)
        return cls(row, start, side, quantity, size, np.zeros(len(row), np.int64), horizon)

    def __len__(self) -> int:
        return len(self.row)

    def take(self, which: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> Orders:
        """Some of the orders."""
        return Orders(
            row=self.row[which],
            start=self.start[which],
            side=self.side[which],
            quantity=self.quantity[which],
            size=self.size[which],
            kind=self.kind[which],
            horizon=self.horizon,
        )

    def bars(self) -> Index:
        """[order, step]: the bar in which each step is filled."""
        return self.start[:, None] + np.arange(self.horizon)

    def gather(self, values: Array) -> Array:
        """[order, step]: values of shape [symbol, session, bar] at the bars of each order."""
        flat = values.reshape(-1, values.shape[-1])
        return flat[self.row[:, None], self.bars()]


def order_from_episode(data: MarketData, episode: Episode) -> Orders:
    """One order as a batch of one, refused in one line if it cannot be executed on this data."""
    if episode.side not in SIDES:
        raise DataError(f"side {episode.side!r} is unknown; use 'buy' or 'sell'")
    quantity = positive_quantity(episode.quantity)
    symbol = data.symbol_index(episode.symbol)
    data.session(episode.symbol, episode.session)
    day = int(np.flatnonzero(data.dates == episode.session)[0])
    check_window(data, horizon=episode.horizon, start=episode.start)
    row = symbol * len(data.dates) + day
    return Orders.of_usual_size(
        row=np.array([row]),
        start=np.array([episode.start]),
        side=np.array([SIDES[episode.side]], np.int8),
        quantity=np.array([quantity]),
        horizon=episode.horizon,
    )


def order_pairs(
    data: MarketData,
    horizon: int | None,
    *,
    dates: npt.NDArray[np.integer] | None = None,
    start: int = 0,
    quantity: float = 10_000.0,
) -> Orders:
    """One sell and one buy order per symbol, session and window; the buy of order i is i + len/2.

    Windows of `horizon` bars tile the session from bar `start`; None is the whole session. `dates`
    keeps orders to some sessions (None: all). Windows without any trade are left out: nothing could
    be executed there.
    """
    length = len(data.grid) - start if horizon is None else horizon
    check_window(data, horizon=length, start=start)
    quantity = positive_quantity(quantity)
    starts = np.arange(start, len(data.grid) - length + 1, length)
    wanted = np.ones(len(data.dates), np.bool_) if dates is None else np.isin(data.dates, dates)
    live = []
    for first in starts:
        traded = data.traded[..., first : first + length].any(axis=2)
        live.append((traded & wanted).ravel())
    row, window = np.nonzero(np.stack(live, axis=1))
    if not len(row):
        raise DataError(
            f"{data.provenance.name} has no tradable window on the chosen dates; "
            "choose another split"
        )
    both = np.concatenate([row, row])
    side = np.repeat(np.array([SELL, BUY], np.int8), len(row))
    begin = np.tile(starts[window], 2)
    return Orders.of_usual_size(both, begin, side, np.full(len(both), quantity), length)


def sized_orders(orders: Orders, size: Array, data: MarketData, scales: FeatureScales) -> Orders:
    """The orders in another size: this share of the volume that is usual in their windows.

    Without volume the quantities stay what they are: nothing on such data depends on them.
    """
    symbol = orders.row // len(data.dates)
    usual = scales.of(data).window_volume(symbol, orders.start, orders.horizon)
    quantity = np.where(usual > 0, size * usual, orders.quantity)
    return replace(orders, size=size, quantity=quantity)


def draw_sizes(
    rng: np.random.Generator, shape: int | tuple[int, ...], sizes: tuple[float, float]
) -> Array:
    """Log-uniform sizes from the least to the most."""
    low, high = np.log(sizes)
    return np.exp(rng.uniform(float(low), float(high), shape))


def checked_sizes(sizes: tuple[float, float]) -> tuple[float, float]:
    """The least and the most of sizes, refused unless they are shares of the volume."""
    low, high = sizes
    if not 0.0 < low <= high <= 1.0:
        raise DataError(
            f"sizes from {low} to {high} are no shares of the volume; use e.g. 0.01 to 0.3, "
            "at most 1"
        )
    return low, high


def write_order_fields(orders: Orders, observation: Observation) -> None:
    """Put what an order is from its first step to its last into its observation."""
    size = np.log(orders.size / USUAL_SIZE)
    observation[:, OBSERVATION_PLACE["order_size"]] = np.clip(size, -CLIP, CLIP)
    length = np.log(orders.horizon / USUAL_HORIZON)
    observation[:, OBSERVATION_PLACE["horizon"]] = np.clip(length, -CLIP, CLIP)


def check_window(data: MarketData, *, horizon: int, start: int) -> None:
    """Refuse a window that does not fit into the session."""
    if start < 0 or horizon < 1:
        raise DataError(
            f"a window of {horizon} bars from bar {start} is impossible; "
            "use a horizon >= 1 and a start >= 0"
        )
    if start + horizon > len(data.grid):
        raise DataError(
            f"horizon {horizon} from bar {start} is longer than the session of {len(data.grid)} "
            f"bars; use at most {len(data.grid) - start} or 'session'"
        )


def positive_quantity(quantity: float) -> float:
    """The quantity, refused unless it is positive and finite."""
    if not (np.isfinite(quantity) and quantity > 0):
        raise DataError(
            f"quantity {quantity} is not positive; give the number of shares to trade, e.g. 10000"
        )
    return float(quantity)


@dataclass(frozen=True, eq=False)
class WindowBenchmarks:
    """Prices an execution is held against, per order; VWAP is None without volume."""

    vwap: Array | None
    twap: Array
    arrival: Array

    @classmethod
    def of(cls, data: MarketData, orders: Orders) -> WindowBenchmarks:
        """Benchmarks over exactly the bars each order may trade in.

        A window in which nothing traded has its TWAP as VWAP.
        """
        price = orders.gather(data.price)
        twap = price.mean(axis=1)
        vwap = None
        if data.volume is not None:
            volume = orders.gather(data.volume)
            total = volume.sum(axis=1)
            vwap = np.divide((price * volume).sum(axis=1), total, out=twap.copy(), where=total > 0)
        return cls(vwap, twap, arrival_price(data, orders))

    def named(self, name: str) -> Array:
        """The benchmark called vwap, twap or arrival; VWAP without volume is refused."""
        values = {"vwap": self.vwap, "twap": self.twap, "arrival": self.arrival}.get(name)
        if name == "vwap" and values is None:
            raise DataError(
                "the data has no volume, so its VWAP is unknown; use `--benchmark twap`"
            )
        if values is None:
            raise DataError(f"benchmark {name!r} is unknown; use vwap, twap or arrival")
        return values


def arrival_price(data: MarketData, orders: Orders) -> Array:
    """The last close before the order's first bar; from the first bar on, the session's open."""
    close = data.close.reshape(-1, len(data.grid))
    opening = data.open.reshape(-1, len(data.grid))[orders.row, 0]
    return np.where(orders.start > 0, close[orders.row, np.maximum(orders.start - 1, 0)], opening)


@dataclass(frozen=True, eq=False)
class ExecutionRecord:
    """What became of each order: average prices over the WHOLE parent, forced completion included.

    `gross_price` is before half-spread and fees, `net_price` after them; `leftover` is the share of
    the order that was still open at the end and had to be completed at market; `fills` are shares
    of the order per step.
    """

    orders: Orders
    gross_price: Array
    net_price: Array
    leftover: Array
    fills: Array

    @cached_property
    def forced_fills(self) -> Array:
        """The fills with the forced completion booked into the last step: each row sums to 1."""
        fills = self.fills.copy()
        fills[:, -1] += self.leftover
        return fills
