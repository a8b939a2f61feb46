"""Rollouts: one batch of whole episodes in a world, as the learner sees it, and their advantages."""

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
from se_rl.rl.policy import ActionMap, Neutral, Policy, Window


class Diverged(RuntimeError):
    """The training of a design cannot go on; the message is the reason that is kept with the design."""


@dataclass(frozen=True, eq=False)
class Rollout:
    """Tensors over [step, order]: observations (inboxes beside them), outputs, log-probs, values, and the step's fields."""

    observations: Tensor
    outputs: Tensor
    log_probs: Tensor
    values: Tensor
    fields: Tensor
    field_names: tuple[str, ...]
    kept: Tensor
    """Which orders count: those whose market did not break."""

    def rewards(self, reward: Reward, *, bound: float) -> Tensor:
        """The design's reward of every step at once [step, order]; refuses what is not finite or beyond the bound."""
        steps, orders = self.values.shape
        named = {name: self.fields[i].reshape(-1) for i, name in enumerate(self.field_names)}
        values = reward(SimpleNamespace(**named))
        if not isinstance(values, Tensor) or values.shape != (steps * orders,):
            raise Diverged(
                f"reward has shape {tuple(getattr(values, 'shape', ()))}, expected ({steps * orders},)"
            )
        values = values.detach().to(torch.float32)
        if not torch.isfinite(values).all():
            raise Diverged("reward is not finite on a recorded step")
        if float(values.abs().max()) > bound:
            raise Diverged(
                f"reward reaches {float(values.abs().max()):.3g}; keep it within {bound:g}"
            )
        return values.view(steps, orders)


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
) -> Rollout:
    """Play the episodes with the policy's noise on; the noise comes from `generator` alone."""
    n, horizon, used = len(episodes), world.horizon, 2 if world.takes_price else 1
    size = policy.observation_size + policy.message_size
    observations = torch.empty((horizon, n, size), device=device)
    heads = torch.empty((horizon, policy.actions + 1, n), device=device)
    fields = np.empty((horizon, len(world.field_names), n), np.float32)
    noise = torch.randn((horizon, n, used), generator=generator).to(device) * torch.exp(
        policy.log_std[:used]
    )
    outputs = noise.transpose(1, 2).contiguous()  # the means are added step by step
    observation, think = world.reset(episodes), _thinker(policy, n, device)
    for t in range(horizon):
        think(torch.from_numpy(observation), observations[t], heads[t])
        outputs[t] += heads[t, :used]
        ratio = (
            action_map.ratio(outputs[t, 0], steps_left=horizon - t, neutral=neutral)
            .double()
            .cpu()
            .numpy()
        )
        offset = None
        if world.takes_price:
            offset = action_map.offset(outputs[t, 1], neutral=neutral).double().cpu().numpy()
        if not (np.isfinite(ratio).all() and (offset is None or np.isfinite(offset).all())):
            raise Diverged(f"the policy's output is not finite at step {t}")
        observation = world.step(ratio, offset, fields[t])
    by_field = torch.from_numpy(np.ascontiguousarray(fields.swapaxes(0, 1))).to(device)
    kept = torch.from_numpy(~world.broken).to(device)
    by_order = outputs.transpose(1, 2).contiguous()
    log_probs = policy.log_prob(heads.transpose(1, 2), by_order)
    return Rollout(
        observations,
        by_order,
        log_probs,
        heads[:, -1].contiguous(),
        by_field,
        world.field_names,
        kept,
    )


def _thinker(
    policy: Policy, n: int, device: torch.device
) -> Callable[[Tensor, Tensor, Tensor], None]:
    """A function that takes the world's observation and writes what the policy sees, and its means and value [., n]."""
    window = Window(policy, n, device)

    def by_module(observation: Tensor, seen: Tensor, heads: Tensor) -> None:
        rows = window.push(observation)
        seen.copy_(rows[:, -1])
        mean, heads[-1], features = policy(rows)
        heads[:-1] = mean.t()
        window.hear(features)

    if (fused := FusedPolicy.of(policy)) is None:
        return by_module

    def by_hand(observation: Tensor, seen: Tensor, heads: Tensor) -> None:
        fused.forward(seen.copy_(observation), heads)

    return by_hand


def advantages(rewards: Tensor, values: Tensor, *, gamma: float, lam: float) -> Tensor:
    """Generalised advantage estimates [step, order] of whole episodes: nothing follows the last step."""
    following = torch.cat([values[1:], torch.zeros_like(values[:1])])
    delta = rewards + gamma * following - values
    decay, _ = _later(len(delta), gamma * lam, device=delta.device)
    return decay @ delta


def _later(steps: int, discount: float, *, device: torch.device) -> tuple[Tensor, Tensor]:
    """[step, later step]: discount ** distance (0 for earlier ones), and the distance.

    A discounted sum over all that follows is one matrix product with it: no loop over steps.
    """
    at = torch.arange(steps, device=device)
    distance = (at - at[:, None]).clamp(min=0)
    return torch.triu(discount ** distance.to(torch.float32)), distance


_MARKET = (
    "no_order_mid",
    "no_order_mid_before",
    "news",
    "inventory_left",
    "traded_share",
    "twap_inventory_left",
    "twap_traded_share",
)


def without_hindsight(estimates: Tensor, rollout: Rollout, *, discount: float) -> Tensor:
    """Advantages less what the market did later to the inventory that the order had anyway.

    That part depends on the state before the action and on a price path that our order did not move, so it cannot tell
    good actions from bad ones: it is a baseline with hindsight, and taking it out changes no gradient's mean. It is fitted
    by least squares, for our inventory and TWAP's, on the whole path and on the path without news, because a design's
    reward may hold any of them; `discount` (gamma * lambda) is how far the estimates look ahead. Worlds without these
    fields are left as they are.
    """
    if not set(_MARKET) <= set(rollout.field_names):
        return estimates
    after, before, news, left, traded, twap_left, twap_traded = (
        rollout.fields[rollout.field_names.index(name)][:, rollout.kept] for name in _MARKET
    )
    columns = [torch.ones_like(news)]
    for move in (after - before, after - before - news):
        ahead = _ahead(move, discount)
        columns += [(left + traded) * ahead, (twap_left + twap_traded) * ahead]
    x = torch.stack([column.reshape(-1) for column in columns], 1).double()
    x = x / x.square().mean(0).sqrt().clamp(min=1e-12)
    y = estimates[:, rollout.kept].reshape(-1).double()
    gram = x.T @ x + 1e-6 * len(x) * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    result = estimates.clone()
    result[:, rollout.kept] = (
        (y - x @ torch.linalg.solve(gram, x.T @ y)).to(estimates.dtype).view_as(news)
    )
    return result


def _ahead(move: Tensor, discount: float) -> Tensor:
    """What one share held now and worked off evenly to the end sees of the moves to come, discounted [step, order]."""
    decay, distance = _later(len(move), discount, device=move.device)
    left = torch.arange(len(move), 0, -1, device=move.device)[:, None]
    return (decay * (1.0 - (1.0 + distance) / left)) @ move
