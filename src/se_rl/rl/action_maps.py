"""What a policy's outputs may mean, by name: a design asks for one of `ACTION_MAPS`.

The usual one, `ActionMap`, moves a ratio and, where the world takes one, a price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from se_rl.modules.agent_interface import USUAL_ACTIONS
from se_rl.modules.defaults import Modules

MAX_OFFSET = 20.0
"""Of a limit, in the unit of the world that takes it."""


@dataclass(frozen=True)
class Neutral:
    """The schedule that an output of 0 means.

    A multiple of the TWAP slice of what is left, and the limit's offset in the world's unit.
    """

    multiple: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class ActionMap:
    """Policy outputs -> actions.

    An output of 0 is the neutral schedule, whatever the network: a collapse is harmless. The first
    output moves the ratio in log-odds, so that every ratio in (0, 1) can be reached and small ones
    finely; the second moves the limit's distance from the touch, by `price_scale` of the world's
    units: ticks, or halves of a bar's volatility.
    Outputs of a map that `chooses` are the scores of single actions, of which one is taken.
    """

    zero: float = 1.0
    scale: float = 1.0
    price_scale: float = 2.0
    chooses: ClassVar[bool] = False

    def outputs(self, takes_price: bool) -> int:
        """Numbers that a policy must give."""
        return 2 if takes_price else 1

    def actions(self, taken: Tensor, *, steps_left: int, neutral: Neutral) -> tuple[Tensor, Tensor]:
        """What a world takes, ratios and offsets [n], for what was drawn [number, n]."""
        price = taken[1] if len(taken) > 1 else torch.zeros_like(taken[0])
        ratio = self.ratio(taken[0], steps_left=steps_left, neutral=neutral)
        return ratio, self.offset(price, neutral=neutral)

    def ratio(self, output: Tensor, *, steps_left: int, neutral: Neutral) -> Tensor:
        """Share of the remaining inventory; the last step always trades all of it."""
        neutral_ratio = neutral.multiple * self.zero / steps_left
        if steps_left <= 1 or neutral_ratio >= 1.0:
            return torch.ones_like(output)
        # log-odds of the ratio = scale * output + log-odds of the neutral ratio
        log_odds = math.log(neutral_ratio / (1.0 - neutral_ratio))
        return torch.sigmoid(output * self.scale + log_odds)

    def offset(self, output: Tensor, *, neutral: Neutral) -> Tensor:
        """The limit's distance from the own-side touch, positive on the passive side."""
        away = neutral.offset + self.price_scale * output
        return away.clamp(-MAX_OFFSET, MAX_OFFSET)


@dataclass(frozen=True)
class RatioActions(ActionMap):
    """The ratio alone, at the neutral price."""

    def outputs(self, takes_price: bool) -> int:
        """One number, wherever it is."""
        return 1


@dataclass(frozen=True)
class SliceActions(ActionMap):
    """One multiple of the neutral slice out of few, at the neutral price.

    Each output is the score of one; the neutral one comes first, which equal scores choose.
    """

    multiples: ClassVar[tuple[float, ...]] = (1.0, 0.0, 0.5, 2.0, 4.0)
    chooses: ClassVar[bool] = True

    def outputs(self, takes_price: bool) -> int:
        """A score for each multiple."""
        return len(self.multiples)

    def actions(self, taken: Tensor, *, steps_left: int, neutral: Neutral) -> tuple[Tensor, Tensor]:
        """The chosen slices; the last step always trades all that is left."""
        multiple = torch.tensor(self.multiples, device=taken.device)[taken[0].long()]
        ratio = multiple * (neutral.multiple * self.zero / steps_left)
        if steps_left <= 1:
            ratio = torch.ones_like(ratio)
        return ratio.clamp(max=1.0), self.offset(torch.zeros_like(ratio), neutral=neutral)


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
    USUAL_ACTIONS: ActionMap,
    "ratio": RatioActions,
    "slices": SliceActions,
    "grid": GridActions,
    "simplex": SimplexActions,
}
"""By name; the last two are for markets that others built, where a ratio is no share of the rest."""


def action_kind(modules: Modules) -> type[ActionMap]:
    """The kind of map that a design asks for."""
    name = modules.interface.actions
    if name not in ACTION_MAPS:
        raise ValueError(f"actions are {name!r}; choose from {', '.join(ACTION_MAPS)}")
    return ACTION_MAPS[name]


def action_map_of(modules: Modules) -> ActionMap:
    """The map that a design asks for, with the design's own zero and scale."""
    kind = action_kind(modules)
    return kind(zero=modules.constant("action_zero"), scale=modules.constant("action_scale"))
