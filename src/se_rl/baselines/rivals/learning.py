"""What all rivals share in training: the reward, the batches, the budget, and the update by PPO.

A rival is trained on history or in simulated markets, at one horizon or several, from the same
orders, costs and work units as a design.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from se_rl.baselines.rivals.choices import ACTION_MAP, RivalNetwork, rival_policy
from se_rl.baselines.rivals.play import play
from se_rl.environments.worlds import Episodes, NamedWorlds, World, several
from se_rl.modules.contracts import LIMITS, NETWORK_CONSTANTS
from se_rl.modules.defaults import Reward, gain_over_twap
from se_rl.rl.batch import Batch
from se_rl.rl.policy import ActionMap, Neutral
from se_rl.rl.ppo import LEAST_RATE
from se_rl.rl.rollout import Diverged, Rollout
from se_rl.rl.surrogate import PPOSettings
from se_rl.rl.threads import one_thread
from se_rl.rl.trainer import TrainConfig, Trained
from se_rl.rl.work import batch_overhead, row_work, work_of_step, work_place
from se_rl.rl.world_sampler import WorldSampler

SAMPLES = 8192
"""Order steps of a batch, about."""
PENALTY = 4e-4
"""Price of a step's squared share of the order, in shares of the price: 4 bps, as qlib has it."""
LEARNING_RATE = 1e-3
EPOCHS = 4
ENTROPY_BONUS = 0.003
LESSON = 1 / 3
"""A teacher's pass over a rollout: forward alone."""
DISTILLATION = 1.0
"""Weight of a teacher's lessons at the beginning of a training; it falls to 0 at the end."""


def reward(step: Any) -> Tensor:
    """What a step earned beyond TWAP on the same episode, less the square of the share traded.

    Papers reward the shortfall, or the price against the window's mean: over an order the same,
    but for noise that no action changes. The square is the price of haste in DDQN's and OPD's.
    """
    return gain_over_twap(step) - PENALTY * step.traded_share.square()


@dataclass(frozen=True)
class RivalRules:
    """What a market may have of its own; in ours nothing.

    The reward, what outputs mean, the order steps of a batch with what they cost against a usual
    one, the update by PPO, and how often DDQN learns from a step.
    """

    reward: Reward = reward
    action_map: ActionMap = ACTION_MAP
    samples: int = SAMPLES
    overhead: float = batch_overhead(SAMPLES / TrainConfig().samples)
    ppo: PPOSettings = field(default_factory=PPOSettings)
    reuse: int = 3


OUR_RULES = RivalRules()


class Teacher(Protocol):
    """Knows what should have been done."""

    def lessons(self, rollout: Rollout) -> Tensor:
        """The choice it would have made in every step of a rollout [step, order]."""
        ...


class RivalTraining:
    """One rival's training in worlds of one kind: batches to learn from, and the work spent."""

    def __init__(
        self,
        network: type[RivalNetwork],
        worlds: NamedWorlds,
        *,
        budget: float,
        seed: int,
        neutral: Mapping[str, Neutral],
        rules: RivalRules = OUR_RULES,
        sees: int = 0,
    ) -> None:
        if len(worlds) != 1:
            raise ValueError(f"a rival learns in one world, {len(worlds)} are given; give one")
        [(self.where, places)] = several(worlds).items()
        first = places[0]
        self.budget = budget
        self.seed = seed
        self.all_neutral = dict(neutral)
        self.neutral = neutral.get(self.where, Neutral())
        self.rules = rules
        self.work = 0.0
        weights, draws, noise = np.random.SeedSequence(seed).spawn(3)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(weights.generate_state(1)[0]))
            self.policy = rival_policy(
                network,
                observation_size=first.observation_size + sees,
                actions=2 if first.takes_price else 1,
            )
        self.sampler = WorldSampler(
            places, self.neutral, samples=rules.samples, agents=first.agents, seed=draws
        )
        self.generator = torch.Generator().manual_seed(int(noise.generate_state(1)[0]))
        self._row_work = 0.0

    @property
    def left(self) -> float:
        """The share of the budget that is not spent."""
        return max(0.0, 1.0 - self.work / self.budget)

    def play(
        self, world: World, episodes: Episodes, *, passes: float, future: Tensor | None = None
    ) -> Rollout:
        """Play episodes that the sampler drew; every step will be learned from `passes` times."""
        rollout = play(
            world,
            self.policy,
            episodes,
            action_map=self.rules.action_map,
            neutral=self.neutral,
            generator=self.generator,
            future=future,
        )
        if self._row_work == 0.0:
            windows = rollout.windows_at(0, history=self.policy.history)
            self._row_work = row_work(self.policy, windows)
        place = work_place(world.name, self.where)
        cost = work_of_step(place, row=self._row_work, epochs=0, talks=False)
        cost += passes * self._row_work
        self.work += rollout.values.numel() * cost * self.rules.overhead
        return rollout

    def rewards(self, rollout: Rollout) -> Tensor:
        """The reward of every step [step, order]."""
        return rollout.rewards(self.rules.reward, bound=LIMITS.reward_magnitude)

    def trained(self, reason: str | None = None) -> Trained:
        """The policy as it is now."""
        return Trained(
            policy=self.policy,
            action_map=self.rules.action_map,
            neutral=self.all_neutral,
            curve=(),
            work=self.work,
            reason=reason,
            seed=self.seed,
        )


class ClippedUpdate:
    """PPO's clipped surrogate for any network that can judge its decisions, by autograd."""

    def __init__(self, training: RivalTraining) -> None:
        self.training = training
        self.settings = training.rules.ppo
        self.optimiser = torch.optim.Adam(training.policy.network.parameters(), LEARNING_RATE)
        place = "gae_lambda" if training.where == "static" else "gae_lambda_dynamic"
        self.lam = NETWORK_CONSTANTS[place].default

    def learn(self, rollout: Rollout, *, left: float, lessons: Tensor | None = None) -> None:
        """Epochs of steps on a rollout; `left` of the training is still to come.

        `lessons` [step, order] are a teacher's choices, which the policy is pulled towards.
        """
        training = self.training
        sampler = training.sampler
        found = sampler.estimates(rollout, training.rewards(rollout), gamma=1.0, lam=self.lam)
        if lessons is not None:  # they lie beside what was drawn
            drawn = torch.cat([rollout.outputs, lessons[:, :, None]], 2)
            rollout = replace(rollout, outputs=drawn)
        batch = Batch.of(rollout, found.advantages, policy=training.policy)
        for group in self.optimiser.param_groups:
            group["lr"] = LEARNING_RATE * max(left, LEAST_RATE)
        for _ in range(EPOCHS):
            order = torch.randperm(batch.units, generator=training.generator)
            moved = 0.0
            for units in order.tensor_split(self.settings.minibatches):
                moved += self._step(batch, batch.samples(units), left=left)
            if moved / self.settings.minibatches > self.settings.kl_stop:
                break

    def _step(self, batch: Batch, samples: Tensor, *, left: float) -> float:
        """One step of the optimiser; how far the policy has moved, as a KL divergence."""
        network = self.training.policy.network
        assert isinstance(network, RivalNetwork)
        settings = self.settings
        columns = batch.columns[samples]
        before, _, advantage, returned = columns[:, -4:].unbind(1)
        judged = network.judge(batch.windows(samples), columns[:, :-4])
        log_ratio = judged.log_prob - before
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip)
        gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
        value_loss = (judged.value - returned).square().mean()
        loss = -gain + settings.value_weight * value_loss - ENTROPY_BONUS * judged.entropy.mean()
        if judged.lesson is not None:  # distillation: the likelihood of the teacher's choices
            loss = loss - DISTILLATION * left * judged.lesson.mean()
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), settings.gradient_norm)
        self.optimiser.step()
        return float((ratio - 1.0 - log_ratio).mean().detach())


class RivalTrainer(Protocol):
    """Trains a rival in one world, by our rules or others."""

    def __call__(
        self,
        worlds: NamedWorlds,
        *,
        budget: float,
        seed: int,
        neutral: Mapping[str, Neutral],
        rules: RivalRules = OUR_RULES,
    ) -> Trained:
        """Train once."""
        ...


def ppo_trainer(network: type[RivalNetwork]) -> RivalTrainer:
    """Trains such a network by PPO alone."""

    def train(worlds: NamedWorlds, **options: Any) -> Trained:
        return train_by_ppo(RivalTraining(network, worlds, **options))

    return train


def train_by_ppo(training: RivalTraining, teacher: Teacher | None = None) -> Trained:
    """Spend what is left of the budget, one batch at least; what cannot go on ends with its reason.

    A `teacher` gives lessons on every rollout, whose weight falls to 0.
    """
    update = ClippedUpdate(training)
    begun = max(training.left, 1e-9)
    passes = EPOCHS + (LESSON if teacher else 0.0)
    try:
        with one_thread():
            while True:
                rollout = training.play(*training.sampler.draw(), passes=passes)
                lessons = teacher.lessons(rollout) if teacher else None
                update.learn(rollout, left=training.left / begun, lessons=lessons)
                if training.left == 0.0:
                    break
    except Diverged as error:
        return training.trained(str(error))
    return training.trained()
