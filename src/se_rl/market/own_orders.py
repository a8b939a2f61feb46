"""Where the executing agents' own orders stand in their queues."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from se_rl.market import participants
from se_rl.market import price_levels as at
from se_rl.market.book import CPU
from se_rl.market.simulation import Markets

Int = npt.NDArray[np.int64]

_ahead = CPU.ahead


class OwnOrders(NamedTuple):
    """Each agent's resting order [market, agent]; 0 lots where none rests."""

    price: Int  # ticks
    lots: Int
    ahead: Int  # lots that stand before it at its price


def _make_caller(source_hash: int) -> SimpleNamespace:
    """What Python calls; the hash is in numba's cache key, which holds no globals."""

    @nb.njit(nogil=True, cache=True)
    def look(book, slots, first_owner, price, lots, ahead):  # type: ignore[no-untyped-def]
        _ = source_hash
        for b in range(slots.shape[0]):
            for a in range(slots.shape[1]):
                slot = slots[b, a]
                if slot < 0 or book.orders[b, slot, at.OWNER] != first_owner + a:
                    continue
                lots[b, a] = book.orders[b, slot, at.QUANTITY]
                if lots[b, a] > 0:
                    price[b, a] = book.orders[b, slot, at.PRICE]
                    ahead[b, a] = _ahead(book, b, slot)

    return SimpleNamespace(look=look)


_CALL = _make_caller(CPU.source_hash)


def own_orders(markets: Markets, count: int) -> OwnOrders:
    """The resting orders in the first `count` markets."""
    slots = np.ascontiguousarray(markets.sim.state[:count, participants.AGENT_SLOT :])
    found = OwnOrders(*np.zeros((3, *slots.shape), np.int64))
    _CALL.look(markets.books.book, slots, participants.FIRST_AGENT, *found)
    return found
