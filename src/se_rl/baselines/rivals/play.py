"""Batches of whole orders, played by a rival's network in any world of ours."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from se_rl.baselines.rivals.choices import RivalNetwork
from se_rl.environments.worlds import Episodes, World
from se_rl.rl.policy import ActionMap, Neutral, Policy, Window
from se_rl.rl.rollout import LIVE, Diverged, Rollout

PATH = "no_order_mid"
PATH_BEFORE = "no_order_mid_before"
AHEAD = (1, 2, 4, 8, 16)
"""Steps ahead at which a teacher sees the price."""
FUTURE_SIZE = len(AHEAD) + 3


@torch.no_grad()
def play(
    world: World,
    policy: Policy,
    episodes: Episodes,
    *,
    action_map: ActionMap,
    neutral: Neutral,
    generator: torch.Generator,
    future: Tensor | None = None,
) -> Rollout:
    """Play the episodes with the network's noise on; `outputs` of the rollout are what was drawn.

    `future` [step, order, number] is shown beside the observations to those who may see it.
    """
    network = policy.network
    assert isinstance(network, RivalNetwork)
    n = len(episodes)
    horizon = world.horizon
    observations = torch.empty((horizon, n, policy.observation_size))
    fields = np.empty((horizon, len(world.field_names), n), np.float32)
    decisions = []
    last = None
    window = Window(policy, n, torch.device("cpu"))
    observation = world.reset(episodes)
    for step in range(horizon):
        seen = torch.from_numpy(observation)
        observations[step] = seen if future is None else torch.cat([seen, future[step]], 1)
        decision = network.decide(window.push(observations[step]), generator, last)
        last = decision.drawn
        decisions.append(decision)
        if not bool(torch.isfinite(decision.outputs).all()):
            raise Diverged(f"the policy's output is not finite at step {step}")
        ratio, offset = action_map.actions(
            decision.outputs.t(), steps_left=horizon - step, neutral=neutral
        )
        limit = offset.double().numpy() if world.takes_price else None
        observation = world.step(ratio.double().numpy(), limit, fields[step])
    values = torch.stack([decision.value for decision in decisions])
    if LIVE in world.field_names:  # what is over is worth nothing
        values *= torch.from_numpy(fields[:, world.field_names.index(LIVE)])
    return Rollout(
        observations=observations,
        outputs=torch.stack([decision.drawn for decision in decisions]),
        log_probs=torch.stack([decision.log_prob for decision in decisions]),
        values=values,
        fields=torch.from_numpy(np.ascontiguousarray(fields.swapaxes(0, 1))),
        field_names=world.field_names,
        kept=torch.from_numpy(~world.broken),
    )


def path_without_us(world: World, episodes: Episodes) -> Tensor:
    """The price path that these episodes will have, by playing TWAP in them once [step, order].

    From the mid before the first step, turned for the order's side, as the reward's fields have it.
    """
    horizon = world.horizon
    n = len(episodes)
    at = world.field_names.index(PATH)
    fields = np.empty((len(world.field_names), n), np.float32)
    path = np.empty((horizon + 1, n), np.float32)
    world.reset(episodes)
    for step in range(horizon):
        offset = np.zeros(n) if world.takes_price else None
        world.step(np.full(n, 1.0 / (horizon - step)), offset, fields)
        if step == 0:
            path[0] = fields[world.field_names.index(PATH_BEFORE)]
        path[step + 1] = fields[at]
    return torch.from_numpy(path)


def path_of(rollout: Rollout) -> Tensor:
    """The same path [step + 1, order] out of what was played."""
    names = rollout.field_names
    before = rollout.fields[names.index(PATH_BEFORE)][:1]
    return torch.cat([before, rollout.fields[names.index(PATH)]])


def future_of(path: Tensor, scale: float) -> Tensor:
    """What a teacher sees of the future [step, order, FUTURE_SIZE], in units of `scale`.

    The price some steps ahead (at the end, where there are fewer), the mean, the best and the worst
    of all that is still to come; each against the price before the step.
    """
    steps = len(path) - 1
    now = path[:-1]
    left = torch.arange(steps, 0, -1)[:, None]
    ahead = [path[(torch.arange(steps) + k).clamp(max=steps)] for k in AHEAD]
    later = path[1:].flip(0)
    mean = later.cumsum(0).flip(0) / left
    best = later.cummax(0).values.flip(0)
    worst = later.cummin(0).values.flip(0)
    moves = torch.stack([*ahead, mean, best, worst], 2) - now[:, :, None]
    return (moves / scale).clamp(-5.0, 5.0)
