"""A fixed bank of simulated episodes, and what does not depend on the policy in each of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.task import Orders
from se_rl.environments.worlds import QUANTITY, Array, Bool, Episodes, Fields, Int
from se_rl.market.family import MarketKind


@dataclass(frozen=True, eq=False)
class Baseline:
    """What does not depend on the policy, prices as moves from the arrival: price / arrival - 1.

    `mid` without any order, the arrival first; `news` is the public value's own path, which no
    trader makes and nobody can foresee; of TWAP the `fill` before fees and what is `left` after the
    step; `void` orders are those in whose market one of the two broke: the mid stands in for TWAP
    there.
    """

    mid: Fields  # [book, step + 1]
    news: Fields  # [book, step + 1]
    fill: Fields  # [order, step]
    left: Fields  # [order, step]
    void: Bool  # [order]


@dataclass(frozen=True, eq=False)
class BankPlan:
    """What the episodes of a bank, and their baselines, depend on."""

    kinds: int
    horizon: int
    agents: int
    seed: int
    sizes: tuple[float, float]
    rows: Int
    starts: Int
    key: bytes

    @classmethod
    def of(
        cls,
        kinds: tuple[MarketKind, ...],
        data: MarketData | None,
        scales: FeatureScales | None,
        *,
        horizon: int,
        sizes: tuple[float, float],
        agents: int,
        seed: int,
        rows: Int,
        starts: Int,
    ) -> BankPlan:
        """The plan with its key, a digest of everything that the numbers depend on."""
        settings = ([astuple(kind) for kind in kinds], horizon, sizes, agents, seed)
        digest = hashlib.sha256(repr(settings).encode())
        digest.update(np.ascontiguousarray(rows).tobytes())
        for array in (*_followed(data), *_arrays_of(scales)):
            digest.update(np.ascontiguousarray(array).tobytes())
        return cls(len(kinds), horizon, agents, seed, sizes, rows, starts, digest.digest())


def _followed(data: MarketData | None) -> list[npt.NDArray[Any]]:
    """What twins follow; symbols and dates have other names in a locked process."""
    if data is None:
        return []
    return [data.close] if data.volume is None else [data.close, data.volume]


def _arrays_of(scales: FeatureScales | None) -> list[npt.NDArray[Any]]:
    """The arrays of the scales, in order."""
    if scales is None:
        return []
    values = [getattr(scales, field.name) for field in fields(scales)]
    return [value for value in values if isinstance(value, np.ndarray)]


def _balanced_sizes(rng: np.random.Generator, entries: int, plan: BankPlan) -> Array:
    """Log-uniform sizes [entry, agent]; each kind has as many from each third of their range."""
    turn = np.arange(entries)[:, None] // plan.kinds + np.arange(plan.agents)
    low, high = plan.sizes
    place = (turn % 3 + rng.random((entries, plan.agents))) / 3.0
    return low * (high / low) ** place


class EpisodeBank:
    """A fixed set of episodes: what each one is, and its baseline once it is simulated (`known`).

    Everything is in plain arrays. Entry i is the same episode whatever the size of the bank and
    the order of drawing. Each entry stands for two books: its sides, and the opposite ones.
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._arrays = dict(arrays)
        self._sorted = np.argsort(self["seed"])

    @classmethod
    def make(cls, size: int, plan: BankPlan) -> EpisodeBank:
        """Draw `size` episodes; nothing is simulated yet."""
        agents, horizon = plan.agents, plan.horizon
        # a stream of its own for each column, so that entries do not depend on the bank's size
        seeds, row, start, side, share = (
            np.random.default_rng((plan.seed, part)) for part in range(5)
        )
        sides = np.ones((size, agents)) if agents == 1 else side.choice([1, -1], (size, agents))
        return cls(
            {
                "key": np.frombuffer(plan.key, np.uint8),
                "known": np.zeros(size, np.bool_),
                "seed": seeds.integers(2**62, size=size),
                "kind": np.arange(size) % plan.kinds,
                "row": row.choice(plan.rows, size),
                "start": start.choice(plan.starts, size),
                "side": sides.astype(np.int8),
                "size": _balanced_sizes(share, size, plan),
                "mid": np.zeros((size, horizon + 1), np.float32),
                "news": np.zeros((size, horizon + 1), np.float32),
                "fill": np.zeros((2, size, agents, horizon), np.float32),
                "left": np.zeros((2, size, agents, horizon), np.float32),
                "void": np.zeros((2, size, agents), np.bool_),
            }
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> EpisodeBank:
        """A bank of another process, whose arrays may be mapped read-only."""
        return cls(arrays)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything, for `from_arrays`; the arrays are the bank's own, not copies."""
        return dict(self._arrays)

    def __len__(self) -> int:
        return len(self["seed"])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._arrays[name]

    def find(self, episodes: Episodes) -> tuple[Int, Int] | None:
        """Entry and half (0: its sides, 1: the opposite) of every book.

        None where a book is not in the bank.
        """
        seeds = episodes.book_seeds
        orders = episodes.orders
        agents = self["side"].shape[1]
        place = np.searchsorted(self["seed"], seeds, sorter=self._sorted)
        entry = self._sorted[np.minimum(place, len(self) - 1)]
        side = orders.side.reshape(-1, agents)
        half = (side[:, 0] != self["side"][entry, 0]).astype(np.int64)
        same = (side == self["side"][entry] * (1 - 2 * half)[:, None]).all(axis=1)
        same &= self["seed"][entry] == seeds
        same &= self["kind"][entry] == orders.kind[::agents]
        same &= self["row"][entry] == orders.row[::agents]
        same &= self["start"][entry] == orders.start[::agents]
        same &= (self["size"][entry] == orders.size.reshape(-1, agents)).all(axis=1)
        return (entry, half) if same.all() else None

    def episodes(self, entry: Int, *, horizon: int) -> Episodes:
        """The books of these entries, then their opposites."""
        sides = self["side"][entry]
        agents = sides.shape[1]
        row = np.tile(np.repeat(self["row"][entry], agents), 2)
        start = np.tile(np.repeat(self["start"][entry], agents), 2)
        both = np.concatenate([sides, -sides]).ravel()
        orders = Orders(
            row=row,
            start=start,
            side=both,
            quantity=np.full(len(both), QUANTITY),
            size=np.tile(self["size"][entry].ravel(), 2),
            kind=np.tile(np.repeat(self["kind"][entry], agents), 2),
            horizon=horizon,
        )
        return Episodes(orders, np.tile(self["seed"][entry], 2))

    def store(self, entry: Int, baseline: Baseline) -> None:
        """Keep the baseline of `episodes(entry)`, whose halves have mids and news in common."""
        if not self["known"].flags.writeable:  # mapped read-only: what is new stays with us
            self._arrays = {name: array.copy() for name, array in self._arrays.items()}
        shape = (2, len(entry), self["side"].shape[1], -1)
        self["mid"][entry] = baseline.mid
        self["news"][entry] = baseline.news
        self["fill"][:, entry] = baseline.fill.reshape(shape)
        self["left"][:, entry] = baseline.left.reshape(shape)
        self["void"][:, entry] = baseline.void.reshape(shape[:3])
        self["known"][entry] = True

    def baseline(self, entry: Int, half: Int) -> Baseline:
        """What is known of these books."""
        steps = self["fill"].shape[3]
        return Baseline(
            mid=self["mid"][entry],
            news=self["news"][entry],
            fill=self["fill"][half, entry].reshape(-1, steps),
            left=self["left"][half, entry].reshape(-1, steps),
            void=self["void"][half, entry].ravel(),
        )
