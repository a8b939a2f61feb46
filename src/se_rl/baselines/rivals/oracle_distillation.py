"""OPD, oracle policy distillation, after Fang et al. (2021, arXiv 2103.10860), as in qlib's OPDS.

From the paper: a teacher that sees the prices still to come is trained first, by PPO; the student,
which sees what can be known, is trained by PPO on its own orders and pulled towards the choice that
the teacher would have made in its place, by the negative log-likelihood. One policy for all
symbols, discrete choices, the price of haste in the reward.

Decided here: the paper's shares of the whole order (quarters of it, in eight steps) become multiples
of the neutral slice, as for every rival. What the teacher sees: the price 1 to 16 steps ahead, and
the mean, best and worst of all to come, out of the path without our order. It has a quarter of
the budget, and what shows it the future counts. The pull falls to 0 as the budget is spent: a teacher
that knows what the student cannot see is a guide at the start and a liar at the end. In use the
mean of the chosen multiples is traded. The default design's layers instead of the paper's recurrent
ones, whose past our observation already holds.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from se_rl.baselines.rivals.choices import ChoiceNetwork
from se_rl.baselines.rivals.learning import (
    EPOCHS,
    OUR_RULES,
    ClippedUpdate,
    RivalRules,
    RivalTraining,
    train_by_ppo,
)
from se_rl.baselines.rivals.play import FUTURE_SIZE, future_of, path_of, path_without_us
from se_rl.environments.worlds import NamedWorlds
from se_rl.rl.policy import Neutral
from se_rl.rl.rollout import Diverged, Rollout
from se_rl.rl.threads import one_thread
from se_rl.rl.trainer import Trained
from se_rl.rl.work import work_of_step

TEACHER_SHARE = 0.25


class Oracle:
    """A policy that sees the prices still to come."""

    def __init__(
        self,
        worlds: NamedWorlds,
        *,
        budget: float,
        seed: int,
        neutral: Mapping[str, Neutral],
        rules: RivalRules = OUR_RULES,
    ) -> None:
        self.training = RivalTraining(
            ChoiceNetwork,
            worlds,
            budget=budget,
            seed=seed,
            neutral=neutral,
            rules=rules,
            sees=FUTURE_SIZE,
        )
        self.scale = 0.0

    def train(self) -> None:
        """Spend the budget."""
        training = self.training
        update = ClippedUpdate(training)
        look = work_of_step(training.where, row=0.0, epochs=0, talks=False)
        while training.left > 0.0:
            world, episodes = training.sampler.draw()
            path = path_without_us(world, episodes)
            training.work += look * path.numel()
            if self.scale == 0.0:
                self.scale = float((path[-1] - path[0]).std()) or 1.0
            future = future_of(path, self.scale)
            rollout = training.play(world, episodes, passes=EPOCHS, future=future)
            update.learn(rollout, left=training.left)

    @torch.no_grad()
    def lessons(self, rollout: Rollout) -> torch.Tensor:
        """The choice it would have made in every step of a student's rollout [step, order]."""
        network = self.training.policy.network
        assert isinstance(network, ChoiceNetwork)
        future = future_of(path_of(rollout), self.scale)
        seen = torch.cat([rollout.observations, future], 2)
        scores = network.scored(seen.flatten(0, 1)[:, None])[0]
        return scores.argmax(1).view(rollout.values.shape).float()


def train(
    worlds: NamedWorlds,
    *,
    budget: float,
    seed: int,
    neutral: Mapping[str, Neutral],
    rules: RivalRules = OUR_RULES,
) -> Trained:
    """Train the teacher, then the student, once."""
    share = TEACHER_SHARE * budget
    teacher = Oracle(worlds, budget=share, seed=seed, neutral=neutral, rules=rules)
    student = RivalTraining(
        ChoiceNetwork, worlds, budget=budget, seed=seed, neutral=neutral, rules=rules
    )
    try:
        with one_thread():
            teacher.train()
    except Diverged as error:
        return student.trained(f"the teacher: {error}")
    student.work = teacher.training.work
    return train_by_ppo(student, teacher)
