"""One world in training: its own random streams, and the running scale of its returns."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from se_rl.environments.worlds import World
from se_rl.rl.policy import ActionMap, Neutral, Policy
from se_rl.rl.rollout import Rollout, collect

SCALE_RATE = 0.1
"""How fast the running spread of returns follows that of the newest batch."""


def orders_of_batch(samples: int, horizon: int, agents: int) -> int:
    """Orders of `horizon` steps in a batch of about `samples` steps: whole books on both sides."""
    pair = 2 * agents
    return max(pair, samples // horizon // pair * pair)


class WorldSampler:
    """Plays batches of about `samples` order steps in one world.

    Where agents share no book, neighbours of the batch talk all the same; so the number of orders
    is a multiple of 2 * agents, whatever the world.
    """

    def __init__(
        self,
        world: World,
        neutral: Neutral,
        *,
        samples: int,
        agents: int,
        seed: np.random.SeedSequence,
    ) -> None:
        self.world = world
        self.neutral = neutral
        self.orders = orders_of_batch(samples, world.horizon, agents)
        draws, noise = seed.spawn(2)
        self.rng = np.random.default_rng(draws)
        noise_seed = int(noise.generate_state(1, np.uint64)[0] >> 1)
        self.generator = torch.Generator().manual_seed(noise_seed)
        self.scale: float | None = None

    def play(self, policy: Policy, action_map: ActionMap) -> Rollout:
        """One batch of fresh episodes, with the policy's noise on."""
        return collect(
            self.world,
            policy,
            action_map,
            self.world.draw(self.rng, self.orders),
            generator=self.generator,
            neutral=self.neutral,
            device=policy.log_std.device,
        )

    def scaled(self, rewards: Tensor) -> Tensor:
        """Rewards [step, order] over the running spread of returns, which this batch moves.

        Rewards without any spread stay as they are.
        """
        spread = float(rewards.flip(0).cumsum(0).std())
        now = spread if spread > 1e-12 else 1.0
        if self.scale is None:
            self.scale = now
        else:
            self.scale += SCALE_RATE * (now - self.scale)
        return rewards / self.scale
