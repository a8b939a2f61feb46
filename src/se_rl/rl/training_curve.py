"""The training curve: one row per update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from se_rl.rl.ppo import UpdateStats


@dataclass(frozen=True)
class UpdateRow:
    """One update of a training.

    `rewards` is what an order of each world earned on average, `stats` what the update did, `work`
    the work spent so far, `alpha` and `beta` the weights of the worlds' losses from here on,
    `held_back` the score on held-back orders in bps (NaN where it was not asked for).
    """

    phase: str
    rewards: Mapping[str, float]
    stats: UpdateStats
    work: float
    alpha: float
    beta: float
    held_back: float = math.nan

    @property
    def losses(self) -> dict[str, float]:
        """The loss in each world of the update."""
        return dict(zip(self.rewards, self.stats.losses, strict=True))

    def as_dict(self) -> dict[str, float | str]:
        """The row as it is stored."""
        row: dict[str, float | str] = {"phase": self.phase}
        for world, reward in self.rewards.items():
            row[f"reward_{world}"] = reward
        row |= self.stats.as_dict()
        row |= {"work": self.work, "alpha": self.alpha, "beta": self.beta}
        row["held_back"] = self.held_back
        return row
