"""PPO: the clipped surrogate on batches of one or several worlds, in the same optimiser steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from se_rl.config import option, settings
from se_rl.rl.batch import Batch
from se_rl.rl.fused import FusedPolicy
from se_rl.rl.policy import Policy
from se_rl.rl.rollout import Diverged

MEAN_DECAY, SQUARE_DECAY = 0.9, 0.999
"""How slowly Adam's means of the gradient and of its square forget."""
ADAM_EPSILON = 1e-5
"""Added to Adam's denominator."""
LEAST_RATE = 0.1
"""The share of the learning rate that annealing leaves at the end."""


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


@dataclass(frozen=True)
class UpdateStats:
    """What one update did: means over the batches in its last epoch, and each batch's loss."""

    policy_loss: float
    value_loss: float
    kl: float
    clipped: float
    losses: tuple[float, ...]
    entropy: float
    steps: float

    def as_dict(self) -> dict[str, float]:
        """The numbers by name; `loss_0`, `loss_1`, ... are those of the batches."""
        numbers = {
            "policy_loss": self.policy_loss,
            "value_loss": self.value_loss,
            "kl": self.kl,
            "clipped": self.clipped,
        }
        for i, loss in enumerate(self.losses):
            numbers[f"loss_{i}"] = loss
        return {**numbers, "entropy": self.entropy, "steps": self.steps}


class PPO:
    """The learner of one policy.

    Parameters and gradients are views of two flat tensors, so that a step is a few calls. `groups`
    gives learning rates of their own to some parameters.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        learning_rate: float,
        epochs: int = 4,
        entropy_bonus: float = 0.0,
        settings: PPOSettings | None = None,
        generator: torch.Generator | None = None,
        groups: Sequence[tuple[float, Sequence[nn.Parameter]]] | None = None,
    ) -> None:
        self.policy = policy
        self.settings = settings or PPOSettings()
        self.epochs = epochs
        self.entropy_bonus = entropy_bonus
        self._generator = generator or torch.Generator().manual_seed(0)
        self._groups = [
            _ParameterGroup(rate, parameters)
            for rate, parameters in groups or [(learning_rate, list(policy.parameters()))]
        ]
        self._rate_left = 1.0
        self._steps = 0
        self._fused = FusedPolicy.of(policy)

    def anneal(self, left: float) -> None:
        """Scale the learning rates by what is left of the training, a tenth at least."""
        self._rate_left = max(left, LEAST_RATE)

    def update(self, batches: Sequence[Batch]) -> UpdateStats:
        """Epochs of minibatch steps on the weighted sum of the worlds' losses.

        Stops early when the policy has moved enough.
        """
        totals = torch.zeros((len(batches), 4))
        steps = 0
        for epoch in range(self.epochs):
            totals = self._epoch(batches)
            steps += self.settings.minibatches
            if not torch.isfinite(totals).all():
                raise Diverged(f"loss is not finite in epoch {epoch + 1}")
            if float(totals[:, 2].max()) > self.settings.kl_stop:
                break
        if not all(bool(torch.isfinite(group.flat).all()) for group in self._groups):
            raise Diverged("weights are not finite after an update")
        policy_loss, value_loss, kl, clipped = totals.mean(0).tolist()
        losses = totals[:, 0] + self.settings.value_weight * totals[:, 1]
        return UpdateStats(
            policy_loss=policy_loss,
            value_loss=value_loss,
            kl=kl,
            clipped=clipped,
            losses=tuple(losses.tolist()),
            entropy=self.entropy(),
            steps=float(steps),
        )

    def entropy(self) -> float:
        """Of the policy's noise, in nats."""
        # a Gaussian has log sigma + log(2 pi e) / 2
        return float((self.policy.log_std.detach() + 0.5 * math.log(2 * math.pi * math.e)).sum())

    def _epoch(self, batches: Sequence[Batch]) -> Tensor:
        """One pass over all batches; the mean terms of each one's loss [batch, term]."""
        seen = torch.zeros((len(batches), 4), device=self.policy.log_std.device)
        shuffled = [self._shuffle(batch) for batch in batches]
        for pieces in zip(*shuffled, strict=True):
            for group in self._groups:
                group.gradient.zero_()
            for i, (batch, units) in enumerate(zip(batches, pieces, strict=True)):
                seen[i] += self._backward(batch, units)
            self._step()
        return seen.cpu() / self.settings.minibatches

    def _shuffle(self, batch: Batch) -> list[Tensor]:
        """The batch's units in random order, cut into minibatches; too few are used repeatedly."""
        drawn = torch.randperm(batch.units, generator=self._generator)
        order = drawn.to(self.policy.log_std.device)
        parts = self.settings.minibatches
        return list(order.repeat(-(-parts // len(order))).tensor_split(parts))

    def _backward(self, batch: Batch, units: Tensor) -> Tensor:
        """Add the gradient of a minibatch's weighted loss; the loss's terms, means over rows."""
        samples = batch.samples(units)
        rows = batch.columns.index_select(0, samples)
        if self._fused is not None:
            return self._fused.backward(
                batch.observations.index_select(0, samples),
                rows.t().contiguous(),
                settings=self.settings,
                entropy_bonus=self.entropy_bonus,
                weight=batch.weight,
            )
        used = rows.shape[1] - 4
        outputs = rows[:, :used]
        old_log_prob, old_value, advantage, target = rows[:, used:].unbind(1)
        mean, value, _ = self.policy(self._with_inbox(batch, samples))
        terms = surrogate(
            self.policy.log_prob(mean, outputs),
            value,
            old_log_prob,
            old_value,
            advantage,
            target,
            settings=self.settings,
        )
        # L = L_policy + c_value * L_value - c_entropy * H
        entropy = self.policy.log_std[:used].sum()
        loss = terms[0] + self.settings.value_weight * terms[1] - self.entropy_bonus * entropy
        (batch.weight * loss).backward()
        return torch.stack([term.detach() for term in terms])

    def _with_inbox(self, batch: Batch, samples: Tensor) -> Tensor:
        """The windows, their newest inbox spoken again by the present weights.

        So messages are learned end to end.
        """
        windows = batch.windows(samples)  # [sample, history, observation + message]
        if not self.policy.message_size:
            return windows
        _, _, features = self.policy(batch.windows((samples - batch.orders).clamp(min=0)))
        heard = self.policy.inbox(features) * (samples >= batch.orders)[:, None]
        newest = torch.cat([windows[:, -1:, : self.policy.observation_size], heard[:, None]], dim=2)
        return torch.cat([windows[:, :-1], newest], dim=1)

    @torch.no_grad()
    def _step(self) -> None:
        """One step of Adam along the gradient, cut to its longest length."""
        norm = torch.stack([group.gradient.norm() for group in self._groups]).norm()
        factor = (self.settings.gradient_norm / (norm + 1e-6)).clamp(max=1.0)
        self._steps += 1
        for group in self._groups:
            group.step(factor, count=self._steps, rate_left=self._rate_left)


class _ParameterGroup:
    """Parameters with one learning rate as a flat tensor, its gradient, and Adam's moments."""

    def __init__(self, rate: float, parameters: Sequence[nn.Parameter]) -> None:
        self.rate = rate
        self.flat = flatten(parameters)
        self._mean = torch.zeros_like(self.flat)
        self._square = torch.zeros_like(self.flat)

    @property
    def gradient(self) -> Tensor:
        """The flat gradient, which every parameter's `.grad` is a view of."""
        assert self.flat.grad is not None  # made by flatten
        return self.flat.grad

    def step(self, factor: Tensor, *, count: int, rate_left: float) -> None:
        """Adam's `count`-th step along `factor` times the gradient."""
        gradient = self.gradient.mul_(factor)
        first = 1.0 - MEAN_DECAY**count
        second = math.sqrt(1.0 - SQUARE_DECAY**count)
        # m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
        self._mean.lerp_(gradient, 1.0 - MEAN_DECAY)
        self._square.mul_(SQUARE_DECAY).addcmul_(gradient, gradient, value=1.0 - SQUARE_DECAY)
        # w = w - rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
        denominator = self._square.sqrt().div_(second).add_(ADAM_EPSILON)
        self.flat.addcdiv_(self._mean, denominator, value=-rate_left * self.rate / first)


def surrogate(
    log_prob: Tensor,
    value: Tensor,
    old_log_prob: Tensor,
    old_value: Tensor,
    advantage: Tensor,
    target: Tensor,
    *,
    settings: PPOSettings,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Means over the rows: clipped policy loss, clipped value loss, KL estimate, clipped share."""
    shift = log_prob - old_log_prob
    ratio = torch.exp(shift)
    low, high = 1.0 - settings.clip, 1.0 + settings.clip
    # L_policy = -min(ratio * A, clip(ratio, 1 - eps, 1 + eps) * A)
    policy_loss = -torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage).mean()
    # L_value = max((V - R)^2, (V_clipped - R)^2) / 2
    squared = (value - target).square()
    if settings.value_clip > 0:
        near = old_value + (value - old_value).clamp(-settings.value_clip, settings.value_clip)
        squared = torch.maximum(squared, (near - target).square())
    # KL = ratio - 1 - log ratio, which is never negative
    kl = (ratio - 1.0 - shift).mean()
    clipped = ((ratio - 1.0).abs() > settings.clip).to(value.dtype).mean()
    return policy_loss, 0.5 * squared.mean(), kl, clipped


def flatten(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Make parameters and gradients views of one flat tensor and of its gradient; returns it."""
    flat = torch.cat([p.detach().reshape(-1) for p in parameters])
    gradient = torch.zeros_like(flat)
    at = 0
    for p in parameters:
        p.data = flat[at : at + p.numel()].view_as(p)
        p.grad = gradient[at : at + p.numel()].view_as(p)
        at += p.numel()
    flat.requires_grad_(True)
    flat.grad = gradient
    return flat
