"""Advantages on history by derivative instead of by trial.

Our orders move no price there, so what an order earns is a known function of what it trades, and a
design's reward can be differentiated. With a_t the share of what is held that step t trades:

    r_t = reward(traded_t, left_t), traded_t = a_t * held_t, left_t = (1 - a_t) * held_t = held_{t+1}
    worth_t = a_t * dr_t/dtraded + (1 - a_t) * (dr_t/dleft + discount * worth_{t+1})
    slope_t = held_t * a_t * (1 - a_t) * (dr_t/dtraded - dr_t/dleft - discount * worth_{t+1})

worth_t is what one more share held before step t earns, slope_t what a larger output earns, the
share being the logistic function of the output. An estimate by trial credits an action with the luck
of all that followed, other actions' noise included; the slope knows its own step's part. `discount`
looks as far ahead as those estimates do, because later moves of the price are mostly luck. That later
outputs see what is left is not followed up.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import torch
from torch import Tensor

from se_rl.modules.defaults import Reward

TRADED = "traded_share"
LEFT = "inventory_left"
REACH = 1e-3
"""How far a share of the order is moved for a difference."""
JUMP = 0.1
"""Slopes over the whole reach and over half of it that differ by more of their size are no derivative."""


def path_advantages(
    fields: Tensor, names: Sequence[str], reward: Reward, noise: Tensor, *, discount: float
) -> Tensor | None:
    """The advantages [step, ...] of outputs that `noise` [step, ...] moved away from their means.

    `fields` is [field, step, ...]. An action is as good as the slope is steep, if it lies on the side
    where the slope leads up, and as bad on the other: the policy's gradient then has the slope's
    direction with less noise than by the distance. None where the reward jumps, or does
    not depend on what we trade but by its sign: that must be learned by trial.
    """
    derivatives = _derivatives(fields, names, reward)
    if derivatives is None:
        return None
    by_traded, by_left = derivatives
    traded = fields[names.index(TRADED)]
    left = fields[names.index(LEFT)]
    held = traded + left
    share = (traded / held.clamp(min=1e-9)).clamp(0.0, 1.0)
    stays = 1.0 - share
    worth = _worth(share * by_traded + stays * by_left, discount * stays)
    slope = held * share * stays * (by_traded - by_left - discount * worth)
    return slope * noise.sign()


def _worth(earned: Tensor, kept: Tensor) -> Tensor:
    """What a share left after each step [step, ...] earns later, of which `kept` stays each time."""
    worth = torch.zeros_like(earned)  # nothing follows the last step
    for step in range(len(earned) - 1, 0, -1):
        torch.addcmul(earned[step], kept[step], worth[step], out=worth[step - 1])
    return worth


def _derivatives(fields: Tensor, names: Sequence[str], reward: Reward) -> list[Tensor] | None:
    """The reward's derivatives [step, ...] by what is traded and by what is left; None without.

    By differences, inside of what the fields can be: each row of a reward depends on its own row
    alone, so that four questions answer for all, whatever the reward is made of. One that jumps has
    slopes that depend on how far they reach.
    """
    columns = {name: fields[i].flatten().double() for i, name in enumerate(names)}

    def slope(name: str, reach: float) -> Tensor:
        high = (columns[name] + reach).clamp(max=1.0)
        low = (columns[name] - reach).clamp(min=0.0)
        more = reward(SimpleNamespace(**{**columns, name: high}))
        less = reward(SimpleNamespace(**{**columns, name: low}))
        return (more.double() - less.double()) / (high - low)

    found = []
    for name in (TRADED, LEFT):
        wide, narrow = slope(name, REACH), slope(name, REACH / 2.0)
        apart = (wide - narrow).square().mean()
        if not bool(apart <= (JUMP**2) * narrow.square().mean()):  # nor where one is not finite
            return None
        found.append(narrow.to(fields.dtype).view(fields.shape[1:]))
    return found if any(bool(one.any()) for one in found) else None
