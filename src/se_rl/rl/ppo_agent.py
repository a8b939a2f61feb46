"""`PPOAgent`: one agent, one transition at a time, for loops of one's own; the same policy and update as the trainer's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from se_rl.modules.defaults import Modules, Network
from se_rl.rl.policy import Policy
from se_rl.rl.ppo import PPO, Batch, PPOSettings
from se_rl.rl.rollout import Rollout, advantages

EDGE = 1e-6
"""Actions are kept this far inside (0, 1), where their log-odds are finite."""


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """The agent's settings; `gamma` is 0.99 here and 1 in the trainer, whose orders end anyway."""

    actor_lr: float = 3e-4
    critic_lr: float = 1e-3
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_epsilon: float = 0.2
    ppo_epochs: int = 10
    minibatches: int = 4
    entropy_bonus: float = 0.0
    exploration: float = 0.6
    kl_stop: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("actor_lr", "critic_lr", "clip_epsilon", "exploration"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; use a positive number")
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; use a number from 0 to 1")
        for name in ("ppo_epochs", "minibatches"):
            if not (isinstance(getattr(self, name), int) and getattr(self, name) >= 1):
                raise ValueError(f"{name} is {getattr(self, name)}; use a whole number, 1 or more")


class PPOAgent:
    """Actions in [0, 1] by a Gaussian on their log-odds; actor and critic have networks and learning rates of their own.

    `select_action`, `store_transition`, and after one or more episodes `update`.
    """

    def __init__(self, state_dim: int, action_dim: int, config: PPOConfig | None = None) -> None:
        if state_dim < 1 or action_dim < 1:
            raise ValueError(
                f"state_dim {state_dim} or action_dim {action_dim} is too small; use 1 or more of both"
            )
        self.state_dim, self.action_dim, self.config = state_dim, action_dim, config or PPOConfig()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            self.policy = _TwoNetworks(state_dim, action_dim, exploration=self.config.exploration)
        self._generator = torch.Generator().manual_seed(self.config.seed)
        self._learner = PPO(
            self.policy,
            learning_rate=self.config.actor_lr,
            epochs=self.config.ppo_epochs,
            entropy_bonus=self.config.entropy_bonus,
            settings=PPOSettings(  # rewards come in any unit, so a clip of values in fixed units would only slow them
                minibatches=self.config.minibatches,
                clip=self.config.clip_epsilon,
                kl_stop=self.config.kl_stop,
                value_clip=0.0,
            ),
            generator=self._generator,
            groups=self.policy.groups(self.config),
        )
        self._transitions: list[tuple[Tensor, Tensor, float, bool]] = []

    @torch.no_grad()
    def select_action(
        self, state: npt.ArrayLike, *, deterministic: bool = False
    ) -> tuple[npt.NDArray[np.float32], float, float]:
        """An action in [0, 1]^action_dim, its log density, and the state's value."""
        mean, value, _ = self.policy(self._state(state)[None, None])
        noise = torch.randn(mean.shape, generator=self._generator) * torch.exp(self.policy.log_std)
        action = torch.sigmoid(mean if deterministic else mean + noise).clamp(EDGE, 1.0 - EDGE)
        outputs = torch.logit(action)
        log_prob = self.policy.log_prob(mean, outputs) - torch.log(action * (1.0 - action)).sum(-1)
        return action[0].numpy(), float(log_prob), float(value)

    def store_transition(
        self,
        state: npt.ArrayLike,
        action: npt.ArrayLike,
        reward: float,
        done: bool,
        log_prob: float,
        value: float,
    ) -> None:
        """Keep one step. Log-prob and value are computed again at the update, by the same weights, for exactness."""
        taken = torch.as_tensor(np.asarray(action, np.float32).reshape(-1))
        if taken.shape != (self.action_dim,):
            raise ValueError(
                f"action has shape {tuple(taken.shape)}, expected ({self.action_dim},)"
            )
        if not bool(((taken >= 0.0) & (taken <= 1.0)).all()):
            raise ValueError(
                f"action {taken.tolist()} is not within [0, 1]; store what select_action gave"
            )
        if not (np.isfinite(reward) and np.isfinite(log_prob) and np.isfinite(value)):
            raise ValueError(f"reward {reward}, log_prob {log_prob} or value {value} is not finite")
        self._transitions.append((self._state(state), taken, float(reward), bool(done)))

    def update(self) -> dict[str, float]:
        """Learn from what was stored since the last update, and forget it; what the update did, as numbers."""
        if not self._transitions:
            raise ValueError("nothing was stored; call store_transition() before update()")
        states, actions, rewards, done = zip(*self._transitions, strict=True)
        self._transitions = []
        observations = torch.stack(states)[:, None]
        outputs = torch.logit(torch.stack(actions).clamp(EDGE, 1.0 - EDGE))[:, None]
        with torch.no_grad():
            mean, values, _ = self.policy(observations)
            log_probs = self.policy.log_prob(mean, outputs[:, 0])
        estimates = self._advantages(torch.tensor(rewards), values, torch.tensor(done))
        copies = -(
            -max(2, self.config.minibatches) // len(states)
        )  # of few transitions, so that no minibatch is empty
        observations, outputs, log_probs, values, estimates = (
            column.repeat_interleave(copies, dim=1)
            for column in (
                observations,
                outputs,
                log_probs[:, None],
                values[:, None],
                estimates[:, None],
            )
        )
        kept, fields = torch.ones(copies, dtype=torch.bool), torch.zeros((0, len(states), copies))
        batch = Batch.of(
            Rollout(observations, outputs, log_probs, values, fields, (), kept),
            estimates,
            policy=self.policy,
        )
        first = self._first_ratio(batch)
        return self._learner.update([batch]) | {
            "first_ratio_error": first,
            "mean_reward": float(np.mean(rewards)),
        }

    def learn(
        self, plays: Sequence[tuple[Rollout, Tensor]], *, weights: Sequence[float] | None = None
    ) -> dict[str, float]:
        """One update on batches of whole episodes, each a rollout of this policy and its rewards [step, order].

        All batches enter the same optimiser steps, each with its weight (1 where none are given).
        """
        shares = [1.0] * len(plays) if weights is None else weights
        gamma, lam = self.config.gamma, self.config.gae_lambda
        batches = [
            Batch.of(
                rollout,
                advantages(rewards, rollout.values, gamma=gamma, lam=lam),
                policy=self.policy,
                weight=share,
            )
            for (rollout, rewards), share in zip(plays, shares, strict=True)
        ]
        return self._learner.update(batches)

    def save(self, path: str | Path) -> None:
        """Write the weights (safetensors) and what they belong to (JSON), never half of them."""
        from se_rl.rl.policy_file import save_weights

        save_weights(
            Path(path), self.policy, {"state_dim": self.state_dim, "action_dim": self.action_dim}
        )

    def load(self, path: str | Path) -> None:
        """Read weights that `save` wrote; refuses a damaged file or one of another shape."""
        from se_rl.rl.policy_file import load_weights

        load_weights(
            Path(path), self.policy, {"state_dim": self.state_dim, "action_dim": self.action_dim}
        )

    def _advantages(self, rewards: Tensor, values: Tensor, done: Tensor) -> Tensor:
        """GAE over a stream of episodes; a stream cut off in mid-episode goes on with the last state's own value."""
        goes_on = (~done).to(values.dtype)
        following = torch.cat([values[1:], values[-1:]]) * goes_on
        delta = rewards + self.config.gamma * following - values
        result, running = torch.empty_like(delta), torch.zeros(())
        for t in range(len(delta) - 1, -1, -1):
            running = delta[t] + self.config.gamma * self.config.gae_lambda * goes_on[t] * running
            result[t] = running
        return result

    @torch.no_grad()
    def _first_ratio(self, batch: Batch) -> float:
        """How far the probability ratio is from 1 before anything was learned: 0, or something is wrong."""
        samples = torch.arange(len(batch.columns))
        mean, _, _ = self.policy(batch.windows(samples))
        now = self.policy.log_prob(mean, batch.columns[:, : self.action_dim])
        return float((torch.exp(now - batch.columns[:, self.action_dim]) - 1.0).abs().max())

    def _state(self, state: npt.ArrayLike) -> Tensor:
        row = torch.as_tensor(np.asarray(state, np.float32).reshape(-1))
        if row.shape != (self.state_dim,):
            raise ValueError(f"state has shape {tuple(row.shape)}, expected ({self.state_dim},)")
        if not bool(torch.isfinite(row).all()):
            raise ValueError("state is not finite; give numbers that the agent can learn from")
        return row


class _TwoNetworks(Policy):
    """A policy whose value comes from a network of its own."""

    def __init__(self, state_dim: int, action_dim: int, *, exploration: float) -> None:
        super().__init__(Modules(), observation_size=state_dim, actions=action_dim)
        with torch.no_grad():
            self.log_std.fill_(float(np.log(exploration)))
        self.critic, self.critic_head = Network(state_dim, 1), nn.Linear(64, 1)

    def forward(self, window: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As any policy: means, values, features."""
        mean, _, features = super().forward(window)
        return mean, self.critic_head(self.critic(window))[:, 0], features

    def groups(self, config: PPOConfig) -> list[tuple[float, list[nn.Parameter]]]:
        """Learning rates and the parameters that follow them: the actor's, the critic's."""
        critic = [*self.critic.parameters(), *self.critic_head.parameters()]
        known = set(map(id, critic))
        return [
            (config.actor_lr, [p for p in self.parameters() if id(p) not in known]),
            (config.critic_lr, critic),
        ]
