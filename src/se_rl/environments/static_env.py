"""The static world for Gymnasium users: `StaticEnvironment` (one order) and `StaticVectorEnv` (thousands at once)."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from se_rl.environments.execution_env import ExecutionEnvConfig, ExecutionEnvironment, limit_prices

ENTRY_POINTS = {
    "se_rl/StaticExecution-v0": "static_env:make_default_environment",
    "se_rl/DynamicExecution-v0": "dynamic_env:DynamicEnvironment",
}
"""The ids that `gymnasium.make` knows; the dynamic world is named here unread, so that no one waits for its import."""


class StaticEnvironment(ExecutionEnvironment):
    """Replay of history without market impact; everything is inherited from ExecutionEnvironment."""


class StaticVectorEnv(
    VectorEnv[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[Any]]
):
    """Many orders stepped together by the batched core; all end at once and the next step starts fresh ones."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 (an instance variable in Gymnasium)
    environment: ClassVar[type[ExecutionEnvironment]] = StaticEnvironment
    """The environment of which this is the batch."""

    def __init__(
        self,
        data: Any,
        config: ExecutionEnvConfig | None = None,
        *,
        num_envs: int = 1024,
        **options: Any,
    ) -> None:
        one = self.environment(data, config, **options)
        self.single, self.core, self.config, self.num_envs = one, one.core, one.config, num_envs
        self.single_observation_space, self.single_action_space = (
            one.observation_space,
            one.action_space,
        )
        self.observation_space = batch_space(one.observation_space, num_envs)
        self.action_space = batch_space(one.action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Draw fresh orders for all environments."""
        if options:
            raise ValueError(
                f"{type(self).__name__} draws its orders; fix side and start in the config instead of reset options"
            )
        super().reset(seed=seed)
        orders = self.single.source.draw(self.np_random, self.num_envs)
        return self.single.start(orders, self.np_random).copy(), {}

    def step(
        self, actions: npt.NDArray[np.float32]
    ) -> tuple[
        npt.NDArray[np.float32],
        npt.NDArray[np.float64],
        npt.NDArray[np.bool_],
        npt.NDArray[np.bool_],
        dict[str, Any],
    ]:
        """One bar for every order; after the last bar, one step that only starts the next orders."""
        never = np.zeros(self.num_envs, np.bool_)
        if self.core.done:
            return self.reset()[0], np.zeros(self.num_envs), never, never, {}
        values = np.asarray(actions, np.float64).reshape(self.num_envs, -1)
        limits = (
            limit_prices(self.core, values[:, 1], self.config.price_range_bps)
            if values.shape[1] > 1
            else None
        )
        observation = self.core.step(values[:, 0], limits).copy()
        outcome: dict[str, Any] = self.outcome() if self.core.done else {}
        return (
            observation,
            self.core.reward.copy(),
            np.full(self.num_envs, self.core.done),
            never,
            outcome,
        )

    def outcome(self) -> dict[str, Any]:
        """What `info` says of the finished orders; the static world leaves it to `core.record()`."""
        return {}


def make_default_environment(data: Any = None, **options: Any) -> StaticEnvironment:
    """What `gymnasium.make("se_rl/StaticExecution-v0")` builds: on synthetic bars unless `data` is given."""
    if data is None:
        from se_rl.data.synthetic import SyntheticConfig, synthetic_market

        data = synthetic_market(SyntheticConfig(symbols=5, sessions=10))
    return StaticEnvironment(data, **options)


def register() -> None:
    """Make the environment ids known to Gymnasium (done on import of `se_rl.environments`)."""
    for name, maker in ENTRY_POINTS.items():
        if name not in gym.registry:
            gym.register(name, entry_point=f"se_rl.environments.{maker}")
