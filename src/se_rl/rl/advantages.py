"""Advantages: generalised advantage estimates, less their hindsight baseline."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from se_rl.rl.rollout import Rollout

BLOCK = 1024
"""Steps summed by one matrix product; longer streams go block by block."""
RIDGE = 1e-6
"""Regularisation of the hindsight fit, as a share of the mean square of its columns."""
MARKET_FIELDS = (
    "no_order_mid",
    "no_order_mid_before",
    "news",
    "inventory_left",
    "traded_share",
    "twap_inventory_left",
    "twap_traded_share",
)
"""The fields that the hindsight baseline is fitted on."""


def advantages(
    rewards: Tensor, values: Tensor, *, gamma: float, lam: float, last_value: Tensor | None = None
) -> Tensor:
    """Generalised advantage estimates [step, order].

    `last_value` [order] is the value of the state after the last step. None means that the
    episodes are whole: nothing follows their last step.
    """
    end = torch.zeros_like(values[:1]) if last_value is None else last_value[None]
    following = torch.cat([values[1:], end])
    # delta_t = r_t + gamma * V(s_{t+1}) - V(s_t)
    delta = rewards + gamma * following - values
    # A_t = sum_k (gamma * lambda)^k * delta_{t+k}
    return _discounted_sums(delta, gamma * lam)


def stream_advantages(
    rewards: Tensor, values: Tensor, done: Tensor, *, gamma: float, lam: float
) -> Tensor:
    """Estimates [step] over a stream of episodes, of which `done` marks the last steps.

    Where the stream is cut off in mid-episode, the last state's own value stands for what follows.
    """
    ends = (torch.nonzero(done)[:, 0] + 1).tolist()
    if not done[-1]:
        ends.append(len(done))
    estimates = []
    start = 0
    for end in ends:
        episode = slice(start, end)
        cut_off = values[end - 1 : end] if not done[end - 1] else None
        estimates.append(
            advantages(
                rewards[episode, None],
                values[episode, None],
                gamma=gamma,
                lam=lam,
                last_value=cut_off,
            )
        )
        start = end
    return torch.cat(estimates)[:, 0]


def subtract_hindsight_baseline(estimates: Tensor, rollout: Rollout, *, discount: float) -> Tensor:
    """Advantages less what the market did later to the inventory that the order had anyway.

    That part depends on the state before the action and on a price path that our order did not
    move, so it cannot tell good actions from bad ones: it is a baseline with hindsight, and
    subtracting it changes no gradient's mean. It is fitted by least squares, for our inventory and
    TWAP's, on the whole path and on the path without news, because a design's reward may hold any
    of them. `discount` (gamma * lambda) is how far the estimates look ahead. Worlds without these
    fields, and batches in which every market broke, are left as they are.
    """
    kept = rollout.kept
    if not (set(MARKET_FIELDS) <= set(rollout.field_names) and bool(kept.any())):
        return estimates
    fields = {}
    for name in MARKET_FIELDS:
        fields[name] = rollout.fields[rollout.field_names.index(name)][:, kept]  # [step, order]
    columns = [column.reshape(-1) for column in hindsight_columns(fields, discount)]
    x = torch.stack(columns, 1).double()  # [step * order, column]
    x = x / x.square().mean(0).sqrt().clamp(min=1e-12)
    y = estimates[:, kept].reshape(-1).double()
    # least squares with a small ridge: (X'X + c I) b = X'y
    ridge = RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    coefficients = torch.linalg.solve(x.T @ x + ridge, x.T @ y)
    rest = y - x @ coefficients
    result = estimates.clone()
    result[:, kept] = rest.to(estimates.dtype).view(len(estimates), -1)
    return result


def hindsight_columns(fields: Mapping[str, Tensor], discount: float) -> list[Tensor]:
    """The hindsight baseline's regressors [step, order] from MARKET_FIELDS by name."""
    move = fields["no_order_mid"] - fields["no_order_mid_before"]
    held = fields["inventory_left"] + fields["traded_share"]
    twap_held = fields["twap_inventory_left"] + fields["twap_traded_share"]
    columns = [torch.ones_like(move)]
    for path in (move, move - fields["news"]):
        ahead = _moves_ahead(path, discount)
        columns += [held * ahead, twap_held * ahead]
    return columns


def _moves_ahead(move: Tensor, discount: float) -> Tensor:
    """What a share held now and sold evenly to the end sees of later moves [step, order]."""
    decay, distance = _decay(len(move), discount, device=move.device)
    steps_left = torch.arange(len(move), 0, -1, device=move.device)[:, None]
    # after d more steps, 1 - (1 + d) / steps_left of the share is still held
    return (decay * (1.0 - (1.0 + distance) / steps_left)) @ move


def _discounted_sums(values: Tensor, discount: float) -> Tensor:
    """[step, order]: y_t = sum_k discount^k * x_{t+k}, a matrix product for each block of steps."""
    blocks: list[Tensor] = []
    for block in reversed(values.split(BLOCK)):
        decay, _ = _decay(len(block), discount, device=values.device)
        sums = decay @ block
        if blocks:  # what follows the block, discounted by the distance to its end
            distance = torch.arange(len(block), 0, -1, device=values.device)[:, None]
            sums = sums + discount**distance * blocks[-1][0]
        blocks.append(sums)
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks[::-1])


def _decay(steps: int, discount: float, *, device: torch.device) -> tuple[Tensor, Tensor]:
    """[step, later step]: discount ** distance (0 for earlier steps), and the distance."""
    at = torch.arange(steps, device=device)
    distance = (at - at[:, None]).clamp(min=0)
    return torch.triu(discount ** distance.to(torch.float32)), distance
