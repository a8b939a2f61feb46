"""Dropout switched off: a policy that the framework trains and plays draws nothing by itself."""

from __future__ import annotations

from typing import TypeVar

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

Layers = TypeVar("Layers", bound=nn.Module)


def without_dropout(live: Layers) -> Layers:
    """The module itself with every dropout layer in it set to 0, also those that transformer,
    attention and recurrent layers bring along.

    `eval()` would do more: cuDNN trains recurrent layers in training mode only, and transformer
    layers round otherwise in evaluation mode.
    """
    for layer in nn.Module.modules(live):
        if isinstance(layer, _DropoutNd):
            layer.p = 0.0
        elif isinstance(layer, nn.MultiheadAttention | nn.RNNBase):
            layer.dropout = 0.0
    return live
