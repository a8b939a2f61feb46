"""What a training gives: a policy, and how it got there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from se_rl.rl.policy import ActionMap, Neutral, Policy, PolicyRunner
from se_rl.rl.training_curve import UpdateRow


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained policy and how it got there.

    `reason` says why training ended early (None: the budget was spent).
    """

    policy: Policy
    action_map: ActionMap
    neutral: Mapping[str, Neutral]
    curve: tuple[UpdateRow, ...]
    work: float
    reason: str | None
    seed: int

    def runner(self, world: str) -> PolicyRunner:
        """The policy in use in a world, without noise."""
        neutral = self.neutral.get(world, Neutral())
        return PolicyRunner(self.policy, self.action_map, neutral=neutral, world=world)
