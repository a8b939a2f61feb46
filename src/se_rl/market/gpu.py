"""The same markets on a CUDA device: one thread per market runs the very source that the CPU runs
(extra `gpu`).

`CudaMarkets` runs quiet bars of whole markets, `CudaBar` one bar with agents' wishes on arrays that
are on the device already.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import DataError
from se_rl.market.bar import FUNCTIONS
from se_rl.market.compiling import make_kernel
from se_rl.market.participants import ANSWER_FIELDS, MESSAGES, WISH_FIELDS
from se_rl.market.price_levels import BUY, SELL
from se_rl.market.simulation import Markets

Int = npt.NDArray[np.int64]
THREADS_PER_BLOCK = 128
"""Measured on an H200: 13 to 28 % faster than 64 for 65,536 markets and more."""
MAX_REGISTERS = 128
"""Measured on an H200: 230 without a limit leave too few threads, 80 spill too much."""


def cuda_module() -> Any:
    """numba.cuda, refused in one line where it or a device is missing."""
    # numpy dropped the name; numba-cuda still looks it up when it loads
    if "row_stack" not in vars(np):
        vars(np)["row_stack"] = np.vstack
    try:
        cuda: Any = import_module("numba.cuda")
    except ImportError:
        raise DataError('CUDA needs the extra: pip install "se-rl[gpu]"') from None
    if not cuda.is_available():
        raise DataError("no CUDA device was found; use the CPU (leave --device out)")
    return cuda


@cache
def cuda_kernel() -> Any:
    """The kernel that runs all bars of every market, compiled for the device that is there."""
    cuda = cuda_module()
    compiled: SimpleNamespace = make_kernel(cuda.jit(device=True), *FUNCTIONS)
    run_bar = compiled.run_bar

    @cuda.jit(max_registers=MAX_REGISTERS)
    def run(book, sim, wishes, answers, drift, events, messages):  # type: ignore[no-untyped-def]
        b = cuda.grid(1)
        if b < book.meta.shape[0]:
            sent = 0
            for k in range(events.shape[0]):
                run_bar(book, sim, wishes[k], answers[k], drift[k], events[k], b)
                sent += sim.state[b, MESSAGES]
            messages[b] = sent

    return run


@cache
def cuda_depth_kernel() -> Any:
    """The kernel that reads the best levels of every book."""
    cuda = cuda_module()
    depth = make_kernel(cuda.jit(device=True)).depth

    @cuda.jit
    def read(book, out):  # type: ignore[no-untyped-def]
        b = cuda.grid(1)
        if b < out.shape[0]:
            depth(book, b, BUY, out)
            depth(book, b, SELL, out)

    return read


class CudaBar:
    """One bar at a time of markets whose arrays are on the device: `Book` and `Sim` of arrays with
    a `__cuda_array_interface__`, torch's for instance, which the kernels work on in place.

    Calls return at once; what follows on the device's usual stream comes after them.
    """

    def __init__(self, book: Any, sim: Any) -> None:
        self._cuda = cuda_module()
        self._book = type(book)(*map(self._array, book))
        self._sim = type(sim)(*map(self._array, sim))
        n = len(sim.state)
        self._grid = ((n + THREADS_PER_BLOCK - 1) // THREADS_PER_BLOCK, THREADS_PER_BLOCK)
        self._messages = self._cuda.device_array(n, np.int64)

    def trade(self, wishes: Any, answers: Any, drift: Any, events: Any) -> None:
        """Run the bar for wishes [market, agent, wish], and fill `answers` as `Markets.step` does."""
        bar = (self._array(each[None]) for each in (wishes, answers, drift, events))
        cuda_kernel()[self._grid](self._book, self._sim, *bar, self._messages)

    def depth(self, out: Any) -> None:
        """Fill `out` [market, side, level, 2] as `Books.depth` does."""
        cuda_depth_kernel()[self._grid](self._book, self._array(out))

    def _array(self, array: Any) -> Any:
        """The array for a kernel; an empty one has no address and is made anew."""
        if 0 in array.shape:
            return self._cuda.device_array(tuple(array.shape), np.int32)
        return self._cuda.as_cuda_array(array)


class CudaMarkets:
    """Markets whose state lives on the device: made from CPU markets, run there, and brought back
    on request."""

    def __init__(self, markets: Markets) -> None:
        cuda = cuda_module()
        self._run = cuda_kernel()
        self._cuda = cuda
        self.markets = markets
        self.book: Any = type(markets.books.book)(*(cuda.to_device(a) for a in markets.books.book))
        self.sim: Any = type(markets.sim)(*(cuda.to_device(a) for a in markets.sim))
        self._messages = cuda.to_device(np.zeros(markets.n, np.int64))
        self._quiet: tuple[Any, ...] = ()

    def run(self, bars: int) -> None:
        """Bars without agents' orders; returns when the device has finished."""
        n = self.markets.n
        blocks = (n + THREADS_PER_BLOCK - 1) // THREADS_PER_BLOCK
        self._run[blocks, THREADS_PER_BLOCK](
            self.book, self.sim, *self._inputs(bars), self._messages
        )
        self._cuda.synchronize()

    def _inputs(self, bars: int) -> tuple[Any, ...]:
        """Wishes, answers, drift and events of so many quiet bars, kept on the device for the next
        run."""
        if len(self._quiet) == 0 or self._quiet[0].shape[0] != bars:
            n, agents = self.markets.n, self.markets.agents
            counts = np.ascontiguousarray(np.broadcast_to(self.markets.events_per_bar, (bars, n)))
            inputs = (
                np.zeros((bars, n, agents, WISH_FIELDS), np.int64),
                np.zeros((bars, n, agents, ANSWER_FIELDS), np.int64),
                np.zeros((bars, n), np.int64),
                counts,
            )
            self._quiet = tuple(self._cuda.to_device(array) for array in inputs)
        return self._quiet

    def messages(self) -> Int:
        """Order messages that each market sent in the last run."""
        return self._messages.copy_to_host()

    @property
    def name(self) -> str:
        """What the device calls itself."""
        name = self._cuda.get_current_device().name
        return name.decode() if isinstance(name, bytes) else str(name)

    def run_and_return(self, bars: int) -> Markets:
        """Run, then bring everything back."""
        self.run(bars)
        return self.bring_back()

    def bring_back(self) -> Markets:
        """The markets with the device's state in them."""
        for mine, theirs in ((self.markets.books.book, self.book), (self.markets.sim, self.sim)):
            for array, device in zip(mine, theirs, strict=True):
                array[:] = device.copy_to_host()
        return self.markets
