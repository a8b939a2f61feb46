"""Books: preallocated order books, and the CPU callers that run messages through the kernel (array layout: kernel.py).

A message is a row of six integers, in the order of `MESSAGE_FIELDS`: kind (LIMIT, IOC, MARKET, CANCEL, REPLACE), side
(BUY 0, SELL 1), price in ticks, quantity, owner (>= 0) and id. CANCEL and REPLACE name their order by id and ignore the
side and owner; MARKET ignores the price. An id names the latest resting order that used it, in 0 <= id < ids.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import DataError
from se_rl.market import kernel as k

Array = npt.NDArray[Any]

MESSAGE_FIELDS = ("kind", "side", "price", "quantity", "owner", "id")
CPU_JIT = nb.njit(nogil=True, forceinline=True, _nrt=False, error_model="numpy")
"""How the kernel is compiled for CPUs: without reference counting and inlined, which is worth a factor of four."""

CPU = k.make_kernel(CPU_JIT)
"""The kernel's functions for CPU callers (of other modules too; see SOURCE_HASH about caching those)."""


def _make_callers(kernel: SimpleNamespace, source_hash: int) -> tuple[Callable[..., Any], ...]:
    handle, depth, ahead = kernel.handle, kernel.depth, kernel.ahead

    @nb.njit(nogil=True, cache=True)
    def one(book, b, slot, kind, side, price, quantity, owner, ident):  # type: ignore[no-untyped-def]
        _ = source_hash
        return handle(book, b, slot, kind, side, price, quantity, owner, ident)

    return (one,)
