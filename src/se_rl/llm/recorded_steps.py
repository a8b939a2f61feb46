"""Recorded steps that the runtime stage tries modules on.

Schedules of known and unknown merit are played in the static world on synthetic history and in the
dynamic world.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Weights = npt.NDArray[np.float64]

HORIZON = 20
"""Bars of an order."""
PAIRS = 16
"""Windows, each traded on both sides."""
SYMBOLS, SESSIONS = 8, 4
"""The market that they are taken from."""
TILT = 1.5
"""How strongly a schedule that knows the prices follows them, per standard deviation."""


@lru_cache(maxsize=4)
def recorded_steps(seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """The arrays by name, as `se_rl.modules.kinds.kind.Recorded` describes them; read-only."""
    from se_rl.data.synthetic import SyntheticConfig, synthetic_market
    from se_rl.environments.dynamic_world import DynamicWorld
    from se_rl.environments.static_world import StaticWorld

    data = synthetic_market(SyntheticConfig(symbols=SYMBOLS, sessions=SESSIONS, seed=seed))
    static = StaticWorld(data, horizon=HORIZON)
    dynamic = DynamicWorld(horizon=HORIZON, bank=PAIRS, takes_price=True, seed=seed)
    steps: dict[str, npt.NDArray[Any]] = {}
    seen = []
    for world in (static, dynamic):
        merit, fields, observations = _played(world, np.random.default_rng(seed))
        steps[f"fields_{world.name}"] = fields
        steps[f"merit_{world.name}"] = merit
        seen.append(observations)
    bars = [getattr(data, name) for name in ("open", "high", "low", "close", "volume")]
    steps["observations"] = np.concatenate(seen)
    steps["bars"] = np.ascontiguousarray(np.stack(bars, axis=-1).swapaxes(0, 1))
    for array in steps.values():
        array.flags.writeable = False
    return steps


def _played(world: Any, rng: np.random.Generator) -> tuple[npt.NDArray[Any], Floats, Floats]:
    """Merit [schedule], fields [schedule, field, step, order] and what the schedules observed.

    Schedules that know the market's prices and follow them are better than TWAP, those that trade
    against them are worse; so is, if orders move the market, selling all at once. Of the others
    nothing is known. Observations are [schedule * order, step, field].
    """
    episodes = world.draw(rng, 2 * PAIRS)
    even = np.ones((len(episodes), HORIZON))  # [order, step]
    ramp = np.linspace(0.2, 1.8, HORIZON)
    twap = _play(world, episodes, even)
    price = twap[0][world.field_names.index("benchmark_price")].T.astype(np.float64)
    # TILT * (price - its mean) / its deviation, over the steps of an order
    known = TILT * (price - price.mean(1, keepdims=True)) / price.std(1, keepdims=True).clip(1e-9)
    at_once = np.where(np.arange(HORIZON) == 0, 1.0, 1e-9) * even
    impact = -1.0 if world.takes_price else np.nan
    # ticks away from the touch; a world without impact does not ask for them
    away = rng.integers(-2, 4, len(episodes)).astype(np.float64)
    schedules: list[tuple[float, Weights, Weights | None]] = [
        (1.0, np.exp(known), None),
        (-1.0, np.exp(-known), None),
        (impact, at_once, None),
        (np.nan, even * ramp, None),
        (np.nan, even * ramp[::-1], None),
        (np.nan, rng.exponential(size=even.shape), away),
    ]
    merits = [0.0]
    fields, observations = [twap[0]], [twap[1]]
    for merit, weights, offset in schedules:
        played = _play(world, episodes, weights, offset)
        merits.append(merit)
        fields.append(played[0])
        observations.append(played[1])
    return np.array(merits), np.stack(fields), np.concatenate(observations)


def _play(
    world: Any, episodes: Any, weights: Weights, offset: Weights | None = None
) -> tuple[Floats, Floats]:
    """Trade by weights [order, step]: fields [field, step, order], then what was observed.

    Observations are [order, step, field].
    """
    left = weights[:, ::-1].cumsum(1)[:, ::-1]
    fields = np.zeros((HORIZON, len(world.field_names), len(episodes)), np.float32)
    observation = world.reset(episodes)
    seen = np.zeros((len(episodes), HORIZON, observation.shape[1]), np.float32)
    for t in range(HORIZON):
        seen[:, t] = observation
        observation = world.step(weights[:, t] / left[:, t], offset, fields[t])
    return np.ascontiguousarray(fields.swapaxes(0, 1)), seen
