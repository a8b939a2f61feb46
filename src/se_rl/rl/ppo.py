"""PPO: the clipped surrogate on batches of one or several worlds, in the same optimiser steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from se_rl.rl.action_laws import ActionLaw, ChoiceLaw, NormalLaw
from se_rl.rl.batch import Batch
from se_rl.rl.fused import gradient_of, passes_of
from se_rl.rl.policy import Policy
from se_rl.rl.rollout import Diverged
from se_rl.rl.surrogate import TERMS, PPOSettings, differentiate, mean_terms

__all__ = ["PPO", "PPOSettings", "UpdateStats"]

MEAN_DECAY, SQUARE_DECAY = 0.9, 0.999
"""How slowly Adam's means of the gradient and of its square forget."""
ADAM_EPSILON = 1e-5
"""Added to Adam's denominator."""
LEAST_RATE = 0.1
"""The share of the learning rate that annealing leaves at the end."""
CHUNK = 2048
"""Rows that pass through the network at a time on a CPU."""


@dataclass(frozen=True)
class UpdateStats:
    """What one update did: means over the batches in its last epoch, and each batch's loss.

    That loss is the value's mean squared error, in units of the world's running scale: the share
    of what there was to foresee that was not foreseen.
    """

    policy_loss: float
    value_loss: float
    kl: float
    clipped: float
    losses: tuple[float, ...]
    entropy: float
    steps: float

    @classmethod
    def of(cls, totals: Tensor, *, entropy: float, steps: int) -> UpdateStats:
        """From the mean terms of each batch's loss [batch, term] in the last epoch."""
        policy_loss, value_loss, kl, clipped = totals.mean(0).tolist()
        losses = tuple((2.0 * totals[:, 1]).tolist())
        return cls(policy_loss, value_loss, kl, clipped, losses, entropy, float(steps))

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
    gives learning rates of their own to some parameters, `noise` is the most noise at the beginning
    and at the end.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        learning_rate: float,
        epochs: int = 4,
        entropy_bonus: float = 0.0,
        noise: tuple[float, float] | None = None,
        settings: PPOSettings | None = None,
        generator: torch.Generator | None = None,
        groups: Sequence[tuple[float, Sequence[nn.Parameter]]] | None = None,
    ) -> None:
        self.policy = policy
        self.settings = settings or PPOSettings()
        self.epochs = epochs
        self.entropy_bonus = entropy_bonus
        self.generator = generator or torch.Generator().manual_seed(0)
        self.groups = [
            ParameterGroup(rate, parameters)
            for rate, parameters in groups or [(learning_rate, list(policy.parameters()))]
        ]
        self.rate_left = 1.0
        self._noise = noise
        self._steps = 0
        self._passes = passes_of(policy)

    def anneal(self, left: float) -> None:
        """Fit learning rates and noise to what is left of the training.

        The rates fall to a tenth. The noise is learned, but at most what lies between its first
        and its last size: the mean action is what counts in the end, and what is learned under
        much noise is the best mean for that noise.
        """
        self.rate_left = max(left, LEAST_RATE)
        if self._noise is not None:
            first, last = self._noise
            # log s <= left * log s_first + (1 - left) * log s_last
            most = left * math.log(first) + (1.0 - left) * math.log(min(first, last))
            with torch.no_grad():
                self.policy.log_std.clamp_(max=most)

    def update(self, batches: Sequence[Batch]) -> UpdateStats:
        """Epochs of minibatch steps on the weighted sum of the worlds' losses.

        Stops early when the policy has moved enough.
        """
        totals = torch.zeros((len(batches), TERMS))
        steps = 0
        for epoch in range(self.epochs):
            totals = self._epoch(batches)
            steps += self.settings.minibatches
            if not torch.isfinite(totals).all():
                raise Diverged(f"loss is not finite in epoch {epoch + 1}")
            if float(totals[:, 2].max()) > self.settings.kl_stop:
                break
        if not all(bool(torch.isfinite(group.flat).all()) for group in self.groups):
            raise Diverged("weights are not finite after an update")
        return UpdateStats.of(totals, entropy=self.entropy(batches), steps=steps)

    def entropy(self, batches: Sequence[Batch] = ()) -> float:
        """Of the policy's noise in a world, in nats; of choices, what the batches' own showed."""
        if self.policy.chooses:
            surprise = [
                -batch.columns[batch.samples(torch.arange(batch.units)), 1] for batch in batches
            ]
            return float(torch.cat(surprise).mean())
        # a Gaussian has log sigma + log(2 pi e) / 2
        each = self.policy.log_std.detach() + 0.5 * math.log(2 * math.pi * math.e)
        return float(each.sum()) / self.policy.worlds

    def _epoch(self, batches: Sequence[Batch]) -> Tensor:
        """One pass over all batches; the mean terms of each one's loss [batch, term]."""
        seen = torch.zeros((len(batches), TERMS), device=self.policy.log_std.device)
        shuffled = [self._shuffle(batch) for batch in batches]
        for pieces in zip(*shuffled, strict=True):
            for group in self.groups:
                group.gradient.zero_()
            for i, (batch, units) in enumerate(zip(batches, pieces, strict=True)):
                seen[i] += self._backward(batch, units)
            self._step()
        return seen.cpu() / self.settings.minibatches

    def _shuffle(self, batch: Batch) -> list[Tensor]:
        """The batch's units in random order, cut into minibatches; too few are used repeatedly."""
        drawn = torch.randperm(batch.units, generator=self.generator)
        order = drawn.to(self.policy.log_std.device)
        parts = self.settings.minibatches
        return list(order.repeat(-(-parts // len(order))).tensor_split(parts))

    @torch.no_grad()
    def _backward(self, batch: Batch, units: Tensor) -> Tensor:
        """Add the gradient of a minibatch's weighted loss; the loss's terms, means over rows."""
        samples = batch.samples(units)
        columns = batch.columns.index_select(0, samples).t().contiguous()  # [column, sample]
        count = len(samples)
        law = self._law(batch.place, used=len(columns) - 4)
        sums = torch.zeros(TERMS, device=columns.device)
        for part in self._chunks(count):
            out = self._passes.forward(batch, samples[part])
            to_out = torch.empty_like(out)
            sums += differentiate(
                out,
                columns[:, part],
                to_out,
                law,
                settings=self.settings,
                scale=batch.weight / count,
            )
            self._passes.backward(to_out)
        return mean_terms(sums, count)

    def _law(self, place: int, *, used: int) -> ActionLaw:
        """How likely actions are that `used` numbers describe, in the world at a place."""
        if self.policy.chooses:
            return ChoiceLaw(bonus=self.entropy_bonus)
        start = place * self.policy.actions
        to_noise = gradient_of(self.policy.log_std)[start : start + used]
        return NormalLaw(self.policy.noise(place, used), to_noise, bonus=self.entropy_bonus)

    def _chunks(self, count: int) -> list[slice]:
        """Parts of a minibatch that stay in a CPU's cache: whole books."""
        agents = self.policy.agents
        size = CHUNK // agents * agents if self.policy.log_std.device.type == "cpu" else count
        return [slice(start, start + size) for start in range(0, count, size)]

    @torch.no_grad()
    def _step(self) -> None:
        """One step of Adam along the gradient, cut to its longest length."""
        norm = torch.stack([group.gradient.norm() for group in self.groups]).norm()
        factor = (self.settings.gradient_norm / (norm + 1e-6)).clamp(max=1.0)
        self._steps += 1
        for group in self.groups:
            group.step(factor, count=self._steps, rate_left=self.rate_left)


class ParameterGroup:
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
