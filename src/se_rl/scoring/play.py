"""Play orders so that nothing of the future is in reach of the policy.

On history the orders of one moment (equal day and first bar) form a group, and groups are played in
order of time: whatever a policy mixes, remembers or recognises, all it has seen is what a desk would
know at that moment. Where a group begins before another one that was played has ended, it gets a
fresh process. Simulated markets have nothing in common but the clock, so they are one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import ExecutionRecord, Orders
from se_rl.environments.worlds import Episodes, World
from se_rl.scoring.execution import Actor, Executed, execute

Index = npt.NDArray[np.int64]
Watch = Callable[[Actor, Index], Actor]
"""Wraps the actor of one group, whose orders stand at these places of the batch."""


def moments(orders: Orders, *, sessions: int) -> list[Index]:
    """The places of the orders of each moment, in order of time; a moment is a day and a first bar."""
    day = orders.row % sessions
    by_time = np.lexsort((np.arange(len(orders)), orders.start, day))
    key = np.stack([day[by_time], orders.start[by_time]])
    changes = np.flatnonzero((np.diff(key, axis=1) != 0).any(axis=0)) + 1
    return [np.asarray(part, np.int64) for part in np.split(by_time, changes)]


def play_in_time(
    world: World,
    episodes: Episodes,
    open_actor: Callable[[Orders], Actor],
    *,
    watch: Watch = lambda actor, _: actor,
) -> Executed:
    """Execute the episodes with a policy that `open_actor` opens for some of the orders.

    The same process goes on from group to group while time only moves forward.
    """
    if not isinstance(world, StaticWorld):
        everybody = np.arange(len(episodes))
        actor = open_actor(episodes.orders)
        try:
            return execute(world, watch(actor, everybody), episodes)
        finally:
            actor.close()
    parts = list(_in_turn(world, episodes.orders, open_actor, watch))
    return _joined(episodes.orders, parts)


def _in_turn(
    world: StaticWorld,
    orders: Orders,
    open_actor: Callable[[Orders], Actor],
    watch: Watch,
) -> Iterator[tuple[Index, Executed]]:
    """Each group with what became of it."""
    sessions = len(world.data.dates)
    groups = moments(orders, sessions=sessions)
    largest = max(groups, key=len)
    actor: Actor | None = None
    seen_until = (-1, 0)  # the latest (day, bar) that the present process may have seen
    try:
        for group in groups:
            mine = orders.take(group)
            begins = (int(mine.row[0]) % sessions, int(mine.start[0]))
            if actor is not None and begins < seen_until:
                actor.close()
                actor = None
            if actor is None:
                actor = open_actor(orders.take(largest))
            yield group, execute(world, watch(actor, group), Episodes(mine))
            seen_until = max(seen_until, (begins[0], begins[1] + mine.horizon))
    finally:
        if actor is not None:
            actor.close()


def _joined(orders: Orders, parts: list[tuple[Index, Executed]]) -> Executed:
    """The groups' results in the order of the batch."""
    place = np.argsort(np.concatenate([group for group, _ in parts]))

    def whole(name: str) -> npt.NDArray[np.float64]:
        values = [getattr(run, name) for _, run in parts]
        return np.concatenate(values)[place]

    def recorded(name: str) -> npt.NDArray[np.float64]:
        values = [getattr(run.record, name) for _, run in parts]
        return np.concatenate(values)[place]

    record = ExecutionRecord(
        orders,
        recorded("gross_price"),
        recorded("net_price"),
        recorded("leftover"),
        recorded("fills"),
    )
    distinct = frozenset[float]().union(*[run.slices for _, run in parts])
    pair = np.arange(len(orders)) % (len(orders) // 2)  # a buy and a sell of the same window
    return replace(
        parts[0][1],
        record=record,
        gain=whole("gain"),
        twap_gain=whole("twap_gain"),
        forced=whole("forced"),
        passive=whole("passive"),
        slices=distinct,
        clusters=pair,
    )
