"""What a policy's outputs may mean, by name: a design asks for one of `ACTION_MAPS`.

The usual one, `policy.ActionMap`, moves a ratio and, where the world takes one, a price.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from se_rl.modules.defaults import Modules
from se_rl.rl.policy import ActionMap, Neutral


@dataclass(frozen=True)
class GridActions(ActionMap):
    """One ratio out of few: each output is the score of one."""

    ratios: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    chooses: ClassVar[bool] = True

    def outputs(self, takes_price: bool) -> int:
        """A score for each ratio."""
        return len(self.ratios)

    def actions(self, taken: Tensor, *, steps_left: int, neutral: Neutral) -> tuple[Tensor, Tensor]:
        """The chosen ratios."""
        ratio = torch.tensor(self.ratios, device=taken.device)[taken[0].long()]
        return ratio, torch.zeros_like(ratio)


@dataclass(frozen=True)
class SimplexActions(ActionMap):
    """Shares for all `places` of a world where lots can be, of which the last holds them back.

    The softmax of the outputs and a last one of 0: with normal noise a logistic-normal law.
    """

    places: int = 7

    def outputs(self, takes_price: bool) -> int:
        """One for each place but the last."""
        return self.places - 1

    def actions(self, taken: Tensor, *, steps_left: int, neutral: Neutral) -> tuple[Tensor, Tensor]:
        """Shares [n, place]."""
        scores = torch.cat([self.scale * taken, torch.zeros_like(taken[:1])])
        return torch.softmax(scores, dim=0).t(), torch.zeros_like(taken[0])


ACTION_MAPS: dict[str, type[ActionMap]] = {
    "ratio": ActionMap,
    "grid": GridActions,
    "simplex": SimplexActions,
}


def action_map_of(modules: Modules) -> ActionMap:
    """The map that a design asks for, with the design's own zero and scale."""
    if modules.actions not in ACTION_MAPS:
        known = ", ".join(ACTION_MAPS)
        raise ValueError(f"actions are {modules.actions!r}; choose from {known}")
    kind = ACTION_MAPS[modules.actions]
    return kind(zero=modules.constant("action_zero"), scale=modules.constant("action_scale"))
