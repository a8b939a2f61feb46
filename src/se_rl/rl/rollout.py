"""Rollouts: one batch of whole episodes in a world, as the learner sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from se_rl.environments.worlds import Episodes, World
from se_rl.modules.defaults import Reward
from se_rl.rl.fused import FusedPolicy
from se_rl.rl.history_kernel import HistorySteps
from se_rl.rl.history_rollout import HistoryPlayer, takes_any_share
from se_rl.rl.policy import ActionMap, Neutral, Policy, Window

Think = Callable[[Tensor, Tensor, Tensor], None]
"""Takes a world's observation; writes what the policy sees, and its means and value [., n]."""

LIVE = "live"
"""The field that is 0 where an order was over before a step; nothing is learned from such steps."""


class Diverged(RuntimeError):
    """The training of a design cannot go on; the message is the reason kept with the design."""


@dataclass(frozen=True, eq=False)
class Rollout:
    """What happened in every step of every order, as tensors over [step, order].

    Inboxes stand beside the observations; `fields` holds the numbers a reward may look at.
    """

    observations: Tensor  # [step, order, observation]
    outputs: Tensor  # [step, order, action]
    log_probs: Tensor  # [step, order]
    values: Tensor  # [step, order]
    fields: Tensor  # [field, step, order]
    field_names: tuple[str, ...]
    kept: Tensor  # [order]
    """Which orders count: those whose market did not break."""
    place: int = 0
    """Which of the policy's heads answered."""
    noise: Tensor | None = None
    """How far outputs [step, order] were from their means, where no price moves with what we trade."""

    @property
    def live(self) -> Tensor | None:
        """Which steps [step, order] were decided on open orders; None where all were."""
        if LIVE not in self.field_names:
            return None
        return self.fields[self.field_names.index(LIVE)] > 0.0

    def windows_at(self, step: int, *, history: int) -> Tensor:
        """What the policy saw at a step [order, history, observation]; zeros before the first."""
        _, orders, size = self.observations.shape
        windows = self.observations.new_zeros((orders, history, size))
        seen = self.observations[
            max(0, step + 1 - history) : step + 1
        ]  # [step, order, observation]
        windows[:, history - len(seen) :] = seen.transpose(0, 1)
        return windows

    def rewards(self, reward: Reward, *, bound: float) -> Tensor:
        """The reward of every step [step, order]; Diverged where not finite or beyond the bound."""
        shape = self.values.shape
        flat = shape.numel()
        named = {name: self.fields[i].reshape(-1) for i, name in enumerate(self.field_names)}
        values = reward(SimpleNamespace(**named))
        if not isinstance(values, Tensor) or values.shape != (flat,):
            found = tuple(getattr(values, "shape", ()))
            raise Diverged(f"reward has shape {found}, expected ({flat},)")
        values = values.detach().to(torch.float32)
        if not torch.isfinite(values).all():
            raise Diverged("reward is not finite on a recorded step")
        largest = float(values.abs().max())
        if largest > bound:
            raise Diverged(f"reward reaches {largest:.3g}; keep it within {bound:g}")
        return values.view(shape)


@torch.no_grad()
def collect(
    world: World,
    policy: Policy,
    action_map: ActionMap,
    episodes: Episodes,
    *,
    generator: torch.Generator,
    neutral: Neutral,
    device: torch.device,
    place: int = 0,
) -> Rollout:
    """Play the episodes with the policy's noise on; the noise comes from `generator` alone.

    `place` says which of the policy's heads the world has.
    """
    n = len(episodes)
    horizon = world.horizon
    used = action_map.outputs(world.takes_price)
    size = policy.observation_size + policy.message_size
    observations = torch.empty((horizon, n, size), device=device)
    heads = torch.empty((horizon, policy.actions + 1, n), device=device)
    fields = np.empty((horizon, len(world.field_names), n), np.float32)
    noise = policy.draw_noise(horizon, used, n, generator=generator, place=place)
    outputs = torch.empty((horizon, 1 if policy.chooses else used, n), device=device)
    fused = FusedPolicy.of(policy)
    player = HistoryPlayer.of(world, policy, action_map, fused)
    if player is not None:
        outputs.copy_(noise)
        steps = HistorySteps(observations.numpy(), heads.numpy(), outputs.numpy(), fields)
        _check(player.play(world, episodes, steps, neutral=neutral, place=place))
    else:
        think = _thinker(policy, fused, place, n, device)
        observation = world.reset(episodes)
        for t in range(horizon):
            think(torch.from_numpy(observation), observations[t], heads[t])
            outputs[t] = policy.take(heads[t, :used], noise[t])
            ratio, offset = action_map.actions(outputs[t], steps_left=horizon - t, neutral=neutral)
            offsets = _finite(offset, t) if world.takes_price else None
            observation = world.step(_finite(ratio, t), offsets, fields[t])
    by_field = np.ascontiguousarray(fields.swapaxes(0, 1))  # [field, step, order]
    by_order = outputs.transpose(1, 2).contiguous()  # [step, order, action]
    values = heads[:, -1].contiguous()
    if LIVE in world.field_names:  # what is over is worth nothing
        values *= torch.from_numpy(by_field[world.field_names.index(LIVE)]).to(device)
    return Rollout(
        observations=observations,
        outputs=by_order,
        log_probs=policy.log_prob(heads.transpose(1, 2), by_order, place),
        values=values,
        fields=torch.from_numpy(by_field).to(device),
        field_names=world.field_names,
        kept=torch.from_numpy(~world.broken).to(device),
        place=place,
        noise=noise[:, 0] if takes_any_share(world, action_map) else None,
    )


def _finite(actions: Tensor, step: int) -> np.ndarray:
    """Actions as the world takes them, refused unless all are finite."""
    values = actions.double().cpu().numpy()
    _check(-1 if np.isfinite(values).all() else step)
    return values


def _check(failed: int) -> None:
    """Refuse outputs that were not finite at this step; -1 says that all were."""
    if failed >= 0:
        raise Diverged(f"the policy's output is not finite at step {failed}")


def _thinker(
    policy: Policy, fused: FusedPolicy | None, place: int, n: int, device: torch.device
) -> Think:
    """How the policy answers a batch of `n` orders: by hand where it can be, else by its module."""
    if fused is not None and policy.history == 1:
        answer = fused.answer

        def by_hand(observation: Tensor, seen: Tensor, heads: Tensor) -> None:
            answer(seen.copy_(observation), place, heads)

        return by_hand

    window = Window(policy, n, device)

    def by_window(observation: Tensor, seen: Tensor, heads: Tensor) -> None:
        rows = window.push(observation)
        seen.copy_(rows[:, -1])
        if fused is not None:
            fused.answer(fused.rows_of(rows), place, heads)
            return
        answered, features = policy.answer(rows, place)
        heads.copy_(answered)
        window.hear(features)

    return by_window
