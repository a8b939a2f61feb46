"""The learned baselines in simulated markets, beside TWAP and the best constant schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from se_rl.baselines import registry
from se_rl.baselines.learned import learn
from se_rl.baselines.passive_grid import best_constant
from se_rl.baselines.registry import LearnedRival
from se_rl.baselines.settings import LearnedConfig
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.rl.policy import Neutral
from se_rl.scoring.execution import execute

SimulatedTable = dict[str, dict[str, Any]]
"""One row of plain data for each method: its costs, and what its seeds did."""
TRAIN_SEED = 1
FRESH_SEED = 3
"""Seeds of the simulated episodes to train on and to score on: no episode is in both."""
TRAIN_BANK = 4096


def simulated_tables(
    config: LearnedConfig, *, say: Callable[[str], None] = lambda _: None
) -> dict[str, SimulatedTable]:
    """One table with market orders alone and one with limit orders."""
    return {
        "market orders": dynamic_rows(config, takes_price=False, say=say),
        "limit orders": dynamic_rows(config, takes_price=True, say=say),
    }


def dynamic_rows(
    config: LearnedConfig,
    *,
    takes_price: bool,
    rivals: Sequence[LearnedRival] | None = None,
    from_grid: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> SimulatedTable:
    """TWAP, the grid's constant schedule, and the learned rivals on fresh episodes.

    With `from_grid` an output of 0 means the grid's schedule, else TWAP's slice (at the touch where
    orders have prices).
    """
    say("simulating markets (the first use compiles)")
    world = _world(config, takes_price, seed=TRAIN_SEED, bank=TRAIN_BANK)
    fresh = _world(config, takes_price, seed=FRESH_SEED, bank=config.fresh_orders // 2)
    episodes = fresh.draw(np.random.default_rng(0), config.fresh_orders // 2 * 2)
    say("trying constant schedules")
    constant = best_constant([world], np.random.default_rng(0))
    grid = execute(fresh, constant, episodes)
    neutral = Neutral(constant.multiple, constant.offset) if from_grid else Neutral()
    rows = {
        "TWAP": grid.twap().summary(),
        "grid constant": grid.summary()
        | {"schedule": constant.words(takes_price, unit=world.limit_unit)},
    }
    for rival in registry.LEARNED if rivals is None else rivals:
        learned = learn(
            rival,
            world,
            where="dynamic",
            fresh=fresh,
            episodes=episodes,
            config=config,
            neutral=neutral,
            say=say,
        )
        rows[rival.name] = learned.whole.summary() | learned.seeds()
    return rows


def _world(config: LearnedConfig, takes_price: bool, *, seed: int, bank: int) -> DynamicWorld:
    """A simulated market with the configured orders."""
    return DynamicWorld(
        horizon=config.dynamic_horizon,
        sizes=(config.participation, config.participation),
        takes_price=takes_price,
        limit_unit="volatility",
        seed=seed,
        bank=bank,
    )
