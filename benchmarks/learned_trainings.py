"""The trainings behind docs/results/learning.md: each function runs one part, returns its rows."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch

from se_rl.baselines import registry, schedules
from se_rl.baselines.fitting import fit_on_train
from se_rl.baselines.learned import LearnedBaseline, learned_on_history
from se_rl.baselines.passive_grid import best_constant
from se_rl.baselines.settings import BaselinesConfig, LearnedConfig
from se_rl.baselines.simulated import FRESH_SEED, dynamic_rows
from se_rl.baselines.task import open_task
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Episodes, World
from se_rl.modules.defaults import Modules
from se_rl.rl.policy import Neutral
from se_rl.rl.trainer import TrainConfig, Trained, train
from se_rl.rl.training_worlds import TrainingWorldsConfig, make_worlds
from se_rl.scoring.execution import execute
from se_rl.scoring.order_scores import Score
from se_rl.seal import PUBLIC
from se_rl_benchmarks.real_sets import REAL_SETS

SEEDS = 5
Rows = dict[str, Any]
"""What one part writes to its JSON file."""


def on_history(name: str, design: str, budget: float) -> Rows:
    """One design on one set's test days: over TWAP and over XS ridge, paired on the same orders."""
    torch.set_num_threads(1)
    real = REAL_SETS[name]
    config = BaselinesConfig(
        data=str(real.path), train_until=real.train_until, valid_until=real.valid_until
    )
    dataset, task = open_task(config)
    fitted = fit_on_train(dataset, fit_on=real.fit_on)
    assert fitted.ridge is not None and fitted.scales is not None
    forecast = fitted.ridge.forecast(task.data, fitted.scales)
    ridge = task.score(registry.RIDGE, fitted.ridge.schedule(task.orders, forecast))
    twap = task.score(registry.TWAP, schedules.twap(task.orders))
    rivals = [rival for rival in registry.LEARNED if rival.name == design]
    learned = learned_on_history(
        task.data,
        task.orders,
        fitted.scales,
        train=dataset.split("train"),
        config=LearnedConfig(budget=budget, seeds=SEEDS),
        rivals=rivals,
    )[0]
    score = Score(design, task.panel, learned.record)
    over_ridge = score.estimate(score.pa() - ridge.pa())
    return {
        "rows": {each.name: each.row(twap) for each in (twap, ridge, score)},
        "over_ridge": {"mean": over_ridge.mean, "ci95": list(over_ridge.ci95)},
        "seeds": learned.seeds(),
        "orders": len(task.orders),
    }


def simulated(participation: float, takes_price: bool, from_grid: bool, budget: float) -> Rows:
    """The table of one simulated market."""
    torch.set_num_threads(1)
    config = LearnedConfig(budget=budget, seeds=SEEDS, participation=participation)
    return dynamic_rows(config, takes_price=takes_price, from_grid=from_grid)


def hybrid(worlds: Literal["both", "static", "dynamic"], budget: float) -> Rows:
    """The strong default trained in one world or both, scored in both."""
    torch.set_num_threads(1)
    dataset, task = open_task(BaselinesConfig(data="nasdaq100", seal=PUBLIC))
    scales = fit_on_train(dataset).scales
    trained = _train_hybrid(worlds, dataset.split("train"), scales, budget)
    history = StaticWorld(task.data, horizon=task.orders.horizon, scales=scales)
    day = task.orders.row % len(task.data.dates)
    market = DynamicWorld(takes_price=True, seed=FRESH_SEED, bank=1000)
    episodes = market.draw(np.random.default_rng(0), 2000)
    places: tuple[tuple[str, World, Episodes, Any], ...] = (
        ("static", history, Episodes(task.orders), day),
        ("dynamic", market, episodes, None),
    )
    result: Rows = {"alpha": [float(one.curve[-1].alpha) for one in trained]}
    for where, world, orders, clusters in places:
        runs = [execute(world, one.runner(where), orders, clusters=clusters) for one in trained]
        learned = LearnedBaseline(worlds, tuple(trained), tuple(runs))
        result[where] = learned.whole.summary() | learned.seeds()
    return result


def _train_hybrid(
    worlds: Literal["both", "static", "dynamic"], data: Any, scales: Any, budget: float
) -> list[Trained]:
    """The default design, once per seed; the grid's schedule is what an output of 0 means."""
    config = TrainingWorldsConfig(worlds=worlds)
    places = make_worlds(Modules(), config, data=data, scales=scales).train
    market = DynamicWorld(takes_price=True, seed=1)
    constant = best_constant([market], np.random.default_rng(0))
    neutral = {"dynamic": Neutral(constant.multiple, constant.offset)}
    settings = TrainConfig(budget=budget)
    trained = []
    for seed in range(SEEDS):
        trained.append(train(Modules(), places, settings, seed=seed, neutral=neutral))
    return trained
