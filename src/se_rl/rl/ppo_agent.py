"""`PPOAgent`: one agent, one transition at a time, for loops of your own.

Its policy, advantages and update are the trainer's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from se_rl.modules.defaults import Modules, TwoLayers
from se_rl.rl.advantages import stream_advantages
from se_rl.rl.batch import Batch
from se_rl.rl.learner import Learner
from se_rl.rl.policy import WORLD_NAMES, ActionMap, Neutral, Policy
from se_rl.rl.ppo import PPO, PPOSettings
from se_rl.rl.rollout import Rollout

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


@dataclass(frozen=True)
class _Transition:
    """One stored step."""

    state: Tensor
    action: Tensor
    reward: float
    done: bool


class PPOAgent:
    """Actions in [0, 1] by a Gaussian on their log-odds.

    Actor and critic have networks and learning rates of their own. Call `select_action` and
    `store_transition`, and `update` after one or more episodes.
    """

    def __init__(self, state_dim: int, action_dim: int, config: PPOConfig | None = None) -> None:
        if state_dim < 1 or action_dim < 1:
            raise ValueError(
                f"state_dim {state_dim} or action_dim {action_dim} is too small; "
                "use 1 or more of both"
            )
        self.state_dim = state_dim
        self.action_dim = action_dim
        self.config = config or PPOConfig()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            self.policy = _ActorCritic(state_dim, action_dim, exploration=self.config.exploration)
        self._generator = torch.Generator().manual_seed(self.config.seed)
        self._ppo = PPO(
            self.policy,
            learning_rate=self.config.actor_lr,
            epochs=self.config.ppo_epochs,
            entropy_bonus=self.config.entropy_bonus,
            # rewards come in any unit, so a clip of values in fixed units would only slow them
            settings=PPOSettings(
                minibatches=self.config.minibatches,
                clip=self.config.clip_epsilon,
                kl_stop=self.config.kl_stop,
                value_clip=0.0,
            ),
            generator=self._generator,
            groups=self.policy.groups(self.config),
        )
        self._transitions: list[_Transition] = []

    @torch.no_grad()
    def select_action(
        self, state: npt.ArrayLike, *, deterministic: bool = False
    ) -> tuple[npt.NDArray[np.float32], float, float]:
        """An action in [0, 1]^action_dim, its log density, and the state's value."""
        mean, value, _ = self.policy(self._state(state)[None, None])
        noise = torch.randn(mean.shape, generator=self._generator) * torch.exp(self.policy.log_std)
        action = torch.sigmoid(mean if deterministic else mean + noise).clamp(EDGE, 1.0 - EDGE)
        outputs = torch.logit(action)
        # the density of a = sigmoid(x) is that of x over da/dx = a (1 - a)
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
        """Keep one step.

        Log-prob and value are computed again at the update, by the same weights, for exactness.
        """
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
        self._transitions.append(_Transition(self._state(state), taken, float(reward), bool(done)))

    def update(self) -> dict[str, float]:
        """Learn from what was stored since the last update, and forget it; returns what it did."""
        if not self._transitions:
            raise ValueError("nothing was stored; call store_transition() before update()")
        steps = self._transitions
        self._transitions = []
        batch = self._batch(steps)
        first_ratio_error = self._first_ratio_error(batch)
        stats = self._ppo.update([batch]).as_dict()
        mean_reward = float(np.mean([step.reward for step in steps]))
        return stats | {"first_ratio_error": first_ratio_error, "mean_reward": mean_reward}

    def learner(self) -> Learner:
        """This agent for the trainer, in worlds whose one reward field is `reward`."""
        return Learner(
            policy=self.policy,
            ppo=self._ppo,
            action_map=UnitActions(),
            reward=own_reward,
            gamma=self.config.gamma,
            gae_lambda=dict.fromkeys(WORLD_NAMES, self.config.gae_lambda),
            reward_bound=float("inf"),
        )

    def save(self, path: str | Path) -> None:
        """Write the weights (safetensors) and what they belong to (JSON), never half of them."""
        from se_rl.rl.policy_file import save_weights

        save_weights(Path(path), self.policy, self._facts())

    def load(self, path: str | Path) -> None:
        """Read weights that `save` wrote; refuses a damaged file or one of another shape."""
        from se_rl.rl.policy_file import load_weights

        load_weights(Path(path), self.policy, self._facts())

    def _facts(self) -> Mapping[str, int]:
        return {"state_dim": self.state_dim, "action_dim": self.action_dim}

    def _batch(self, steps: list[_Transition]) -> Batch:
        """The stored steps as samples: a rollout of one order, whose episodes follow each other."""
        observations = torch.stack([step.state for step in steps])[:, None]
        actions = torch.stack([step.action for step in steps])
        rewards = torch.tensor([step.reward for step in steps])
        done = torch.tensor([step.done for step in steps])
        outputs = torch.logit(actions.clamp(EDGE, 1.0 - EDGE))[:, None]
        with torch.no_grad():
            mean, values, _ = self.policy(observations)
            log_probs = self.policy.log_prob(mean, outputs[:, 0])
        estimates = stream_advantages(
            rewards, values, done, gamma=self.config.gamma, lam=self.config.gae_lambda
        )
        # few transitions are copied side by side, so that no minibatch is empty
        copies = -(-max(2, self.config.minibatches) // len(steps))

        def copied(column: Tensor) -> Tensor:
            return column.repeat_interleave(copies, dim=1)

        rollout = Rollout(
            observations=copied(observations),
            outputs=copied(outputs),
            log_probs=copied(log_probs[:, None]),
            values=copied(values[:, None]),
            fields=torch.zeros((0, len(steps), copies)),
            field_names=(),
            kept=torch.ones(copies, dtype=torch.bool),
        )
        return Batch.of(rollout, copied(estimates[:, None]), policy=self.policy)

    @torch.no_grad()
    def _first_ratio_error(self, batch: Batch) -> float:
        """How far the probability ratio is from 1 before anything is learned: 0, or a bug."""
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


class UnitActions(ActionMap):
    """The agent's actions in [0, 1], whatever the step: the ratio itself, and the price's place.

    A price action of 0 is the aggressive end (-1) of the environment's range, 1 the passive end.
    """

    def ratio(self, output: Tensor, *, steps_left: int, neutral: Neutral) -> Tensor:
        """Share of the remaining inventory."""
        return torch.sigmoid(output)

    def offset(self, output: Tensor, *, neutral: Neutral) -> Tensor:
        """The limit's place in the environment's price range, from -1 to 1."""
        return 2.0 * torch.sigmoid(output) - 1.0


def own_reward(step: Any) -> Tensor:
    """The world's own reward."""
    return step.reward


class _ActorCritic(Policy):
    """A policy whose value comes from a network of its own."""

    def __init__(self, state_dim: int, action_dim: int, *, exploration: float) -> None:
        super().__init__(Modules(), observation_size=state_dim, actions=action_dim)
        with torch.no_grad():
            self.log_std.fill_(float(np.log(exploration)))
        self.critic = TwoLayers(state_dim, 1)
        self.critic_head = nn.Linear(64, 1)

    def answer(self, window: Tensor, place: int) -> tuple[Tensor, Tensor]:
        """As any policy: means and values, features."""
        outputs, features = super().answer(window, place)
        value = self.critic_head(self.critic(window))
        return torch.cat([outputs[:-1], value.t()]), features

    def groups(self, config: PPOConfig) -> list[tuple[float, list[nn.Parameter]]]:
        """Learning rates and the parameters that follow them: the actor's, the critic's."""
        critic = [*self.critic.parameters(), *self.critic_head.parameters()]
        known = {id(parameter) for parameter in critic}
        actor = [p for p in self.parameters() if id(p) not in known]
        return [(config.actor_lr, actor), (config.critic_lr, critic)]
