"""The seeds' faces of the inner loop: `SERLTrainingLoop` for an agent and two environments of one's own, and the metrics.

Everything is batched: the agent's policy plays many orders at once in the cores behind the Gymnasium faces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium.spaces import Box
from torch import Tensor

from se_rl.core.stopping import StopRule
from se_rl.environments.execution_env import ExecutionEnvironment, limit_prices
from se_rl.environments.metrics import Metrics, price_advantage
from se_rl.environments.task import BUY, SELL, Orders
from se_rl.rl.policy import Policy
from se_rl.rl.ppo_agent import PPOAgent
from se_rl.rl.rebalance import EVERY, Balance
from se_rl.rl.rollout import Diverged, Rollout

SHARES = (0.4, 0.3)
"""Parts of the inner iterations that train in the static and in the dynamic world; the joint phase has the rest."""
FEWEST_ORDERS = 16
"""Orders in a batch, however long they are: advantages are held against the batch's mean."""


@dataclass(frozen=True, kw_only=True)
class TrainingLoopConfig:
    """How long to train, and when to stop.

    `max_inner_iterations` is the number of PPO updates in each outer iteration, all three phases together: 40 % static
    and 30 % dynamic (rounded down), the rest joint. One update plays about `samples` order steps in each world of its
    phase and makes the agent's `ppo_epochs` passes over them. PA is measured on `validation_orders` orders per world.
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
        whole = ("max_outer_iterations", "max_inner_iterations", "samples", "validation_orders")
        for name, least in (*((name, 1) for name in whole), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}; use a whole number, {least} or more")
        if not 0 < self.convergence_tolerance < np.inf:
            raise ValueError(
                f"convergence_tolerance is {self.convergence_tolerance}; use a positive number of bps"
            )
        if not 0 <= self.ema_decay < 1:
            raise ValueError(f"ema_decay is {self.ema_decay}; use a number from 0 to below 1")
        alpha, beta = self.initial_alpha, self.initial_beta
        if not (0 <= alpha <= 1 and abs(alpha + beta - 1.0) < 1e-9):
            raise ValueError(
                f"initial_alpha {alpha} and initial_beta {beta} are no shares; use two that sum to 1"
            )


class SERLTrainingLoop:
    """Trains an agent in a static and a dynamic environment until PA stands still (the inner half of Algorithm 1).

    An outer iteration is a static, a dynamic and a joint phase, then PA on validation orders. These are drawn once, each
    as buy and sell where the environment has both sides, and from the environments' own sessions: PA here steers the
    training and is no result on unseen days.
    """

    def __init__(
        self,
        config: TrainingLoopConfig,
        static_env: ExecutionEnvironment,
        dynamic_env: ExecutionEnvironment,
        agent: PPOAgent,
    ) -> None:
        self.config, self.agent = config, agent
        seeds = np.random.SeedSequence(config.seed).spawn(2)
        environments = {"static": static_env, "dynamic": dynamic_env}
        self.worlds = {
            name: _Ground(_fitting(env, agent, name), config, seed=seed)
            for (name, env), seed in zip(environments.items(), seeds, strict=True)
        }
        self.balance, self._joint_updates = Balance(config.initial_alpha), 0

    def run(self) -> dict[str, Any]:
        """Train; `history` (a row per outer iteration), `final_metrics`, `stop_reason` and `iterations`.

        A training that diverges stops, and the agent has the weights of its last whole iteration again.
        """
        history: list[dict[str, Any]] = []
        state = StopRule(self.config.convergence_tolerance, self.config.ema_decay)
        reason = f"budget: {self.config.max_outer_iterations} outer iterations"
        metrics, _ = self.evaluate()
        for iteration in range(1, self.config.max_outer_iterations + 1):
            kept = {name: value.clone() for name, value in self.agent.policy.state_dict().items()}
            try:
                losses = self._train()
            except Diverged as error:
                self.agent.policy.load_state_dict(kept)
                reason = f"diverged in outer iteration {iteration}: {error}"
                break
            metrics, by_world = self.evaluate()
            state = state.moved(metrics["PA"])
            weights = {"alpha": self.balance.alpha, "beta": self.balance.beta}
            history.append(
                {
                    "iteration": iteration,
                    "PA": metrics["PA"],
                    "PA_ema": state.ema,
                    **by_world,
                    **weights,
                    **losses,
                }
            )
            if state.reached:
                reason = f"converged: PA_ema moved less than {state.tolerance} bps in each of {state.window} iterations"
                break
        return {
            "history": history,
            "final_metrics": metrics,
            "stop_reason": reason,
            "iterations": len(history),
        }

    def evaluate(self) -> tuple[dict[str, float], dict[str, float]]:
        """The metrics over the validation orders of both worlds together, and PA in each; void orders do not count."""
        outcomes = {
            name: ground.validate(self.agent.policy) for name, ground in self.worlds.items()
        }
        metrics = Metrics.of(
            *(np.concatenate(columns) for columns in zip(*outcomes.values(), strict=True))
        )
        return metrics.as_dict(), {f"PA_{name}": _mean(pa) for name, (pa, _) in outcomes.items()}

    def _train(self) -> dict[str, float]:
        """The three phases of one outer iteration; the mean loss of each world in the joint phase."""
        inner = self.config.max_inner_iterations
        static, dynamic = (int(share * inner) for share in SHARES)
        for name, updates in (("static", static), ("dynamic", dynamic)):
            for _ in range(updates):
                self.agent.learn([self.worlds[name].play(self.agent.policy)])
        losses = np.array([self._joint_update() for _ in range(inner - static - dynamic)])
        return dict(zip(("loss_static", "loss_dynamic"), losses.mean(axis=0).tolist(), strict=True))

    def _joint_update(self) -> tuple[float, float]:
        """Both worlds' batches in the same optimiser steps, weighted by alpha and beta, which then follow the losses."""
        plays = [self.worlds[name].play(self.agent.policy) for name in ("static", "dynamic")]
        stats = self.agent.learn(plays, weights=(self.balance.alpha, self.balance.beta))
        losses = stats["loss_0"], stats["loss_1"]
        self._joint_updates += 1
        if self._joint_updates % EVERY == 0:
            self.balance = self.balance.moved(*losses)
        return losses


class _Ground:
    """An environment in training: orders from its source, played in its batched core, and its validation orders."""

    def __init__(
        self, env: ExecutionEnvironment, config: TrainingLoopConfig, *, seed: np.random.SeedSequence
    ) -> None:
        self.env, self._orders = env, max(FEWEST_ORDERS, config.samples // env.config.total_time)
        draws, noise, chosen, self._markets = seed.spawn(4)
        self._rng = np.random.default_rng(draws)
        self._noise = torch.Generator().manual_seed(int(noise.generate_state(1)[0]))
        self._scale: float | None = None
        self._validation = env.source.draw(np.random.default_rng(chosen), config.validation_orders)
        if env.config.side == "both":
            both = self._validation.take(np.tile(np.arange(config.validation_orders), 2))
            sell = np.arange(len(both)) < config.validation_orders
            self._validation = replace(both, side=np.where(sell, SELL, BUY).astype(np.int8))

    def play(self, policy: Policy) -> tuple[Rollout, Tensor]:
        """One batch of fresh orders with the policy's noise on, and its rewards in units of the first batch's spread."""
        orders = self.env.source.draw(self._rng, self._orders)
        rollout, rewards = self._run(policy, orders, self._rng, noise=self._noise)
        if self._scale is None:
            spread = float(rewards.flip(0).cumsum(0).std())
            self._scale = spread if spread > 1e-12 else 1.0
        return rollout, rewards / self._scale

    def validate(self, policy: Policy) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """PA and the share left of every validation order that is not void, by the policy without noise."""
        self._run(policy, self._validation, np.random.default_rng(self._markets), noise=None)
        record = self.env.core.record()
        benchmark = self.env.benchmarks().named(self.env.benchmark_name)
        pa = price_advantage(record.net_price, benchmark, record.orders.side)
        counted = np.isfinite(pa)
        return pa[counted], record.leftover[counted]

    @torch.no_grad()
    def _run(
        self,
        policy: Policy,
        orders: Orders,
        rng: np.random.Generator,
        *,
        noise: torch.Generator | None,
    ) -> tuple[Rollout, Tensor]:
        """Play whole orders as `PPOAgent.select_action` would, all at once; the rollout and the environment's rewards."""
        steps, n, used = orders.horizon, len(orders), policy.actions
        observations, outputs = (
            torch.empty((steps, n, policy.observation_size)),
            torch.empty((steps, n, used)),
        )
        log_probs, values, rewards = torch.empty((3, steps, n))
        spread = torch.exp(policy.log_std)
        observation = self.env.start(orders, rng)
        for t in range(steps):
            observations[t] = torch.from_numpy(observation)
            mean, values[t], _ = policy(observations[t][:, None])
            outputs[t] = (
                mean if noise is None else mean + spread * torch.randn((n, used), generator=noise)
            )
            log_probs[t] = policy.log_prob(mean, outputs[t])
            observation = self._step(torch.sigmoid(outputs[t]).double().numpy())
            rewards[t] = torch.from_numpy(self.env.core.reward)
        kept = torch.from_numpy(~self.env.core.broken)
        return Rollout(
            observations, outputs, log_probs, values, torch.zeros((0, steps, n)), (), kept
        ), rewards

    def _step(self, unit: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
        """One step of every order by actions in [0, 1], stretched to the environment's action space."""
        if not np.isfinite(unit).all():
            raise Diverged("the policy's output is not finite")
        space, core = self.env.action_space, self.env.core
        assert isinstance(space, Box)  # of every execution environment
        actions = space.low + (space.high - space.low) * unit
        limits = (
            limit_prices(core, actions[:, 1], self.env.config.price_range_bps)
            if unit.shape[1] > 1
            else None
        )
        return core.step(actions[:, 0], limits)


def _fitting(env: ExecutionEnvironment, agent: PPOAgent, name: str) -> ExecutionEnvironment:
    """The environment without wrappers, refused unless the agent fits it."""
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
                f"the agent's {what} is {own}, but {name}_env is {space}; make the agent with its size"
            )
    return bare


def _mean(values: npt.NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")


class FinancialMetricsCalculator:
    """A face of `se_rl.environments.metrics` for arrays of finished orders."""

    def calculate_all_metrics(self, results: Mapping[str, Any]) -> dict[str, float]:
        """PA, PA_std, WR, GLR and AFI of finished orders.

        Needs `execution_prices` and `benchmark_prices`. `sides` (+1 sell, -1 buy) defaults to sells, `final_inventories`
        and `initial_inventories` to fully executed orders. `quantities` adds PA_weighted, `returns` mean_return.
        """
        columns = {
            name: np.atleast_1d(np.asarray(value, np.float64))
            for name, value in results.items()
            if value is not None
        }
        for name in ("execution_prices", "benchmark_prices"):
            if name not in columns:
                raise ValueError(f"{name} is missing; give one price per order")
        prices, benchmark = columns["execution_prices"], columns["benchmark_prices"]
        for name in (
            "benchmark_prices",
            "sides",
            "quantities",
            "final_inventories",
            "initial_inventories",
        ):
            if name in columns and len(columns[name]) != len(prices):
                raise ValueError(
                    f"{name} has {len(columns[name])} values for {len(prices)} orders; give one per order"
                )
        if not (np.all(np.isfinite(prices)) and np.all(benchmark > 0)):
            raise ValueError("prices must be finite and benchmark_prices positive")
        pa = price_advantage(prices, benchmark, columns.get("sides", np.ones(len(prices))))
        left = columns.get("final_inventories", np.zeros(len(prices)))
        metrics = Metrics.of(
            pa, np.abs(left) / columns.get("initial_inventories", np.ones(len(prices)))
        ).as_dict()
        if "quantities" in columns:
            metrics["PA_weighted"] = float(np.average(pa, weights=columns["quantities"]))
        if "returns" in columns:
            metrics["mean_return"] = float(columns["returns"].mean())
        return metrics
