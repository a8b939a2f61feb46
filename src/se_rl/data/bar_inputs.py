"""Further inputs that bars tell: slow averages, which the usual fields of an observation lack.

A move on high volume is undone in part, over minutes and over hours. What is still to come back is a
slow average of moves times volumes, and returns over fixed spans show only its shadow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from se_rl.data.known import CLIP, Known, demean_over_symbols

Array = npt.NDArray[np.float64]
Table = npt.NDArray[np.float32]

PRESSURE_MINUTES = (5, 15, 60, 240)
"""Memories of the averages."""
MOST_VOLUME = 3.0
"""A bar counts for at most so many bars of usual volume."""


def _help(minutes: int) -> str:
    return (
        "a symbol's own log returns, each times its bar's volume over the usual one (at most "
        f"{MOST_VOLUME:g}), remembered for {minutes} minutes, in their usual standard deviations"
    )


BAR_INPUTS: dict[str, str] = {f"pressure_{k}": _help(k) for k in PRESSURE_MINUTES}
"""What bars tell beyond the usual fields, by name: one number each, which a buyer sees negated."""


class ShownBars(NamedTuple):
    """What a batch is shown of a table of bar inputs [row, bar + 1, input]: `columns` of it, each
    at one of the `places` of its observations, which have `width` further numbers in all."""

    table: Table
    columns: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    width: int

    @classmethod
    def none(cls, width: int = 0) -> Self:
        """Zeros in all places."""
        nothing = np.zeros(0, np.int64)
        return cls(np.zeros((1, 1, 1), np.float32), nothing, nothing, width)


class BarInputs:
    """All bar inputs of what is `known` of some sessions, computed when they are first asked for."""

    def __init__(self, known: Callable[[], Known]) -> None:
        self._known = known

    @cached_property
    def table(self) -> Table:
        """[symbol * session, bar + 1, input], known when the bar opens."""
        return bar_inputs_of(self._known())


def bar_inputs_of(known: Known) -> Table:
    """All bar inputs of all sessions as float32 [symbol * session, bar + 1, input]."""
    moves = _weighted_moves(known)
    table = np.zeros((*known.started.shape, len(PRESSURE_MINUTES)), np.float32)
    for place, minutes in enumerate(PRESSURE_MINUTES):
        memory = max(1.0, minutes / known.data.grid.bar_minutes)
        pressure = known.started * _pressure(known, moves, np.exp(-1.0 / memory))
        table[..., place] = demean_over_symbols(pressure, known.data.has_session)
    return table.reshape(-1, *table.shape[2:])


def _weighted_moves(known: Known) -> Array:
    """[symbol, session, bar]: log returns times volumes over what was expected before the bar."""
    moves = np.diff(known.log_price, axis=2)
    if known.data.volume is not None:
        expected = known.expected_day_volume[..., :-1] * known.scales.volume_share
        moves *= np.minimum((known.data.volume + 1.0) / (expected + 1.0), MOST_VOLUME)
    return moves


def _pressure(known: Known, moves: Array, decay: float) -> Array:
    """[symbol, session, bar + 1]: the average in its standard deviations, within CLIP."""
    # sd of sum of decay^k r_k is sigma / sqrt(1 - decay^2), once it has run for a while
    usual = known.sigma / np.sqrt(1.0 - decay**2)
    return np.clip(_remembered(moves, decay) / usual, -CLIP, CLIP)


def _remembered(moves: Array, decay: float) -> Array:
    """[symbol, session, bar + 1]: what is left at each bar of the moves before it in its session.

    Bar by bar for all sessions at once: nothing to be compiled, so locked processes can do it, too.
    """
    by_bar = np.moveaxis(moves, 2, 0)
    total = np.zeros((len(by_bar) + 1, *moves.shape[:2]))
    for bar, move in enumerate(by_bar):
        total[bar + 1] = decay * total[bar] + move
    return np.moveaxis(total, 0, 2)
