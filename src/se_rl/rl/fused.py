"""The default policy by hand: its outputs and its PPO gradient, in a fraction of autograd's time.

Two tanh layers with shared heads are three matrix products forward and five backward; done in
chunks that stay in the cache and in buffers that are reused, nothing large is allocated per step.
What belongs to a row lies along the last dimension, so that every small operation of the loss runs
over contiguous numbers. Any other network goes through autograd.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from se_rl.modules import defaults
from se_rl.rl.policy import Policy

if TYPE_CHECKING:
    from se_rl.rl.ppo import PPOSettings

CHUNK = 2048
"""Rows handled at a time on a CPU."""
WIDTH = 64
"""Units of the default network's layers."""
tanh_backward: Any = torch.ops.aten.tanh_backward.grad_input

Layer = tuple[Tensor, Tensor]
"""Weight and bias."""


class FusedPolicy:
    """A policy's outputs without autograd.

    The gradient of the clipped surrogate is added to the policy's `.grad` tensors.
    """

    @classmethod
    def of(cls, policy: Policy) -> FusedPolicy | None:
        """For policies on the default network without memory and messages; None for all others."""
        # a subclass that only sets learning constants computes the same
        kind, default = type(policy.network), defaults.Network
        same = kind.__init__ is default.__init__ and kind.forward is default.forward
        plain = type(policy) is Policy and same and policy.history == 1 and not policy.message_size
        return cls(policy) if plain else None

    def __init__(self, policy: Policy) -> None:
        network, heads = policy.network, policy.heads
        assert isinstance(network, defaults.Network)
        self._first: Layer = (network.first.weight, network.first.bias)
        self._second: Layer = (network.second.weight, network.second.bias)
        self._heads: Layer = (heads.weight, heads.bias)
        self._log_std = policy.log_std
        self._actions = policy.actions
        device = policy.log_std.device
        self._chunk = CHUNK if device.type == "cpu" else 1 << 30
        self._minus_one = torch.full((), -1.0, device=device)
        # gains are the loss's opposite, and a squared error counts half
        self._signs = torch.tensor([-1.0, 0.5, 1.0, 1.0], device=device)
        self._buffers: dict[tuple[str, int, int], Tensor] = {}

    def forward(self, rows: Tensor, out: Tensor) -> None:
        """Observations [n, size] -> `out` [actions + 1, n]: mean outputs, then the value.

        Call it under `no_grad`.
        """
        one = self._buffer("one", len(rows), WIDTH)
        two = self._buffer("two", len(rows), WIDTH)
        self._layer(self._first, rows, one)
        self._layer(self._second, one, two)
        weight, bias = self._heads
        torch.addmm(bias[:, None], weight, two.t(), out=out)

    @torch.no_grad()
    def backward(
        self,
        rows: Tensor,
        columns: Tensor,
        *,
        settings: PPOSettings,
        entropy_bonus: float,
        weight: float,
    ) -> Tensor:
        """Add the gradient; means over rows of policy loss, value loss, KL and clipped share.

        `columns` [used + 4, n] are the outputs, then old log-prob, old value, advantage and return.
        """
        count = len(rows)
        used = len(columns) - 4
        terms = torch.zeros(4, device=rows.device)
        for start in range(0, count, self._chunk):
            part = slice(start, start + self._chunk)
            terms += self._chunk_backward(
                rows[part], columns[:, part], settings=settings, scale=weight / count
            )
        _gradient(self._log_std)[:used] -= weight * entropy_bonus
        return terms * self._signs / count

    def _chunk_backward(
        self, rows: Tensor, columns: Tensor, *, settings: PPOSettings, scale: float
    ) -> Tensor:
        """The chain rule from the loss back through the heads and both layers."""
        n = len(rows)
        out = self._buffer("out", self._actions + 1, n)
        self.forward(rows, out)
        one = self._buffer("one", n, WIDTH)
        two = self._buffer("two", n, WIDTH)
        back = self._buffer("back", n, WIDTH)
        slope = self._buffer("slope", n, WIDTH)
        to_out = self._buffer("to_out", self._actions + 1, n)
        terms = self._loss(out, columns, to_out, settings=settings, scale=scale)
        # dL/dW = dL/dout x, dL/db = sum of dL/dout, dL/dx = W' dL/dout
        weight, bias = self._heads
        _gradient(weight).addmm_(to_out, two)
        _gradient(bias).add_(to_out.sum(1))
        torch.mm(to_out.t(), weight, out=back)
        # through tanh: dL/dz = (1 - tanh(z)^2) dL/dtanh(z)
        tanh_backward(back, two, grad_input=slope)
        weight, bias = self._second
        _gradient(weight).addmm_(slope.t(), one)
        _gradient(bias).add_(slope.sum(0))
        torch.mm(slope, weight, out=back)
        tanh_backward(back, one, grad_input=slope)
        weight, bias = self._first
        _gradient(weight).addmm_(slope.t(), rows)
        _gradient(bias).add_(slope.sum(0))
        return terms

    def _loss(
        self, out: Tensor, columns: Tensor, to_out: Tensor, *, settings: PPOSettings, scale: float
    ) -> Tensor:
        """Sums of the loss's terms; writes its derivatives by the heads' outputs.

        The derivative by log_std is added to that parameter's gradient.
        """
        used = len(columns) - 4
        outputs = columns[:used]
        old_log_prob, old_value, advantage, target = columns[used:].unbind()
        terms = self._buffer("terms", 4, len(target))
        gain, squared, divergence, outside = terms
        log_std = self._log_std[:used]
        inverse = torch.exp(-log_std)[:, None]
        # log ratio = sum(-z^2 / 2 - log s - log(2 pi) / 2) - old log-prob, z = (x - m) / s
        z = (outputs - out[:used]).mul_(inverse)
        constant = log_std.sum() + 0.5 * used * math.log(2 * math.pi)
        shift = z.square().sum(0).mul_(-0.5).sub_(constant).sub_(old_log_prob)
        ratio = torch.exp(shift)
        # gain = min(ratio * A, clip(ratio) * A); the clipped branch is flat
        plain = ratio * advantage
        bounded = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip).mul_(advantage)
        torch.minimum(plain, bounded, out=gain)
        by_log_prob = (plain <= bounded).mul(plain).mul_(-scale)
        # d log-prob / d m = z / s, d log-prob / d log s = z^2 - 1
        pull = z * by_log_prob
        to_out[used:].zero_()
        torch.mul(pull, inverse, out=to_out[:used])
        _gradient(self._log_std)[:used] += pull.mul_(z).sub_(by_log_prob).sum(1)
        slope = _value_loss(out[-1], old_value, target, clip=settings.value_clip, squared=squared)
        torch.mul(slope, scale * settings.value_weight, out=to_out[-1])
        # KL = ratio - 1 - log ratio
        excess = ratio.sub_(1.0)
        torch.sub(excess, shift, out=divergence)
        torch.gt(excess.abs_(), settings.clip, out=outside)
        return terms.sum(1)

    def _layer(self, layer: Layer, rows: Tensor, out: Tensor) -> None:
        """out = tanh(W x + b)."""
        weight, bias = layer
        # tanh(z) = 2 / (1 + exp(-2 z)) - 1, the matrix product taking the inner factor 2 along
        torch.addmm(bias, rows, weight.t(), beta=2.0, alpha=2.0, out=out).sigmoid_()
        torch.add(self._minus_one, out, alpha=2.0, out=out)

    def _buffer(self, name: str, rows: int, columns: int) -> Tensor:
        key = (name, rows, columns)
        if key not in self._buffers:
            self._buffers[key] = torch.empty((rows, columns), device=self._log_std.device)
        return self._buffers[key]


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


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None  # PPO makes every gradient a view of one flat tensor
    return parameter.grad
