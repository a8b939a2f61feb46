"""Play orders so that nothing of the future is in reach of the policy.

On history the orders of one moment (equal day and first bar) form a group, and groups are played in
order of time: whatever a policy mixes, remembers or recognises, all it has seen is what a desk would
know at that moment. Where a group begins before another one that was played has ended, it gets a
fresh process. Simulated markets have nothing in common but the clock, so they are one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import ExecutionRecord, Orders
from se_rl.environments.worlds import Episodes, World
from se_rl.scoring.execution import Actor, Array, Executed, execute
from se_rl.scoring.seating import Seated, seats_of

Index = npt.NDArray[np.int64]
Open = Callable[[str, int, int], Actor]
"""Opens the policy in a fresh process: the world's name, the horizon, the most rows of a batch."""
Watch = Callable[[Actor, int], Actor]
"""Wraps the policy for one group, given the number of rows in its batch."""


def moments(orders: Orders, *, sessions: int) -> list[Index]:
    """The places of the orders of each moment, in order of time; a moment is a day and a first bar."""
    day = orders.row % sessions
    by_time = np.lexsort((orders.start, day))  # stable: the order of the batch inside a moment
    key = np.stack([day[by_time], orders.start[by_time]])  # [2, order]
    changes = np.flatnonzero((np.diff(key, axis=1) != 0).any(axis=0)) + 1
    return np.split(by_time, changes)


def play(
    world: World,
    episodes: Episodes,
    open_policy: Open,
    *,
    agents: int = 1,
    watch: Watch = lambda actor, _: actor,
) -> Executed:
    """Execute the episodes; on history, where agents share no book, `agents` of one window talk."""
    if isinstance(world, StaticWorld):
        turn = _Turn(world, episodes.orders, open_policy, agents=agents, watch=watch)
        return _joined(episodes.orders, list(turn.play()))
    actor = open_policy(world.name, world.horizon, len(episodes))
    try:
        return execute(world, watch(actor, len(episodes)), episodes)
    finally:
        actor.close()


class _Turn:
    """Groups of orders in turn; the process goes on from group to group while time moves forward."""

    def __init__(
        self,
        world: StaticWorld,
        orders: Orders,
        open_policy: Open,
        *,
        agents: int,
        watch: Watch,
    ) -> None:
        self._world = world
        self._orders = orders
        self._open = open_policy
        self._agents = agents
        self._watch = watch
        self._sessions = len(world.data.dates)

    def play(self) -> Iterator[tuple[Index, Executed]]:
        """Each group with what became of it."""
        groups = moments(self._orders, sessions=self._sessions)
        seats = [self._seats(group) for group in groups]
        rows = max(map(len, seats))
        policy: Actor | None = None
        seen_until = (-1, 0)  # the latest (day, bar) that the present process may have seen
        try:
            for group, seated in zip(groups, seats, strict=True):
                orders = self._orders.take(group)
                begins = self._begins(orders)
                if policy is not None and begins < seen_until:
                    policy.close()
                    policy = None
                if policy is None:
                    policy = self._open(self._world.name, self._world.horizon, rows)
                    seen_until = begins
                watched = self._watch(policy, len(seated))
                actor = watched if self._agents == 1 else Seated(watched, seated, len(group))
                yield group, execute(self._world, actor, Episodes(orders))
                seen_until = max(seen_until, (begins[0], begins[1] + orders.horizon))
        finally:
            if policy is not None:
                policy.close()

    def _begins(self, orders: Orders) -> tuple[int, int]:
        """The day and the first bar of a group."""
        return int(orders.row[0]) % self._sessions, int(orders.start[0])

    def _seats(self, group: Index) -> Index:
        """Which order of the group sits at each row of the policy's batch."""
        return seats_of(self._orders.take(group), self._agents, sessions=self._sessions)


def _joined(orders: Orders, parts: Sequence[tuple[Index, Executed]]) -> Executed:
    """The groups' results in the order of the batch."""
    place = np.argsort(np.concatenate([group for group, _ in parts]))
    runs = [run for _, run in parts]

    def whole(values: Sequence[Array]) -> Array:
        return np.concatenate(values)[place]

    record = ExecutionRecord(
        orders,
        whole([run.record.gross_price for run in runs]),
        whole([run.record.net_price for run in runs]),
        whole([run.record.leftover for run in runs]),
        whole([run.record.fills for run in runs]),
    )
    return replace(
        runs[0],
        record=record,
        gain=whole([run.gain for run in runs]),
        twap_gain=whole([run.twap_gain for run in runs]),
        forced=whole([run.forced for run in runs]),
        passive=whole([run.passive for run in runs]),
        slices=frozenset[float]().union(*[run.slices for run in runs]),
        clusters=np.arange(len(orders)) % (len(orders) // 2),  # a buy and a sell of one window
    )
