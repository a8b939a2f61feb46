"""Learned baselines: the default PPO with the strong and with the naive reward, in both worlds, at a stated budget.

The order of a panel is split equally among the seeds' policies, so that a row is what one would get without knowing which
seed is lucky; the spread over seeds stands beside it. Budgets count work, the same for every row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.baselines.passive_grid import best_constant
from se_rl.baselines.settings import LearnedConfig
from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.costs import Costs
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import ExecutionRecord, Orders
from se_rl.environments.worlds import Episodes, World
from se_rl.modules.defaults import Modules, naive_reward
from se_rl.rl.policy import Neutral
from se_rl.rl.policy_file import save_policy
from se_rl.rl.trainer import TrainConfig, Trained, train
from se_rl.scoring.execution import Executed, execute

DESIGNS: dict[str, Modules] = {"PPO strong": Modules(), "PPO naive": Modules(reward=naive_reward)}
"""The strong default takes noise out of the reward; the naive one is plain shortfall against arrival."""
TRAIN_SEED, FRESH_SEED = 1, 3
"""Seeds of the simulated episodes to train on and to score on: no episode is in both."""


@dataclass(frozen=True, eq=False)
class LearnedBaseline:
    """One design on a panel: the trainings of all seeds and the orders executed by all of them in equal parts."""

    name: str
    trained: tuple[Trained, ...]
    runs: tuple[Executed, ...]

    @property
    def record(self) -> ExecutionRecord:
        """The mean over the seeds' records: prices and fills of an order that is split among their policies."""
        first = self.runs[0].record
        names = ("gross_price", "net_price", "leftover", "fills")
        mean = {
            name: np.mean([getattr(run.record, name) for run in self.runs], axis=0)
            for name in names
        }
        return replace(first, **mean)

    @property
    def whole(self) -> Executed:
        """The same for gains and shares: one execution with all seeds in it."""
        names = ("gain", "twap_gain", "forced", "passive")
        mean = {name: np.mean([getattr(run, name) for run in self.runs], axis=0) for name in names}
        return replace(
            self.runs[0],
            record=self.record,
            distinct_actions=min(run.distinct_actions for run in self.runs),
            **mean,
        )

    def seeds(self) -> dict[str, Any]:
        """What each seed gained over TWAP, their spread, and why any of them ended early."""
        gains = [run.over_twap().mean for run in self.runs]
        spread = float(np.std(gains, ddof=1)) if len(gains) > 1 else float("nan")
        reasons = [trained.reason for trained in self.trained if trained.reason]
        return {"over_TWAP_by_seed": gains, "seed_sd": spread, "ended_early": reasons}


def learn(
    name: str,
    modules: Modules,
    world: World,
    *,
    where: str,
    fresh: World,
    episodes: Episodes,
    budget: float,
    seeds: Sequence[int],
    neutral: Neutral | None = None,
    clusters: npt.NDArray[np.int64] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> LearnedBaseline:
    """Train a design with every seed in `world` and execute the episodes of the `fresh` one."""
    trained, runs = [], []
    for seed in seeds:
        say(f"training {name} in the {where} world, seed {seed}")
        start = {where: neutral} if neutral else {}
        policy = train(
            modules, {where: world}, TrainConfig(budget=budget), seed=seed, neutral=start
        )
        trained.append(policy)
        runs.append(execute(fresh, policy.runner(where), episodes, clusters=clusters))
    return LearnedBaseline(name, tuple(trained), tuple(runs))


def learned_on_history(
    data: MarketData,
    orders: Orders,
    scales: FeatureScales,
    *,
    train_dates: npt.NDArray[np.integer],
    config: LearnedConfig,
    half_spread_bps: float = 0.0,
    fee_bps: float = 0.0,
    designs: Mapping[str, Modules] = DESIGNS,
    say: Callable[[str], None] = lambda _: None,
) -> list[LearnedBaseline]:
    """The designs trained on replayed train days, executing the panel's orders."""
    make = partial(
        StaticWorld,
        data,
        horizon=orders.horizon,
        scales=scales,
        costs=Costs(half_spread_bps=half_spread_bps, fee_bps=fee_bps),
    )
    world = make(dates=train_dates)
    fresh = make(table=world.table)
    day, seeds = orders.row % len(data.dates), range(config.seeds)
    return [
        learn(
            name,
            modules,
            world,
            where="static",
            fresh=fresh,
            episodes=Episodes(orders),
            budget=config.budget,
            seeds=seeds,
            clusters=day,
            say=say,
        )
        for name, modules in designs.items()
    ]


def dynamic_rows(
    config: LearnedConfig,
    *,
    takes_price: bool,
    designs: Mapping[str, Modules] = DESIGNS,
    from_grid: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, dict[str, Any]]:
    """The table of the simulated market: TWAP, the grid's constant schedule, and the learned policies on fresh episodes.

    With `from_grid` an output of 0 means the grid's schedule (SPEC 5), else TWAP's slice (at the touch with prices).
    """

    def world(seed: int, bank: int) -> DynamicWorld:
        return DynamicWorld(
            horizon=config.dynamic_horizon,
            participation=config.participation,
            takes_price=takes_price,
            seed=seed,
            bank=bank,
        )

    say("simulating markets (the first use compiles)")
    ground, fresh = world(TRAIN_SEED, 4096), world(FRESH_SEED, config.fresh_orders // 2)
    episodes = fresh.draw(np.random.default_rng(0), config.fresh_orders // 2 * 2)
    say("trying constant schedules")
    constant = best_constant(ground, np.random.default_rng(0))
    grid = execute(fresh, constant, episodes)
    neutral = Neutral(constant.multiple, constant.offset) if from_grid else Neutral()
    rows = {
        "TWAP": grid.twap().summary(),
        "grid constant": grid.summary() | {"schedule": constant.words(takes_price)},
    }
    for name, modules in designs.items():
        learned = learn(
            name,
            modules,
            ground,
            where="dynamic",
            fresh=fresh,
            episodes=episodes,
            budget=config.budget,
            seeds=range(config.seeds),
            neutral=neutral,
            say=say,
        )
        rows[name] = learned.whole.summary() | learned.seeds()
    return rows


def save_policies(
    folder: Path, policies: Sequence[LearnedBaseline], *, data: Mapping[str, Any]
) -> None:
    """Write the policy of every seed as `NAME-SEED.policy`, for `se-rl evaluate`."""
    for learned in policies:
        for trained in learned.trained:
            name = f"{learned.name.lower().replace(' ', '-')}-{trained.seed}.policy"
            facts = {"name": learned.name, "world": "static", "trained_on": dict(data)}
            save_policy(folder / name, trained, design={}, facts=facts)
