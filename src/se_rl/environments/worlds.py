"""Worlds to train in: many parent orders stepped together, and for each step what a reward may look at.

A world draws episodes in pairs of both sides, shows observations, takes one array of actions a step and fills one array
of `REWARD_FIELDS`. `static_world.py` replays history, `dynamic_world.py` simulates; `MixedWorld` joins worlds in a batch.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.task import ExecutionRecord, Orders, WindowBenchmarks, check_window
from se_rl.modules.contracts import REWARD_FIELDS

Array = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Fields = npt.NDArray[np.float32]
Int = npt.NDArray[np.int64]
Observation = npt.NDArray[np.float32]

FIELD_NAMES = tuple(REWARD_FIELDS)
"""The rows of the array that a step fills."""
FIELD_PLACE = namedtuple("FIELD_PLACE", FIELD_NAMES)(*range(len(FIELD_NAMES)))
"""The row of each field, by name: `fields[FIELD_PLACE.fill_price]`."""
LOWEST = np.array([field.low for field in REWARD_FIELDS.values()], np.float32)
HIGHEST = np.array([field.high for field in REWARD_FIELDS.values()], np.float32)
QUANTITY = 10_000.0
"""Shares of a drawn parent order; no world's outcome depends on it."""


@dataclass(frozen=True, eq=False)
class Episodes:
    """What to run: orders and, in simulated markets, one seed per book (`agents` neighbouring orders share a book)."""

    orders: Orders
    seeds: Int | None = None

    def __len__(self) -> int:
        return len(self.orders)

    @property
    def book_seeds(self) -> Int:
        """The seeds, where a world cannot do without them."""
        if self.seeds is None:
            raise ValueError("these episodes have no seeds; a simulated market needs one per book")
        return self.seeds

    def of_horizon(self, steps: int) -> Orders:
        """The orders, refused unless they have this many steps."""
        if self.orders.horizon != steps:
            raise ValueError(
                f"these orders have {self.orders.horizon} steps, the world has {steps}"
            )
        return self.orders


class World(Protocol):
    """A place to train in; neighbours of the batch share one book where `agents` > 1."""

    name: str
    horizon: int
    agents: int
    observation_size: int
    takes_price: bool
    field_names: tuple[str, ...]

    def draw(self, rng: np.random.Generator, n: int) -> Episodes:
        """`n` orders, a multiple of 2 * agents: order i + n/2 is the other side of order i in the same window or market."""
        ...

    def reset(self, episodes: Episodes) -> Observation:
        """Start these; the first observation [n, observation_size], an array that later steps may reuse."""
        ...

    def step(self, ratio: Array, offset: Array | None, fields: Fields) -> Observation:
        """Trade `ratio` of what is left, `offset` ticks from the own touch (positive: passive; None: at market).

        Fills `fields` [field, n] with this step's values.
        """
        ...

    @property
    def broken(self) -> Bool:
        """Orders whose outcome is void."""
        ...

    def record(self) -> ExecutionRecord:
        """The finished batch."""
        ...

    def benchmarks(self) -> WindowBenchmarks:
        """The prices that the batch is held against."""
        ...


def new_fields(n: int) -> Fields:
    """Room for one step's fields of `n` orders."""
    return np.zeros((len(FIELD_NAMES), n), np.float32)


def write_fields(values: Mapping[str, Array], fields: Fields) -> None:
    """Put one step's values into their rows, clipped to their ranges."""
    for k, name in enumerate(FIELD_NAMES):
        np.clip(values[name], LOWEST[k], HIGHEST[k], out=fields[k])


def check_pairs(n: int, agents: int = 1) -> int:
    """Half of `n`, refused unless both halves fill whole books."""
    if n < 2 * agents or n % (2 * agents):
        raise ValueError(f"{n} orders are no pairs of both sides; draw a multiple of {2 * agents}")
    return n // 2


def window_starts(data: MarketData, horizon: int, starts: str | Sequence[int]) -> Int:
    """The bars at which a window may begin: every one that leaves room for it, or those listed."""
    check_window(data, horizon=horizon, start=0)
    if isinstance(starts, str):
        if starts != "any":
            raise DataError(
                f"starts {starts!r} is unknown; use 'any' or a list of bars, e.g. [0, 120]"
            )
        return np.arange(len(data.grid) - horizon + 1)
    if not len(starts):
        raise DataError("starts is empty; use 'any' or a list of bars, e.g. [0, 120]")
    for start in starts:
        check_window(data, horizon=horizon, start=start)
    return np.asarray(starts, np.int64)


def session_rows(data: MarketData, dates: npt.ArrayLike | None) -> Int:
    """Rows (symbol * sessions + session) that have a session on one of the dates."""
    wanted = np.ones(len(data.dates), np.bool_) if dates is None else np.isin(data.dates, dates)
    rows = np.flatnonzero((data.has_session & wanted).ravel())
    if not len(rows):
        raise DataError(
            f"{data.provenance.name} has no session on the chosen dates; choose another split"
        )
    return rows


class MixedWorld:
    """Several worlds of one shape in one batch, equal parts of it in each: real and imagined history, for instance.

    Of each half of the batch (the sides of a pair are half a batch apart) the first part belongs to the first world,
    and so on. A part that is not asked for a price gets none.
    """

    def __init__(self, worlds: Sequence[World]) -> None:
        first = worlds[0]
        for name in ("horizon", "agents", "observation_size", "field_names"):
            if len({getattr(world, name) for world in worlds}) > 1:
                raise ValueError(
                    f"worlds of one batch differ in {name}: {[getattr(w, name) for w in worlds]}"
                )
        self.worlds, self.name = tuple(worlds), "+".join(world.name for world in worlds)
        self.horizon, self.agents = first.horizon, first.agents
        self.observation_size, self.field_names = first.observation_size, first.field_names
        self.takes_price = any(world.takes_price for world in worlds)

    def draw(self, rng: np.random.Generator, n: int) -> Episodes:
        """Each world draws its part."""
        parts = self._parts(n)
        drawn = [world.draw(rng, len(part)) for world, part in zip(self.worlds, parts, strict=True)]
        order = np.argsort(np.concatenate(parts))
        seeds = [_seeds(episodes, self.agents) for episodes in drawn]
        books = order.reshape(-1, self.agents)[:, 0] // self.agents
        orders = _join_orders([episodes.orders for episodes in drawn]).take(order)
        return Episodes(orders, np.concatenate(seeds)[books])

    def reset(self, episodes: Episodes) -> Observation:
        """Hand each world its part."""
        n = len(episodes)
        self._where = self._parts(n)
        self._observation = np.zeros((n, self.observation_size), np.float32)
        self._fields = [new_fields(len(part)) for part in self._where]
        seeds = episodes.seeds
        for world, part in zip(self.worlds, self._where, strict=True):
            books = part.reshape(-1, self.agents)[:, 0] // self.agents
            mine = Episodes(episodes.orders.take(part), None if seeds is None else seeds[books])
            self._observation[part] = world.reset(mine)
        return self._observation

    def step(self, ratio: Array, offset: Array | None, fields: Fields) -> Observation:
        """One step in every world."""
        for world, part, own in zip(self.worlds, self._where, self._fields, strict=True):
            away = offset[part] if offset is not None and world.takes_price else None
            self._observation[part] = world.step(ratio[part], away, own)
            fields[:, part] = own
        return self._observation

    @property
    def broken(self) -> Bool:
        """Orders that are void in their own world."""
        return self._together([world.broken for world in self.worlds])

    def record(self) -> ExecutionRecord:
        """The records in the order of the batch; fills per step are left out."""
        records = [world.record() for world in self.worlds]
        orders = _join_orders([record.orders for record in records]).take(
            np.argsort(np.concatenate(self._where))
        )
        gross, net, leftover = (
            self._together([getattr(record, name) for record in records])
            for name in ("gross_price", "net_price", "leftover")
        )
        return ExecutionRecord(orders, gross, net, leftover, np.empty((len(orders), 0)))

    def benchmarks(self) -> WindowBenchmarks:
        """The benchmarks in the order of the batch; no VWAP where one of the worlds has none."""
        all_of = [world.benchmarks() for world in self.worlds]
        volumes = [one.vwap for one in all_of if one.vwap is not None]
        vwap = self._together(volumes) if len(volumes) == len(all_of) else None
        return WindowBenchmarks(
            vwap,
            self._together([one.twap for one in all_of]),
            self._together([one.arrival for one in all_of]),
        )

    def _parts(self, n: int) -> list[Int]:
        """The places of the batch that belong to each world, whole books and both sides of each pair."""
        books = check_pairs(n, self.agents) // self.agents
        if books < len(self.worlds):
            raise ValueError(
                f"{n} orders do not reach {len(self.worlds)} worlds; draw {2 * self.agents} for each"
            )
        half = [
            (part[:, None] * self.agents + np.arange(self.agents)).ravel()
            for part in np.array_split(np.arange(books), len(self.worlds))
        ]
        return [np.concatenate([part, part + n // 2]) for part in half]

    def _together(self, parts: Sequence[npt.NDArray]) -> npt.NDArray:
        whole = np.empty(sum(map(len, parts)), parts[0].dtype)
        whole[np.concatenate(self._where)] = np.concatenate(parts)
        return whole


def _seeds(episodes: Episodes, agents: int) -> Int:
    """The seeds of the books; a replay has none, and 0 stands in its places."""
    return np.zeros(len(episodes) // agents, np.int64) if episodes.seeds is None else episodes.seeds


def _join_orders(parts: Sequence[Orders]) -> Orders:
    row, start, side, quantity = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("row", "start", "side", "quantity")
    )
    return Orders(row, start, side, quantity, parts[0].horizon)
