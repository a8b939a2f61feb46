"""Worlds to train in: many parent orders stepped together, and what a reward may look at.

A world draws episodes in pairs of both sides, shows observations, takes one array of actions a step
and fills one array of `REWARD_FIELDS`. `static_world.py` replays history, `dynamic_world.py`
simulates, `mixed_world.py` joins worlds in a batch.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

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
FieldPlace = namedtuple("FieldPlace", FIELD_NAMES)  # type: ignore[misc]  # no literal
"""A class with a name to find it by: numba's cache knows others in no later process."""
FIELD_PLACE = FieldPlace(*range(len(FIELD_NAMES)))
"""The row of each field, by name: `fields[FIELD_PLACE.fill_price]`."""
LOWEST = np.array([field.low for field in REWARD_FIELDS.values()], np.float32)
HIGHEST = np.array([field.high for field in REWARD_FIELDS.values()], np.float32)
QUANTITY = 10_000.0
"""Shares of a drawn parent order; no world's outcome depends on it."""


@dataclass(frozen=True, eq=False)
class Episodes:
    """What to run: orders and, in simulated markets, one seed per book.

    `agents` neighbouring orders share a book.
    """

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
        """`n` orders, a multiple of 2 * agents.

        Order i + n/2 is the other side of order i in the same window or market.
        """
        ...

    def reset(self, episodes: Episodes) -> Observation:
        """Start these; the first observation [n, observation_size], reused by later steps."""
        ...

    def step(self, ratio: Array, offset: Array | None, fields: Fields) -> Observation:
        """Trade `ratio` of what is left, `offset` ticks from the own touch.

        Positive offsets are passive; None is at market. Fills `fields` [field, n] with this step's
        values.
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


@runtime_checkable
class Showing(Protocol):
    """A world that can show further inputs (`modules.agent_interface`)."""

    further: tuple[str, ...]

    def showing(self, inputs: tuple[str, ...]) -> World:
        """The same world whose observations end with these."""
        ...


def showing(world: World, inputs: tuple[str, ...]) -> World:
    """The world with these further inputs and no others, to be played beside it."""
    if inputs == further_of(world):
        return world
    if not isinstance(world, Showing):
        raise ValueError(
            f"the {world.name} world has no inputs {', '.join(inputs)} to show; "
            "play a policy that asks for none"
        )
    return world.showing(inputs)


def further_of(world: World) -> tuple[str, ...]:
    """The further inputs that a world shows."""
    return world.further if isinstance(world, Showing) else ()


NamedWorlds = Mapping[str, World | tuple[World, ...]]
"""Worlds by name, where a name may stand for several that are alike but for their horizon."""


def several(worlds: NamedWorlds) -> dict[str, tuple[World, ...]]:
    """Worlds by name, each as several."""
    return {name: one if isinstance(one, tuple) else (one,) for name, one in worlds.items()}


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
    """The bars at which a window may begin: every one that it fits behind, or those listed."""
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
