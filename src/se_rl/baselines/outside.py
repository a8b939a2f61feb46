"""The strategies that others published figures for in their own markets, played in ours.

A row is a published mean and spread over episodes beside what the same strategy gives here. Learned
strategies are quoted: their weights stay where they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from se_rl.environments.outside.lot_world import DECISIONS, LotWorld
from se_rl.environments.outside.queue_reactive_world import QueueReactiveWorld
from se_rl.environments.outside.task import OutsideReturns, OutsideWorld, SeededEpisodes

Array = npt.NDArray[np.float64]
Rule = Callable[[OutsideWorld], object]
"""Takes one decision for all episodes of a world."""

QUEUE_EPISODES = 20_000
LOT_EPISODES = 10_000
"""Test episodes of the published tables."""
AT_ONCE = 1000
"""Episodes that are played together: their books fit into a processor's cache."""


@dataclass(frozen=True)
class MeanReturn:
    """A mean return over episodes, and the spread of these."""

    mean: float
    spread: float
    episodes: int

    @classmethod
    def of(cls, returned: Array) -> MeanReturn:
        """The mean of some episodes."""
        return cls(float(returned.mean()), float(returned.std(ddof=1)), len(returned))

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return self.spread / math.sqrt(self.episodes)

    def errors_from(self, other: MeanReturn) -> float:
        """The difference to another mean, in standard errors of that difference."""
        both = math.hypot(self.standard_error, other.standard_error)
        return (self.mean - other.mean) / both


@dataclass(frozen=True)
class PublishedStrategy:
    """A strategy of a published table: how it acts, or None where it was learned."""

    market: str
    name: str
    published: MeanReturn
    rule: Callable[[OutsideWorld], object] | None = None


@dataclass(frozen=True)
class Played:
    """What a strategy gave in our market."""

    returned: MeanReturn
    unfinished_share: float
    decisions: int


def play(world: OutsideWorld, rule: Rule, *, episodes: int, seed: int = 0) -> Played:
    """Play episodes with a rule; another `seed` has others, of which none is the same."""
    decisions = 0

    def counted(world: OutsideWorld) -> None:
        nonlocal decisions
        decisions += int(np.count_nonzero(world.remaining))
        rule(world)

    done = play_episodes(world, counted, first_seed=seed * episodes, episodes=episodes)
    return Played(MeanReturn.of(done.returned), float(done.unfinished.mean()), decisions)


def play_episodes(
    world: OutsideWorld, rule: Rule, *, first_seed: int, episodes: int
) -> OutsideReturns:
    """Play the episodes from a seed on with a rule."""
    returned = []
    unfinished = []
    end = first_seed + episodes
    for first in range(first_seed, end, AT_ONCE):
        world.reset(SeededEpisodes(np.arange(first, min(first + AT_ONCE, end))))
        for _ in range(world.horizon):
            rule(world)
        returned.append(world.returned)
        unfinished.append(world.unfinished > 0)
    return OutsideReturns(np.concatenate(returned), np.concatenate(unfinished))


def buy_evenly(world: OutsideWorld) -> None:
    """One unit at each decision: TWAP."""
    assert isinstance(world, QueueReactiveWorld)
    world.buy(np.ones(len(world.remaining), np.int64))


def buy_share(share: float, *, every: int) -> Rule:
    """This share of the best ask queue at the first of every so many decisions."""

    def rule(world: OutsideWorld) -> None:
        assert isinstance(world, QueueReactiveWorld)
        now = share if world.step_index % every == 0 else 0.0
        world.buy(np.rint(now * world.best_ask_size).astype(np.int64))

    return rule


def _queue_row(name: str, mean: float, spread: float, rule: Rule | None) -> PublishedStrategy:
    return PublishedStrategy("qrm", name, MeanReturn(mean, spread, QUEUE_EPISODES), rule)


QUEUE_STRATEGIES = (
    _queue_row("TWAP", -0.365, 0.652, buy_evenly),
    _queue_row("50 % of the best queue", -0.343, 0.378, buy_share(0.5, every=1)),
    _queue_row("50 % every 2nd time", -0.342, 0.472, buy_share(0.5, every=2)),
    _queue_row("100 % every 3rd time", -0.400, 0.388, buy_share(1.0, every=3)),
    _queue_row("100 % every 4th time", -0.399, 0.437, buy_share(1.0, every=4)),
    _queue_row("DDQN", -0.259, 0.631, None),
)
"""The published table of the queue-reactive market (arXiv 2511.15262), in price x units."""


def submit_and_leave(world: OutsideWorld) -> None:
    """All lots at the best ask in the first decision, and nothing more."""
    assert isinstance(world, LotWorld)
    first = world.order if world.step_index == 0 else 0
    world.offer(world.best_ask, np.full(len(world.remaining), first))


def submit_evenly(world: OutsideWorld) -> None:
    """A tenth at every decision: first at the best ask, later one tick above the bid.

    Nothing is priced anew. The paper calls it TWAP, though it sends no market orders.
    """
    assert isinstance(world, LotWorld)
    price = world.best_ask if world.step_index == 0 else world.best_bid + 1
    world.offer(price, np.full(len(world.remaining), world.order // DECISIONS))


def _lot_rows(market: str, *figures: tuple[float, float]) -> tuple[PublishedStrategy, ...]:
    """A market's rows; figures are the means and spreads in the order of the names."""
    names = {
        "submit and leave": submit_and_leave,
        "TWAP": submit_evenly,
        "actor-critic, logistic-normal": None,
        "actor-critic, Dirichlet": None,
    }
    rows = []
    for (name, rule), (mean, spread) in zip(names.items(), figures, strict=True):
        published = MeanReturn(mean, spread, LOT_EPISODES)
        rows.append(PublishedStrategy(market, name, published, rule))
    return tuple(rows)


LOT_STRATEGIES = (
    *_lot_rows("cw-noise-20", (0.52, 1.19), (-0.06, 0.94), (0.64, 0.88), (0.58, 0.90)),
    *_lot_rows("cw-noise-60", (-1.09, 1.34), (-1.40, 0.98), (-0.81, 0.93), (-0.74, 0.92)),
    *_lot_rows("cw-tactical-20", (0.10, 1.43), (0.48, 0.68), (0.79, 0.67), (0.73, 0.67)),
    *_lot_rows("cw-tactical-60", (-3.36, 0.99), (-0.96, 0.95), (-0.24, 0.66), (-0.41, 0.63)),
    *_lot_rows("cw-strategic-20", (-1.64, 2.95), (-0.36, 3.03), (1.11, 2.23), (0.86, 1.92)),
    *_lot_rows("cw-strategic-60", (-2.51, 3.67), (-1.45, 3.46), (0.11, 2.42), (-0.02, 1.90)),
)
"""The published table of the three lot markets (arXiv 2507.06345), in ticks a lot over the bid."""


def world_named(market: str) -> OutsideWorld:
    """The task of a published row."""
    return QueueReactiveWorld() if market == QueueReactiveWorld.name else LotWorld.named(market)
