"""PPO's clipped surrogate and its derivatives by the policy's outputs, by hand.

The loss is the same whatever the network, and autograd would spend more time on its many small
operations than on the layers of a small network. What belongs to a row lies along the last
dimension, so that every operation runs over contiguous numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from se_rl.config import option, settings
from se_rl.rl.action_laws import ActionLaw


@settings
class PPOSettings:
    """The constants of the update that a design may not set."""

    minibatches: int = option(8, "minibatches per epoch")
    clip: float = option(0.2, "how far a probability ratio may leave 1")
    value_clip: float = option(
        0.2, "how far a value may move in one update, in units of the return's spread; 0: no clip"
    )
    value_weight: float = option(0.5, "weight of the value loss")
    kl_stop: float = option(
        0.03, "mean KL divergence from the old policy at which an update ends early"
    )
    gradient_norm: float = option(1.0, "longest gradient; longer ones are scaled down")


TERMS = 4
"""Policy loss, value loss, KL divergence, clipped share."""
_SIGNS = (-1.0, 0.5, 1.0, 1.0)
"""A gain is the loss's opposite, and a squared error counts half."""


def mean_terms(sums: Tensor, count: int) -> Tensor:
    """Means over `count` rows of policy loss, value loss, KL estimate and clipped share."""
    return sums * torch.tensor(_SIGNS, device=sums.device) / count


@torch.no_grad()
def differentiate(
    out: Tensor,
    columns: Tensor,
    to_out: Tensor,
    law: ActionLaw,
    *,
    settings: PPOSettings,
    scale: float,
) -> Tensor:
    """Sums of the loss's terms over rows, whose derivatives by the outputs go to `to_out`.

    `out` [actions + 1, n] are mean outputs and value, `columns` [taken + 4, n] what was done, then
    old log-prob, old value, advantage and return; `law` says how likely it is. Every derivative is
    times `scale`.
    """
    old_log_prob, old_value, advantage, target = columns[-4:].unbind()
    terms = torch.empty((TERMS, *target.shape), device=out.device)
    gain, squared, divergence, outside = terms
    shift = law.log_prob(out[:-1], columns[:-4]).sub_(old_log_prob)
    ratio = torch.exp(shift)
    # gain = min(ratio * A, clip(ratio) * A); the clipped branch is flat
    plain = ratio * advantage
    bounded = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip).mul_(advantage)
    torch.minimum(plain, bounded, out=gain)
    by_log_prob = (plain <= bounded).mul(plain).mul_(-scale)
    law.differentiate(by_log_prob, to_out[:-1], scale=scale)
    slope = _value_loss(out[-1], old_value, target, clip=settings.value_clip, squared=squared)
    torch.mul(slope, scale * settings.value_weight, out=to_out[-1])
    # KL = ratio - 1 - log ratio, which is never negative
    excess = ratio.sub_(1.0)
    torch.sub(excess, shift, out=divergence)
    torch.gt(excess.abs_(), settings.clip, out=outside)
    return terms.sum(-1)


def _value_loss(
    value: Tensor, old: Tensor, target: Tensor, *, clip: float, squared: Tensor
) -> Tensor:
    """Half the derivatives of the squared errors, which are written to `squared`.

    Where the clipped value's error is larger, it counts.
    """
    gap = value - target
    torch.mul(gap, gap, out=squared)
    if clip <= 0:
        return gap
    moved = value - old
    kept = moved.clamp(-clip, clip)
    near = (kept + old).sub_(target)
    other = near.square()
    slope = torch.where(squared >= other, gap, near.mul_(kept == moved))
    torch.maximum(squared, other, out=squared)
    return slope
