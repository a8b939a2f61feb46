"""Whole batches on history in one kernel: a chain of layers acts, and no step goes through Python.

On history nobody moves a price, so a step is a few numbers for each order; with batches of a dozen
orders the calls between steps would take longer than the steps. Fills, booking and fields are the
engine's own kernels. Worlds with caps, limits or queues, policies that talk, look back or choose,
and all other networks go the long way round in `rollout.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from numba import njit

from se_rl.data.features import FIRST_PUBLIC, OBSERVATION_PLACE, TURNED_FIELD, TURNED_SIGN
from se_rl.environments.fills import PriceTaker, take_bar_price
from se_rl.environments.mixed_world import MixedWorld
from se_rl.environments.static_core import copy_observation, settle
from se_rl.environments.static_fields import COLUMN, Booked, write_fields
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import FIELD_PLACE, HIGHEST, LOWEST, Episodes, World
from se_rl.rl.action_maps import ActionMap, Neutral, RatioActions
from se_rl.rl.fused import FusedPolicy
from se_rl.rl.layer_chain import ACTIVATIONS, ChainLayer
from se_rl.rl.policy import Policy

Single = npt.NDArray[np.float32]
Int = npt.NDArray[np.int64]

NO_RATIO = math.inf
"""Stands for the log-odds of a step that trades all that is left."""


class Chain(NamedTuple):
    """Layers and heads in flat arrays; layer l takes `sizes[l]` numbers and gives `sizes[l + 1]`."""

    sizes: Int
    activations: Int  # places in ACTIVATIONS, -1 where nothing follows a layer
    weights: Single  # [input, output] of each layer
    biases: Single


@dataclass(frozen=True, eq=False)
class Played:
    """What a kernel writes for every step: arrays [step, ..., order], observations last."""

    observations: Single  # [step, order, observation]
    heads: Single  # [step, action + value, order]
    outputs: Single  # [step, action, order]
    fields: Single  # [step, field, order]

    def part(self, places: Int) -> Played:
        """Copies of what belongs to these orders."""
        return Played(
            np.ascontiguousarray(self.observations[:, places]),
            np.ascontiguousarray(self.heads[..., places]),
            np.ascontiguousarray(self.outputs[..., places]),
            np.ascontiguousarray(self.fields[..., places]),
        )

    def put(self, places: Int, other: Played) -> None:
        """Write what happened to these orders."""
        self.observations[:, places] = other.observations
        self.heads[..., places] = other.heads
        self.outputs[..., places] = other.outputs
        self.fields[..., places] = other.fields


class HistoryPlayer:
    """Plays a policy's batches in one kind of world."""

    def __init__(self, layers: Sequence[ChainLayer], policy: Policy, action_map: ActionMap) -> None:
        self._layers = layers
        self._policy = policy
        self._map = action_map

    @classmethod
    def of(
        cls, world: World, policy: Policy, action_map: ActionMap, fused: FusedPolicy | None
    ) -> HistoryPlayer | None:
        """None where the kernel does not know the world, the network or the actions."""
        usual = type(action_map) in (ActionMap, RatioActions) and policy.history == 1
        on_cpu = policy.log_std.device.type == "cpu"
        if fused is None or fused.has_filter or not usual or not on_cpu or not _is_plain(world):
            return None
        return cls(fused.layers, policy, action_map)

    def play(
        self, world: World, episodes: Episodes, played: Played, *, neutral: Neutral, place: int
    ) -> int:
        """Play the episodes, the noise of the actions standing in `outputs`.

        Gives the step at which the policy's output was not finite, or -1.
        """
        chain = self._chain(place)
        if isinstance(world, StaticWorld):
            return self._play(world, episodes, played, chain=chain, neutral=neutral)
        assert isinstance(world, MixedWorld)
        failed = -1
        for one, places, own in world.shared_out(episodes):
            assert isinstance(one, StaticWorld)
            part = played.part(places)
            failed = max(failed, self._play(one, own, part, chain=chain, neutral=neutral))
            played.put(places, part)
        return failed

    def _play(
        self,
        world: StaticWorld,
        episodes: Episodes,
        played: Played,
        *,
        chain: Chain,
        neutral: Neutral,
    ) -> int:
        played.observations[:] = world.reset(episodes)  # the order's own numbers; the rest follows
        core = world.core
        before = core.remaining.copy()
        orders = core.orders
        booked = Booked(
            row=orders.row,
            start=orders.start,
            side=orders.side,
            quantity=orders.quantity,
            before=before,
            after=core.remaining,
            leftover=core.leftover,
            fills=core.fills,
        )
        failed = _play_orders(
            booked,
            world.table,
            world.prices,
            core.arrival,
            core.reward,
            chain,
            self._map.scale,
            self._log_odds(world.horizon, neutral),
            (TURNED_FIELD, TURNED_SIGN),
            (FIRST_PUBLIC, OBSERVATION_PLACE["time_left"], OBSERVATION_PLACE["inventory_left"]),
            (FIELD_PLACE, COLUMN, LOWEST, HIGHEST),
            played.observations,
            played.heads,
            played.outputs,
            played.fields,
        )
        core.step_index = world.horizon
        return int(failed)

    def _chain(self, place: int) -> Chain:
        """The policy as it is now, with the heads of one world."""
        heads, rows = self._policy.heads, self._policy.head_rows(place)
        last = ChainLayer(heads.weight[rows], heads.bias[rows])
        whole = [*self._layers, last]
        sizes = [whole[0].weight.shape[1], *(layer.width for layer in whole)]
        kinds = [ACTIVATIONS.index(one.activation) if one.activation else -1 for one in whole]
        weights = torch.cat([layer.weight.detach().t().reshape(-1) for layer in whole])
        biases = torch.cat([layer.bias.detach() for layer in whole])
        return Chain(
            np.array(sizes, np.int64), np.array(kinds, np.int64), weights.numpy(), biases.numpy()
        )

    def _log_odds(self, horizon: int, neutral: Neutral) -> npt.NDArray[np.float64]:
        """The log-odds of the neutral ratio in each step, as `ActionMap.ratio` has them."""
        found = np.full(horizon, NO_RATIO)
        for step in range(horizon - 1):
            ratio = neutral.multiple * self._map.zero / (horizon - step)
            if ratio < 1.0:
                found[step] = math.log(ratio / (1.0 - ratio))
        return found


def _is_plain(world: World) -> bool:
    """Whether every order is filled at the bar price, in whatever world of history it trades."""
    if isinstance(world, MixedWorld):
        return all(map(_is_plain, world.worlds))
    if not isinstance(world, StaticWorld):
        return False
    return type(world.core.model) is PriceTaker and not world.is_capped


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
def _play_orders(  # type: ignore[no-untyped-def]
    booked,
    table,
    prices,
    arrival,
    reward,
    chain,
    scale,
    log_odds,
    turned,
    places,
    written,
    observations,
    heads,
    outputs,
    fields,
):
    """Every step of every order: see, act, fill, book, and note what a reward looks at.

    Positions are arguments and not globals: a cached kernel would keep old ones.
    """
    horizon, orders = observations.shape[:2]
    first_public, time_place, inventory_place = places
    at, column, lowest, highest = written
    bar = booked.start.copy()
    want = np.zeros(orders)
    gross, paid = np.zeros(orders), np.zeros(orders)
    widest = chain.sizes.max()
    given, taken = np.zeros(widest, np.float32), np.zeros(widest, np.float32)
    for step in range(horizon):
        copy_observation(
            table,
            booked.row,
            booked.start,
            booked.side,
            step,
            horizon,
            booked.quantity,
            booked.after,
            turned[0],
            turned[1],
            first_public,
            time_place,
            inventory_place,
            bar,
            observations[step],
        )
        for i in range(orders):
            answer = _answer(observations[step, i], chain, given, taken)
            for k in range(heads.shape[1]):
                heads[step, k, i] = answer[k]
            for k in range(outputs.shape[1]):
                outputs[step, k, i] += answer[k]  # the noise stood there
            ratio = 1.0
            if log_odds[step] < np.inf:
                ratio = 1.0 / (1.0 + np.exp(-(scale * outputs[step, 0, i] + log_odds[step])))
            if not np.isfinite(outputs[step, 0, i]):
                return step
            booked.before[i] = booked.after[i]
            want[i] = ratio * booked.after[i]
        take_bar_price(
            prices.price,
            prices.price,
            0.0,
            False,
            prices.half_spread,
            booked.row,
            bar,
            want,
            booked.fills,
        )
        settle(
            prices.price,
            booked.row,
            bar,
            booked.side,
            booked.quantity,
            horizon,
            arrival,
            prices.half_spread,
            prices.fee,
            step == horizon - 1,
            booked.fills,
            booked.after,
            gross,
            paid,
            booked.leftover,
            reward,
        )
        write_fields(prices, booked, step, horizon, True, at, column, lowest, highest, fields[step])
    return -1
