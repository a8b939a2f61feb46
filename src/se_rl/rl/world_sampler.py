"""One kind of world in training: its own random streams, and the running scale of its rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from se_rl.environments.worlds import World
from se_rl.rl.policy import ActionMap, Neutral, Policy
from se_rl.rl.rollout import Rollout, collect

SCALE_RATE = 0.1
"""How fast the running scale follows that of the newest batch."""
NO_SPREAD = 1e-12
"""Numbers below this are all the same."""


def orders_of_batch(samples: int, horizon: int, agents: int) -> int:
    """Orders of `horizon` steps in a batch of about `samples` steps: whole books on both sides."""
    pair = 2 * agents
    return max(pair, samples // horizon // pair * pair)


class WorldSampler:
    """Plays batches of about `samples` order steps, each in one of `worlds` (one per horizon).

    Where agents share no book, neighbours of the batch talk all the same; so the number of orders
    is a multiple of 2 * agents, whatever the world.
    """

    def __init__(
        self,
        worlds: Sequence[World],
        neutral: Neutral,
        *,
        samples: int,
        agents: int,
        seed: np.random.SeedSequence,
    ) -> None:
        self.worlds = tuple(worlds)
        self.neutral = neutral
        self.orders = [orders_of_batch(samples, world.horizon, agents) for world in worlds]
        draws, noise = seed.spawn(2)
        self.rng = np.random.default_rng(draws)
        noise_seed = int(noise.generate_state(1, np.uint64)[0] >> 1)
        self.generator = torch.Generator().manual_seed(noise_seed)
        self.scale: float | None = None
        self._fresh = False

    def play(self, policy: Policy, action_map: ActionMap, *, place: int = 0) -> Rollout:
        """One batch of fresh episodes, with the noise of the policy's heads at `place` on."""
        which = int(self.rng.integers(len(self.worlds))) if len(self.worlds) > 1 else 0
        world = self.worlds[which]
        return collect(
            world,
            policy,
            action_map,
            world.draw(self.rng, self.orders[which]),
            generator=self.generator,
            neutral=self.neutral,
            device=policy.log_std.device,
            place=place,
        )

    def scaled(self, rewards: Tensor) -> Tensor:
        """Rewards [step, order] over the running scale; without any spread they stay as they are."""
        if self.scale is None:
            spread = float(rewards.flip(0).cumsum(0).std())
            self.scale = spread if spread > NO_SPREAD else 1.0
            self._fresh = True
        return rewards / self.scale

    def settled(self, estimates: Tensor, values: Tensor) -> Tensor:
        """Advantages [step, order] that fit the scale, which moves to the targets of the value.

        A target is advantage plus value. On history most of a return is what the market did to
        the inventory that the order had anyway; its hindsight baseline takes that away, and what
        is left to foresee is a hundredth. So a world's scale is that of its targets: value losses
        of all worlds are shares of what there is to foresee, and none is drowned by another's.
        """
        assert self.scale is not None  # scaled() came first
        size = float((estimates + values).square().mean().sqrt())
        if not NO_SPREAD < size < math.inf:
            return estimates
        if self._fresh:  # values are still 0: the first guess is corrected at once
            self._fresh = False
            self.scale *= size
            return estimates / size
        self.scale *= 1.0 + SCALE_RATE * (size - 1.0)
        return estimates
