"""What the batched engines have in common: `StaticCore` on history, `DynamicCore` in the book."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from se_rl.environments.task import ExecutionRecord, Orders, WindowBenchmarks

Array = npt.NDArray[np.float64]
Observation = npt.NDArray[np.float32]


class ExecutionCore(Protocol):
    """A batched engine, static or dynamic: orders in, one bar per step, a record out."""

    orders: Orders
    step_index: int
    arrival: Array
    remaining: Array
    reward: Array

    @property
    def shares(self) -> Array:
        """Shares filled in the last step, before any forced completion."""
        ...

    @property
    def done(self) -> bool:
        """Whether the batch is finished: its orders share one horizon and end together."""
        ...

    @property
    def broken(self) -> npt.NDArray[np.bool_]:
        """Orders whose outcome is void."""
        ...

    def reset(self, orders: Orders) -> Observation:
        """Start these orders; the first observation, an array that later steps reuse."""
        ...

    def touch(self) -> Array:
        """The own-side best price known now."""
        ...

    def step(self, ratio: Array, limit: Array | None = None) -> Observation:
        """Trade `ratio` of what is left in this bar, at market or at `limit`."""
        ...

    def record(self, fills: Array | None = None) -> ExecutionRecord:
        """The batch so far; `fills` are shares of the order per step, where they were kept."""
        ...

    def benchmarks(self) -> WindowBenchmarks:
        """The prices that the batch is held against, over the bars gone by."""
        ...


Core = TypeVar("Core", bound=ExecutionCore)


def run_to_end(core: Core, ratios: Array | Callable[[Core], Array]) -> ExecutionRecord:
    """Step a freshly reset batch to its end, fills kept.

    `ratios` are [order, step], or a function of the engine that gives the next step's.
    """
    orders = core.orders
    fills = np.empty((len(orders), orders.horizon))
    while not core.done:
        step = core.step_index
        core.step(ratios(core) if callable(ratios) else ratios[:, step])
        fills[:, step] = core.shares
    return core.record(fills / orders.quantity[:, None])
