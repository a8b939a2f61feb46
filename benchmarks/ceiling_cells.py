"""Cells of the ceiling's table: what constants and policies of the observations save in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from se_rl.baselines.passive_grid import MULTIPLES, OFFSET_TICKS
from se_rl.data.market_data import MarketData
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.worlds import Episodes
from se_rl.market.family import FAMILY, MarketKind
from se_rl.scoring.execution import Actor, ConstantSchedule, Executed, execute
from se_rl.scoring.statistics import clustered_mean
from se_rl_benchmarks.evolution_strategy import Members, PolicyShape, Strategy, evolve

HORIZON = 40
HIDDEN = 8
GRID_BOOKS = 96
TEST_BOOKS = 400
SEED = 91
"""Of the cells' episodes; the default is trained on the bank of another seed."""


@dataclass(frozen=True)
class Cell:
    """A size of order and a kind of market."""

    participation: float
    profile: str
    kind: str  # free or twin

    @property
    def file_name(self) -> str:
        """Where its outcome is kept."""
        return f"{self.profile.replace(' ', '_')}_{self.kind}_{self.participation:g}.json"

    def world(self, data: MarketData, *, books: int) -> DynamicWorld:
        """Its markets and orders, `books` of them."""
        market = MarketKind(self.profile, FAMILY[self.profile], twin=self.kind == "twin")
        return DynamicWorld(
            data if market.twin else None,
            kinds=[market],
            horizon=HORIZON,
            sizes=(self.participation, self.participation),
            takes_price=True,
            bank=books,
            seed=SEED,
        )


@dataclass(frozen=True)
class CellOutcome:
    """Costs and savings in bps; `se` is the error of the ceiling over the constant."""

    participation: float
    profile: str
    kind: str
    twap_cost: float
    constant: float
    ceiling: float
    default: float
    se: float
    schedule: str
    policy: str
    default_se: float
    void: int


@dataclass(frozen=True)
class Found:
    """What the search leaves behind of a cell: the constant and the weights, to be measured."""

    multiple: float
    offset: float
    hidden: int
    weights: list[float]

    @property
    def constant(self) -> ConstantSchedule:
        """The best constant schedule."""
        return ConstantSchedule(self.multiple, self.offset)

    def ceiling(self, inputs: int) -> Members:
        """The best policy of the observations."""
        shape = PolicyShape(inputs, self.hidden)
        return Members(shape, np.array(self.weights)[None], self.constant)


def entries(world: DynamicWorld, first: int, count: int) -> Episodes:
    """Both sides of `count` entries of the bank."""
    return world.bank.episodes(first + np.arange(count), horizon=world.horizon)


def search(cell: Cell, data: MarketData, strategy: Strategy) -> Found:
    """The best constant of the grid, and the better of two policies of the observations.

    Of the bank the first entries are for measuring only, the next ones for choosing, the rest is
    for the search.
    """
    first = TEST_BOOKS + GRID_BOOKS
    world = cell.world(data, books=first + strategy.generations * strategy.books)
    choosing = entries(world, TEST_BOOKS, GRID_BOOKS)
    schedules: list[tuple[float, ConstantSchedule]] = []
    for multiple in MULTIPLES:
        for offset in OFFSET_TICKS:
            schedule = ConstantSchedule(multiple, offset)
            schedules.append((_saved(execute(world, schedule, choosing)), schedule))
    constant = max(schedules, key=lambda pair: pair[0])[1]
    policies: list[tuple[float, Found]] = []
    for hidden in (0, HIDDEN):
        shape = PolicyShape(world.observation_size, hidden)
        rng = np.random.default_rng([SEED, hidden])
        weights = evolve(world, shape, constant, strategy, rng=rng, first_entry=first)
        found = Found(constant.multiple, constant.offset, hidden, weights.tolist())
        run = execute(world, found.ceiling(world.observation_size), choosing)
        policies.append((_saved(run), found))
    return max(policies, key=lambda pair: pair[0])[1]


def measure(cell: Cell, data: MarketData, found: Found, default: Actor) -> CellOutcome:
    """All four on the entries that nobody has seen."""
    world = cell.world(data, books=TEST_BOOKS)
    episodes = entries(world, 0, TEST_BOOKS)
    constant = execute(world, found.constant, episodes)
    ceiling = execute(world, found.ceiling(world.observation_size), episodes)
    learned = execute(world, default, episodes)
    whole = np.isfinite(constant.gain + ceiling.gain + learned.gain + constant.twap_gain)
    twap = constant.twap_gain[whole]

    def over(run: Executed, base: Executed) -> tuple[float, float]:
        estimate = clustered_mean((run.gain - base.gain)[whole], run.clusters[whole])
        return estimate.mean, estimate.se

    return CellOutcome(
        participation=cell.participation,
        profile=cell.profile,
        kind=cell.kind,
        twap_cost=float(-twap.mean()),
        constant=float((constant.gain[whole] - twap).mean()),
        ceiling=float((ceiling.gain[whole] - twap).mean()),
        default=float((learned.gain[whole] - twap).mean()),
        se=over(ceiling, constant)[1],
        schedule=found.constant.words(takes_price=True),
        policy=f"tanh {found.hidden}" if found.hidden else "linear",
        default_se=over(learned, constant)[1],
        void=int((~whole).sum()),
    )


def _saved(run: Executed) -> float:
    return run.over_twap().mean
