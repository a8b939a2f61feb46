"""PPO: the clipped surrogate on batches of one or several worlds, every world's minibatch in the same optimiser step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from se_rl.config import option, settings
from se_rl.rl.fused import FusedPolicy
from se_rl.rl.policy import Policy
from se_rl.rl.rollout import Diverged, Rollout

MEAN_DECAY, SQUARE_DECAY = 0.9, 0.999
"""How slowly Adam's means of the gradient and of its square forget."""


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


@dataclass(frozen=True, eq=False)
class Batch:
    """The samples of one world's rollout, ready for shuffling, and the weight of that world's loss.

    A sample is one step of one order, flat: step * orders + order. `observations` has the zeros before the first step in
    front; `columns` holds each sample's outputs, log-prob, value, advantage and return, so that one gather fetches all.
    """

    observations: Tensor
    columns: Tensor
    orders: int
    history: int
    agents: int
    weight: float = 1.0

    @classmethod
    def of(
        cls, rollout: Rollout, advantages: Tensor, *, policy: Policy, weight: float = 1.0
    ) -> Batch:
        """Keep the orders whose market did not break; advantages are centred and scaled over the batch."""
        kept = rollout.kept.view(-1, policy.agents).all(1).repeat_interleave(policy.agents)
        if not bool(kept.any()):
            raise Diverged("every market of a batch broke")
        part = (lambda x: x) if bool(kept.all()) else (lambda x: x[:, kept])
        taken, values, observations = (
            part(advantages),
            part(rollout.values),
            part(rollout.observations),
        )
        scaled = (taken - taken.mean()) / (taken.std() + 1e-8)
        rest = torch.stack([part(rollout.log_probs), values, scaled, taken + values], dim=2)
        past = observations.new_zeros((policy.history - 1, *observations[0].shape))
        padded = torch.cat([past, observations]) if policy.history > 1 else observations
        columns = torch.cat([part(rollout.outputs), rest], dim=2)
        return cls(
            padded.flatten(0, 1),
            columns.flatten(0, 1),
            values.shape[1],
            policy.history,
            policy.agents,
            weight,
        )

    @property
    def units(self) -> int:
        """What is shuffled: single steps of single books."""
        return len(self.columns) // self.agents

    def samples(self, units: Tensor) -> Tensor:
        """The samples of these units; a book's agents stay neighbours."""
        if self.agents == 1:
            return units
        return (
            units[:, None] * self.agents + torch.arange(self.agents, device=units.device)
        ).flatten()

    def windows(self, samples: Tensor) -> Tensor:
        """The observations [sample, history, size] that led to these steps."""
        if self.history == 1:
            return self.observations.index_select(0, samples).unsqueeze(1)
        reach = samples[:, None] + torch.arange(self.history, device=samples.device) * self.orders
        return self.observations[reach]


class PPO:
    """The learner of one policy. Parameters and gradients are views of two flat tensors, so that a step is a few calls."""

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
        self.policy, self.settings = policy, settings or PPOSettings()
        self.epochs, self.entropy_bonus = epochs, entropy_bonus
        self._generator = generator or torch.Generator().manual_seed(0)
        self._rates, parameters = zip(
            *(groups or [(learning_rate, list(policy.parameters()))]), strict=True
        )
        self._flat = [flatten(some) for some in parameters]
        self._moments = [(torch.zeros_like(flat), torch.zeros_like(flat)) for flat in self._flat]
        self._left, self._steps = 1.0, 0
        self._fused = FusedPolicy.of(policy)

    def anneal(self, left: float) -> None:
        """Scale the learning rates by what is left of the training, a tenth at least."""
        self._left = max(left, 0.1)

    def update(self, batches: Sequence[Batch]) -> dict[str, float]:
        """Epochs of minibatch steps on the weighted sum of the worlds' losses; stops when the policy has moved enough."""
        totals = torch.zeros((len(batches), 4))
        steps = 0
        for epoch in range(self.epochs):
            seen = torch.zeros((len(batches), 4), device=self.policy.log_std.device)
            shuffled = [self._shuffle(batch) for batch in batches]
            for pieces in zip(*shuffled, strict=True):
                for flat in self._flat:
                    _gradient(flat).zero_()
                for i, (batch, units) in enumerate(zip(batches, pieces, strict=True)):
                    seen[i] += self._backward(batch, units)
                self._step()
                steps += 1
            totals = seen.cpu() / self.settings.minibatches
            if not torch.isfinite(totals).all():
                raise Diverged(f"loss is not finite in epoch {epoch + 1}")
            if float(totals[:, 2].max()) > self.settings.kl_stop:
                break
        if not all(bool(torch.isfinite(flat).all()) for flat in self._flat):
            raise Diverged("weights are not finite after an update")
        mean = totals.mean(0).tolist()
        losses = {
            f"loss_{i}": float(row[0] + self.settings.value_weight * row[1])
            for i, row in enumerate(totals)
        }
        names = ("policy_loss", "value_loss", "kl", "clipped")
        return {
            **dict(zip(names, mean, strict=True)),
            **losses,
            "entropy": self.entropy(),
            "steps": float(steps),
        }

    def entropy(self) -> float:
        """Of the policy's noise, in nats."""
        return float((self.policy.log_std.detach() + 0.5 * math.log(2 * math.pi * math.e)).sum())

    def _shuffle(self, batch: Batch) -> list[Tensor]:
        """The batch's units in random order, cut into minibatches; too few for that are gone through more than once."""
        order = torch.randperm(batch.units, generator=self._generator).to(
            self.policy.log_std.device
        )
        parts = self.settings.minibatches
        return list(order.repeat(-(-parts // len(order))).tensor_split(parts))

    def _backward(self, batch: Batch, units: Tensor) -> Tensor:
        """Add the gradient of one minibatch's weighted loss; the loss's terms as means over its rows."""
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
        outputs, (old, values, advantage, target) = rows[:, :used], rows[:, used:].unbind(1)
        mean, value, _ = self.policy(self._with_inbox(batch, samples))
        log_prob = self.policy.log_prob(mean, outputs)
        terms = surrogate(log_prob, value, old, values, advantage, target, settings=self.settings)
        entropy = self.policy.log_std[:used].sum()
        loss = terms[0] + self.settings.value_weight * terms[1] - self.entropy_bonus * entropy
        (batch.weight * loss).backward()
        return torch.stack([term.detach() for term in terms])

    def _with_inbox(self, batch: Batch, samples: Tensor) -> Tensor:
        """The windows, with the newest inbox spoken again by the present weights: so messages are learned end to end."""
        windows = batch.windows(samples)
        if not self.policy.message_size:
            return windows
        _, _, features = self.policy(batch.windows((samples - batch.orders).clamp(min=0)))
        heard = self.policy.inbox(features) * (samples >= batch.orders)[:, None]
        newest = torch.cat([windows[:, -1:, : self.policy.observation_size], heard[:, None]], dim=2)
        return torch.cat([windows[:, :-1], newest], dim=1)

    @torch.no_grad()
    def _step(self) -> None:
        """One step of Adam along the gradient, cut to its longest length; on flat tensors it is three lines."""
        gradients = [_gradient(flat) for flat in self._flat]
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
        factor = (self.settings.gradient_norm / (norm + 1e-6)).clamp(max=1.0)
        self._steps += 1
        first, second = 1.0 - MEAN_DECAY**self._steps, math.sqrt(1.0 - SQUARE_DECAY**self._steps)
        for flat, gradient, rate, (mean, square) in zip(
            self._flat, gradients, self._rates, self._moments, strict=True
        ):
            mean.lerp_(gradient.mul_(factor), 1.0 - MEAN_DECAY)
            square.mul_(SQUARE_DECAY).addcmul_(gradient, gradient, value=1.0 - SQUARE_DECAY)
            flat.addcdiv_(
                mean, square.sqrt().div_(second).add_(1e-5), value=-self._left * rate / first
            )


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
    """Means over the rows of PPO's clipped policy loss, clipped value loss, KL estimate and share of clipped rows."""
    shift = log_prob - old_log_prob
    ratio = torch.exp(shift)
    low, high = 1.0 - settings.clip, 1.0 + settings.clip
    policy_loss = -torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage).mean()
    squared = (value - target).square()
    if settings.value_clip > 0:
        near = old_value + (value - old_value).clamp(-settings.value_clip, settings.value_clip)
        squared = torch.maximum(squared, (near - target).square())
    kl = (ratio - 1.0 - shift).mean()
    return (
        policy_loss,
        0.5 * squared.mean(),
        kl,
        ((ratio - 1.0).abs() > settings.clip).to(value.dtype).mean(),
    )


def flatten(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Make parameters and their gradients views of one flat tensor and of its gradient; returns it."""
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


def _gradient(flat: Tensor) -> Tensor:
    assert flat.grad is not None  # made by flatten
    return flat.grad
