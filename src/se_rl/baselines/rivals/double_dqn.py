"""Double DQN for execution, after Ning, Lin and Jaimungal (2018, arXiv 1812.06600).

From the paper: a fully connected network for Q, experience replay, double Q-learning (the network
chooses the next action, a slower copy judges it), exploration that falls, shortfall as the reward
with a price on the square of what is traded, and orders that must end.

Decided here: the paper's action is a number of shares and an input of the network; ours are
multiples of the neutral schedule's slice (and ticks from its limit, where orders have prices), each
with an output of its own, as differences from a common value. Replay is prioritised and returns
reach over up to three steps, because what an action earns shows late; they end before the next
choice that was explored. Exploration draws choices evenly. Rewards are divided by the spread of the
first batch's totals. The target follows by a small share at every step instead of a copy now and
then. Without discount.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

import torch
from torch import Tensor
from torch.nn import functional

from se_rl.baselines.rivals.choices import ChoiceNetwork, Decision
from se_rl.baselines.rivals.learning import OUR_RULES, RivalRules, RivalTraining
from se_rl.baselines.rivals.replay import PrioritisedReplay, TargetNetwork, Transitions, n_step
from se_rl.environments.worlds import NamedWorlds
from se_rl.rl.policy import Neutral
from se_rl.rl.ppo import LEAST_RATE
from se_rl.rl.rollout import Diverged
from se_rl.rl.threads import one_thread
from se_rl.rl.trainer import Trained

STEPS = 3
"""Steps over which rewards are summed before the network's own estimate stands for the rest."""
CAPACITY = 1 << 17
MINIBATCH = 1024
PASSES = 5 / 3
"""Full passes of a transition that is learned from once: its next state goes forward through both
networks."""
LEARNING_RATE = 2e-3
TARGET_RATE = 0.05
EXPLORING = 0.3
"""The share of the budget in which exploration falls from 1 to its end."""
LEAST_EXPLORED = 0.05


class QNetwork(ChoiceNetwork):
    """Scores are Q-values but for what all choices have in common; the best one is taken."""

    explores = 0.0

    def forward(self, window: Tensor) -> Tensor:
        """The best choice."""
        return self.choices.taken(self.scored(window)[0].argmax(1))

    def values(self, window: Tensor) -> Tensor:
        """Q(s, a) = V(s) + A(s, a) - mean of A(s, .) [B, choice]."""
        scores, value = self.scored(window)
        return value[:, None] + scores - scores.mean(1, keepdim=True)

    def decide(self, window: Tensor, generator: torch.Generator, last: Tensor | None) -> Decision:
        """The best choice or, in a share `explores` of the rows, any."""
        values = self.values(window)
        best = values.argmax(1)
        other = torch.randint(len(self.choices), best.shape, generator=generator)
        explored = torch.rand(best.shape, generator=generator) < self.explores
        choice = torch.where(explored, other, best)
        value = values.gather(1, choice[:, None])[:, 0]
        drawn = torch.stack([choice, explored.long()], 1).float()
        unknown = torch.zeros_like(value)  # nothing is learned from how likely a choice was
        return Decision(drawn, self.choices.taken(choice), unknown, value)


def train(
    worlds: NamedWorlds,
    *,
    budget: float,
    seed: int,
    neutral: Mapping[str, Neutral],
    rules: RivalRules = OUR_RULES,
) -> Trained:
    """Train once."""
    training = RivalTraining(
        QNetwork, worlds, budget=budget, seed=seed, neutral=neutral, rules=rules
    )
    network = training.policy.network
    assert isinstance(network, QNetwork)
    learner = _Learner(network, training)
    try:
        with one_thread():
            while training.left > 0.0:
                network.explores = max(LEAST_EXPLORED, 1.0 - (1.0 - training.left) / EXPLORING)
                learner.round()
    except Diverged as error:
        return training.trained(str(error))
    return training.trained()


class _Learner:
    """The network, its target, its memory, and its optimiser."""

    def __init__(self, network: QNetwork, training: RivalTraining) -> None:
        self.network = network
        self.training = training
        self.rules = training.rules
        self.target = TargetNetwork(network, deepcopy(network), rate=TARGET_RATE)
        self.replay = PrioritisedReplay(CAPACITY, training.policy.observation_size)
        self.optimiser = torch.optim.Adam(network.parameters(), LEARNING_RATE)
        self._scale = 0.0

    def round(self) -> None:
        """Play a batch, keep it, and learn from as much as was played."""
        training = self.training
        rollout = training.play(*training.sampler.draw(), passes=self.rules.reuse * PASSES)
        rewards = training.rewards(rollout)[:, rollout.kept]
        if not rewards.numel():
            raise Diverged("every market of a batch broke")
        if self._scale == 0.0:
            self._scale = float(rewards.sum(0).std()) or 1.0
        seen = rollout.observations[:, rollout.kept]
        choice, explored = rollout.outputs[:, rollout.kept].long().unbind(2)
        scaled = rewards / self._scale
        live = None if rollout.live is None else rollout.live[:, rollout.kept]
        new = n_step(seen, choice, scaled, explored.bool(), live=live, steps=STEPS)
        self.replay.add(new)
        for group in self.optimiser.param_groups:
            group["lr"] = LEARNING_RATE * max(training.left, LEAST_RATE)
        for _ in range(max(1, self.rules.reuse * len(new) // MINIBATCH)):
            self._step()

    def _step(self) -> None:
        """One step towards the double estimate, and of the target towards the network."""
        places, batch, weight = self.replay.draw(MINIBATCH, self.training.generator)
        values = self.network.values(batch.seen[:, None])
        estimate = values.gather(1, batch.choice[:, None])[:, 0]
        error = estimate - self._aims(batch)
        loss = weight * functional.smooth_l1_loss(error, torch.zeros_like(error), reduction="none")
        mean = loss.mean()
        if not bool(torch.isfinite(mean)):
            raise Diverged("loss is not finite")
        self.optimiser.zero_grad()
        mean.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.rules.ppo.gradient_norm)
        self.optimiser.step()
        self.replay.note(places, error.detach())
        self.target.follow()

    @torch.no_grad()
    def _aims(self, batch: Transitions) -> Tensor:
        """R + Q_target(s', argmax_a Q(s', a))."""
        later = batch.later[:, None]
        best = self.network.values(later).argmax(1, keepdim=True)
        judge = self.target.copy
        assert isinstance(judge, QNetwork)
        return batch.returned + batch.discount * judge.values(later).gather(1, best)[:, 0]
