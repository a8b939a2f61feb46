"""HALOP, after Pan et al. (2022, arXiv 2207.11152): learn continuously, act discretely.

From the paper: volume follows a schedule of equal slices, and the agent finds the limit price. A
continuous decision, which is alike for all stocks, sets a scope of prices; a discrete one picks the
tick inside it. Both belong to one policy and are learned together by PPO. What is not filled is
left to later slices, and at the end to the market.

Decided here: the scope's centre is normal in ticks around the neutral limit, and reaches two ticks
to both sides; the picking layers see the state and the centre. The slices are the neutral
schedule's. Where orders have no price there is nothing to find: there the same two stages set the
size of the slice, its logarithm standing for the price. In use the centre's mean sets the scope, and
the likeliest tick in it is quoted.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from se_rl.baselines.rivals.choices import (
    ACTION_MAP,
    Decision,
    Judged,
    RivalNetwork,
    draw,
    likelihood,
    normal_log_prob,
    zero_linear,
)
from se_rl.baselines.rivals.learning import ppo_trainer
from se_rl.modules.defaults import TwoLayers, squash

TICKS = (0.0, -1.0, 1.0, -2.0, 2.0)
"""The scope around its centre, in the world's unit of limits: ticks, or halves of a bar's volatility."""
SIZE_STEP = 0.25
"""What a tick is where the size of the slice is found: a quarter, in logarithms."""
FIRST_SPREAD = 1.0
"""Standard deviation of the first scopes' centres, in ticks."""


class HybridNetwork(RivalNetwork):
    """Two stages on the default design's layers: where to look, then what to take there."""

    ticks: Tensor

    def __init__(self, obs_dim: int, actions: int) -> None:
        super().__init__(obs_dim, actions)
        self.register_buffer("ticks", torch.tensor(TICKS), persistent=False)
        self.body = TwoLayers(obs_dim, self.history)
        width = self.body.feature_dim
        self.scope = zero_linear(width, 2)  # the centre's mean, and the value of the state
        self.log_std = nn.Parameter(torch.tensor(math.log(FIRST_SPREAD)))
        self.inside = nn.Linear(width + 1, width)
        self.pick = zero_linear(width, len(TICKS))

    def forward(self, window: Tensor) -> Tensor:
        """The mean scope's likeliest tick."""
        features = self.body(window)
        centre = self.scope(features)[:, 0]
        return self._outputs(centre, self._logits(features, centre).argmax(1))

    def decide(self, window: Tensor, generator: torch.Generator, last: Tensor | None) -> Decision:
        """Draw a centre, then a tick around it."""
        features = self.body(window)
        mean, value = self.scope(features).unbind(1)
        noise = torch.randn(mean.shape, generator=generator)
        centre = mean + self.log_std.exp() * noise
        tick, of_tick = draw(self._logits(features, centre), generator)
        log_prob = normal_log_prob(mean, self.log_std, centre) + of_tick
        drawn = torch.stack([centre, tick.float()], 1)
        return Decision(drawn, self._outputs(centre, tick), log_prob, value)

    def judge(self, window: Tensor, drawn: Tensor) -> Judged:
        """Judge centres and ticks together."""
        features = self.body(window)
        mean, value = self.scope(features).unbind(1)
        centre = drawn[:, 0]
        of_tick, entropy = likelihood(self._logits(features, centre), drawn[:, 1].long())
        log_prob = normal_log_prob(mean, self.log_std, centre) + of_tick
        return Judged(log_prob, entropy + self.log_std, value)

    def _logits(self, features: Tensor, centre: Tensor) -> Tensor:
        """Of the ticks in a scope around `centre` [B, tick]."""
        hidden = squash(self.inside(torch.cat([features, centre[:, None]], 1)))
        logits: Tensor = self.pick(hidden)
        return logits

    def _outputs(self, centre: Tensor, tick: Tensor) -> Tensor:
        if self.feature_dim == 1:
            return (SIZE_STEP * (centre + self.ticks[tick]))[:, None]
        price = (centre.round() + self.ticks[tick]) / ACTION_MAP.price_scale
        return torch.stack([torch.zeros_like(price), price], 1)


train = ppo_trainer(HybridNetwork)
