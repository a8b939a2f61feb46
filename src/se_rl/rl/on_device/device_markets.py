"""Simulated markets on a device: the books stay there, a bar is one call of the market's kernel.

On a CUDA device `market.gpu` runs one thread per market. On the CPU the usual `Markets` run, whose
arrays are shared with tensors: the same arithmetic where there is no GPU.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from se_rl.data.features import BOOK_LEVELS
from se_rl.environments.market_pool import WarmPool
from se_rl.environments.scripted_markets import ScriptedMarkets
from se_rl.market import participants as at
from se_rl.market.gpu import CudaBar
from se_rl.market.participants import Sim
from se_rl.market.price_levels import Book
from se_rl.market.simulation import Int, Markets


class DeviceBooks(Protocol):
    """Running markets; `state` [market, column] is that of `Sim`."""

    state: Tensor

    def trade(self, wishes: Tensor, drift: Tensor, events: Tensor) -> Tensor:
        """One bar for wishes [market, 1, wish]: the answers [market, answer]."""
        ...

    def depth(self) -> Tensor:
        """Price and lots of the best levels [market, side, level, 2]."""
        ...


def scripted_on(markets: ScriptedMarkets, device: torch.device) -> ScriptedMarkets:
    """The same kinds of markets, to be started for a device."""
    other = markets.beside()
    if device.type != "cpu":
        other.pool = DevicePool(markets.pool, device)
    return other


def running(markets: Markets) -> DeviceBooks:
    """Markets that have been started, as tensors."""
    return CudaBooks(markets) if isinstance(markets, UploadedMarkets) else CpuBooks(markets)


class CpuBooks:
    """Markets of the host."""

    def __init__(self, markets: Markets) -> None:
        self._markets = markets
        self.state = torch.from_numpy(markets.sim.state)

    def trade(self, wishes: Tensor, drift: Tensor, events: Tensor) -> Tensor:
        """By the CPU's kernel."""
        answers = self._markets.step(wishes.numpy(), drift=drift.numpy(), events=events.numpy())
        return torch.from_numpy(answers[:, 0])

    def depth(self) -> Tensor:
        """By the CPU's kernel."""
        return torch.from_numpy(self._markets.books.depth(BOOK_LEVELS))


class UploadedMarkets(Markets):
    """Markets whose books are tensors on a device; their state stays here until they run."""

    def __init__(self, n: int, numbers: Int, device: torch.device) -> None:
        self.n = n
        self.device = device
        self.sim = Sim(np.zeros((n, 0), np.int64), numbers)
        self.tensors: list[Tensor] = []


class DevicePool(WarmPool):
    """A pool whose books wait on a device, to be copied there."""

    def __init__(self, pool: WarmPool, device: torch.device) -> None:
        vars(self).update(vars(pool))
        self._device = device
        self._books = [torch.from_numpy(each).to(device) for each in pool.states[:-1]]

    def markets(self, n: int) -> Markets:
        """`n` markets to copy states into."""
        return UploadedMarkets(n, self.numbers, self._device)

    def _load(self, markets: Markets, rows: Int) -> None:
        assert isinstance(markets, UploadedMarkets)  # made above
        there = torch.from_numpy(rows).to(self._device)
        markets.tensors = [states.index_select(0, there) for states in self._books]
        markets.sim = markets.sim._replace(state=self.states[-1][rows])


class CudaBooks:
    """Markets of a CUDA device."""

    def __init__(self, markets: UploadedMarkets) -> None:
        self.state = torch.from_numpy(markets.sim.state).to(markets.device)
        numbers = torch.from_numpy(markets.sim.numbers).to(markets.device)
        books: Any = markets.tensors
        state: Any = self.state
        self._kept = (Book(*books), Sim(state, numbers))  # type: ignore[arg-type]
        self._bar = CudaBar(*self._kept)
        n, device = markets.n, markets.device
        self._answers = torch.zeros((n, 1, at.ANSWER_FIELDS), dtype=torch.int64, device=device)
        self._depth = torch.zeros((n, 2, BOOK_LEVELS, 2), dtype=torch.int64, device=device)

    def trade(self, wishes: Tensor, drift: Tensor, events: Tensor) -> Tensor:
        """By the device's kernel."""
        self._bar.trade(wishes, self._answers, drift, events)
        return self._answers[:, 0]

    def depth(self) -> Tensor:
        """By the device's kernel."""
        self._bar.depth(self._depth)
        return self._depth
