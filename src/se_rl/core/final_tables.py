"""The tables at the end of a run: every method on the sealed test days, and on fresh orders in
simulated markets; on the validation days where the sealed ones stay closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from se_rl.baselines.learned import LearnedBaseline
from se_rl.baselines.settings import BaselinesConfig
from se_rl.baselines.table import BaselineTask, Fitted, run_baselines
from se_rl.data.calendar import SessionGrid
from se_rl.data.catalog import DataSet
from se_rl.data.features import FeatureScales
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Episodes
from se_rl.records.method_rows import MethodRow, SimulatedRow
from se_rl.records.order_details import InventoryBand, OrderDetails
from se_rl.records.plain import from_plain, to_plain
from se_rl.records.results import OURS, TWAP, CheckRow
from se_rl.records.settings import RunConfig
from se_rl.scoring.execution import ConstantSchedule, execute
from se_rl.scoring.final_test import over
from se_rl.scoring.history_orders import HistoryOrders, scored_world
from se_rl.scoring.order_groups import inventory_band, order_groups
from se_rl.scoring.order_scores import Score
from se_rl.scoring.play import Open, play
from se_rl.scoring.score import Array, ScoreRule, Scores, contributions
from se_rl.scoring.score_summary import gain_of
from se_rl.scoring.simulated_orders import SimulatedOrders
from se_rl.scoring.static_panel import joined_scores
from se_rl.seal import Seal, sealed_seed

Policies = Mapping[str, Sequence[Open]]
"""For each method the policies of its training seeds."""
TEST_ORDERS = "orders on the test days"
"""What a seed is drawn from a run's seal for."""


@dataclass(frozen=True)
class TestTable:
    """Every method on the days of one split, with the self-checks that the table passed.

    `scores` has what each training seed of a learned method gained over TWAP, order by order;
    `per_order` has the columns of a table with one row per order.
    """

    __test__ = False  # not a test, whatever pytest thinks of its name

    methods: Mapping[str, MethodRow]
    days: int
    orders: int
    checks: tuple[CheckRow, ...]
    by_day: Mapping[str, tuple[int | float, ...]]
    paths: Mapping[str, Mapping[str, tuple[float, ...]]]
    notes: tuple[str, ...] = ()
    scores: Mapping[str, tuple[Scores, ...]] = field(default_factory=dict)
    order_details: OrderDetails = field(default_factory=OrderDetails)
    per_order: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulatedTables:
    """Every method on fresh simulated orders; `scores` as in the table of the test days."""

    methods: Mapping[str, Mapping[str, SimulatedRow]] = field(default_factory=dict)
    scores: Mapping[str, tuple[Scores, ...]] = field(default_factory=dict)
    cells: tuple[str, ...] = ()


class LearnedMethods:
    """Executes the test orders with our policies, and keeps what each training seed earned per
    order.

    The rows of the table come from all windows of the first horizon, as the classical strategies
    play them; the score comes from orders of every horizon and size, drawn by the seal.
    """

    def __init__(self, config: RunConfig, policies: Policies, *, seal: str) -> None:
        self.config = config
        self.policies = policies
        self.seal = seal
        self.pa: dict[str, list[Array]] = {}
        self.specific_pa: dict[str, list[Array]] = {}
        self.scores: dict[str, tuple[Scores, ...]] = {}
        self.inventory: dict[str, InventoryBand] = {}
        self.grid: SessionGrid | None = None

    def __call__(
        self, task: BaselineTask, dataset: DataSet, fitted: Fitted
    ) -> list[LearnedBaseline]:
        """The learned rows of the table of baselines."""
        scales = fitted.scales or FeatureScales.fit(dataset.split("train"))
        world = StaticWorld(task.data, horizon=task.orders.horizon, scales=scales, costs=task.costs)
        orders = Episodes(task.orders)
        dates = dataset.dates(task.config.split)
        drawn = HistoryOrders(
            self.config,
            scored_world(self.config, task.data, dates=dates, scales=scales),
            dates=dates,
            seed=sealed_seed(self.seal, TEST_ORDERS),
        )
        agents = self.config.book_agents
        self.grid = task.data.grid
        learned = []
        for name, seeds in self.policies.items():
            runs = tuple(play(world, orders, seed, agents=agents) for seed in seeds)
            scores = [Score(name, task.panel, run.record) for run in runs]
            self.pa[name] = [score.pa() for score in scores]
            self.specific_pa[name] = [score.specific_pa() for score in scores]
            self.scores[name] = tuple(drawn.scores(seed) for seed in seeds)
            self.inventory[name] = inventory_band([run.record.forced_fills for run in runs])
            learned.append(LearnedBaseline(name, (), runs))
        return learned

    def details(self, by_order: Mapping[str, npt.NDArray[Any]]) -> OrderDetails:
        """What the orders of the best design did, or of the default where it was kept."""
        if not self.policies or self.grid is None:
            return OrderDetails()
        method = next(iter(self.policies))
        groups = order_groups(by_order, method, twap=TWAP, grid=self.grid)
        return OrderDetails(method, groups, self.inventory)


def history_table(
    config: RunConfig,
    policies: Policies,
    *,
    seal: Seal,
    benchmark: Literal["vwap", "twap"] = "vwap",
    split: Literal["valid", "test"] = "test",
    say: Callable[[str], None],
) -> TestTable:
    """The learned methods beside the classical strategies on the days of a split, self-checked."""
    table = BaselinesConfig(
        data=config.data,
        split=split,
        horizon=config.horizons[0],
        benchmark=benchmark,
        risk=config.risk,
        seal=seal.text,
        scored_days=config.scored_days,
        train_until=config.train_until,
        valid_until=config.valid_until,
        half_spread_bps=config.half_spread_bps,
        fee_bps=config.fee_bps,
        max_participation=config.max_participation,
        fill_model=config.fill_model,
    )
    learned = LearnedMethods(config, policies, seal=seal.text)
    found = run_baselines(table, others=learned, per_order=True, say=say)
    for name, row in found["methods"].items():
        if name in learned.scores:
            own = contributions(learned.scores[name], ScoreRule.of(config).on_history())
            row["score"] = to_plain(gain_of(own))
    if OURS in policies:
        _add_our_lead(found["methods"], learned, found["per_order"])
    kept = ("methods", "days", "orders", "checks", "by_day", "paths", "notes")
    tested = from_plain(TestTable, {name: found[name] for name in kept})
    by_order = found["per_order"]
    split_of_each = np.full(len(by_order["date"]), split)
    return replace(
        tested,
        scores=learned.scores,
        order_details=learned.details(by_order),
        per_order={"split": split_of_each, **by_order},
    )


def _add_our_lead(
    methods: Mapping[str, dict[str, object]],
    learned: LearnedMethods,
    by_order: Mapping[str, npt.NDArray[Any]],
) -> None:
    """What our design gains over every other method, on the same orders."""
    ours, dates = learned.pa[OURS], by_order["date"]
    for name, row in methods.items():
        if name != OURS:
            theirs = learned.pa.get(name) or [by_order[f"{name}: PA"]] * len(ours)
            row["ours_over"] = to_plain(over(ours, theirs, dates))
        if name in learned.specific_pa:
            specific = over(learned.specific_pa[OURS], learned.specific_pa[name], dates)
            row["ours_over_specific"] = to_plain(specific)


def market_tables(
    fresh: SimulatedOrders,
    policies: Policies,
    *,
    grid: ConstantSchedule,
    say: Callable[[str], None],
) -> SimulatedTables:
    """Fresh simulated episodes of the same mix by horizon, beside TWAP and the grid's constant
    schedule.
    """
    tables: dict[str, dict[str, SimulatedRow]] = {}
    parts: dict[str, list[Sequence[Scores]]] = {}
    for world, episodes in fresh.worlds:
        say(f"simulated markets, orders of {world.horizon} steps")
        constant = execute(world, grid, episodes)
        schedule = {"schedule": grid.words(world.takes_price, unit=world.limit_unit)}
        rows = {
            "TWAP": from_plain(SimulatedRow, constant.twap().summary()),
            "grid constant": from_plain(SimulatedRow, constant.summary() | schedule),
        }
        for name, seeds in policies.items():
            runs = tuple(play(world, episodes, seed) for seed in seeds)
            learned = LearnedBaseline(name, (), runs)
            rows[name] = from_plain(SimulatedRow, learned.whole.summary() | learned.seeds())
            own = [fresh.scores_of(world, episodes, run) for run in runs]
            parts.setdefault(name, []).append(own)
        tables[f"{world.horizon} steps"] = rows
    scores = {}
    for name, by_world in parts.items():
        by_seed = zip(*by_world, strict=True)
        scores[name] = tuple(joined_scores(one) for one in by_seed)
    return SimulatedTables(tables, scores, cells=fresh.cells)
