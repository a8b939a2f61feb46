"""Passes through a policy: the default network by hand, every other one by autograd.

Two tanh layers with shared heads are three matrix products forward and five backward; done in
buffers that are reused, nothing large is allocated per step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from se_rl.modules import defaults
from se_rl.rl.policy import Policy

if TYPE_CHECKING:
    from se_rl.rl.batch import Batch

WIDTH = 64
"""Units of the default network's layers."""
tanh_backward: Any = torch.ops.aten.tanh_backward.grad_input

Layer = tuple[Tensor, Tensor]
"""Weight and bias."""


class Passes(Protocol):
    """Outputs of a policy for samples of a batch, and then the gradient of its weights."""

    def forward(self, batch: Batch, samples: Tensor) -> Tensor:
        """Mean outputs and value [actions + 1, n]."""
        ...

    def backward(self, to_out: Tensor) -> None:
        """Add to every `.grad` what these derivatives by the last outputs make of it."""
        ...


def passes_of(policy: Policy) -> Passes:
    """By hand where somebody wrote it, by autograd elsewhere."""
    return FusedPolicy.of(policy) or AutogradPolicy(policy)


class AutogradPolicy:
    """Any policy; inboxes are spoken again by the present weights, so messages are learned too."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._out: Tensor | None = None

    def forward(self, batch: Batch, samples: Tensor) -> Tensor:
        """Mean outputs and value [actions + 1, n], with all that a backward pass needs."""
        with torch.enable_grad():
            self._out = self._policy.answer(self._with_inbox(batch, samples), batch.place)[0]
        return self._out.detach()

    def backward(self, to_out: Tensor) -> None:
        """Back through everything, once."""
        assert self._out is not None  # forward() came first
        self._out.backward(to_out)
        self._out = None

    def _with_inbox(self, batch: Batch, samples: Tensor) -> Tensor:
        """The windows, their newest inbox spoken again by the present weights.

        So messages are learned end to end.
        """
        policy = self._policy
        windows = batch.windows(samples)  # [sample, history, observation + message]
        if not policy.message_size:
            return windows
        earlier = batch.windows((samples - batch.orders).clamp(min=0))
        features = policy.answer(earlier, batch.place)[1]
        heard = policy.inbox(features) * (samples >= batch.orders)[:, None]
        newest = torch.cat([windows[:, -1:, : policy.observation_size], heard[:, None]], dim=2)
        return torch.cat([windows[:, :-1], newest], dim=1)


class FusedPolicy:
    """The default policy without autograd."""

    @classmethod
    def of(cls, policy: Policy) -> FusedPolicy | None:
        """For policies on the default network without memory and messages; None for all others."""
        # a subclass that only sets learning constants computes the same
        kind, default = type(policy.network), defaults.Network
        same = kind.__init__ is default.__init__ and kind.forward is default.forward
        plain = type(policy) is Policy and same and policy.history == 1 and not policy.message_size
        return cls(policy) if plain else None

    def __init__(self, policy: Policy) -> None:
        network = policy.network
        assert isinstance(network, defaults.Network)
        self._policy = policy
        self._first: Layer = (network.first.weight, network.first.bias)
        self._second: Layer = (network.second.weight, network.second.bias)
        self._device = policy.log_std.device
        self._minus_one = torch.full((), -1.0, device=self._device)
        self._buffers: dict[tuple[str, int, int], Tensor] = {}
        self._rows: Tensor | None = None
        self._place = 0

    @torch.no_grad()
    def forward(self, batch: Batch, samples: Tensor) -> Tensor:
        """Mean outputs and value [actions + 1, n], in a buffer that the next pass reuses."""
        self._rows = batch.observations.index_select(0, samples)
        self._place = batch.place
        out = self._buffer("out", self._policy.actions + 1, len(samples))
        self.answer(self._rows, batch.place, out)
        return out

    @torch.no_grad()
    def answer(self, rows: Tensor, place: int, out: Tensor) -> None:
        """Observations [n, size] -> `out` [actions + 1, n]: mean outputs, then the value."""
        one = self._buffer("one", len(rows), WIDTH)
        two = self._buffer("two", len(rows), WIDTH)
        self._layer(self._first, rows, one)
        self._layer(self._second, one, two)
        heads, part = self._policy.heads, self._policy.head_rows(place)
        torch.addmm(heads.bias[part, None], heads.weight[part], two.t(), out=out)

    @torch.no_grad()
    def backward(self, to_out: Tensor) -> None:
        """The chain rule back through the heads and both layers."""
        assert self._rows is not None  # forward() came first
        rows, n = self._rows, len(self._rows)
        one = self._buffer("one", n, WIDTH)
        two = self._buffer("two", n, WIDTH)
        back = self._buffer("back", n, WIDTH)
        slope = self._buffer("slope", n, WIDTH)
        # dL/dW = dL/dout x, dL/db = sum of dL/dout, dL/dx = W' dL/dout
        heads, part = self._policy.heads, self._policy.head_rows(self._place)
        gradient_of(heads.weight)[part].addmm_(to_out, two)
        gradient_of(heads.bias)[part].add_(to_out.sum(1))
        torch.mm(to_out.t(), heads.weight[part], out=back)
        # through tanh: dL/dz = (1 - tanh(z)^2) dL/dtanh(z)
        tanh_backward(back, two, grad_input=slope)
        weight, bias = self._second
        gradient_of(weight).addmm_(slope.t(), one)
        gradient_of(bias).add_(slope.sum(0))
        torch.mm(slope, weight, out=back)
        tanh_backward(back, one, grad_input=slope)
        weight, bias = self._first
        gradient_of(weight).addmm_(slope.t(), rows)
        gradient_of(bias).add_(slope.sum(0))

    def _layer(self, layer: Layer, rows: Tensor, out: Tensor) -> None:
        """out = tanh(W x + b)."""
        weight, bias = layer
        # tanh(z) = 2 / (1 + exp(-2 z)) - 1, the matrix product taking the inner factor 2 along
        torch.addmm(bias, rows, weight.t(), beta=2.0, alpha=2.0, out=out).sigmoid_()
        torch.add(self._minus_one, out, alpha=2.0, out=out)

    def _buffer(self, name: str, rows: int, columns: int) -> Tensor:
        key = (name, rows, columns)
        if key not in self._buffers:
            self._buffers[key] = torch.empty((rows, columns), device=self._device)
        return self._buffers[key]


def gradient_of(parameter: Tensor) -> Tensor:
    """A parameter's gradient, which PPO makes a view of one flat tensor."""
    assert parameter.grad is not None
    return parameter.grad
