"""Several worlds of one shape in one batch: real and imagined history, for instance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from se_rl.environments.task import ExecutionRecord, Orders, WindowBenchmarks
from se_rl.environments.worlds import (
    Array,
    Bool,
    Episodes,
    Fields,
    Int,
    Observation,
    World,
    check_pairs,
    further_of,
    new_fields,
    showing,
)

SHAPE = ("horizon", "agents", "observation_size", "field_names")
"""What worlds of one batch must have in common."""


class MixedWorld:
    """Worlds that take equal parts of a batch.

    Of each half of the batch (the sides of a pair are half a batch apart) the first part belongs to
    the first world, and so on. A part that is not asked for a price gets none.
    """

    def __init__(self, worlds: Sequence[World]) -> None:
        for name in SHAPE:
            values = [getattr(world, name) for world in worlds]
            if any(value != values[0] for value in values):
                raise ValueError(f"worlds of one batch differ in {name}: {values}")
        first = worlds[0]
        self.worlds = tuple(worlds)
        self.name = "+".join(world.name for world in worlds)
        self.horizon = first.horizon
        self.agents = first.agents
        self.observation_size = first.observation_size
        self.field_names = first.field_names
        self.further = further_of(first)
        self.takes_price = any(world.takes_price for world in worlds)

    def draw(self, rng: np.random.Generator, n: int) -> Episodes:
        """Each world draws its part."""
        parts = self._parts(n)
        orders = []
        seeds = []
        for world, part in zip(self.worlds, parts, strict=True):
            drawn = world.draw(rng, len(part))
            orders.append(drawn.orders)
            seeds.append(_book_seeds(drawn, self.agents))
        order = np.argsort(np.concatenate(parts))
        return Episodes(
            join_orders(orders).take(order), np.concatenate(seeds)[self._books_of(order)]
        )

    def reset(self, episodes: Episodes) -> Observation:
        """Hand each world its part."""
        n = len(episodes)
        self._observation = np.zeros((n, self.observation_size), np.float32)
        for world, part, own in self.shared_out(episodes):
            self._observation[part] = world.reset(own)
        return self._observation

    def shared_out(self, episodes: Episodes) -> list[tuple[World, Int, Episodes]]:
        """Each world with its places in the batch and its episodes."""
        seeds = episodes.seeds
        self._where = self._parts(len(episodes))
        self._fields = [new_fields(len(part)) for part in self._where]
        found = []
        for world, part in zip(self.worlds, self._where, strict=True):
            own_seeds = None if seeds is None else seeds[self._books_of(part)]
            found.append((world, part, Episodes(episodes.orders.take(part), own_seeds)))
        return found

    def step(self, ratio: Array, offset: Array | None, fields: Fields) -> Observation:
        """One step in every world."""
        for world, part, own in zip(self.worlds, self._where, self._fields, strict=True):
            away = offset[part] if offset is not None and world.takes_price else None
            self._observation[part] = world.step(ratio[part], away, own)
            fields[:, part] = own
        return self._observation

    def showing(self, inputs: tuple[str, ...]) -> MixedWorld:
        """The same worlds with these further inputs."""
        return MixedWorld([showing(world, inputs) for world in self.worlds])

    @property
    def broken(self) -> Bool:
        """Orders that are void in their own world."""
        return self._together([world.broken for world in self.worlds])

    def record(self) -> ExecutionRecord:
        """The records in the order of the batch; fills per step are left out."""
        records = [world.record() for world in self.worlds]
        order = np.argsort(np.concatenate(self._where))
        orders = join_orders([record.orders for record in records]).take(order)
        return ExecutionRecord(
            orders,
            gross_price=self._together([record.gross_price for record in records]),
            net_price=self._together([record.net_price for record in records]),
            leftover=self._together([record.leftover for record in records]),
            fills=np.empty((len(orders), 0)),
        )

    def benchmarks(self) -> WindowBenchmarks:
        """The benchmarks in the order of the batch; no VWAP where one of the worlds has none."""
        marks = [world.benchmarks() for world in self.worlds]
        vwaps = [mark.vwap for mark in marks if mark.vwap is not None]
        return WindowBenchmarks(
            vwap=self._together(vwaps) if len(vwaps) == len(marks) else None,
            twap=self._together([mark.twap for mark in marks]),
            arrival=self._together([mark.arrival for mark in marks]),
        )

    def _parts(self, n: int) -> list[Int]:
        """The places of the batch that belong to each world: whole books, both sides of a pair."""
        books = check_pairs(n, self.agents) // self.agents
        if books < len(self.worlds):
            raise ValueError(
                f"{n} orders do not reach {len(self.worlds)} worlds; "
                f"draw {2 * self.agents} for each"
            )
        parts = []
        for share in np.array_split(np.arange(books), len(self.worlds)):
            places = (share[:, None] * self.agents + np.arange(self.agents)).ravel()
            parts.append(np.concatenate([places, places + n // 2]))
        return parts

    def _books_of(self, places: Int) -> Int:
        """The books that these places of the batch fill."""
        return places.reshape(-1, self.agents)[:, 0] // self.agents

    def _together(self, parts: Sequence[npt.NDArray]) -> npt.NDArray:
        """The worlds' values in the order of the batch."""
        whole = np.empty(sum(map(len, parts)), parts[0].dtype)
        whole[np.concatenate(self._where)] = np.concatenate(parts)
        return whole


def _book_seeds(episodes: Episodes, agents: int) -> Int:
    """The seeds of the books; a replay has none, and 0 stands in its places."""
    return np.zeros(len(episodes) // agents, np.int64) if episodes.seeds is None else episodes.seeds


def join_orders(parts: Sequence[Orders]) -> Orders:
    """Orders of one horizon, one after the other."""
    return Orders(
        row=np.concatenate([part.row for part in parts]),
        start=np.concatenate([part.start for part in parts]),
        side=np.concatenate([part.side for part in parts]),
        quantity=np.concatenate([part.quantity for part in parts]),
        size=np.concatenate([part.size for part in parts]),
        kind=np.concatenate([part.kind for part in parts]),
        horizon=parts[0].horizon,
    )
