"""Learned baselines on history: every registered learner at a stated budget, with several seeds.

An order of the panel is split equally among the seeds' policies, so that a row is what one would
get without knowing which seed is lucky; the spread over seeds stands beside it. Budgets count work,
the same for every row. `simulated.py` does the same in simulated markets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.baselines import registry
from se_rl.baselines.registry import LearnedRival, TrainedRival
from se_rl.baselines.settings import LearnedConfig
from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.costs import Costs
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import ExecutionRecord, Orders
from se_rl.environments.worlds import Episodes, World
from se_rl.rl.policy import Neutral
from se_rl.rl.policy_file import save_policy
from se_rl.rl.trainer import Trained
from se_rl.scoring.execution import Executed, execute

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LearnedBaseline:
    """One rival on a panel: the trainings of all seeds, and the orders executed in equal parts."""

    name: str
    trained: tuple[TrainedRival, ...]
    runs: tuple[Executed, ...]

    @property
    def record(self) -> ExecutionRecord:
        """Prices and fills of orders split among the seeds' policies: the mean of their records."""
        records = [run.record for run in self.runs]
        return replace(
            records[0],
            gross_price=_mean(records, "gross_price"),
            net_price=_mean(records, "net_price"),
            leftover=_mean(records, "leftover"),
            fills=_mean(records, "fills"),
        )

    @property
    def whole(self) -> Executed:
        """The same for gains and shares: one execution with all seeds in it."""
        return replace(
            self.runs[0],
            record=self.record,
            gain=_mean(self.runs, "gain"),
            twap_gain=_mean(self.runs, "twap_gain"),
            forced=_mean(self.runs, "forced"),
            passive=_mean(self.runs, "passive"),
            slices=min((run.slices for run in self.runs), key=len),
        )

    def seeds(self) -> dict[str, Any]:
        """What each seed gained over TWAP, their spread, and why any of them ended early."""
        gains = [run.over_twap().mean for run in self.runs]
        spread = float(np.std(gains, ddof=1)) if len(gains) > 1 else float("nan")
        reasons = [trained.reason for trained in self.trained if trained.reason]
        return {"over_TWAP_by_seed": gains, "seed_sd": spread, "ended_early": reasons}


def _mean(parts: Sequence[object], field: str) -> Array:
    """The mean of a field over seeds."""
    return np.mean([getattr(part, field) for part in parts], axis=0)


def learn(
    rival: LearnedRival,
    world: World,
    *,
    where: str,
    fresh: World,
    episodes: Episodes,
    config: LearnedConfig,
    neutral: Neutral | None = None,
    clusters: npt.NDArray[np.int64] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> LearnedBaseline:
    """Train a rival with every seed in `world` and execute the episodes of the `fresh` one."""
    train = rival.load()
    start = {where: neutral} if neutral else {}
    trained = []
    runs = []
    for seed in range(config.seeds):
        say(f"training {rival.name} in the {where} world, seed {seed}")
        policy = train({where: world}, budget=config.budget, seed=seed, neutral=start)
        trained.append(policy)
        runs.append(execute(fresh, policy.runner(where), episodes, clusters=clusters))
    return LearnedBaseline(rival.name, tuple(trained), tuple(runs))


def learned_on_history(
    data: MarketData,
    orders: Orders,
    scales: FeatureScales,
    *,
    train: MarketData,
    config: LearnedConfig,
    costs: Costs | None = None,
    rivals: Sequence[LearnedRival] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[LearnedBaseline]:
    """The rivals (default: all registered) trained on train days, executing the panel's orders."""
    make = partial(StaticWorld, horizon=orders.horizon, scales=scales, costs=costs or Costs())
    world = make(train)
    fresh = make(data)
    day = orders.row % len(data.dates)
    found = []
    for rival in registry.LEARNED if rivals is None else rivals:
        learned = learn(
            rival,
            world,
            where="static",
            fresh=fresh,
            episodes=Episodes(orders),
            config=config,
            clusters=day,
            say=say,
        )
        found.append(learned)
    return found


def save_policies(
    folder: Path, policies: Sequence[LearnedBaseline], *, data: Mapping[str, Any]
) -> None:
    """Write the policy of every seed as `NAME-SEED.policy`, for `se-rl evaluate`.

    Only policies of our own kind have such a file; those of other algorithms are left out.
    """
    networks = {rival.name: rival.network for rival in registry.LEARNED}
    for learned in policies:
        facts = {"name": learned.name, "world": "static", "trained_on": dict(data)}
        if networks.get(learned.name):
            facts["rival"] = learned.name
        for trained in learned.trained:
            if isinstance(trained, Trained):
                name = f"{learned.name.lower().replace(' ', '-')}-{trained.seed}.policy"
                save_policy(folder / name, trained, design={}, facts=facts)
