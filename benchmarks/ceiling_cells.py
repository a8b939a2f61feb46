"""Cells of the ceiling's table: what constants and policies of the observations save in each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from se_rl.baselines.passive_grid import passive_grid
from se_rl.data.market_data import MarketData
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.limit_units import LimitUnit
from se_rl.environments.worlds import Episodes
from se_rl.market.family import FAMILY, MarketKind
from se_rl.scoring.execution import Actor, ConstantSchedule, Executed, execute
from se_rl.scoring.statistics import clustered_mean
from se_rl_benchmarks.evolution_strategy import Array, Members, PolicyShape, Strategy, evolve

HORIZON = 40
HIDDEN = 8
GRID_BOOKS = 96
TEST_BOOKS = 600
SHORTER = 0.4
"""Part of the generations that a search has where it goes on from weights that are good already."""
SAME = 1e-3
"""Bps that a constant may be off in markets that are the same."""
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

    def world(
        self, data: MarketData | None, *, books: int, limit_unit: LimitUnit = "ticks"
    ) -> DynamicWorld:
        """Its markets and orders, `books` of them; the default's limits have a unit of their own."""
        market = MarketKind(self.profile, FAMILY[self.profile], twin=self.kind == "twin")
        return DynamicWorld(
            data if market.twin else None,
            kinds=[market],
            horizon=HORIZON,
            sizes=(self.participation, self.participation),
            takes_price=True,
            bank=books,
            seed=SEED,
            limit_unit=limit_unit,
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

    @property
    def market(self) -> str:
        """Its kind of market in words."""
        return f"{self.profile} twin" if self.kind == "twin" else self.profile

    @property
    def reached(self) -> float:
        """How much of the way from the constant to the ceiling the default gets."""
        distance = self.ceiling - self.constant
        return (self.default - self.constant) / distance if distance > 0 else float("nan")


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


def search(cell: Cell, data: MarketData, strategy: Strategy, near: Found | None = None) -> Found:
    """The best constant of the grid, and a policy of the observations that goes on from it.

    `near` is what was found for a neighbouring size: the search begins with its weights and is
    shorter. Without one it is linear first; then tanh units are put beside, and stay where the
    choosing episodes say so. Of the bank the first entries are for measuring only, the next ones
    for choosing, the rest is for the search.
    """
    first = TEST_BOOKS + GRID_BOOKS
    world = cell.world(data, books=first + strategy.books)
    choosing = entries(world, TEST_BOOKS, GRID_BOOKS)
    constant = best_of_grid(world)
    shorter = replace(strategy, generations=max(1, round(SHORTER * strategy.generations)))
    rng = np.random.default_rng(SEED)

    def found(hidden: int, start: Array, effort: Strategy) -> Found:
        shape = PolicyShape(world.observation_size, hidden)
        weights = evolve(world, shape, constant, effort, start=start, rng=rng, first_entry=first)
        return Found(constant.multiple, constant.offset, hidden, weights.tolist())

    if near is not None:
        return found(near.hidden, np.array(near.weights), shorter)
    linear = found(0, PolicyShape(world.observation_size).start(rng), strategy)
    wider = PolicyShape(world.observation_size, HIDDEN)
    small = found(HIDDEN, wider.start(rng, np.array(linear.weights)), shorter)
    saved: list[float] = []
    for policy in (linear, small):
        run = execute(world, policy.ceiling(world.observation_size), choosing)
        saved.append(_saved(run))
    return small if saved[1] > saved[0] else linear


def best_of_grid(world: DynamicWorld) -> ConstantSchedule:
    """The constant schedule that saves most on the choosing episodes."""
    grid = passive_grid(world, entries(world, TEST_BOOKS, GRID_BOOKS))
    return max(grid, key=lambda pair: _saved(pair[1]))[0]


def measure_default(
    cell: Cell, data: MarketData, known: CellOutcome, default: Actor
) -> CellOutcome:
    """Another default in a cell whose ceiling is known; refused where its markets have changed."""
    world = cell.world(data, books=TEST_BOOKS + GRID_BOOKS)
    episodes = entries(world, 0, TEST_BOOKS)
    constant = execute(world, best_of_grid(world), episodes)
    learned = _of_default(cell, data, default)
    saved = float(np.nanmean(constant.gain - constant.twap_gain))
    whole = np.isfinite(constant.gain + learned.gain + constant.twap_gain)
    twap = constant.twap_gain[whole]
    if abs(saved - known.constant) > SAME and not known.void:
        raise ValueError(
            f"{cell.file_name}: the constant saves {saved:.3f} bps and saved {known.constant:.3f};"
            " the markets have changed: leave --ceilings out and search anew"
        )
    over = clustered_mean((learned.gain - constant.gain)[whole], learned.clusters[whole])
    return replace(known, default=float((learned.gain[whole] - twap).mean()), default_se=over.se)


def measure(cell: Cell, data: MarketData, found: Found, default: Actor) -> CellOutcome:
    """All four on the entries that nobody has seen."""
    world = cell.world(data, books=TEST_BOOKS)
    episodes = entries(world, 0, TEST_BOOKS)
    constant = execute(world, found.constant, episodes)
    ceiling = execute(world, found.ceiling(world.observation_size), episodes)
    learned = _of_default(cell, data, default)
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
        policy=f"linear and {found.hidden} tanh" if found.hidden else "linear",
        default_se=over(learned, constant)[1],
        void=int((~whole).sum()),
    )


def _of_default(cell: Cell, data: MarketData, default: Actor) -> Executed:
    """The default on the measuring entries, its limits measured as where it was trained."""
    world = cell.world(data, books=TEST_BOOKS, limit_unit="volatility")
    return execute(world, default, entries(world, 0, TEST_BOOKS))


def _saved(run: Executed) -> float:
    return run.over_twap().mean
