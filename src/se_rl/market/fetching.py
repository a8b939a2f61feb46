"""Bringing the next market into a processor's cache while this one runs.

Its lines, met one by one when its turn has come, would each be waited for: a quarter of the time
of a bar. Asked for all at once they are too many to be under way together, so every event asks for
a few.
"""

from __future__ import annotations

from typing import Any

import numba as nb
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils
from numba.extending import intrinsic

from se_rl.market.book import CPU_JIT

LINE = 64
"""Bytes that a processor fetches together."""
NEARNESS = 2
"""The second cache: the first one is full of the market that runs now."""


@intrinsic
def _ask_for(typing_context: Any, array: Any, offset: Any) -> Any:
    """Fetch the line so many bytes into an array, without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = context.make_array(array)(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.gep(builder.bitcast(start, byte), [arguments[1]])
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        to_read, data = number(0), number(1)
        builder.call(prefetch, [place, to_read, number(NEARNESS), data])
        return context.get_dummy_value()

    return nb.void(array, nb.intp), generate


@CPU_JIT
def _fetch(array, row, line):  # type: ignore[no-untyped-def]
    """Ask for one line of a row, where it has that many."""
    size = array.strides[0]
    if line * LINE < size:
        _ask_for(array, row * size + line * LINE)  # type: ignore[call-arg]


@CPU_JIT
def fetch_ahead(book, sim, b, event):  # type: ignore[no-untyped-def]
    """A few lines of the market after `b`; a usual bar's events ask for all of them."""
    after = b + 1
    if after < book.meta.shape[0]:
        _fetch(book.orders, after, 2 * event)
        _fetch(book.orders, after, 2 * event + 1)
        _fetch(book.levels, after, event)
        _fetch(book.meta, after, event)
        _fetch(book.owners, after, event)
        _fetch(sim.state, after, event)
