"""The PPO gradient of the default network, derived by hand: same numbers as autograd, a fraction of its time.

Two tanh layers with shared heads are four matrix products forward and six backward; done in chunks that stay in the
cache and in buffers that are reused, nothing is allocated per step. Any other network goes through autograd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from se_rl.modules import defaults
from se_rl.rl.policy import Policy

if TYPE_CHECKING:
    from se_rl.rl.ppo import PPOSettings

CHUNK = 1024
tanh_backward: Any = torch.ops.aten.tanh_backward.grad_input


class FusedGradient:
    """Adds the gradient of the clipped surrogate to a policy's `.grad` tensors."""

    @classmethod
    def of(cls, policy: Policy) -> FusedGradient | None:
        """For policies on the default network without memory and messages; None for all others."""
        kind = type(policy.network)  # a subclass that only sets learning constants computes the same
        same = all(getattr(kind, name) is getattr(defaults.Network, name) for name in ("__init__", "forward"))
        plain = type(policy) is Policy and same and policy.history == 1 and not policy.message_size
        return cls(policy) if plain else None

    def __init__(self, policy: Policy) -> None:
        network = policy.network
        assert isinstance(network, defaults.Network)
        self._policy = policy
        self._layers = (network.first, network.second, policy.heads)
        device = policy.log_std.device
        self._chunk = CHUNK if device.type == "cpu" else 1 << 30
        self._minus_one = torch.full((), -1.0, device=device)
        self._buffers: dict[tuple[str, int, int], Tensor] = {}

    @torch.no_grad()
    def backward(
        self,
        rows: Tensor,
        outputs: Tensor,
        old_log_prob: Tensor,
        old_value: Tensor,
        advantage: Tensor,
        target: Tensor,
        *,
        settings: PPOSettings,
        entropy_bonus: float,
        weight: float,
    ) -> Tensor:
        """Means over the rows of policy loss, value loss, KL estimate and share of clipped rows; gradients are added."""
        count, used = outputs.shape
        log_std = self._policy.log_std
        scale = weight / count
        terms = torch.zeros(4, device=rows.device)
        for start in range(0, count, self._chunk):
            part = slice(start, start + self._chunk)
            terms += self._chunk_backward(
                rows[part], outputs[part], old_log_prob[part], old_value[part], advantage[part], target[part],
                settings=settings, scale=scale,
            )  # fmt: skip
        _gradient(log_std)[:used] -= weight * entropy_bonus
        terms[1] *= 0.5
        return terms / count

    def _chunk_backward(
        self,
        rows: Tensor,
        outputs: Tensor,
        old_log_prob: Tensor,
        old_value: Tensor,
        advantage: Tensor,
        target: Tensor,
        *,
        settings: PPOSettings,
        scale: float,
    ) -> Tensor:
        first, second, heads = self._layers
        n, used, actions = len(rows), outputs.shape[1], self._policy.actions
        one, two = self._buffer("one", n, 64), self._buffer("two", n, 64)
        back, slope = self._buffer("back", n, 64), self._buffer("slope", n, 64)
        self._layer(first, rows, one)
        self._layer(second, one, two)
        out = torch.addmm(heads.bias, two, heads.weight.t(), out=self._buffer("out", n, actions + 1))
        to_out = self._buffer("to_out", n, actions + 1).zero_()
        terms = self._loss(
            out, outputs, old_log_prob, old_value, advantage, target, to_out, used=used, settings=settings, scale=scale
        )
        _gradient(heads.weight).addmm_(to_out.t(), two)
        _gradient(heads.bias).add_(to_out.sum(0))
        torch.mm(to_out, heads.weight, out=back)
        tanh_backward(back, two, grad_input=slope)
        _gradient(second.weight).addmm_(slope.t(), one)
        _gradient(second.bias).add_(slope.sum(0))
        torch.mm(slope, second.weight, out=back)
        tanh_backward(back, one, grad_input=slope)
        _gradient(first.weight).addmm_(slope.t(), rows)
        _gradient(first.bias).add_(slope.sum(0))
        return terms

    def _loss(
        self,
        out: Tensor,
        outputs: Tensor,
        old_log_prob: Tensor,
        old_value: Tensor,
        advantage: Tensor,
        target: Tensor,
        to_out: Tensor,
        *,
        used: int,
        settings: PPOSettings,
        scale: float,
    ) -> Tensor:
        """Sums of the loss's terms; writes the derivatives by the heads' outputs and adds that by log_std."""
        policy = self._policy
        log_std, actions = policy.log_std[:used], policy.actions
        inverse = torch.exp(-log_std)
        z = (outputs - out[:, :used]).mul_(inverse)
        shift = policy.log_prob(out[:, :used], outputs).sub_(old_log_prob)
        ratio = torch.exp(shift)
        clipped = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip)
        plain, bounded = ratio * advantage, clipped * advantage
        by_log_prob = torch.where(plain <= bounded, plain, 0.0).mul_(-scale)  # the clipped branch is flat
        pull = z * by_log_prob[:, None]
        to_out[:, :used] = pull * inverse
        _gradient(policy.log_std)[:used] += (pull.mul_(z).sum(0)) - by_log_prob.sum()
        value = out[:, actions]
        gap = value - target
        squared, slope = gap.square(), gap
        if settings.value_clip > 0:
            moved = value - old_value
            near_gap = old_value + moved.clamp(-settings.value_clip, settings.value_clip) - target
            near = near_gap.square()
            free = moved.abs() <= settings.value_clip
            slope = torch.where(squared >= near, gap, near_gap * free)
            squared = torch.maximum(squared, near)
        to_out[:, actions] = slope.mul(scale * settings.value_weight)
        return torch.stack(
            [
                -torch.minimum(plain, bounded).sum(),
                squared.sum(),
                (ratio - 1.0 - shift).sum(),
                ((ratio - 1.0).abs() > settings.clip).sum(),
            ]
        )

    def _layer(self, layer: nn.Linear, rows: Tensor, out: Tensor) -> None:
        """tanh(z) = 2 / (1 + exp(-2 z)) - 1, the first factor 2 taken along by the matrix product."""
        torch.addmm(layer.bias, rows, layer.weight.t(), beta=2.0, alpha=2.0, out=out).sigmoid_()
        torch.add(self._minus_one, out, alpha=2.0, out=out)

    def _buffer(self, name: str, rows: int, columns: int) -> Tensor:
        key = (name, rows, columns)
        if key not in self._buffers:
            self._buffers[key] = torch.empty((rows, columns), device=self._policy.log_std.device)
        return self._buffers[key]


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None  # PPO makes every gradient a view of one flat tensor
    return parameter.grad
