"""The proof that a policy does not see the future: shuffle what comes, and it must act the same."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.task import order_pairs
from se_rl.environments.worlds import Episodes
from se_rl.records.settings import RunConfig
from se_rl.scoring.execution import Actor, Array, execute
from se_rl.scoring.validation import Open, opened


def future_blind(
    data: MarketData, config: RunConfig, open_policy: Open, scales: FeatureScales, *, seed: int = 0
) -> bool:
    """Whether a policy acts the same, bit for bit, when the future is shuffled.

    The future is everything after the middle of the first window of the last day but one.
    """
    day = max(0, len(data.dates) - 2)
    dates = data.dates[day : day + 1]
    orders = order_pairs(data, config.horizon, dates=dates)
    agents = config.agents if config.scenario == "multi" else 1
    first = orders.start == orders.start.min()
    steps = config.horizon // 2
    bar = int(orders.start.min()) + steps
    seen = []
    for bars in (data, shuffled_future(data, day, bar, rng=np.random.default_rng(seed))):
        world = StaticWorld(bars, horizon=config.horizon, dates=dates, scales=scales)
        actor = _WatchedActor(opened(world, orders, open_policy, agents=agents))
        execute(world, actor, Episodes(orders))
        actor.close()
        seen.append(np.stack([step[first] for step in actor.actions[: steps + 1]]))
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


class _WatchedActor:
    """An actor whose actions are kept, a row per order: the ratio and the price's offset."""

    def __init__(self, inner: Actor) -> None:
        self._inner = inner
        self.actions: list[Array] = []

    def start(self, n: int, horizon: int) -> None:
        self._inner.start(n, horizon)

    def act(self, observation: npt.NDArray[np.float32]) -> tuple[Array, Array]:
        ratio, offset = self._inner.act(observation)
        self.actions.append(np.stack([ratio, offset], axis=-1))
        return ratio, offset

    def close(self) -> None:
        self._inner.close()
