"""What agents may see of a market: fields that are asked for by name.

Every market has a catalogue, and a field is computed only where a design asks for it. Fields of the
same name mean the same thing in all markets, each in the market's own units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from se_rl.data.market_data import DataError

Array = npt.NDArray[np.float64]
Observation = npt.NDArray[np.float32]
W = TypeVar("W")


@dataclass(frozen=True)
class Input(Generic[W]):
    """One field: what it means, how it is read from a world [n] or [n, width], and how wide it is."""

    help: str
    read: Callable[[W], npt.ArrayLike]
    width: int = 1


class Inputs(Generic[W]):
    """The fields that were asked for, side by side in one observation."""

    def __init__(self, names: Sequence[str], catalogue: Mapping[str, Input[W]]) -> None:
        unknown = sorted(set(names) - set(catalogue))
        if unknown or not names:
            raise DataError(f"inputs {unknown} are unknown; choose from {', '.join(catalogue)}")
        self.names = tuple(names)
        self._fields = [catalogue[name] for name in names]
        self.size = sum(field.width for field in self._fields)

    def read(self, world: W, out: Observation) -> Observation:
        """Fill `out` [n, size]."""
        place = 0
        for field in self._fields:
            values = np.asarray(field.read(world))
            out[:, place : place + field.width] = values.reshape(len(out), field.width)
            place += field.width
        return out


def age(spreads: Sequence[npt.NDArray[np.floating]]) -> Array:
    """Decisions since the spread [n] last changed, the newest one last in `spreads`."""
    steps = np.zeros(len(spreads[-1]))
    same = np.ones(len(steps), np.bool_)
    for earlier in reversed(spreads[:-1]):
        same &= earlier == spreads[-1]
        steps += same
    return steps


def signed_flow(flows: Sequence[npt.NDArray[np.int64]], steps: int) -> Array:
    """Buys less sells over both in the last `steps` of the flows [n, buys | sells]; 0 for none."""
    total = np.sum(flows[-steps:], axis=0)
    both = np.maximum(total.sum(axis=1), 1)
    return (total[:, 0] - total[:, 1]) / both
