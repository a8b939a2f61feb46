"""One simulated order for people to look at: the book around it, what it moved, and how that decays.

The market is stepped twice on the same random numbers, with our order and without it, and both go on
for a while after the order's end.
"""

from __future__ import annotations

from copy import copy

import numpy as np
import numpy.typing as npt

from se_rl.environments.dynamic_core import DynamicCore
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.metrics import BPS
from se_rl.environments.worlds import Episodes
from se_rl.market.price_levels import BUY
from se_rl.records.order_details import SimulatedReplay
from se_rl.scoring.execution import Actor, inputs_of
from se_rl.scoring.play import Open

LEVELS = 10
"""Price levels of each side that are kept."""


class _Camera:
    """Notes one order's market step by step; prices in bps from the arrival mid."""

    def __init__(self, core: DynamicCore) -> None:
        self.core = core
        self.arrival = float(core.arrival[0])
        self.arrival_ticks = float(core.books.mid_ticks[0])
        self.mid = [0.0]
        self.free = [0.0]
        self.rows: list[tuple[float, float, float, float]] = []  # fill, traded, passive, left
        self.ticks: list[tuple[int, ...]] = []
        self.lots: list[tuple[int, ...]] = []
        self._note_book()

    def bps(self, price: float) -> float:
        """A price as bps from the arrival mid."""
        return round(BPS * (price / self.arrival - 1.0), 3)

    def note_step(self) -> None:
        """Our order's step has been traded."""
        core = self.core
        assert core.no_order_mid is not None  # the core has shadows
        quantity = core.orders.quantity[0]
        traded = float(core.shares[0] / quantity) + float(core.forced_share[0])
        fill = self.bps(float(core.fill_price[0])) if traded > 0.0 else float("nan")
        left = float(core.remaining[0] / quantity)
        self.rows.append((fill, round(traded, 5), float(core.passive_share[0]), round(left, 5)))
        self.note_mids(float(core.mid_after[0]), float(core.no_order_mid[0]))

    def note_mids(self, mid: float, free: float) -> None:
        """A bar has closed, with our order in the market or after it."""
        self.mid.append(self.bps(mid))
        self.free.append(self.bps(free))
        self._note_book()

    def _note_book(self) -> None:
        depth = self.core.markets.books.depth(LEVELS)[0]  # [side, level, (price, lots)]
        known = depth[..., 1] > 0
        sign = np.array([[-1], [1]]) if BUY == 0 else np.array([[1], [-1]])
        away = depth[..., 0] - round(self.arrival_ticks)
        self.ticks.append(tuple(int(tick) for tick in away[known]))
        self.lots.append(tuple(int(lots) for lots in (sign * depth[..., 1])[known]))


def simulated_replay(
    world: DynamicWorld, episodes: Episodes, open_policy: Open
) -> SimulatedReplay | None:
    """The largest of these orders, played by the policy; None where its market broke."""
    orders, agents = episodes.orders, world.agents
    book = int(np.argmax(orders.size)) // agents
    own = orders.take(np.arange(book * agents, (book + 1) * agents))
    core = copy(world.core)
    core.books = world.core.books.beside(shadow=True)
    actor = open_policy(world.name, world.horizon, agents)
    core.inputs = inputs_of(actor)
    try:
        camera = _play(core, actor, Episodes(own, episodes.book_seeds[book : book + 1]), world)
    finally:
        actor.close()
    if core.markets.broken.any():
        return None
    fill, traded, passive, left = zip(*camera.rows, strict=True)
    tick = float(core.books.tick_currency()[0])
    return SimulatedReplay(
        side="sell" if own.side[0] > 0 else "buy",
        market=core.kinds[int(own.kind[0])].name,
        size=round(float(own.size[0]), 5),
        tick_bps=BPS * tick / camera.arrival,
        mid=tuple(camera.mid),
        free=tuple(camera.free),
        fill=fill,
        traded=traded,
        passive=passive,
        left=left,
        ticks=tuple(camera.ticks),
        lots=tuple(camera.lots),
    )


def _play(core: DynamicCore, actor: Actor, episodes: Episodes, world: DynamicWorld) -> _Camera:
    """The order from beginning to end, and the market half as long again."""
    horizon = world.horizon
    actor.start(len(episodes), horizon)
    observation: npt.NDArray[np.float32] = core.reset(episodes.orders, seeds=episodes.book_seeds)
    camera = _Camera(core)
    for _ in range(horizon):
        ratio, offset = actor.act(observation)
        observation = core.step(ratio, core.limits(offset) if world.takes_price else None)
        camera.note_step()
    for _ in range(max(1, horizon // 2)):
        mid, free = core.books.go_on()
        camera.note_mids(mid, free)
    return camera
