"""The one trainer, the inner loop of Algorithm 1: a learner and one or two worlds in, a policy out.

    1 train in the static world     2 train in the dynamic world
    3 joint phase on L = alpha * L_static + beta * L_dynamic

The same weights go through all phases. Every number drawn comes from `seed`, so the same seed gives
the same weights, bit for bit on one device; the budget counts work (se_rl.rl.work), so a busy
machine changes nothing but the wall clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Self

import numpy as np
from torch import Tensor

from se_rl.environments.worlds import World, several
from se_rl.modules.defaults import Modules
from se_rl.rl.batch import Batch
from se_rl.rl.held_back import Judge
from se_rl.rl.imitation import imitate
from se_rl.rl.learner import OWN_SEEDS, Learner, TrainConfig, check_world_names, most_agents
from se_rl.rl.path_advantages import path_advantages
from se_rl.rl.policy import Neutral, Policy
from se_rl.rl.ppo import UpdateStats
from se_rl.rl.rebalance import EVERY, Balance
from se_rl.rl.rollout import Diverged, Rollout
from se_rl.rl.threads import one_thread
from se_rl.rl.trained import Trained
from se_rl.rl.training_curve import UpdateRow
from se_rl.rl.work import batch_overhead, row_work, work_of_step, work_place
from se_rl.rl.world_sampler import WorldSampler

__all__ = ["PHASES", "TrainConfig", "Trained", "Training", "train"]

PHASES = ("static", "dynamic", "joint")
COUNTED_STEPS = 2
"""Steps of each batch on which a policy's operations are counted."""
COUNTING = 0x636F756E74
"""Makes a stream of its own from a training's seed, which chooses these steps."""
COLLAPSED_STD = 1e-3
"""Noise below this is no exploration any more: the policy has collapsed to one action."""

Progress = Callable[[UpdateRow], None]
"""Called after every update."""


def silent(row: UpdateRow) -> None:
    """Show nothing."""


class Training:
    """One training of one learner: `run` until the budget is spent, or `learn` phase by phase."""

    def __init__(
        self,
        learner: Learner,
        worlds: Mapping[str, World | tuple[World, ...]],
        config: TrainConfig,
        *,
        seed: int = 0,
        neutral: Mapping[str, Neutral] | None = None,
        held_back: Mapping[str, Sequence[World]] | None = None,
    ) -> None:
        check_world_names(worlds)
        places = several(worlds)
        self.learner = learner
        self.config = config
        self.seed = seed
        self.neutral = dict(neutral or {})
        self.worlds = self._samplers(places)
        self.balance = Balance(config.initial_alpha)
        self.work = 0.0
        self._row_work = 0.0
        self._counted = np.random.default_rng([seed, COUNTING])
        self.curve: list[UpdateRow] = []
        self._joint_steps = 0
        self.judge = Judge(
            held_back or {}, budget=config.budget, neutral=self.neutral, risk=config.risk, seed=seed
        )

    @classmethod
    def of_design(
        cls,
        modules: Modules,
        worlds: Mapping[str, World | tuple[World, ...]],
        config: TrainConfig,
        *,
        seed: int = 0,
        neutral: Mapping[str, Neutral] | None = None,
        held_back: Mapping[str, Sequence[World]] | None = None,
    ) -> Self:
        """The training of a design from fresh weights."""
        learner = Learner.of_design(modules, worlds, config, seed=seed)
        return cls(learner, worlds, config, seed=seed, neutral=neutral, held_back=held_back)

    def run(self, *, progress: Progress = silent) -> Trained:
        """Spend the budget; a training that cannot go on ends with its reason."""
        reason = None
        try:
            with one_thread():
                self.work += imitate(
                    self.learner, self.worlds, budget=self.config.budget, seed=self.seed
                )
            self.learn(self.phases_of_budget(), progress=progress)
            self.judge.keep_best(self.learner.policy)
        except Diverged as error:
            reason = f"diverged after {len(self.curve)} updates: {error}"
        return self._trained(reason)

    def _trained(self, reason: str | None) -> Trained:
        """What has come of it."""
        return Trained(
            policy=self.learner.policy,
            action_map=self.learner.action_map,
            neutral=self.neutral,
            curve=tuple(self.curve),
            work=self.work,
            reason=reason,
            seed=self.seed,
        )

    def learn(self, phases: Iterable[str], *, progress: Progress = silent) -> list[UpdateRow]:
        """One update for each phase named; raises Diverged where training cannot go on."""
        first = len(self.curve)
        with one_thread():
            for phase in phases:
                progress(self.iterate(phase))
        return self.curve[first:]

    def phases_of_budget(self) -> Iterator[str]:
        """The phase of the next update, until the budget is spent; with one world there is one."""
        budget = self.config.budget
        ends = [(next(iter(self.worlds)), budget)]
        if len(self.worlds) > 1:
            phases = self.learner.phases
            shares = np.cumsum(phases) / sum(phases)
            ends = list(zip(PHASES, (shares * budget).tolist(), strict=True))
        for phase, until in ends:
            while self.work < until:
                yield phase

    def phases_of_updates(self, updates: int) -> Iterator[str]:
        """The same for a number of updates: shares rounded down, the rest in the joint phase."""
        static, dynamic, _ = self.learner.phases
        in_static = int(static * updates)
        in_dynamic = int(dynamic * updates)
        yield from repeat("static", in_static)
        yield from repeat("dynamic", in_dynamic)
        yield from repeat("joint", updates - in_static - in_dynamic)

    def iterate(self, phase: str) -> UpdateRow:
        """One batch from each world of the phase, one update on all of them."""
        self._anneal()
        batches = []
        rewards = {}
        for name, weight in self._weights(phase).items():
            batch, rewards[name] = self._batch(name, weight)
            batches.append(batch)
        stats = self.learner.ppo.update(batches)
        self._settle(rewards, stats)
        return self._note(phase, rewards, stats, self._judge())

    def _anneal(self) -> None:
        """Fit the update to what is left of the budget."""
        left = 1.0 - self.work / self.config.budget if self.config.anneal else 1.0
        self.learner.ppo.anneal(left)

    def _note(
        self, phase: str, rewards: Mapping[str, float], stats: UpdateStats, judged: float
    ) -> UpdateRow:
        """Write the update into the curve."""
        balance = self.balance
        row = UpdateRow(phase, rewards, stats, self.work, balance.alpha, balance.beta, judged)
        self.curve.append(row)
        return row

    def _weights(self, phase: str) -> dict[str, float]:
        """The worlds of a phase and the weights of their losses."""
        if phase != "joint":
            return {phase: 1.0}
        if len(self.worlds) == 1:
            return dict.fromkeys(self.worlds, 1.0)
        return {"static": self.balance.alpha, "dynamic": self.balance.beta}

    def _settle(self, rewards: Mapping[str, float], stats: UpdateStats) -> None:
        """After an update: for every ten joint steps, alpha moves to the static share of the loss."""
        if float(self.learner.policy.log_std.detach().max()) < np.log(COLLAPSED_STD):
            raise Diverged("exploration collapsed to a single action")
        if len(rewards) == 1:
            return
        losses = dict(zip(rewards, stats.losses, strict=True))
        before = self._joint_steps // EVERY
        self._joint_steps += round(stats.steps)
        for _ in range(self._joint_steps // EVERY - before):
            self.balance = self.balance.moved(losses["static"], losses["dynamic"])

    def _batch(self, name: str, weight: float) -> tuple[Batch, float]:
        """Play a batch and estimate its advantages; also the mean reward of an order."""
        policy = self.learner.policy
        rollout = self.worlds[name].play(policy, self.learner.action_map, place=policy.place(name))
        self._count_row(rollout, policy)
        learner, sampler = self.learner, self.worlds[name]
        self.work += rollout.values.numel() * self._step_work(name)
        rewards = rollout.rewards(learner.reward, bound=learner.reward_bound)  # [step, order]
        lam = learner.gae_lambda[name]
        found = sampler.estimates(rollout, rewards, gamma=learner.gamma, lam=lam)
        by_path = self._path_advantages(rollout, discount=learner.gamma * lam)
        advantages = found.advantages if by_path is None else by_path
        batch = Batch.of(
            rollout, advantages, policy=learner.policy, returns=found.returns, weight=weight
        )
        totals = rewards[:, rollout.kept].sum(0)
        return batch, float(totals.mean())

    def _path_advantages(self, rollout: Rollout, *, discount: float) -> Tensor | None:
        """Advantages by the reward's derivative, where nothing but our own inventory follows."""
        if rollout.noise is None:
            return None
        reward, names = self.learner.reward, rollout.field_names
        return path_advantages(rollout.fields, names, reward, rollout.noise, discount=discount)

    def _count_row(self, rollout: Rollout, policy: Policy) -> None:
        """Count a row's work on what the policy met in steps that are drawn anew each time."""
        for step in self._counted.integers(len(rollout.values), size=COUNTED_STEPS):
            windows = rollout.windows_at(int(step), history=policy.history)
            self._row_work = max(self._row_work, row_work(policy, windows))

    def _step_work(self, name: str) -> float:
        """Work of an order step, by the dearest rows that the policy has been asked about so far."""
        epochs, talks = self.learner.ppo.epochs, self.learner.policy.message_size > 0
        where = work_place(self.worlds[name].worlds[0].name, name)
        cost = work_of_step(where, row=self._row_work, epochs=epochs, talks=talks)
        return cost * batch_overhead(self.learner.batch)

    def _judge(self) -> float:
        """Play the held-back orders if it is time to; the score, or NaN."""
        if not self.judge.due(self.work):
            return math.nan
        learner = self.learner
        score, work = self.judge.mark(learner.policy, learner.action_map, self._judging_cost())
        self.work += work
        return score

    def _judging_cost(self) -> dict[str, float]:
        """Work of one held-back order step, by world."""
        cost = {}
        for name in self.judge.worlds:
            cost[name] = work_of_step(name, row=self._row_work, epochs=0, talks=False)
        return cost

    def _samplers(self, worlds: Mapping[str, tuple[World, ...]]) -> dict[str, WorldSampler]:
        """The static world first, each with a random stream of its own."""
        agents = most_agents(worlds)
        streams = np.random.SeedSequence(self.seed).spawn(OWN_SEEDS + len(worlds))[OWN_SEEDS:]
        samplers = {}
        for name, stream in zip(sorted(worlds, reverse=True), streams, strict=True):
            samplers[name] = WorldSampler(
                worlds[name],
                self.neutral.get(name, Neutral()),
                samples=round(self.learner.batch * self.config.samples),
                agents=agents,
                seed=stream,
                copies=self.config.copies_in(name),
            )
        return samplers


def train(
    modules: Modules,
    worlds: Mapping[str, World | tuple[World, ...]],
    config: TrainConfig | None = None,
    *,
    seed: int = 0,
    neutral: Mapping[str, Neutral] | None = None,
    held_back: Mapping[str, Sequence[World]] | None = None,
    progress: Progress = silent,
) -> Trained:
    """Train a design in worlds called "static", "dynamic" or both, of one horizon or several.

    `neutral` says what an output of 0 means in each; the best weights on orders of the `held_back`
    worlds are kept.
    """
    training = Training.of_design(
        modules, worlds, config or TrainConfig(), seed=seed, neutral=neutral, held_back=held_back
    )
    return training.run(progress=progress)
