"""One kind of world in training: its own random streams, and the running scale of its rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from se_rl.environments.mixed_world import MixedWorld
from se_rl.environments.worlds import Episodes, World
from se_rl.rl.advantages import advantages, subtract_hindsight_baseline
from se_rl.rl.policy import ActionMap, Neutral, Policy
from se_rl.rl.rollout import Rollout, collect

SCALE_RATE = 0.1
"""How fast the running scale follows that of the newest batch."""
NO_SPREAD = 1e-12
"""Numbers below this are all the same."""


def orders_of_batch(
    samples: int, horizon: int, agents: int, copies: int = 1, *, parts: int = 1
) -> int:
    """Orders of `horizon` steps in a batch of about `samples` steps, no less than all `parts` need.

    Whole books on both sides, each of them `copies` times.
    """
    pair = 2 * agents * copies
    return max(pair * parts, samples // horizon // pair * pair)


def repeated(episodes: Episodes, copies: int, *, agents: int) -> Episodes:
    """Every book `copies` times, its copies side by side."""
    if copies == 1:
        return episodes
    books = np.repeat(np.arange(len(episodes) // agents), copies)
    orders = (books[:, None] * agents + np.arange(agents)).ravel()
    seeds = None if episodes.seeds is None else episodes.seeds[books]
    return Episodes(episodes.orders.take(orders), seeds)


def over_copies(estimates: Tensor, copies: int, *, agents: int) -> Tensor:
    """Advantages [step, order] less their mean over the copies of a book.

    The other copies met the same luck and drew other noise: what they got is a baseline that
    knows the luck and nothing of the action. A copy's own part in the mean changes the scale alone.
    """
    grouped = estimates.view(len(estimates), -1, copies, agents)
    return (grouped - grouped.mean(2, keepdim=True)).view_as(estimates)


class Estimates(NamedTuple):
    """What a batch says of every step [step, order]: how good its action was, and what followed."""

    advantages: Tensor
    returns: Tensor


class WorldSampler:
    """Plays batches of about `samples` order steps, each in one of `worlds` (one per horizon).

    Where agents share no book, neighbours of the batch talk all the same; so the number of orders
    is a multiple of 2 * agents, whatever the world. Each order is played `copies` times.
    """

    def __init__(
        self,
        worlds: Sequence[World],
        neutral: Neutral,
        *,
        samples: int,
        agents: int,
        seed: np.random.SeedSequence,
        copies: int = 1,
    ) -> None:
        self.worlds = tuple(worlds)
        self.neutral = neutral
        self.copies = copies
        self.orders = []
        for world in worlds:
            parts = len(world.worlds) if isinstance(world, MixedWorld) else 1
            count = orders_of_batch(samples, world.horizon, agents, copies, parts=parts)
            self.orders.append(count)
        draws, noise = seed.spawn(2)
        self.rng = np.random.default_rng(draws)
        noise_seed = int(noise.generate_state(1, np.uint64)[0] >> 1)
        self.generator = torch.Generator().manual_seed(noise_seed)
        self.scale: float | None = None

    def draw(self) -> tuple[World, Episodes]:
        """One of the worlds and fresh episodes of it, each order `copies` times."""
        which = int(self.rng.integers(len(self.worlds))) if len(self.worlds) > 1 else 0
        world = self.worlds[which]
        drawn = world.draw(self.rng, self.orders[which] // self.copies)
        return world, repeated(drawn, self.copies, agents=world.agents)

    def play(self, policy: Policy, action_map: ActionMap, *, place: int = 0) -> Rollout:
        """One batch of fresh episodes, with the noise of the policy's heads at `place` on."""
        world, episodes = self.draw()
        return collect(
            world,
            policy,
            action_map,
            episodes,
            generator=self.generator,
            neutral=self.neutral,
            device=policy.log_std.device,
            place=place,
        )

    def estimates(
        self, rollout: Rollout, rewards: Tensor, *, gamma: float, lam: float
    ) -> Estimates:
        """Advantages less their hindsight baseline, in units of the running scale.

        Where orders have copies, less these copies' mean too. That is no part of the returns: what
        all copies have in common is what the value is to foresee.
        """

        def free(values: Tensor, scale: float) -> Tensor:
            raw = advantages(rewards / scale, values, gamma=gamma, lam=lam)
            return subtract_hindsight_baseline(raw, rollout, discount=gamma * lam)

        unforeseen = free(torch.zeros_like(rollout.values), 1.0)
        scale = self.scale_after(float(unforeseen.square().mean().sqrt()))
        found = free(rollout.values, scale)
        returns = found + rollout.values
        if self.copies > 1:
            found = over_copies(found, self.copies, agents=self.worlds[0].agents)
        return Estimates(found, returns)

    def scale_after(self, size: float) -> float:
        """The running size of returns, which those of a batch with this root mean square move.

        They are what an advantage would be if nothing were foreseen: the hindsight baseline is
        taken away, which on history is nearly all of a raw return. Rewards divided by this size
        make value losses of all worlds shares of what there is to foresee, and none is drowned by
        another's unit. Returns that are all 0 leave it alone.
        """
        if not NO_SPREAD < size < math.inf:
            return self.scale or 1.0
        if self.scale is None:
            self.scale = size
        self.scale += SCALE_RATE * (size - self.scale)
        return self.scale
