"""The proof that a policy does not see the future: shuffle what comes, and it must act the same."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.costs import Costs
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import order_pairs
from se_rl.environments.worlds import Episodes
from se_rl.records.settings import RunConfig
from se_rl.scoring.execution import Actor
from se_rl.scoring.fraud_check import Recorder
from se_rl.scoring.play import Open, play


def future_blind(
    data: MarketData, config: RunConfig, open_policy: Open, scales: FeatureScales, *, seed: int = 0
) -> bool:
    """Whether a policy acts the same, bit for bit, when the future is shuffled.

    The future is everything after the middle of the first window of the last day but one.
    """
    day = max(0, len(data.dates) - 2)
    dates = data.dates[day : day + 1]
    horizon = config.horizons[0]
    orders = order_pairs(data, horizon, dates=dates)
    orders = orders.take(orders.start == orders.start.min())
    agents = config.book_agents
    steps = horizon // 2
    bar = int(orders.start[0]) + steps
    seen = []
    for bars in (data, shuffled_future(data, day, bar, rng=np.random.default_rng(seed))):
        world = StaticWorld(
            bars, horizon=horizon, dates=dates, scales=scales, costs=Costs.of(config)
        )
        recorders: list[Recorder] = []

        def watch(actor: Actor, rows: int, kept: list[Recorder] = recorders) -> Actor:
            kept.append(Recorder(actor, np.arange(rows)))
            return kept[-1]

        play(world, Episodes(orders), open_policy, agents=agents, watch=watch)
        actions = np.stack([recorders[0].ratio, recorders[0].offset])  # [2, step, row]
        seen.append(actions[:, : steps + 1])
    return bool(np.array_equal(seen[0], seen[1]))


def shuffled_future(
    data: MarketData, day: int, bar: int, *, rng: np.random.Generator
) -> MarketData:
    """The same sessions with the day's bars from `bar` on, and those of all later days, shuffled.

    Days before stay as they are: they are the past, and a policy may know them.
    """
    rest = bar + rng.permutation(len(data.grid) - bar)
    later = rng.permutation(len(data.grid))
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for field in fields(data):
        value = getattr(data, field.name)
        if isinstance(value, np.ndarray) and value.ndim >= 3:  # [symbol, day, bar, ...]
            changed = value.copy()
            changed[:, day, bar:] = value[:, day, rest]
            changed[:, day + 1 :] = value[:, day + 1 :, later]
            arrays[field.name] = changed
    return replace(data, **arrays)  # type: ignore[arg-type]
