"""`SERLTrainingLoop`: the one trainer, driven by an agent and two environments of your own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt

from se_rl.core.stopping import StopRule
from se_rl.environments.execution_env import ExecutionEnvironment
from se_rl.environments.metrics import Metrics
from se_rl.environments.worlds import Episodes
from se_rl.rl.environment_world import EnvironmentWorld
from se_rl.rl.policy import PolicyRunner
from se_rl.rl.ppo_agent import PPOAgent
from se_rl.rl.rollout import Diverged
from se_rl.rl.trainer import TrainConfig, Training
from se_rl.rl.training_curve import UpdateRow

if TYPE_CHECKING:
    from torch import Tensor

FEWEST_ORDERS = 16
"""Orders in a batch, however long they are: advantages are held against the batch's mean."""

Column = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class TrainingLoopConfig:
    """How long to train, and when to stop.

    `max_inner_iterations` is the number of PPO updates in each outer iteration, all three phases
    together: 40 % static and 30 % dynamic (rounded down), the rest joint. One update plays about
    `samples` order steps in each world of its phase and makes the agent's `ppo_epochs` passes over
    them. PA is measured on `validation_orders` orders per world.
    """

    max_outer_iterations: int = 50
    max_inner_iterations: int = 1000
    convergence_tolerance: float = 0.1
    ema_decay: float = 0.9
    initial_alpha: float = 0.5
    initial_beta: float = 0.5
    samples: int = 4096
    validation_orders: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        for name in (
            "max_outer_iterations",
            "max_inner_iterations",
            "samples",
            "validation_orders",
        ):
            self._check_whole(name, least=1)
        self._check_whole("seed", least=0)
        if not 0 < self.convergence_tolerance < np.inf:
            raise ValueError(
                f"convergence_tolerance is {self.convergence_tolerance}; "
                "use a positive number of bps"
            )
        if not 0 <= self.ema_decay < 1:
            raise ValueError(f"ema_decay is {self.ema_decay}; use a number from 0 to below 1")
        alpha, beta = self.initial_alpha, self.initial_beta
        if not (0 <= alpha <= 1 and abs(alpha + beta - 1.0) < 1e-9):
            raise ValueError(
                f"initial_alpha {alpha} and initial_beta {beta} are no shares; "
                "use two that sum to 1"
            )

    def _check_whole(self, name: str, *, least: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or value < least:
            raise ValueError(f"{name} is {value!r}; use a whole number, {least} or more")


@dataclass(frozen=True)
class LoopProgress:
    """Where a training loop stands: after `update` of `updates` in outer `iteration`."""

    iteration: int
    iterations: int
    update: int
    updates: int
    row: UpdateRow


class LoopResults(TypedDict):
    """What `SERLTrainingLoop.run` returns; `history` has a row per outer iteration."""

    history: list[dict[str, float]]
    final_metrics: dict[str, float]
    stop_reason: str
    iterations: int


def show_progress(progress: LoopProgress) -> None:
    """One line that is written over and over, where stderr is a terminal; else nothing."""
    if not sys.stderr.isatty():
        return
    row = progress.row
    rewards = ", ".join(f"{name} {reward:+.2f} bps" for name, reward in row.rewards.items())
    last = progress.update == progress.updates
    sys.stderr.write(
        f"\r\033[Kouter iteration {progress.iteration}/{progress.iterations}, "
        f"update {progress.update}/{progress.updates} ({row.phase}): {rewards}"
        + ("\n" if last else "")
    )
    sys.stderr.flush()


class SERLTrainingLoop:
    """Trains an agent in a static and a dynamic environment until PA stands still.

    This is the inner half of Algorithm 1. An outer iteration is a static, a dynamic and a joint
    phase, then PA on validation orders. These are drawn once, each as buy and sell where the
    environment has both sides, and from the environments' own sessions: PA here steers the
    training and is no result on unseen days.
    """

    def __init__(
        self,
        config: TrainingLoopConfig,
        static_env: ExecutionEnvironment,
        dynamic_env: ExecutionEnvironment,
        agent: PPOAgent,
        *,
        progress: Callable[[LoopProgress], None] = show_progress,
    ) -> None:
        self.config = config
        self.agent = agent
        self.worlds = {
            "static": _fitting_world(static_env, agent, name="static"),
            "dynamic": _fitting_world(dynamic_env, agent, name="dynamic"),
        }
        longest = max(world.horizon for world in self.worlds.values())
        settings = TrainConfig(
            samples=max(config.samples, FEWEST_ORDERS * longest),
            anneal=False,
            initial_alpha=config.initial_alpha,
            copies=1,  # an environment's orders have no luck of their own to share
        )
        self.training = Training(agent.learner(), self.worlds, settings, seed=config.seed)
        self._validation = self._draw_validation()
        self._progress = progress

    def run(self) -> LoopResults:
        """Train; returns `history`, `final_metrics`, `stop_reason` and `iterations`.

        A training that diverges stops, and the agent has the weights of its last whole iteration
        again.
        """
        config = self.config
        history: list[dict[str, float]] = []
        rule = StopRule(config.convergence_tolerance, config.ema_decay)
        reason = f"budget: {config.max_outer_iterations} outer iterations"
        metrics, _ = self.evaluate()
        for iteration in range(1, config.max_outer_iterations + 1):
            weights = self._weights()
            try:
                rows = self._train(iteration)
            except Diverged as error:
                self.agent.policy.load_state_dict(weights)
                reason = f"diverged in outer iteration {iteration}: {error}"
                break
            metrics, pa_by_world = self.evaluate()
            rule = rule.moved(metrics["PA"])
            assert rule.ema is not None  # it starts at its first score
            summary = {"iteration": iteration, "PA": metrics["PA"], "PA_ema": rule.ema}
            balance = {"alpha": rows[-1].alpha, "beta": rows[-1].beta}
            history.append({**summary, **pa_by_world, **balance, **_joint_losses(rows)})
            if rule.reached:
                reason = (
                    f"converged: PA_ema moved less than {rule.tolerance} bps "
                    f"in each of {rule.window} iterations"
                )
                break
        return {
            "history": history,
            "final_metrics": metrics,
            "stop_reason": reason,
            "iterations": len(history),
        }

    def evaluate(self) -> tuple[dict[str, float], dict[str, float]]:
        """Metrics over both worlds' validation orders, and PA in each; void orders are out."""
        pas = []
        leftovers = []
        pa_by_world = {}
        for name in self.worlds:
            pa, leftover = self.validate(name)
            pas.append(pa)
            leftovers.append(leftover)
            pa_by_world[f"PA_{name}"] = float(pa.mean()) if len(pa) else float("nan")
        metrics = Metrics.of(np.concatenate(pas), np.concatenate(leftovers))
        return metrics.as_dict(), pa_by_world

    def validate(self, name: str) -> tuple[Column, Column]:
        """PA in bps and the share left of a world's validation orders, the policy without noise."""
        world = self.worlds[name]
        learner = self.training.learner
        runner = PolicyRunner(learner.policy, learner.action_map)
        episodes = self._validation[name]
        fields = np.empty((1, len(episodes)), np.float32)
        observation = world.reset(episodes)
        runner.start(len(episodes), world.horizon)
        for _ in range(world.horizon):
            ratio, offset = runner.act(observation)
            observation = world.step(ratio, offset if world.takes_price else None, fields)
        pa = world.pa_bps()
        counted = np.isfinite(pa)
        return pa[counted], world.record().leftover[counted]

    def _train(self, iteration: int) -> list[UpdateRow]:
        """The three phases of one outer iteration."""
        updates = self.config.max_inner_iterations
        done = len(self.training.curve)

        def report(row: UpdateRow) -> None:
            update = len(self.training.curve) - done
            outer = self.config.max_outer_iterations
            self._progress(LoopProgress(iteration, outer, update, updates, row))

        return self.training.learn(self.training.phases_of_updates(updates), progress=report)

    def _weights(self) -> dict[str, Tensor]:
        """A copy of the agent's weights."""
        return {name: value.clone() for name, value in self.agent.policy.state_dict().items()}

    def _draw_validation(self) -> dict[str, Episodes]:
        """The validation orders of each world, by a random stream of their own."""
        streams = np.random.SeedSequence((self.config.seed, 1)).spawn(len(self.worlds))
        drawn = {}
        for (name, world), stream in zip(self.worlds.items(), streams, strict=True):
            sides = 2 if world.both_sides else 1
            orders = sides * self.config.validation_orders
            drawn[name] = world.draw(np.random.default_rng(stream), orders)
        return drawn


def _joint_losses(rows: list[UpdateRow]) -> dict[str, float]:
    """The mean loss of each world over the joint updates."""
    losses = [row.stats.losses for row in rows if row.phase == "joint"]
    static, dynamic = np.mean(losses, axis=0).tolist()
    return {"loss_static": static, "loss_dynamic": dynamic}


def _fitting_world(env: ExecutionEnvironment, agent: PPOAgent, *, name: str) -> EnvironmentWorld:
    """The environment without wrappers as a world, refused unless the agent fits it."""
    bare = getattr(env, "unwrapped", env)
    if not isinstance(bare, ExecutionEnvironment):
        raise ValueError(
            f"{name}_env is a {type(env).__name__}; give a StaticEnvironment or DynamicEnvironment"
        )
    for what, own, space in (
        ("state_dim", agent.state_dim, bare.observation_space),
        ("action_dim", agent.action_dim, bare.action_space),
    ):
        if (own,) != space.shape:
            raise ValueError(
                f"the agent's {what} is {own}, but {name}_env is {space}; "
                "make the agent with its size"
            )
    return EnvironmentWorld(bare, name=name)
