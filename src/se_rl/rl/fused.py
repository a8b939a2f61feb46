"""Passes through a policy: chains of layers by hand, every other network by autograd.

A layer with heads is two matrix products forward and three backward; done in buffers that are
reused, nothing large is allocated per step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from se_rl.rl.layer_chain import ChainLayer, chain_of
from se_rl.rl.policy import Policy

if TYPE_CHECKING:
    from se_rl.rl.batch import Batch

aten: Any = torch.ops.aten


class _Activation(NamedTuple):
    """An activation whose slope needs what went in, not what came out."""

    forward: Any
    backward: Any


FROM_INPUT = {
    "silu": _Activation(aten.silu.out, aten.silu_backward.grad_input),
    "gelu": _Activation(aten.gelu.out, aten.gelu_backward.grad_input),
}


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
    """A policy on a chain of layers without autograd."""

    @classmethod
    def of(cls, policy: Policy) -> FusedPolicy | None:
        """For policies without messages on a chain of layers; None for all others."""
        if type(policy) is not Policy or policy.message_size:
            return None
        layers = chain_of(policy.network, policy.observation_size, history=policy.history)
        return cls(policy, layers) if layers else None

    def __init__(self, policy: Policy, layers: Sequence[ChainLayer]) -> None:
        self._policy = policy
        self.layers = layers
        self._device = policy.log_std.device
        self._minus_one = torch.full((), -1.0, device=self._device)
        self._buffers: dict[tuple[str, int, int, int], Tensor] = {}
        self._rows: Tensor | None = None
        self._place = 0

    @property
    def has_filter(self) -> bool:
        """Whether the first layer takes stretches of the window in turn."""
        return self.layers[0].is_filter

    @torch.no_grad()
    def forward(self, batch: Batch, samples: Tensor) -> Tensor:
        """Mean outputs and value [actions + 1, n], in a buffer that the next pass reuses."""
        self._rows = self.rows_of(batch.windows(samples))
        self._place = batch.place
        out = self._buffer("out", 0, self._policy.actions + 1, len(samples))
        self.answer(self._rows, batch.place, out)
        return out

    def rows_of(self, windows: Tensor) -> Tensor:
        """What the first layer takes of windows [n, history, size]: rows [(stretch,) n], numbers.

        A filter takes every stretch that is as long as itself, or the last one where no other
        counts.
        """
        first, flat = self.layers[0], windows.flatten(1)
        if not first.is_filter:
            return flat
        numbers = first.weight[0].numel()
        stretches = flat.unfold(1, numbers, windows.shape[2]).transpose(0, 1)
        if first.pool == "select":
            stretches = stretches[-1:]
        return stretches.reshape(-1, numbers)

    @torch.no_grad()
    def answer(self, rows: Tensor, place: int, out: Tensor) -> None:
        """Rows as `rows_of` makes them -> `out` [actions + 1, n]: mean outputs, then the value."""
        given = rows
        for number, layer in enumerate(self.layers):
            given = self._through(number, given)
            if layer.pool:
                given = self._pooled(number, given, n=out.shape[1])
        heads, part = self._policy.heads, self._policy.head_rows(place)
        torch.addmm(heads.bias[part, None], heads.weight[part], given.t(), out=out)

    @torch.no_grad()
    def backward(self, to_out: Tensor) -> None:
        """The chain rule back through the heads and all layers."""
        assert self._rows is not None  # forward() came first
        n = to_out.shape[1]
        taken, given = [self._rows], []
        for number, layer in enumerate(self.layers):
            given.append(self._buffer("given", number, len(taken[-1]), layer.width))
            pooled = self._buffer("pooled", number, n, layer.width) if layer.pool else given[-1]
            taken.append(pooled)
        # dL/dW = dL/dout x, dL/db = sum of dL/dout, dL/dx = W' dL/dout
        heads, part = self._policy.heads, self._policy.head_rows(self._place)
        gradient_of(heads.weight)[part].addmm_(to_out, taken[-1])
        gradient_of(heads.bias)[part].add_(to_out.sum(1))
        last = len(self.layers) - 1
        back = self._buffer("back", last, n, self.layers[last].width)
        torch.mm(to_out.t(), heads.weight[part], out=back)
        for number in range(last, -1, -1):
            layer = self.layers[number]
            if layer.pool:
                back = self._spread(number, back, given[number], taken[number + 1])
            slope = self._slope(number, back, given[number])
            if layer.is_filter:
                by_step = (slope.t() @ taken[number]).view(layer.width, -1, layer.weight.shape[1])
                gradient_of(layer.weight).add_(by_step.transpose(1, 2))
            else:
                gradient_of(layer.weight).addmm_(slope.t(), taken[number])
            gradient_of(layer.bias).add_(slope.sum(0))
            if number:
                back = self._buffer("back", number - 1, n, self.layers[number - 1].width)
                torch.mm(slope, layer.weight, out=back)

    def _pooled(self, number: int, given: Tensor, *, n: int) -> Tensor:
        """What a filter's results [stretch * n, width] become [n, width]."""
        over_time = given.view(-1, n, given.shape[1])
        out = self._buffer("pooled", number, n, given.shape[1])
        if self.layers[number].pool == "mean":
            return torch.mean(over_time, 0, out=out)
        return torch.amax(over_time, 0, out=out)  # a single stretch is its own maximum

    def _spread(self, number: int, back: Tensor, given: Tensor, pooled: Tensor) -> Tensor:
        """The derivatives by what was pooled, from those by what it became."""
        over_time = given.view(-1, *back.shape)
        if self.layers[number].pool == "mean":
            return (back / len(over_time)).expand_as(over_time).flatten(0, 1)
        largest = over_time == pooled
        return (largest * (back / largest.sum(0))).flatten(0, 1)  # equal ones share it

    def _through(self, number: int, rows: Tensor) -> Tensor:
        """What a layer of the chain gives."""
        layer = self.layers[number]
        out = self._buffer("given", number, len(rows), layer.width)
        if layer.activation == "tanh":
            # tanh(z) = 2 / (1 + exp(-2 z)) - 1, the matrix product taking the inner factor 2 along
            torch.addmm(layer.bias, rows, layer.matrix.t(), beta=2.0, alpha=2.0, out=out).sigmoid_()
            return torch.add(self._minus_one, out, alpha=2.0, out=out)
        if layer.activation in FROM_INPUT:
            before = self._buffer("before", number, len(rows), layer.width)
            torch.addmm(layer.bias, rows, layer.matrix.t(), out=before)
            return FROM_INPUT[layer.activation].forward(before, out=out)
        torch.addmm(layer.bias, rows, layer.matrix.t(), out=out)
        if layer.activation == "relu":
            return out.relu_()
        return functional.elu_(out) if layer.activation == "elu" else out

    def _slope(self, number: int, back: Tensor, given: Tensor) -> Tensor:
        """dL/dz of a layer, where z is what its activation takes."""
        activation = self.layers[number].activation
        if not activation:
            return back
        slope = self._buffer("slope", number, *back.shape)
        if activation == "tanh":  # dL/dz = (1 - tanh(z)^2) dL/dtanh(z)
            aten.tanh_backward.grad_input(back, given, grad_input=slope)
        elif activation == "relu":
            aten.threshold_backward.grad_input(back, given, 0, grad_input=slope)
        elif activation == "elu":
            aten.elu_backward.grad_input(back, 1, 1, 1, True, given, grad_input=slope)
        else:
            before = self._buffer("before", number, *back.shape)
            FROM_INPUT[activation].backward(back, before, grad_input=slope)
        return slope

    def _buffer(self, name: str, number: int, rows: int, columns: int) -> Tensor:
        key = (name, number, rows, columns)
        if key not in self._buffers:
            self._buffers[key] = torch.empty((rows, columns), device=self._device)
        return self._buffers[key]


def gradient_of(parameter: Tensor) -> Tensor:
    """A parameter's gradient, which PPO makes a view of one flat tensor."""
    assert parameter.grad is not None
    return parameter.grad
