"""From rollouts of many policies to batches: rewards, advantages and their scales, all at once.

What `Rollout.rewards`, `WorldSampler.estimates` and `Batch.of` do for one policy is done here for a
row of them. Orders whose market broke have no weight in any fit or mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Tensor

from se_rl.environments.worlds import FIELD_NAMES
from se_rl.modules.defaults import Reward
from se_rl.rl.advantages import MARKET_FIELDS, RIDGE, advantages, hindsight_columns
from se_rl.rl.learner import Learner
from se_rl.rl.on_device.device_rollout import Owner, StackRollout
from se_rl.rl.path_advantages import path_advantages
from se_rl.rl.rollout import Diverged
from se_rl.rl.world_sampler import WorldSampler, over_copies


@dataclass(frozen=True, eq=False)
class Taught:
    """What a rollout teaches: estimates [policy, step, order], and what became of each policy.

    That is the mean reward of an order, or why there is none.
    """

    advantages: Tensor
    """Centred and scaled over the policy's own batch."""
    returns: Tensor
    results: Sequence[float | Diverged]


@torch.no_grad()
def taught(
    rollout: StackRollout[Owner],
    learners: Sequence[Learner],
    samplers: Sequence[WorldSampler],
    *,
    name: str,
) -> Taught:
    """The estimates of a rollout in a world of this name.

    Its policies are those of the learners, in their order.
    """
    rewards = _rewards(rollout, learners)  # [step, policy, order]
    kept = rollout.kept
    count = kept.sum(1)
    results = _results(rewards, rollout, learners)
    gamma, lam = learners[0].gamma, learners[0].gae_lambda[name]
    found, returns = _estimates(rewards, rollout, samplers, gamma=gamma, lam=lam)
    found = _by_path(found, rollout, learners, discount=gamma * lam)
    weight = kept / (len(rewards) * count.clamp(min=1))[:, None]
    # centred and scaled: (A - mean A) / (std A + 1e-8)
    centred = found - (found * weight).sum((0, 2))[:, None]
    steps = (len(rewards) * count).clamp(min=2)
    variance = (centred.square() * weight).sum((0, 2)) * steps / (steps - 1)
    scaled = centred / (variance.sqrt() + 1e-8)[:, None]
    return Taught(scaled.transpose(0, 1), returns.transpose(0, 1), results)


def _rewards(rollout: StackRollout[Owner], learners: Sequence[Learner]) -> Tensor:
    """[step, policy, order]: every reward is asked once, about all orders that it pays."""
    _, steps, policies, orders = rollout.fields.shape
    rewards = rollout.fields.new_empty((steps, policies, orders))
    for reward, paid in _paid(learners):
        rows = rollout.fields[:, :, paid].flatten(1)
        values = reward(SimpleNamespace(**dict(zip(FIELD_NAMES, rows, strict=True))))
        rewards[:, paid] = values.float().view(steps, len(paid), orders)
    return rewards


def _paid(learners: Sequence[Learner]) -> Iterator[tuple[Reward, list[int]]]:
    """Every reward, and the places of the learners that it pays."""
    for reward in dict.fromkeys(learner.reward for learner in learners):
        yield reward, [i for i, learner in enumerate(learners) if learner.reward is reward]


def _by_path(
    found: Tensor, rollout: StackRollout[Owner], learners: Sequence[Learner], *, discount: float
) -> Tensor:
    """Advantages [step, policy, order] by the rewards' derivatives, where there are some."""
    if rollout.noise is None:
        return found
    noise = rollout.noise.transpose(0, 1)  # [step, policy, order]
    found = found.clone()
    for reward, paid in _paid(learners):
        fields = rollout.fields[:, :, paid]
        better = path_advantages(fields, FIELD_NAMES, reward, noise[:, paid], discount=discount)
        if better is not None:
            found[:, paid] = better
    return found


def _results(
    rewards: Tensor, rollout: StackRollout[Owner], learners: Sequence[Learner]
) -> list[float | Diverged]:
    """The mean reward of each policy's orders, or why its training cannot go on."""
    kept = rollout.kept
    totals = rewards.sum(0).where(kept, 0.0).sum(1) / kept.sum(1)
    acted = torch.isfinite(rollout.outputs).flatten(1).all(1)
    paid = torch.isfinite(rewards).transpose(0, 1).flatten(1).all(1)
    largest = rewards.abs().amax((0, 2))
    told = torch.stack([totals, acted, paid, largest, kept.any(1)], dim=1).tolist()
    results: list[float | Diverged] = []
    for learner, (mean, is_acted, is_paid, most, any_kept) in zip(learners, told, strict=True):
        if not is_acted:
            results.append(Diverged("the policy's output is not finite"))
        elif not is_paid:
            results.append(Diverged("reward is not finite on a recorded step"))
        elif most > learner.reward_bound:
            told_bound = f"keep it within {learner.reward_bound:g}"
            results.append(Diverged(f"reward reaches {most:.3g}; {told_bound}"))
        elif not any_kept:
            results.append(Diverged("every market of a batch broke"))
        else:
            results.append(mean)
    return results


def _estimates(
    rewards: Tensor,
    rollout: StackRollout[Owner],
    samplers: Sequence[WorldSampler],
    *,
    gamma: float,
    lam: float,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns [step, policy, order] in units of each policy's running scale."""
    values = rollout.values.transpose(0, 1)
    baseline = _Hindsight(rollout, discount=gamma * lam)

    def free(values: Tensor, rewards: Tensor) -> Tensor:
        raw = advantages(rewards.flatten(1), values.flatten(1), gamma=gamma, lam=lam)
        return baseline.subtracted_from(raw.view_as(rewards))

    sizes = free(torch.zeros_like(values), rewards).square().mean((0, 2)).sqrt().tolist()
    pairs = zip(samplers, sizes, strict=True)
    scales = torch.tensor([sampler.scale_after(size) for sampler, size in pairs])
    found = free(values, rewards / scales.to(rewards.device)[:, None])
    returns = found + values
    if samplers[0].copies > 1:
        found = over_copies(found.flatten(1), samplers[0].copies, agents=1).view_as(found)
    return found, returns


class _Hindsight:
    """`advantages.subtract_hindsight_baseline`, fitted for each policy alone."""

    def __init__(self, rollout: StackRollout[Owner], *, discount: float) -> None:
        fields = {}
        for name in MARKET_FIELDS:
            fields[name] = rollout.fields[FIELD_NAMES.index(name)].flatten(1)
        shape = rollout.fields.shape[1:]  # [step, policy, order]
        columns = torch.stack(hindsight_columns(fields, discount), -1).double()
        x = columns.view(*shape, -1).transpose(0, 1)  # [policy, step, order, column]
        self._kept = rollout.kept
        self._shape = shape
        x = (x * rollout.kept[:, None, :, None]).flatten(1, 2)
        count = (shape[0] * rollout.kept.sum(1)).clamp(min=1)[:, None, None]
        self._x = x / (x.square().sum(1, keepdim=True) / count).sqrt().clamp(min=1e-12)
        # least squares with a small ridge: (X'X + c I) b = X'y
        ridge = RIDGE * count * torch.eye(x.shape[2], dtype=x.dtype, device=x.device)
        self._normal = self._x.transpose(1, 2) @ self._x + ridge

    def subtracted_from(self, estimates: Tensor) -> Tensor:
        """Estimates [step, policy, order] less their baseline, where the order counts."""
        y = estimates.transpose(0, 1).flatten(1)[..., None].double()
        coefficients = torch.linalg.solve(self._normal, self._x.transpose(1, 2) @ y)
        steps, policies, orders = self._shape
        fitted = (self._x @ coefficients).view(policies, steps, orders).transpose(0, 1)
        return torch.where(self._kept, (estimates - fitted).to(estimates.dtype), estimates)
