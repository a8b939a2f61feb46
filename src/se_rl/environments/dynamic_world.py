"""The dynamic world to train in: simulated books behind the face of `worlds.World`.

Episodes come from a fixed bank of seeds (and windows, with data). What does not depend on the policy (the mids without our
order, and what TWAP by market orders gets) is simulated once per bank entry, when the entry is first used; after that a
training step costs one market per book.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.features import OBSERVATION_FIELDS, FeatureScales
from se_rl.data.market_data import DataError, MarketData
from se_rl.environments.dynamic_core import DynamicCore
from se_rl.environments.metrics import BPS
from se_rl.environments.task import ExecutionRecord, Orders, WindowBenchmarks
from se_rl.environments.worlds import (
    FIELD_NAMES,
    QUANTITY,
    Array,
    Bool,
    Episodes,
    Fields,
    Int,
    Observation,
    check_pairs,
    session_rows,
    window_starts,
    write_fields,
)
from se_rl.market.profile import MarketProfile

BLOCK = 256  # bank entries simulated at a time


@dataclass(frozen=True, eq=False)
class Baseline:
    """What does not depend on the policy, prices as moves from the arrival price (price / arrival - 1).

    `mid` [book, step + 1] without any order, the arrival first; of TWAP [order, step] the `fill` before fees and what is
    `left` after the step; `void` orders are those in whose market one of the two broke: the mid stands in for TWAP there.
    """

    mid: Fields
    fill: Fields
    left: Fields
    void: Bool


class EpisodeBank:
    """A fixed set of episodes: what each one is, and its baseline once it was simulated (`known`), all in plain arrays.

    Entry i is the same episode whatever the size of the bank and the order of drawing. Each entry stands for two books:
    its sides, and the opposite ones. `key` is a digest of all that the numbers depend on.
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._arrays = dict(arrays)
        self._sorted = np.argsort(self["seed"])

    @classmethod
    def make(
        cls, size: int, *, horizon: int, rows: Int, starts: Int, agents: int, seed: int, key: bytes
    ) -> EpisodeBank:
        """Draw `size` episodes; nothing is simulated yet."""
        seeds, row, start, side = (np.random.default_rng((seed, part)) for part in range(4))
        sides = np.ones((size, agents)) if agents == 1 else side.choice([1, -1], (size, agents))
        episodes = {"seed": seeds.integers(2**62, size=size), "row": row.choice(rows, size)}
        episodes |= {"start": start.choice(starts, size), "side": sides.astype(np.int8)}
        fill, left = np.zeros((2, 2, size, agents, horizon), np.float32)
        void, known = np.zeros((2, size, agents), np.bool_), np.zeros(size, np.bool_)
        baselines = {
            "mid": np.zeros((size, horizon + 1), np.float32),
            "fill": fill,
            "left": left,
            "void": void,
        }
        return cls({"key": np.frombuffer(key, np.uint8), "known": known, **episodes, **baselines})

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
        """Entry and half (0: its sides, 1: the opposite) of every book, or None where a book is not in the bank."""
        seeds = episodes.book_seeds
        place = np.minimum(np.searchsorted(self["seed"], seeds, sorter=self._sorted), len(self) - 1)
        entry, agents, orders = self._sorted[place], self["side"].shape[1], episodes.orders
        side = orders.side.reshape(-1, agents)
        half = (side[:, 0] != self["side"][entry, 0]).astype(np.int64)
        same = (side == self["side"][entry] * (1 - 2 * half)[:, None]).all(axis=1) & (
            self["seed"][entry] == seeds
        )
        same &= (self["row"][entry] == orders.row[::agents]) & (
            self["start"][entry] == orders.start[::agents]
        )
        return (entry, half) if same.all() else None

    def episodes(self, entry: Int, *, horizon: int) -> Episodes:
        """The books of these entries, then their opposites."""
        sides = self["side"][entry]
        agents = sides.shape[1]
        row, start = (np.tile(np.repeat(self[name][entry], agents), 2) for name in ("row", "start"))
        both = np.concatenate([sides, -sides]).ravel()
        orders = Orders(row, start, both, np.full(len(both), QUANTITY), horizon)
        return Episodes(orders, np.tile(self["seed"][entry], 2))

    def store(self, entry: Int, baseline: Baseline) -> None:
        """Keep the baseline of `episodes(entry)`, whose halves have their mids in common."""
        if not self["known"].flags.writeable:  # mapped read-only: what is new stays with us
            self._arrays = {name: array.copy() for name, array in self._arrays.items()}
        self["mid"][entry], shape = baseline.mid, (2, len(entry), self["side"].shape[1], -1)
        self["fill"][:, entry], self["left"][:, entry] = (
            baseline.fill.reshape(shape),
            baseline.left.reshape(shape),
        )
        self["void"][:, entry], self["known"][entry] = baseline.void.reshape(shape[:3]), True

    def baseline(self, entry: Int, half: Int) -> Baseline:
        """What is known of these books."""
        fill, left = (
            self[name][half, entry].reshape(-1, self[name].shape[3]) for name in ("fill", "left")
        )
        return Baseline(self["mid"][entry], fill, left, self["void"][half, entry].ravel())


class DynamicWorld:
    """Orders in simulated markets, which they move: twins of the sessions of `dates` in `data`, or free markets.

    An order is `participation` of the usual volume over its horizon. With `takes_price` the offsets of a step become limit
    prices. `shadow_from_bank=False` simulates the baseline anew for every batch: the same numbers, at three times the cost,
    and what happens anyway to episodes that are not in the bank.
    """

    name = "dynamic"
    observation_size, field_names = len(OBSERVATION_FIELDS), FIELD_NAMES

    def __init__(
        self,
        data: MarketData | None = None,
        *,
        profile: MarketProfile | None = None,
        horizon: int = 40,
        participation: float = 0.10,
        takes_price: bool = False,
        bank: int | EpisodeBank = 4096,
        seed: int = 0,
        agents: int = 1,
        fee_bps: float = 0.0,
        shadow_from_bank: bool = True,
        dates: npt.ArrayLike | None = None,
        scales: FeatureScales | None = None,
    ) -> None:
        if (isinstance(bank, int) and bank < 1) or horizon < 1:
            raise DataError(
                f"a bank of {bank} episodes of {horizon} steps is empty; use 1 or more of both"
            )
        self.horizon, self.agents, self.takes_price = horizon, agents, takes_price
        self.shadow_from_bank, self._fee = shadow_from_bank, fee_bps / BPS
        rows, starts = np.zeros(1, np.int64), np.zeros(1, np.int64)
        if data is not None:
            rows, starts = session_rows(data, dates), window_starts(data, horizon, "any")
            scales = scales or FeatureScales.fit(
                data if dates is None else data.select(dates=np.asarray(dates))
            )
        chosen = profile or MarketProfile()
        key = _digest((astuple(chosen), horizon, participation, agents, seed), data, rows, scales)
        self.bank = (
            bank
            if isinstance(bank, EpisodeBank)
            else EpisodeBank.make(
                bank, horizon=horizon, rows=rows, starts=starts, agents=agents, seed=seed, key=key
            )
        )
        if self.bank["key"].tobytes() != key:
            raise DataError(
                "this bank holds other episodes; build it with the settings of this world"
            )
        self.core = DynamicCore(
            data, profile=chosen, scales=scales, agents=agents, participation=participation
        )

    def draw(self, rng: np.random.Generator, n: int) -> Episodes:
        """Entries of the bank, none twice while there are enough of them, with their sides and with the opposite ones."""
        books = check_pairs(n, self.agents) // self.agents
        entry = rng.choice(len(self.bank), books, replace=books > len(self.bank))
        return self.bank.episodes(entry, horizon=self.horizon)

    def filled_bank(self) -> EpisodeBank:
        """The bank with every entry's baseline simulated, to share with other processes."""
        self._look_up(self.bank.episodes(np.arange(len(self.bank)), horizon=self.horizon))
        return self.bank

    def reset(self, episodes: Episodes) -> Observation:
        """Start these; what TWAP gets and the mids without our order are looked up, or simulated where they are new."""
        orders = episodes.of_horizon(self.horizon)
        self._baseline = self._look_up(episodes)
        observation = self.core.reset(orders, seeds=episodes.book_seeds)
        self._tick = np.repeat(self.core.script.tick * self.core.script.reference, self.agents)
        self._left = np.ones(len(orders))
        return observation

    def step(self, ratio: Array, offset: Array | None, fields: Fields) -> Observation:
        """One bar; a limit lies a whole number of ticks from the own touch, and where an offset is NaN there is none."""
        core, limit = self.core, None
        if self.takes_price and offset is not None:
            limit = core.touch() + core.orders.side * np.rint(offset) * self._tick
        observation = core.step(ratio, limit)
        write_fields(self._fields(core.step_index - 1), fields)
        return observation

    @property
    def broken(self) -> Bool:
        """Orders that say nothing: their market broke, or one that they are compared with.

        What a whole market refuses to take at the end does say something, and costs two collars in the fields: dropped, a
        schedule that never finishes would look cheap by its lucky survivors.
        """
        return np.repeat(self.core.markets.broken, self.agents) | self._baseline.void

    def record(self) -> ExecutionRecord:
        """The finished batch, net of fees, NaN prices where an order is void in its own market."""
        record = self.core.record()
        return replace(
            record, net_price=record.gross_price * (1.0 - record.orders.side * self._fee)
        )

    def benchmarks(self) -> WindowBenchmarks:
        """VWAP and TWAP of the simulated bars and the arrival mid."""
        return self.core.benchmarks()

    def _look_up(self, episodes: Episodes) -> Baseline:
        """The baseline of these books, from the bank where they are in it."""
        found = self.bank.find(episodes) if self.shadow_from_bank else None
        if found is None:
            return self._simulate(episodes, episodes)
        entry, half = found
        new = np.unique(entry[~self.bank["known"][entry]])
        for first in range(0, len(new), BLOCK):
            block = new[first : first + BLOCK]
            both = self.bank.episodes(block, horizon=self.horizon)
            once = Episodes(
                both.orders.take(np.arange(len(both) // 2)), both.book_seeds[: len(block)]
            )
            self.bank.store(block, self._simulate(both, once))
        return self.bank.baseline(entry, half)

    def _simulate(self, traded: Episodes, idle: Episodes) -> Baseline:
        """TWAP in the books of `traded`, nobody in those of `idle`: the same ones, or their first half for both."""
        core, steps = self.core, self.horizon
        core.reset(idle.orders, seeds=idle.seeds)
        arrival = core.arrival[:: self.agents]
        bars = core.run_without_orders()["close"]
        mid = np.concatenate(
            [np.zeros((1, len(arrival))), core.price(bars / 2.0) / arrival - 1.0]
        ).T.astype(np.float32)
        idle_broken = core.markets.broken.copy()
        core.reset(traded.orders, seeds=traded.seeds)
        fill, left = np.empty((2, len(traded), steps), np.float32)
        for step in range(steps):
            core.step(np.full(len(traded), 1.0 / (steps - step)))
            fill[:, step] = core.fill_price / core.arrival - 1.0
            left[:, step] = core.remaining / core.orders.quantity
        copies = len(traded) // len(idle)
        void = core.broken | np.tile(np.repeat(idle_broken, self.agents), copies)
        fill[void] = np.tile(np.repeat(mid[:, 1:], self.agents, axis=0), (copies, 1))[void]
        left[void] = 1.0 - np.arange(1, steps + 1) / steps
        return Baseline(mid, fill, left, void)

    def _fields(self, step: int) -> dict[str, Any]:
        """The reward's fields of the step just done; where a market broke, its prices are those without our order.

        What the market refuses at the end is booked as forced, two collars beyond the mid: worse than any fill could be.
        """
        core, known, side = self.core, self._baseline, self.core.orders.side.astype(np.float64)
        free_before, free_after = (
            1.0 + side * np.repeat(known.mid[:, at], self.agents) for at in (step, step + 1)
        )
        unsold = core.remaining / core.orders.quantity
        refused = unsold if core.done else np.zeros_like(unsold)
        left = unsold - refused
        traded, self._left = self._left - left, left
        worst = core.mid_after - side * 2.0 * core.pool.profile.collar * self._tick
        part = np.divide(refused, traded, out=np.zeros_like(traded), where=traded > 0.0)
        net = (core.fill_price + part * (worst - core.fill_price)) * (1.0 - side * self._fee)
        void = self.broken
        before = np.where(void, free_before, self._turn(core.mid_before))
        after, average, fill = (
            np.where(void, free_after, self._turn(price))
            for price in (core.mid_after, core.mid_average, net)
        )
        twap_before = np.ones(len(side)) if step == 0 else known.left[:, step - 1]
        twap_fill = 1.0 + side * ((1.0 + known.fill[:, step]) * (1.0 - side * self._fee) - 1.0)
        return {
            "fill_price": np.where(traded > 0.0, fill, average),
            "benchmark_price": average,
            "traded_share": traded,
            "half_spread": core.half_spread,
            "volatility": core.volatility,
            "imbalance": side * core.imbalance,
            "inventory_left": left,
            "time_left": np.full(len(side), 1.0 - (step + 1) / self.horizon),
            "own_impact": free_after - after,
            "mid_before": before,
            "mid_after": after,
            "no_order_mid": free_after,
            "no_order_mid_before": free_before,
            "news": free_after - free_before,
            "twap_fill_price": twap_fill,
            "twap_traded_share": twap_before - known.left[:, step],
            "twap_inventory_left": known.left[:, step],
            "passive_share": core.passive_share,
            "forced_share": core.forced_share + refused,
        }

    def _turn(self, price: Array) -> Array:
        """Currency as a share of the arrival price, turned so that higher is better for the order."""
        return 1.0 + self.core.orders.side * (price / self.core.arrival - 1.0)


def _digest(
    settings: tuple[Any, ...], data: MarketData | None, rows: Int, scales: FeatureScales | None
) -> bytes:
    """What the episodes and their baselines depend on, in 32 bytes."""
    digest = hashlib.sha256(repr(settings).encode())
    values = [
        getattr(part, f.name) for part in (data, scales) if part is not None for f in fields(part)
    ]
    for array in (rows, *(value for value in values if isinstance(value, np.ndarray))):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()
