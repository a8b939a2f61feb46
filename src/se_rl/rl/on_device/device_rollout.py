"""Rollouts of many policies in one world at once: the orders of all stand side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from se_rl.environments.mixed_world import join_orders
from se_rl.environments.worlds import Episodes, World
from se_rl.rl.history_rollout import takes_any_share
from se_rl.rl.on_device.device_world import DeviceWorld
from se_rl.rl.on_device.stack import Stack
from se_rl.rl.policy import Neutral

Owner = TypeVar("Owner")


@dataclass(frozen=True, eq=False)
class Draw:
    """Episodes of a world to be played, and the noise [step, number, order] of actions, if any."""

    world: World
    episodes: Episodes
    noise: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Play(Generic[Owner]):
    """A draw that the policy in row `row` of a stack plays for its owner."""

    owner: Owner
    stack: Stack
    row: int
    draw: Draw


@dataclass(frozen=True, eq=False)
class StackRollout(Generic[Owner]):
    """What happened in every step of every order of a stack's policies, one for each owner."""

    owners: Sequence[Owner]
    stack: Stack
    observations: Tensor  # [policy, step, order, observation]
    outputs: Tensor  # [policy, step, order, number]
    log_probs: Tensor  # [policy, step, order]
    values: Tensor  # [policy, step, order]
    fields: Tensor  # [field, step, policy, order]
    kept: Tensor  # [policy, order]
    place: int
    noise: Tensor | None = None
    """How far outputs [policy, step, order] were from their means; see `rl.rollout.Rollout`."""


@torch.no_grad()
def play_together(
    device_world: DeviceWorld, plays: Sequence[Play[Owner]], *, name: str, neutral: Neutral
) -> list[StackRollout[Owner]]:
    """Play draws of one world step by step, all at once; `name` says which heads answer."""
    alike: dict[tuple[int, int], list[Play[Owner]]] = {}
    for play in plays:
        alike.setdefault((id(play.stack), len(play.draw.episodes)), []).append(play)
    players = [_Player(group, name, neutral) for group in alike.values()]
    episodes = [play.draw.episodes for group in alike.values() for play in group]
    observation = device_world.start(_joined(episodes))
    lanes = [player.lanes for player in players]
    for step in range(plays[0].draw.world.horizon):
        actions = []
        for player, seen in zip(players, observation.split(lanes), strict=True):
            actions.append(player.act(seen, step))
        ratios, offsets = zip(*actions, strict=True)
        observation = device_world.step(torch.cat(ratios), torch.cat(offsets))
    fields, kept = device_world.finish()
    found = []
    for player, own, count in zip(players, fields.split(lanes, 2), kept.split(lanes), strict=True):
        found.append(player.rollout(own, count))
    return found


class _Player(Generic[Owner]):
    """Policies of one stack while they play as many orders each: what they saw and did."""

    def __init__(self, plays: Sequence[Play[Owner]], name: str, neutral: Neutral) -> None:
        draw, stack = plays[0].draw, plays[0].stack
        self._owners = [play.owner for play in plays]
        self._stack = stack
        self._place = stack.policy.place(name)
        self._neutral = neutral
        self._horizon = draw.world.horizon
        self._shape = (len(plays), len(draw.episodes))
        self._flat = stack.flat([play.row for play in plays])
        self._answer = stack.answering(self._flat, self._place)
        self._used = stack.first.action_map.outputs(draw.world.takes_price)
        self._takes_any_share = takes_any_share(draw.world, stack.first.action_map)
        noise = [play.draw.noise for play in plays if play.draw.noise is not None]
        self._noise = torch.stack(noise, dim=2).to(stack.device) if noise else None
        size = (*self._shape, stack.policy.history, stack.policy.observation_size)
        self._window = torch.zeros(size, device=stack.device)
        self._seen: list[Tensor] = []
        self._heads: list[Tensor] = []
        self._taken: list[Tensor] = []

    @property
    def lanes(self) -> int:
        """Orders of all policies."""
        return self._shape[0] * self._shape[1]

    def act(self, observation: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Ratios and offsets of all lanes for observations [lane, size]."""
        stack, policy = self._stack, self._stack.policy
        own = observation.view(*self._shape, -1)
        if policy.history == 1:
            self._window = own[:, :, None]
        else:
            self._window = torch.cat([self._window[:, :, 1:], own[:, :, None]], dim=2)
        heads = self._answer(self._window)
        noise = None if self._noise is None else self._noise[step]
        taken = policy.take(heads[: self._used], noise)
        self._seen.append(own)
        self._heads.append(heads)
        self._taken.append(taken)
        ratio, offset = stack.first.action_map.actions(
            taken, steps_left=self._horizon - step, neutral=self._neutral
        )
        return ratio.flatten(), offset.flatten()

    def rollout(self, fields: Tensor, kept: Tensor) -> StackRollout[Owner]:
        """What happened; fields are [field, step, lane]."""
        heads = torch.stack(self._heads, dim=2)  # [head, policy, step, order]
        taken = torch.stack(self._taken, dim=2)
        nowhere = torch.zeros((self._used, self._shape[0]), device=taken.device)
        law = self._stack.law(self._flat, self._place, used=self._used, to_noise=nowhere)
        log_probs = law.log_prob(heads[:-1].flatten(2), taken.flatten(2))
        return StackRollout(
            owners=self._owners,
            stack=self._stack,
            observations=torch.stack(self._seen, dim=1),
            outputs=taken.permute(1, 2, 3, 0),
            log_probs=log_probs.view_as(heads[0]),
            values=heads[-1],
            fields=fields.unflatten(2, self._shape),
            kept=kept.view(self._shape),
            place=self._place,
            noise=(taken - heads[: self._used])[0] if self._takes_any_share else None,
        )


def _joined(parts: Sequence[Episodes]) -> Episodes:
    """The episodes one after the other."""
    seeds = None if parts[0].seeds is None else np.concatenate([one.book_seeds for one in parts])
    return Episodes(join_orders([part.orders for part in parts]), seeds)
