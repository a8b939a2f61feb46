"""Advantages on history by derivative instead of by trial.

Our orders move no price there, so what an order earns is a known function of what it trades, and a
design's reward can be differentiated. With a_t the share of what is held that step t trades:

    r_t = reward(traded_t, left_t), traded_t = a_t * held_t, left_t = (1 - a_t) * held_t = held_{t+1}
    worth_t = a_t * dr_t/dtraded + (1 - a_t) * (dr_t/dleft + discount * worth_{t+1})
    slope_t = held_t * a_t * (1 - a_t) * (dr_t/dtraded - dr_t/dleft - discount * worth_{t+1})

worth_t is what one more share held before step t earns, slope_t what a larger output earns, the
share being the logistic function of the output. An estimate by trial credits an action with the luck
of all that followed, other actions' noise included; the slope knows its own step's part. `discount`
looks as far ahead as those estimates do. That later outputs see what is left is not followed up.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import torch
from torch import Tensor

from se_rl.modules.defaults import Reward

TRADED = "traded_share"
LEFT = "inventory_left"


def path_advantages(
    fields: Tensor, names: Sequence[str], reward: Reward, noise: Tensor, *, discount: float
) -> Tensor | None:
    """The advantages [step, ...] of outputs that `noise` [step, ...] moved away from their means.

    `fields` is [field, step, ...]. An action is as good as the slope is steep, if it lies on the side
    where the slope leads up, and as bad on the other: the policy's gradient then has the slope's
    direction with less noise than by the distance. None where the reward has no derivative, or one
    of 0 throughout: a reward that counts signs must be learned by trial.
    """
    derivatives = _derivatives(fields, names, reward)
    if derivatives is None:
        return None
    by_traded, by_left = derivatives
    traded = fields[names.index(TRADED)]
    left = fields[names.index(LEFT)]
    held = traded + left
    share = (traded / held.clamp(min=1e-9)).clamp(0.0, 1.0)
    kept = discount * (1.0 - share)
    now = share * by_traded + (1.0 - share) * by_left
    worth = torch.zeros_like(now)  # of a share after the step; nothing follows the last one
    for step in range(len(now) - 1, 0, -1):
        torch.addcmul(now[step], kept[step], worth[step], out=worth[step - 1])
    slope = held * share * (1.0 - share) * (by_traded - by_left - discount * worth)
    return slope * noise.sign()


def _derivatives(fields: Tensor, names: Sequence[str], reward: Reward) -> list[Tensor] | None:
    """The reward's derivatives [step, ...] by what is traded and by what is left; None without."""
    columns = {name: fields[i].reshape(-1) for i, name in enumerate(names)}
    own = {name: columns[name].clone().requires_grad_() for name in (TRADED, LEFT)}
    try:
        with torch.enable_grad():
            total = reward(SimpleNamespace(**{**columns, **own})).sum()
            found = torch.autograd.grad(total, list(own.values()), allow_unused=True)
    except RuntimeError as error:  # nothing of it can be differentiated
        if "fork" in str(error):  # that is the process's fault: nobody shall learn otherwise for it
            raise
        return None
    shape = fields.shape[1:]
    slopes = [
        torch.zeros(shape, device=fields.device) if one is None else one.view(shape)
        for one in found
    ]
    both = torch.stack(slopes)
    usable = bool(torch.isfinite(both).all()) and bool(both.any())
    return slopes if usable else None
