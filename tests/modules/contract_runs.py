"""Runs live modules on random inputs and asserts their contracts; what the locked stage does, in process for tests."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from se_rl.data.features import OBSERVATION_FIELDS
from se_rl.market.profile import MarketProfile
from se_rl.modules.contracts import (
    LIMITS,
    NETWORK_CONSTANTS,
    REWARD_FIELDS,
)
from se_rl.modules.dropout import without_dropout

OBS, AGENTS = len(OBSERVATION_FIELDS), 3


def random_step(rows: int, seed: int = 0) -> SimpleNamespace:
    """Fields spread over their ranges, the two ends included."""
    generator = torch.Generator().manual_seed(seed)
    step = {}
    for name, field in REWARD_FIELDS.items():
        share = torch.rand(rows, generator=generator)
        share[0], share[-1] = 0.0, 1.0
        step[name] = field.low + (field.high - field.low) * share
    return SimpleNamespace(**step)


def random_bars(paths: int = 6, steps: int = 120, seed: int = 0) -> Tensor:
    """Random walks with valid bars around them."""
    g = torch.Generator().manual_seed(seed)
    ticks = 50.0 * torch.exp(
        0.001 * torch.randn((paths, steps, 8), generator=g).flatten(1).cumsum(1)
    )
    ticks = ticks.reshape(paths, steps, 8)
    volume = torch.randint(0, 1000, (paths, steps), generator=g).float()
    return torch.stack([ticks[..., 0], ticks.amax(-1), ticks.amin(-1), ticks[..., -1], volume], -1)


def run_reward(reward: Callable[[Any], Tensor]) -> None:
    for rows in (1, 64):
        step = random_step(rows)
        before = {name: value.clone() for name, value in vars(step).items()}
        value = reward(step)
        assert value.shape == (rows,) and value.dtype == torch.float32
        assert torch.isfinite(value).all() and value.abs().max() <= LIMITS.reward_magnitude
        assert all(torch.equal(before[name], field) for name, field in vars(step).items())
    assert value.std() > 0, "constant"
    half = reward(SimpleNamespace(**{name: field[:32] for name, field in vars(step).items()}))
    torch.testing.assert_close(half, value[:32])


def run_network(network: Any) -> None:
    history = int(getattr(network, "history", NETWORK_CONSTANTS["history"].default))
    torch.manual_seed(0)
    live = without_dropout(network(OBS, history))
    obs = torch.rand(8, history, OBS)
    features = live(obs)
    assert features.shape == (8, live.feature_dim) and live.feature_dim <= LIMITS.feature_dim
    assert torch.isfinite(features).all() and features.std(0).max() > 0
    parameters = list(live.parameters())
    assert 0 < sum(p.numel() for p in parameters) <= LIMITS.parameters
    (features * torch.randn(features.shape)).sum().backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in parameters)
    torch.testing.assert_close(live(obs[:3]), features[:3])


def run_communication(communication: Any) -> None:
    torch.manual_seed(0)
    for agents in (1, AGENTS):
        live = without_dropout(communication(agents, LIMITS.message_size))
        messages = torch.rand(5, agents, LIMITS.message_size) * 2.0 - 1.0
        inbox = live(messages)
        assert inbox.shape == messages.shape and torch.isfinite(inbox).all()
        torch.testing.assert_close(live(messages[:2]), inbox[:2])


def run_profiling(profile: Any) -> None:
    assert isinstance(profile, MarketProfile)


def run_imagination(imagine: Callable[[Tensor, torch.Generator], Tensor]) -> None:
    bars = random_bars()
    before = bars.clone()
    new = imagine(bars, torch.Generator().manual_seed(1))
    assert torch.equal(bars, before), "input changed"
    assert new.shape == bars.shape and new.dtype == bars.dtype and torch.isfinite(new).all()
    opens, high, low, close, volume = new.unbind(-1)
    slack = 1e-5 * high
    assert (low > 0).all() and (volume >= 0).all()
    assert (low <= torch.minimum(opens, close) + slack).all() and (
        high >= torch.maximum(opens, close) - slack
    ).all()
    assert torch.equal(new, imagine(bars, torch.Generator().manual_seed(1)))
    moves, old = close.log().diff(dim=1), bars[..., 3].log().diff(dim=1)
    assert (moves.mean() - old.mean()).abs() < 0.15 * old.std(), "drift"


RUNS: dict[str, Callable[[Any], None]] = {
    "reward": run_reward,
    "network": run_network,
    "communication": run_communication,
    "profiling": run_profiling,
    "imagination": run_imagination,
}
