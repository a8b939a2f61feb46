"""The kernel of batches on history: a chain of layers acts, fills are booked, fields are noted.

Fills, booking, observations and fields are those of the static world's engine.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from se_rl.data.bar_inputs import ShownBars
from se_rl.data.features import FIRST_PUBLIC, OBSERVATION_PLACE, TURNED_FIELD, TURNED_SIGN
from se_rl.environments.fills import take_bar_price
from se_rl.environments.static_fields import COLUMN, Column, Prices, write_fields
from se_rl.environments.static_kernels import copy_observation, settle
from se_rl.environments.worlds import FIELD_PLACE, HIGHEST, LOWEST, FieldPlace

Array = npt.NDArray[np.float64]
Single = npt.NDArray[np.float32]
Int = npt.NDArray[np.int64]


class Chain(NamedTuple):
    """Layers and heads in flat arrays; layer l takes `sizes[l]` numbers and gives `sizes[l + 1]`."""

    sizes: Int
    activations: Int  # places in layer_chain.ACTIVATIONS, -1 where nothing follows a layer
    weights: Single  # [input, output] of each layer
    biases: Single


class HistoryLayout(NamedTuple):
    """Where numbers stand: arguments of a kernel and no globals, which a cached one would keep."""

    turned_field: Int
    turned_sign: Single
    first_public: int
    time_left: int
    inventory_left: int
    field: FieldPlace
    column: Column
    lowest: Single
    highest: Single


LAYOUT = HistoryLayout(
    TURNED_FIELD,
    TURNED_SIGN,
    FIRST_PUBLIC,
    OBSERVATION_PLACE["time_left"],
    OBSERVATION_PLACE["inventory_left"],
    FIELD_PLACE,
    COLUMN,
    LOWEST,
    HIGHEST,
)


class Replay(NamedTuple):
    """History as a batch meets it: what is seen, prices, and the engine's own notes [order]."""

    table: Single
    further: ShownBars
    prices: Prices
    arrival: Array
    reward: Array


class HistorySteps(NamedTuple):
    """What is written for every step of every order; the noise of actions stands in `outputs`."""

    observations: Single  # [step, order, observation]
    heads: Single  # [step, action + value, order]
    outputs: Single  # [step, action, order]
    fields: Single  # [step, field, order]

    def part(self, places: Int) -> HistorySteps:
        """Copies of what belongs to these orders."""
        return HistorySteps(
            np.ascontiguousarray(self.observations[:, places]),
            np.ascontiguousarray(self.heads[..., places]),
            np.ascontiguousarray(self.outputs[..., places]),
            np.ascontiguousarray(self.fields[..., places]),
        )

    def put(self, places: Int, other: HistorySteps) -> None:
        """Write what happened to these orders."""
        self.observations[:, places] = other.observations
        self.heads[..., places] = other.heads
        self.outputs[..., places] = other.outputs
        self.fields[..., places] = other.fields


@njit(cache=True, nogil=True, error_model="numpy")
def _activated(kind, numbers, count):  # type: ignore[no-untyped-def]
    """Apply an activation, by its place in ACTIVATIONS, to the first numbers."""
    for j in range(count):
        z = numbers[j]
        if kind == 0:  # tanh(z) = 2 / (1 + exp(-2 z)) - 1
            numbers[j] = np.float32(2.0) / (np.float32(1.0) + np.exp(np.float32(-2.0) * z)) - 1
        elif kind == 1:
            numbers[j] = max(z, np.float32(0.0))
        elif kind == 2:
            numbers[j] = z / (np.float32(1.0) + np.exp(-z))
        elif kind == 3:  # z Phi(z)
            numbers[j] = 0.5 * z * (1.0 + math.erf(z / math.sqrt(2.0)))
        elif kind == 4:
            numbers[j] = z if z > 0.0 else np.expm1(z)


@njit(cache=True, nogil=True, error_model="numpy")
def _answer(seen, chain, given, taken):  # type: ignore[no-untyped-def]
    """What the chain makes of one observation; the last layer's numbers stand in what it returns."""
    weight = 0
    bias = 0
    now, other = given, taken
    for k in range(chain.sizes[0]):
        other[k] = seen[k]
    for layer in range(len(chain.activations)):
        inputs, outputs = chain.sizes[layer], chain.sizes[layer + 1]
        for j in range(outputs):
            now[j] = chain.biases[bias + j]
        for k in range(inputs):
            x = other[k]
            row = chain.weights[weight + k * outputs : weight + (k + 1) * outputs]
            for j in range(outputs):
                now[j] += x * row[j]
        _activated(chain.activations[layer], now, outputs)
        weight += inputs * outputs
        bias += outputs
        now, other = other, now
    return other


@njit(cache=True, nogil=True, error_model="numpy")
def _wishes(chain, scale, log_odds, booked, steps, step, scratch, want):  # type: ignore[no-untyped-def]
    """What every order wants to trade in a step; whether all outputs are finite."""
    observations, heads, outputs = steps.observations, steps.heads, steps.outputs
    for i in range(observations.shape[1]):
        answer = _answer(observations[step, i], chain, scratch[0], scratch[1])
        for k in range(heads.shape[1]):
            heads[step, k, i] = answer[k]
        for k in range(outputs.shape[1]):
            outputs[step, k, i] += answer[k]
        if not np.isfinite(outputs[step, 0, i]):
            return False
        # log-odds of the ratio = scale * output + log-odds of the neutral ratio
        ratio = 1.0
        if log_odds < np.inf:
            ratio = 1.0 / (1.0 + np.exp(-(scale * outputs[step, 0, i] + log_odds)))
        booked.before[i] = booked.after[i]
        want[i] = ratio * booked.after[i]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _see(booked, replay, layout, step, horizon, bar, seen):  # type: ignore[no-untyped-def]
    """Write the observations of a step [order, observation], and the bar of each order."""
    copy_observation(
        replay.table,
        replay.further,
        booked.row,
        booked.start,
        booked.side,
        step,
        horizon,
        booked.quantity,
        booked.after,
        layout.turned_field,
        layout.turned_sign,
        layout.first_public,
        layout.time_left,
        layout.inventory_left,
        bar,
        seen,
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _book(booked, replay, want, bar, step, horizon, gross, paid):  # type: ignore[no-untyped-def]
    """Fill all wishes at the bar price."""
    prices, fills, row = replay.prices, booked.fills, booked.row
    take_bar_price(
        prices.price, prices.price, 0.0, False, prices.half_spread, row, bar, want, fills
    )
    settle(
        prices.price,
        row,
        bar,
        booked.side,
        booked.quantity,
        horizon,
        replay.arrival,
        prices.half_spread,
        prices.fee,
        step == horizon - 1,
        fills,
        booked.after,
        gross,
        paid,
        booked.leftover,
        replay.reward,
    )


@njit(cache=True, nogil=True, error_model="numpy")
def play_orders(booked, replay, chain, scale, log_odds, layout, steps):  # type: ignore[no-untyped-def]
    """Every step of every order: see, act, fill, book, and note what a reward looks at.

    `log_odds` [step] are those of the neutral ratio, infinite where all that is left is traded.
    Gives the step at which an output was not finite, or -1.
    """
    horizon, orders = steps.observations.shape[:2]
    bar = booked.start.copy()
    want, gross, paid = np.zeros((3, orders))
    scratch = np.zeros((2, chain.sizes.max()), np.float32)
    for step in range(horizon):
        _see(booked, replay, layout, step, horizon, bar, steps.observations[step])
        if not _wishes(chain, scale, log_odds[step], booked, steps, step, scratch, want):
            return step
        _book(booked, replay, want, bar, step, horizon, gross, paid)
        write_fields(
            replay.prices,
            booked,
            step,
            horizon,
            True,
            layout.field,
            layout.column,
            layout.lowest,
            layout.highest,
            steps.fields[step],
        )
    return -1
