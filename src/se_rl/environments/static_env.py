"""The static world for Gymnasium users: `StaticEnvironment` (one order) and `StaticVectorEnv` (thousands at once)."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from se_rl.environments.execution_env import ExecutionEnvConfig, ExecutionEnvironment, limit_prices
from se_rl.environments.task import SIDES, Orders


class StaticEnvironment(ExecutionEnvironment):
    """Replay of history without market impact; everything is inherited from ExecutionEnvironment."""


class StaticVectorEnv(VectorEnv[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[Any]]):
    """Many orders stepped together by the batched core; all end at once and the next step starts fresh ones."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 (an instance variable in Gymnasium)

    def __init__(
        self, data: Any, config: ExecutionEnvConfig | None = None, *, num_envs: int = 1024, **options: Any
    ) -> None:
        one = StaticEnvironment(data, config, **options)
        self.single, self.core, self.config, self.num_envs = one, one.core, one.config, num_envs
        self.single_observation_space, self.single_action_space = one.observation_space, one.action_space
        self.observation_space = batch_space(one.observation_space, num_envs)
        self.action_space = batch_space(one.action_space, num_envs)
        self._rows = np.flatnonzero(one.data.has_session.ravel())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Draw fresh orders for all environments."""
        if options:
            raise ValueError(
                "StaticVectorEnv draws its orders; fix side and start in the config instead of reset options"
            )
        super().reset(seed=seed)
        return self.core.reset(self._draw()).copy(), {}

    def step(
        self, actions: npt.NDArray[np.float32]
    ) -> tuple[
        npt.NDArray[np.float32], npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]
    ]:
        """One bar for every order; after the last bar, one step that only starts the next orders."""
        never = np.zeros(self.num_envs, np.bool_)
        if self.core.done:
            return self.reset()[0], np.zeros(self.num_envs), never, never, {}
        values = np.asarray(actions, np.float64).reshape(self.num_envs, -1)
        limits = limit_prices(self.core, values[:, 1], self.config.price_range_bps) if values.shape[1] > 1 else None
        observation = self.core.step(values[:, 0], limits).copy()
        return observation, self.core.reward.copy(), np.full(self.num_envs, self.core.done), never, {}

    def _draw(self) -> Orders:
        n, rng, config = self.num_envs, self.np_random, self.config
        latest = len(self.single.data.grid) - config.total_time
        start = rng.integers(latest + 1, size=n) if config.start is None else np.full(n, config.start)
        side = rng.choice([1, -1], size=n) if config.side == "both" else np.full(n, SIDES[config.side])
        quantity = np.full(n, config.initial_inventory)
        return Orders(rng.choice(self._rows, size=n), start, side.astype(np.int8), quantity, config.total_time)


def make_default_environment(data: Any = None, **options: Any) -> StaticEnvironment:
    """What `gymnasium.make("se_rl/StaticExecution-v0")` builds: on synthetic bars unless `data` is given."""
    if data is None:
        from se_rl.data.synthetic import SyntheticConfig, synthetic_market

        data = synthetic_market(SyntheticConfig(symbols=5, sessions=10))
    return StaticEnvironment(data, **options)


def register() -> None:
    """Make the environment ids known to Gymnasium (done on import of `se_rl.environments`)."""
    if "se_rl/StaticExecution-v0" not in gym.registry:
        gym.register("se_rl/StaticExecution-v0", entry_point="se_rl.environments.static_env:make_default_environment")
