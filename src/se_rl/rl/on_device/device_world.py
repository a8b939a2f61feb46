"""What a world on a device promises, and what all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from se_rl.data.features import OBSERVATION_FIELDS
from se_rl.environments.task import Orders, write_order_fields
from se_rl.environments.worlds import FIELD_NAMES, HIGHEST, LOWEST, Episodes


class DeviceWorld(Protocol):
    """A world whose orders are tensors [order]; the arithmetic is that of its CPU world."""

    def start(self, episodes: Episodes) -> Tensor:
        """Start these; the first observation [order, size]."""
        ...

    def step(self, ratio: Tensor, offset: Tensor) -> Tensor:
        """Trade as `World.step` does; the next observation [order, size], a tensor of its own."""
        ...

    def finish(self) -> tuple[Tensor, Tensor]:
        """The reward's fields [field, step, order], and which orders count [order]."""
        ...


class Uploads:
    """Arrays of the host on a device, each copied once."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._kept: dict[int, tuple[npt.NDArray[Any], Tensor]] = {}

    def keep(self, array: npt.NDArray[Any]) -> Tensor:
        """An array that is used again and again and never changes."""
        if id(array) not in self._kept:
            self._kept[id(array)] = (array, self.put(array))
        return self._kept[id(array)][1]

    def put(self, array: npt.NDArray[Any]) -> Tensor:
        """An array that is used once."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


def order_observation(orders: Orders, uploads: Uploads) -> Tensor:
    """Observations [order, size] with what an order is from its first step to its last in them."""
    seen = np.zeros((len(orders), len(OBSERVATION_FIELDS)), np.float32)
    write_order_fields(orders, seen)
    return uploads.put(seen)


def clipped_fields(values: Mapping[str, Tensor], uploads: Uploads) -> Tensor:
    """Values of one shape by name as [field, ...], clipped to their ranges; 0 where there are none."""
    like = next(iter(values.values()))
    nothing = torch.zeros_like(like)
    whole = torch.stack([values.get(name, nothing) for name in FIELD_NAMES]).float()
    shape = (-1, *[1] * like.dim())
    low, high = uploads.keep(LOWEST).view(shape), uploads.keep(HIGHEST).view(shape)
    return torch.minimum(torch.maximum(whole, low), high)
