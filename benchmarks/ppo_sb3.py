"""SB3's PPO as a peer: as its manual has it, and with our batched world, network and settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from se_rl.data.market_data import MarketData
from se_rl.environments.execution_env import ExecutionEnvConfig
from se_rl.environments.static_env import StaticEnvironment
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Array, Observation
from se_rl.modules.defaults import Modules, Network
from se_rl.rl.policy import ActionMap, Neutral
from se_rl.rl.trainer import TrainConfig, Training
from se_rl_benchmarks.ppo_contenders import HORIZON, SAME, Contender

SPREAD_BPS = 10.0
"""About the spread of an order's return: divides SB3's rewards, as the measured one does ours."""


def sb3_defaults(data: MarketData) -> Contender:
    """SB3 as its manual has it: 8 Gymnasium environments, one after the other in one process."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    config = ExecutionEnvConfig(total_time=HORIZON, transaction_cost=0.0)
    envs = DummyVecEnv([lambda: StaticEnvironment(data, config)] * 8)
    model = PPO("MlpPolicy", envs, seed=0, device="cpu")
    return Contender(learning(model), lambda seen, _: _predicted(model, seen))


def sb3_same(world: StaticWorld) -> Contender:
    """SB3 with our network as its features, our heads' size, and every setting of ours it knows."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Trunk(BaseFeaturesExtractor):
        def __init__(self, space: Any) -> None:
            super().__init__(space, features_dim=64)
            self.network = Network(space.shape[0], 1)

        def forward(self, rows: Tensor) -> Tensor:
            return self.network(rows)

    training = Training.of_design(Modules(), {world.name: world}, TrainConfig(), seed=0)
    constant = Modules().constant
    orders = training.worlds[world.name].orders[0]
    model = PPO(
        "MlpPolicy",
        vector_world(world, orders=orders, seed=0),
        seed=0,
        device="cpu",
        n_steps=world.horizon,
        batch_size=orders * world.horizon // SAME.minibatches,
        n_epochs=training.learner.ppo.epochs,
        learning_rate=constant("learning_rate"),
        gamma=1.0,
        gae_lambda=constant("gae_lambda"),
        clip_range=SAME.clip,
        clip_range_vf=SAME.value_clip,
        vf_coef=SAME.value_weight / 2.0,
        ent_coef=0.0,
        max_grad_norm=SAME.gradient_norm,
        policy_kwargs={
            "features_extractor_class": Trunk,
            "net_arch": [],
            "log_std_init": float(np.log(constant("exploration"))),
        },
    )

    def act(observation: Observation, steps_left: int) -> Array:
        return _ratios(_predicted(model, observation), steps_left)

    return Contender(learning(model), act)


def vector_world(world: StaticWorld, *, orders: int, seed: int) -> Any:
    """A static world as SB3's `VecEnv`: orders end together, and the last step shows the next ones.

    Actions are our policies' outputs, 0 being the TWAP slice; rewards are the gain over it in units
    of SPREAD_BPS.
    """
    from gymnasium import spaces
    from stable_baselines3.common.vec_env import VecEnv

    rng = np.random.default_rng(seed)
    no_infos = [dict[str, Any]() for _ in range(orders)]

    class VectorWorld(VecEnv):
        render_mode = None

        def __init__(self) -> None:
            seen = spaces.Box(-np.inf, np.inf, (world.observation_size,), np.float32)
            super().__init__(orders, seen, spaces.Box(-20.0, 20.0, (1,), np.float32))

        def reset(self) -> Observation:
            return world.reset(world.draw(rng, orders)).copy()

        def step_async(self, actions: npt.NDArray[np.float32]) -> None:
            self._actions = actions

        def step_wait(self) -> Any:
            core = world.core
            ratios = _ratios(self._actions[:, 0], world.horizon - core.step_index)
            seen = core.step(ratios).copy()
            rewards = (core.reward / SPREAD_BPS).astype(np.float32)
            done = np.full(orders, core.done)
            if not core.done:
                return seen, rewards, done, no_infos
            infos = [{"terminal_observation": row, "TimeLimit.truncated": False} for row in seen]
            return self.reset(), rewards, done, infos

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [getattr(self, attr_name) for _ in self._get_indices(indices)]

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False for _ in self._get_indices(indices)]

        def close(self) -> None: ...

        def set_attr(self, *_: Any, **options: Any) -> None:
            raise NotImplementedError(
                "the orders of a batch have nothing of their own to set or to call"
            )

        env_method: Any = set_attr

    return VectorWorld()


def learning(model: Any) -> Callable[[], int]:
    """A function that makes one rollout and update of an SB3 model."""
    steps = model.n_steps * model.n_envs

    def iterate() -> int:
        model.learn(steps, reset_num_timesteps=False)
        return steps

    return iterate


def _predicted(model: Any, observation: Observation) -> Array:
    return np.asarray(model.predict(observation, deterministic=True)[0][:, 0], np.float64)


def _ratios(outputs: npt.NDArray[np.floating], steps_left: int) -> Array:
    """Outputs of a policy as ratios of what is left, by our action map."""
    ratio = ActionMap().ratio(torch.from_numpy(outputs), steps_left=steps_left, neutral=Neutral())
    return ratio.double().numpy()
