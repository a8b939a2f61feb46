"""The static world for Gymnasium users: one order, or thousands at once."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from se_rl.data.given import GivenBars
from se_rl.environments.execution_env import ExecutionEnvConfig, ExecutionEnvironment, limit_prices
from se_rl.environments.order_source import Info

Array = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Observation = npt.NDArray[np.float32]

ENTRY_POINTS = {
    "se_rl/StaticExecution-v0": "static_env:make_default_environment",
    "se_rl/DynamicExecution-v0": "dynamic_env:DynamicEnvironment",
    "se_rl/qrm-v0": "outside.gymnasium_face:QueueReactiveEnvironment",
}
"""The ids that `gymnasium.make` knows; a world is imported when somebody asks for it."""


class StaticEnvironment(ExecutionEnvironment):
    """Replay of history without market impact: an ExecutionEnvironment."""


class StaticVectorEnv(VectorEnv[Observation, Observation, npt.NDArray[Any]]):
    """Many orders stepped together by the engine; all end at once, then fresh ones start."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 (as in Gymnasium)
    environment: ClassVar[type[ExecutionEnvironment]] = StaticEnvironment
    """The environment of which this is the batch."""

    def __init__(
        self,
        data: GivenBars,
        config: ExecutionEnvConfig | None = None,
        *,
        num_envs: int = 1024,
        **options: Any,
    ) -> None:
        one = self.environment(data, config, **options)
        self.single = one
        self.core = one.core
        self.config = one.config
        self.num_envs = num_envs
        self.single_observation_space = one.observation_space
        self.single_action_space = one.action_space
        self.observation_space = batch_space(one.observation_space, num_envs)
        self.action_space = batch_space(one.action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[Observation, Info]:
        """Draw fresh orders for all environments."""
        if options:
            raise ValueError(
                f"{type(self).__name__} draws its orders; "
                "fix side and start in the config instead of reset options"
            )
        super().reset(seed=seed)
        orders = self.single.source.draw(self.np_random, self.num_envs)
        return self.single.start(orders, self.np_random).copy(), {}

    def step(self, actions: Observation) -> tuple[Observation, Array, Bool, Bool, Info]:
        """One bar for every order; after the last, a step that only starts the next orders."""
        never = np.zeros(self.num_envs, np.bool_)
        if self.core.done:
            return self.reset()[0], np.zeros(self.num_envs), never, never, {}
        values = np.asarray(actions, np.float64).reshape(self.num_envs, -1)
        limits = limit_prices(self.core, values[:, 1:].ravel(), self.config.price_range_bps)
        observation = self.core.step(values[:, 0], limits).copy()
        done = np.full(self.num_envs, self.core.done)
        outcome: Info = self.outcome() if self.core.done else {}
        return observation, self.core.reward.copy(), done, never, outcome

    def outcome(self) -> Info:
        """What `info` says of the finished orders; here, nothing beyond `core.record()`."""
        return {}


def make_default_environment(data: GivenBars | None = None, **options: Any) -> StaticEnvironment:
    """`gymnasium.make("se_rl/StaticExecution-v0")`: on synthetic bars unless `data` is given."""
    if data is None:
        from se_rl.data.synthetic import SyntheticConfig, synthetic_market

        data = synthetic_market(SyntheticConfig(symbols=5, sessions=10))
    return StaticEnvironment(data, **options)


def register() -> None:
    """Make the environment ids known to Gymnasium (done on import of `se_rl.environments`)."""
    for name, maker in ENTRY_POINTS.items():
        _register(name, maker)
    for kind in ("noise", "tactical", "strategic"):
        for order in (20, 60):
            name = f"se_rl/cw-{kind}-{order}-v0"
            _register(name, "outside.gymnasium_face:LotEnvironment", kind=kind, order=order)


def _register(name: str, maker: str, **options: str | int) -> None:
    if name not in gym.registry:
        gym.register(name, entry_point=f"se_rl.environments.{maker}", kwargs=options)
