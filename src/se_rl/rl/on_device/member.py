"""One of many trainings that are run together: what is its own, on the host."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from se_rl.environments.worlds import Episodes, World
from se_rl.rl.held_back import PairGains
from se_rl.rl.imitation import imitate
from se_rl.rl.on_device.device_rollout import Draw
from se_rl.rl.ppo import UpdateStats
from se_rl.rl.rollout import Diverged
from se_rl.rl.threads import one_thread
from se_rl.rl.trained import Trained
from se_rl.rl.trainer import Training
from se_rl.rl.training_curve import UpdateRow
from se_rl.rl.work import row_work


class Member(Training):
    """A training whose draws, work, phases and balance are those of `Training`; others play and
    update for it."""

    reason: str | None = None
    phase = ""
    _phases: Iterator[str] | None = None

    def begin(self) -> bool:
        """Enter the next update; False where the training is over."""
        if self._phases is None:
            with one_thread():
                self.work += imitate(
                    self.learner, self.worlds, budget=self.config.budget, seed=self.seed
                )
            self._phases = self.phases_of_budget()
        phase = next(self._phases, None)
        if phase is None:
            return False
        self.phase = phase
        self._anneal()
        self._rewards: dict[str, float] = {}
        return True

    @property
    def weights(self) -> Mapping[str, float]:
        """The worlds of the update and the weights of their losses."""
        return self._weights(self.phase)

    def draw(self, name: str) -> Draw:
        """Fresh episodes of a world."""
        return Draw(*self.worlds[name].draw())

    def with_noise(self, name: str, draw: Draw) -> Draw:
        """The same with fresh noise for their actions."""
        policy = self.learner.policy
        noise = policy.draw_noise(
            draw.world.horizon,
            self.learner.action_map.outputs(draw.world.takes_price),
            len(draw.episodes),
            generator=self.worlds[name].generator,
            place=policy.place(name),
        )
        return replace(draw, noise=noise.detach())

    def note_batch(self, name: str, reward: float | Diverged, *, orders: int, steps: int) -> None:
        """Take note of a batch of so many orders that was played, and of its mean reward."""
        if isinstance(reward, Diverged):
            raise reward
        if self._row_work == 0.0:  # these networks cost the same whatever they see
            policy = self.learner.policy
            seen = torch.zeros((orders, policy.history, policy.observation_size))
            self._row_work = row_work(policy, seen)
        self.work += orders * steps * self._step_work(name)
        self._rewards[name] = reward

    def settle(self, stats: UpdateStats | Diverged) -> None:
        """Take note of what an update came to."""
        if isinstance(stats, Diverged):
            raise stats
        self._settle(self._rewards, stats)
        self._stats = stats

    def plays_to_judge(self) -> Sequence[tuple[str, World, Episodes]]:
        """Held-back orders to play now, mostly none."""
        return self.judge.plays(self._judging_cost()) if self.judge.due(self.work) else ()

    def end(self, gains: Sequence[PairGains]) -> UpdateRow:
        """End the update with what was gained on held-back orders, where any were played."""
        judged = math.nan
        if gains:
            judged, work = self.judge.keep(self.learner.policy, gains, self._judging_cost())
            self.work += work
        return self._note(self.phase, self._rewards, self._stats, judged)

    def fail(self, error: Diverged) -> None:
        """End the training early."""
        self.reason = f"diverged after {len(self.curve)} updates: {error}"

    def result(self) -> Trained:
        """What came of it."""
        if self.reason is None:
            self.judge.keep_best(self.learner.policy)
        return self._trained(self.reason)
