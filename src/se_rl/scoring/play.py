"""Play orders so that nothing of the future is in reach of the policy.

On history the orders of one moment (equal day and first bar) form a group, and groups are played in
order of time: whatever a policy mixes, remembers or recognises, all it has seen is what a desk would
know at that moment. Where a group begins before another one that was played has ended, it gets a
fresh process. Days are dealt out to a few lanes, each a process of its own that knows nothing of the
others, so that several groups are played at once. Simulated markets have nothing in common but the
clock, so they are one group; so is history for a policy that is known to see each row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import ExecutionRecord, Orders
from se_rl.environments.worlds import Episodes, World
from se_rl.scoring.execution import Actions, Actor, Array, Executed, begin, execute, inputs_of
from se_rl.scoring.seating import Seated, seats_of

Index = npt.NDArray[np.int64]
LANES = 4
"""Processes that play history at once."""
Open = Callable[[str, int, int], Actor]
"""Opens the policy in a fresh process: the world's name, the horizon, the most rows of a batch."""


@dataclass(frozen=True)
class OwnRows:
    """A way to open a policy that computes each order's actions from that order's own row.

    This must hold by construction: nothing checks it here.
    """

    open: Open

    def __call__(self, world: str, horizon: int, rows: int) -> Actor:
        """Open it."""
        return self.open(world, horizon, rows)


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
    lanes: int = LANES,
) -> Executed:
    """Execute the episodes; on history, where agents share no book, `agents` of one window talk.

    What a policy of single rows gets does not depend on the number of `lanes`.
    """
    if isinstance(world, StaticWorld) and not isinstance(open_policy, OwnRows):
        orders = episodes.orders
        parts = _play_history(world, orders, open_policy, agents=agents, watch=watch, lanes=lanes)
        return _joined(orders, list(parts))
    actor = open_policy(world.name, world.horizon, len(episodes))
    try:
        return execute(world, watch(actor, len(episodes)), episodes)
    finally:
        actor.close()


class _Lane:
    """Groups of orders in turn; the process goes on from group to group while time moves forward."""

    def __init__(self, open_policy: Callable[[], Actor], sessions: int) -> None:
        self._open = open_policy
        self._sessions = sessions
        self._policy: Actor | None = None
        self._seen_until = (-1, 0)  # the latest (day, bar) that the present process may have seen

    def policy(self, orders: Orders) -> Actor:
        """The policy for the next group."""
        begins = int(orders.row[0]) % self._sessions, int(orders.start[0])
        if begins < self._seen_until:
            self.close()
        if self._policy is None:
            self._policy = self._open()
            self._seen_until = begins
        self._seen_until = max(self._seen_until, (begins[0], begins[1] + orders.horizon))
        return self._policy

    def close(self) -> None:
        """End the process, if there is one."""
        if self._policy is not None:
            self._policy.close()
            self._policy = None


class _Abreast:
    """Several policies as one actor: each sees its own rows alone, and all compute at once."""

    def __init__(self, actors: Sequence[Actor], sizes: Sequence[int]) -> None:
        self._actors = actors
        self._sizes = sizes
        self._edges = np.cumsum(sizes)[:-1]
        self.inputs = inputs_of(actors[0])

    def start(self, n: int, horizon: int) -> None:
        """Begin a batch of every policy."""
        for actor, size in zip(self._actors, self._sizes, strict=True):
            actor.start(size, horizon)

    def act(self, observation: npt.NDArray[np.float32]) -> Actions:
        """Ask all of them, then wait for all."""
        parts = np.split(observation, self._edges)
        asked = [begin(actor, part) for actor, part in zip(self._actors, parts, strict=True)]
        answers = [answer() for answer in asked]
        return (
            np.concatenate([ratio for ratio, _ in answers]),
            np.concatenate([offset for _, offset in answers]),
        )

    def close(self) -> None:
        """Lanes close their own."""


def _play_history(
    world: StaticWorld,
    orders: Orders,
    open_policy: Open,
    *,
    agents: int,
    watch: Watch,
    lanes: int,
) -> Iterator[tuple[Index, Executed]]:
    """One group of every lane at a time, with what became of them."""
    sessions = len(world.data.dates)
    groups = moments(orders, sessions=sessions)
    seats = [seats_of(orders.take(group), agents, sessions=sessions) for group in groups]
    rows = max(map(len, seats))
    shares = lanes_of(groups, orders.row % sessions, lanes=lanes)
    queues = [_Lane(lambda: open_policy(world.name, world.horizon, rows), sessions) for _ in shares]
    try:
        for abreast in zip_longest(*shares):
            actors: list[Actor] = []
            playing: list[Index] = []
            for queue, at in zip(queues, abreast, strict=True):
                if at is None:  # its groups are over
                    continue
                group = groups[at]
                watched = watch(queue.policy(orders.take(group)), len(seats[at]))
                talks = agents > 1
                actors.append(Seated(watched, seats[at], len(group)) if talks else watched)
                playing.append(group)
            places = np.concatenate(playing)
            actor = _Abreast(actors, [len(group) for group in playing])
            yield places, execute(world, actor, Episodes(orders.take(places)))
    finally:
        for queue in queues:
            queue.close()


def lanes_of(groups: Sequence[Index], day: Index, *, lanes: int = LANES) -> list[list[int]]:
    """The places of each lane's groups, in order of time; no day is in two lanes."""
    days = np.array([day[group[0]] for group in groups])
    known, place = np.unique(days, return_inverse=True)
    lane = place * min(lanes, len(known)) // len(known)
    return [np.flatnonzero(lane == number).tolist() for number in range(lane.max() + 1)]


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
