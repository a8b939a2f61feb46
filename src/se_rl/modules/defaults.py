"""The hand-written modules that a design starts from, and the naive reward to compare with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from se_rl.market.profile import MarketProfile
from se_rl.modules.agent_interface import USUAL_ACTIONS, AgentInterface
from se_rl.modules.contracts import NETWORK_CONSTANTS

Reward = Callable[[Any], Tensor]
Imagine = Callable[[Tensor, torch.Generator], Tensor]


def reward(step: Any) -> Tensor:
    """The strong default: gain over TWAP on the same episode, marked to the mid without our order,
    with the news taken out, less the risk of holding another inventory than TWAP.

    What nobody can time is noise to a learner; without it and without TWAP's own luck the same
    lesson shows in a fraction of the episodes. Marking to the mid without our order books our
    impact when it is paid, not when it is made. The news is what all orders of a day bear
    together: half a risk aversion of 0.02 per bps times its square, 100 in shares of the price,
    costs a schedule that bets on it what the score takes for that bet.
    """
    move = step.no_order_mid - step.no_order_mid_before - step.news
    own = (
        step.traded_share * (step.fill_price - step.no_order_mid_before)
        + step.inventory_left * move
    )
    twap = (
        step.twap_traded_share * (step.twap_fill_price - step.no_order_mid_before)
        + step.twap_inventory_left * move
    )
    own = (
        own
        - 0.5
        * (200.0 * step.news.square())
        * (step.inventory_left - step.twap_inventory_left).square()
    )
    return own - twap


def gain_over_twap(step: Any) -> Tensor:
    """What a step earned beyond TWAP on the same episode, with the news taken out.

    Summed over an order, this is the specific part of its gain.
    """
    ahead = step.inventory_left - step.twap_inventory_left
    return reward(step) + 100.0 * (step.news * ahead).square()


def naive_reward(step: Any) -> Tensor:
    """Plain shortfall against the arrival price, all the market's noise left in."""
    return step.traded_share * (step.fill_price - 1.0)


class Network(nn.Module):
    """One hidden layer of 64 tanh units, small batches, and actions that reach far.

    What our own searches found: a training of a few seconds is short of updates, not of data, so
    batches are a quarter of the usual size and steps twice as long.
    """

    learning_rate = 0.002
    epochs = 3
    gae_lambda_dynamic = 0.98
    action_scale = 2.0
    batch = 0.25

    def __init__(self, obs_dim: int, history: int) -> None:
        super().__init__()
        width = 64
        self.feature_dim = width
        self.first = nn.Linear(obs_dim * history, width)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, history, obs_dim] -> [B, 64]."""
        return squash(self.first(obs.flatten(1)))


class TwoLayers(nn.Module):
    """Two hidden layers of 64 tanh units on the observations of the window, as rivals have them."""

    def __init__(self, obs_dim: int, history: int) -> None:
        super().__init__()
        width = 64
        self.feature_dim = width
        self.first = nn.Linear(obs_dim * history, width)
        self.second = nn.Linear(width, width)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, history, obs_dim] -> [B, 64]."""
        hidden = squash(self.first(obs.flatten(1)))
        return squash(self.second(hidden))


def squash(x: Tensor) -> Tensor:
    """The hyperbolic tangent, by way of the logistic function, which torch computes several times
    faster on a CPU."""
    # tanh(x) = 2 / (1 + exp(-2 x)) - 1
    return torch.sigmoid(2.0 * x) * 2.0 - 1.0


class Communication(nn.Module):
    """Everybody hears a learned transformation of the mean of what the others said."""

    def __init__(self, agents: int, size: int) -> None:
        super().__init__()
        self.mix = nn.Linear(size, size)

    def forward(self, messages: Tensor) -> Tensor:
        """[B, N, K] -> [B, N, K]; alone, nothing is heard."""
        others = (messages.sum(1, keepdim=True) - messages) / max(1, messages.shape[1] - 1)
        return torch.tanh(self.mix(others)) * float(messages.shape[1] > 1)


def imagine(bars: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror all paths or none, and stretch each one's moves by a factor around 1; volumes stay.

    Signs are drawn for the whole batch and sizes per path, so that what symbols have in common
    stays common.
    """
    mirror = torch.randint(0, 2, (1, 1, 1), generator=generator).to(bars.dtype) * 2.0 - 1.0
    stretch = torch.exp(
        0.2 * torch.randn((bars.shape[0], 1, 1), generator=generator, dtype=bars.dtype)
    )
    start = bars[:, :1, :1].log()
    prices = torch.exp(start + mirror * stretch * (bars[..., :4].log() - start))
    top, bottom = prices.amax(-1), prices.amin(-1)
    return torch.stack([prices[..., 0], top, bottom, prices[..., 3], bars[..., 4]], -1)


class NetworkFactory(Protocol):
    """A network class of the contract."""

    def __call__(self, obs_dim: int, history: int) -> nn.Module: ...


class CommunicationFactory(Protocol):
    """A communication class of the contract."""

    def __call__(self, agents: int, size: int) -> nn.Module: ...


@dataclass(frozen=True)
class Modules:
    """The live parts of one design, as the trainer uses them.

    `imagine` None trains on real paths alone. `actions` names what outputs mean, out of
    `rl.action_maps`, in markets with rules of their own; None leaves that to the network.
    """

    reward: Reward = reward
    network: NetworkFactory = Network
    communication: CommunicationFactory = Communication
    profile: MarketProfile = field(default_factory=MarketProfile)
    imagine: Imagine | None = None
    actions: str | None = None

    @property
    def interface(self) -> AgentInterface:
        """What the network sees beside the usual observation, and what its outputs mean."""
        if self.actions is not None:
            return AgentInterface(actions=self.actions)
        inputs = tuple(getattr(self.network, "inputs", ()))
        return AgentInterface(inputs, getattr(self.network, "actions", USUAL_ACTIONS))

    def constant(self, name: str) -> float:
        """A learning constant: what the network sets, clipped to its range, or the default."""
        known = NETWORK_CONSTANTS[name]
        value = float(getattr(self.network, name, known.default))
        return min(max(value, known.low), known.high)
