"""Is a network nothing but linear layers and activations, one after the other?

What a network computes is watched, not what its source says: a probe goes through it, and every
operation must be a linear layer of its own parameters or an activation, each taking what the one
before gave. On windows of several observations the first layer may be a filter: the same linear
layer on every stretch of the window, whose results are pooled. A network that computes something
else elsewhere harms nobody but its own training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from se_rl.modules import defaults

ACTIVATIONS = ("tanh", "relu", "silu", "gelu", "elu")
POOLS = {"mean": ([-1],), "amax": ([-1],), "select": (2, -1)}
"""What makes one number of a filter's results over time, and its arguments: the last is selected."""
PROBES = 6


@dataclass(frozen=True, eq=False)
class ChainLayer:
    """One linear layer and the names of what follows it; "" where nothing does.

    The weight of a filter is [output, input, step], and a pool follows its activation.
    """

    weight: Tensor
    bias: Tensor
    activation: str = ""
    pool: str = ""

    @property
    def width(self) -> int:
        """Numbers that it gives."""
        return len(self.bias)

    @property
    def is_filter(self) -> bool:
        """Whether it takes stretches of the window in turn."""
        return self.weight.ndim == 3

    @property
    def matrix(self) -> Tensor:
        """Its weight [output, input], the inputs of a filter step by step."""
        return self.weight.transpose(1, 2).flatten(1) if self.is_filter else self.weight


def chain_of(network: nn.Module, inputs: int, *, history: int = 1) -> tuple[ChainLayer, ...] | None:
    """The layers of a network on windows, all of whose numbers the first one takes.

    None where it is more than a chain.
    """
    own = _own_layers(network)
    if own is not None:
        return tuple(ChainLayer(layer.weight, layer.bias, "tanh") for layer in own)
    device = next((parameter.device for parameter in network.parameters()), None)
    numbers = torch.linspace(-1.0, 1.0, PROBES * history * inputs, device=device)
    probe = numbers.view(PROBES, history, inputs)
    with torch.no_grad(), _Recorder() as recorder:
        out = network(probe)
    return _matched(recorder.calls, network, probe, out)


def _own_layers(network: nn.Module) -> tuple[nn.Linear, ...] | None:
    """The layers of our own networks, whose tanh is spelled otherwise; None for all others.

    A subclass may set learning constants.
    """
    kind = type(network)
    for known in (defaults.Network, defaults.TwoLayers):
        if kind.__init__ is known.__init__ and kind.forward is known.forward:
            return tuple(one for one in network.children() if isinstance(one, nn.Linear))
    return None


@dataclass(frozen=True, eq=False)
class _Call:
    """One operation as torch did it."""

    name: str
    is_view: bool
    args: tuple[Any, ...]
    options: dict[str, Any]
    out: Any


class _Recorder(TorchDispatchMode):
    """Keeps every operation, and with it all tensors: no place in memory is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[_Call] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        out = func(*args, **options)
        name = func._overloadpacket.__name__
        self.calls.append(_Call(name, func.is_view, tuple(args), options, out))
        return out


def _matched(
    calls: list[_Call], network: nn.Module, probe: Tensor, out: Any
) -> tuple[ChainLayer, ...] | None:
    """The layers, where each operation takes the whole of what the one before gave."""
    own = {parameter.data_ptr(): parameter for parameter in network.parameters()}
    newest = probe.flatten(1)
    layers: list[ChainLayer] = []
    for call in calls:
        last = layers[-1] if layers else None
        found = None
        if call.name == "addmm" and not call.options:
            found = _linear(call, own, newest)
        elif call.name == "convolution" and last is None and probe.shape[1] > 1:
            found = _filter(call, own, probe)
        elif call.name in ACTIVATIONS and last and not last.activation and not last.pool:
            usual = all(value == 1 for value in call.args[1:]) and not call.options
            if usual and _is_same(call.args[0], newest):
                found = replace(layers.pop(), activation=call.name)
        elif last and last.is_filter and not last.pool and _is_pool(call, newest):
            found = replace(layers.pop(), pool=call.name)
        if found is not None:
            layers.append(found)
            newest = call.out
        elif not call.is_view:
            return None
    whole = layers and isinstance(out, Tensor) and out.ndim == 2 and _is_same(out, newest)
    return tuple(layers) if whole else None


def _linear(call: _Call, own: Mapping[int, Tensor], newest: Tensor) -> ChainLayer | None:
    """A linear layer of the network's own that takes the newest numbers."""
    bias, rows, weight = call.args
    shift, factor = own.get(bias.data_ptr()), own.get(weight.data_ptr())
    if shift is None or factor is None or not _is_same(rows, newest):
        return None
    return ChainLayer(factor, shift) if _is_same(weight.t(), factor) else None


def _filter(call: _Call, own: Mapping[int, Tensor], probe: Tensor) -> ChainLayer | None:
    """A convolution of the network's own over the steps of the window, each of them once."""
    windows, weight, bias, *settings = call.args
    if bias is None or not _is_same(windows, probe.transpose(1, 2)):
        return None
    shift, factor = own.get(bias.data_ptr()), own.get(weight.data_ptr())
    if shift is None or factor is None or not _is_same(weight, factor):
        return None
    usual = settings == [[1], [0], [1], False, [0], 1]
    return ChainLayer(factor, shift) if usual else None


def _is_pool(call: _Call, newest: Tensor) -> bool:
    """Whether it makes one number of all steps, or takes the last one."""
    over_time = POOLS.get(call.name) == call.args[1:] and not call.options
    return over_time and _is_same(call.args[0], newest)


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same numbers in the same place."""
    return (
        one.data_ptr() == other.data_ptr()
        and one.shape == other.shape
        and one.stride() == other.stride()
    )
