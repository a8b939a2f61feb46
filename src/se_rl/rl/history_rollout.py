"""Batches on history without Python between steps, where a policy is a chain of layers.

On history nobody moves a price, so a step is a few numbers for each order; with batches of a dozen
orders the calls between steps would take longer than the steps. Worlds with caps, limits or queues,
policies that talk, look back or choose, and all other networks go the long way round in
`rollout.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from se_rl.environments.fills import PriceTaker
from se_rl.environments.mixed_world import MixedWorld
from se_rl.environments.static_fields import Booked
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Episodes, World
from se_rl.rl.action_maps import ActionMap, Neutral, RatioActions
from se_rl.rl.fused import FusedPolicy
from se_rl.rl.history_kernel import LAYOUT, Array, Chain, HistorySteps, Replay, play_orders
from se_rl.rl.layer_chain import ACTIVATIONS, ChainLayer
from se_rl.rl.policy import Policy


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
        if not takes_any_share(world, action_map) or fused is None or fused.has_filter:
            return None
        if policy.history > 1 or policy.log_std.device.type != "cpu":
            return None
        return cls(fused.layers, policy, action_map)

    def play(
        self, world: World, episodes: Episodes, steps: HistorySteps, *, neutral: Neutral, place: int
    ) -> int:
        """Play the episodes, the noise of the actions standing in `outputs`.

        Gives the step at which the policy's output was not finite, or -1.
        """
        chain = self._chain(place)
        if isinstance(world, StaticWorld):
            return self._play(world, episodes, steps, chain=chain, neutral=neutral)
        assert isinstance(world, MixedWorld)
        failed = -1
        for one, places, own in world.shared_out(episodes):
            assert isinstance(one, StaticWorld)
            part = steps.part(places)
            failed = max(failed, self._play(one, own, part, chain=chain, neutral=neutral))
            steps.put(places, part)
        return failed

    def _play(
        self,
        world: StaticWorld,
        episodes: Episodes,
        steps: HistorySteps,
        *,
        chain: Chain,
        neutral: Neutral,
    ) -> int:
        steps.observations[:] = world.reset(episodes)  # the order's own numbers; the rest follows
        core = world.core
        orders = core.orders
        booked = Booked(
            row=orders.row,
            start=orders.start,
            side=orders.side,
            quantity=orders.quantity,
            before=core.remaining.copy(),
            after=core.remaining,
            leftover=core.leftover,
            fills=core.fills,
        )
        replay = Replay(world.table, world.shown, world.prices, core.arrival, core.reward)
        log_odds = self._log_odds(world.horizon, neutral)
        failed = play_orders(booked, replay, chain, self._map.scale, log_odds, LAYOUT, steps)
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

    def _log_odds(self, horizon: int, neutral: Neutral) -> Array:
        """The log-odds of the neutral ratio in each step, as `ActionMap.ratio` has them."""
        found = np.full(horizon, np.inf)
        for step in range(horizon - 1):
            ratio = neutral.multiple * self._map.zero / (horizon - step)
            if ratio < 1.0:
                found[step] = math.log(ratio / (1.0 - ratio))
        return found


def takes_any_share(world: World, action_map: ActionMap) -> bool:
    """Whether an output is a share of what is left, of which all trades at a price that it does not
    move."""
    return type(action_map) in (ActionMap, RatioActions) and _is_plain(world)


def _is_plain(world: World) -> bool:
    """Whether every order is filled at the bar price, in whatever world of history it trades."""
    if isinstance(world, MixedWorld):
        return all(map(_is_plain, world.worlds))
    if not isinstance(world, StaticWorld):
        return False
    return type(world.core.model) is PriceTaker and not world.is_capped
