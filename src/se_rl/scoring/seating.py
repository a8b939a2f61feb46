"""Which order sits where in a policy's batch: agents that talk must share a window."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from se_rl.environments.task import Orders
from se_rl.scoring.execution import Actions, Actor, begin, inputs_of


def seats_of(orders: Orders, agents: int, *, sessions: int) -> npt.NDArray[np.int64]:
    """Which order sits at each place of the policy's batch, where `agents` neighbours talk.

    Neighbours trade in the same bars: one that began later, or on a later day, would show the
    others their future. Where a window's orders do not fill the last table, its last order sits
    there more than once.
    """
    if agents == 1:
        return np.arange(len(orders))
    window = np.stack([orders.row % sessions, orders.start, orders.side])  # [3, order]
    found = np.unique(window, axis=1, return_inverse=True, return_counts=True)
    count = found[2]  # [window] its orders
    by_window = np.argsort(found[1].ravel(), kind="stable")
    first = np.cumsum(count) - count  # [window] its first order in `by_window`
    places = -(-count // agents) * agents  # [window] its orders, rounded up to whole tables
    place = np.arange(places.sum()) - np.repeat(np.cumsum(places) - places, places)
    return by_window[np.repeat(first, places) + np.minimum(place, np.repeat(count - 1, places))]


class Seated:
    """An actor whose batch is rearranged: `seats` says which order sits where."""

    def __init__(self, inner: Actor, seats: npt.NDArray[np.int64], orders: int) -> None:
        self._inner = inner
        self._seats = seats
        self._place = np.empty(orders, np.int64)
        self._place[seats] = np.arange(len(seats))
        self.inputs = inputs_of(inner)

    def start(self, n: int, horizon: int) -> None:
        """Begin a new batch of orders."""
        self._inner.start(len(self._seats), horizon)

    def act(self, observation: npt.NDArray[np.float32]) -> Actions:
        """What each order's agent does."""
        return self.begin(observation)()

    def begin(self, observation: npt.NDArray[np.float32]) -> Callable[[], Actions]:
        """Ask the policy in its own order of rows."""
        answer = begin(self._inner, observation[self._seats])

        def rearranged() -> Actions:
            ratio, offset = answer()
            return ratio[self._place], offset[self._place]

        return rearranged

    def close(self) -> None:
        """End the policy."""
        self._inner.close()
