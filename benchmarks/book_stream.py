"""The stream of order messages that books are timed on: limits, cancels and market orders."""

from __future__ import annotations

from collections.abc import Callable

import numba as nb
import numpy as np
import numpy.typing as npt

from se_rl.market import price_levels as at
from se_rl.market.book import CPU, MESSAGE_FIELDS, Books

CENTRE_TICKS = 256
MOST_LIVE = 160
_limit = CPU.limit
_market = CPU.market
_cancel = CPU.cancel


def message_stream(n: int, *, seed: int) -> npt.NDArray[np.int32]:
    """int32[n, 6]: about 56 % limit, 32 % cancel and 12 % market messages, 80-160 orders resting.

    The price wanders near CENTRE_TICKS, so that a ladder of 512 prices holds it; every cancel names
    a resting order.
    """
    rng = np.random.default_rng(seed)
    book = Books(1, orders=512, log=0).book
    draws = rng.random((n, 6))
    draws[:, 4] = rng.exponential(4.0, n)  # ticks from the touch
    steps = rng.normal(0.0, 0.03, n)
    messages = np.zeros((n, len(MESSAGE_FIELDS)), np.int32)
    _write_stream(book, draws, steps, messages)
    return messages


def _make_writer(source_hash: int) -> Callable[..., None]:
    """A writer that chooses each message by the book that the earlier ones have left.

    The hash keeps numba's cache apart for each version of the book's kernel (see make_kernel).
    """

    @nb.njit(cache=True)
    def write(book, draws, steps, messages):  # type: ignore[no-untyped-def]
        _ = source_hash
        fair = float(CENTRE_TICKS)
        resting = np.zeros(book.orders.shape[1], np.int64)
        for m in range(len(messages)):
            fair += steps[m] + 0.0005 * (CENTRE_TICKS - fair)
            live = book.meta[0, at.LIVE]
            what = draws[m, 0]
            side = int(draws[m, 1] * 2)
            cancels = 0.6 if live > MOST_LIVE else 0.42 if live > MOST_LIVE // 2 else 0.2
            two_sided = book.meta[0, at.TOUCH] != at.FAR and book.meta[0, at.TOUCH + 1] != at.FAR
            ident = m
            price = 0
            size = 0
            if what < cancels and live > 0:
                found = 0
                for slot in range(len(resting)):
                    if book.orders[0, slot, at.QUANTITY] > 0:
                        resting[found] = slot
                        found += 1
                slot = resting[int(draws[m, 2] * found)]
                kind = at.CANCEL
                side = int(book.orders[0, slot, at.SIDE])
                ident = int(book.orders[0, slot, at.ID])
                _cancel(book, 0, slot, 0)
            elif what > 0.88 and two_sided:
                kind = at.MARKET
                size = 1 + int(draws[m, 3] * 40)
                _market(book, 0, side, size, 0, m)
            else:
                away = 1 + int(draws[m, 4]) - (1 if draws[m, 5] < 0.08 else 0)
                kind = at.LIMIT
                size = 1 + int(draws[m, 3] * 20)
                price = round(fair) - (1 - 2 * side) * away
                _limit(book, 0, side, price, size, 0, m)
            messages[m] = (kind, side, price, size, 0, ident)

    return write


_write_stream = _make_writer(CPU.source_hash)
