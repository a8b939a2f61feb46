"""MacMic, after Niu et al. (2024): how much to trade is decided seldom, at what price often.

From the paper: a hierarchy of two agents on two scales of time. The macro agent gives the volume of
the next interval, the micro agent places it: price by price, step by step. Both learn from what the
whole order earns.

Decided here: an interval is eight steps. At its first step the macro level chooses a multiple of the
neutral slice, which holds until the next; in every step the micro level, which is told the multiple,
chooses a pace (half, once or one and a half times the slice) and, where orders have prices, ticks from the neutral
limit. Both levels are learned together by PPO: the macro choice is judged in the step in which it is
made, the value knows it from then on. Left out: the encoder that the paper trains beforehand (a
stack of hidden Markov models; the observation's fields stand in its place) and icebergs (our books
show every order). The choice of a running interval is not stored but made again from the interval's
first observation, which the window of eight still holds. In use both levels take the mean of their
multiples, and the likeliest price.
"""

from __future__ import annotations

import torch
from torch import Tensor

from se_rl.baselines.rivals.choices import (
    MULTIPLES,
    ChoiceGrid,
    Decision,
    Judged,
    RivalNetwork,
    draw,
    likelihood,
    zero_linear,
)
from se_rl.baselines.rivals.learning import ppo_trainer
from se_rl.data.features import OBSERVATION_PLACE
from se_rl.environments.task import USUAL_HORIZON
from se_rl.modules.defaults import TwoLayers

INTERVAL = 8
"""Steps of a macro decision."""
PACES = (1.0, 0.5, 1.5)
"""What the micro level makes of the interval's slice."""
HORIZON, TIME_LEFT = OBSERVATION_PLACE["horizon"], OBSERVATION_PLACE["time_left"]


class HierarchyNetwork(RivalNetwork):
    """A macro and a micro level, each with the default design's layers."""

    history = INTERVAL

    @staticmethod
    def steps_done(newest: Tensor) -> Tensor:
        """Steps of the order before this one [B], by the newest observation."""
        steps = USUAL_HORIZON * newest[:, HORIZON].exp()
        return (1.0 - newest[:, TIME_LEFT]) * steps.round()

    def steps_into(self, window: Tensor) -> Tensor:
        """How many steps the running interval is old [B]."""
        done = self.steps_done(window[:, -1]).round()
        return done.long().clamp(min=0) % self.history

    def __init__(self, obs_dim: int, actions: int) -> None:
        super().__init__(obs_dim, actions)
        self.volumes = ChoiceGrid(1, MULTIPLES)
        self.placements = ChoiceGrid(actions, PACES)
        self.macro_body = TwoLayers(obs_dim, 1)
        self.macro = zero_linear(self.macro_body.feature_dim, len(self.volumes))
        self.micro_body = TwoLayers(obs_dim + 1, 1)
        self.micro = zero_linear(self.micro_body.feature_dim, len(self.placements) + 1)

    def forward(self, window: Tensor) -> Tensor:
        """Both levels without noise."""
        volume = self.volumes.blended(self._volume_logits(window))
        logits, _ = self._placed(window, volume)
        return _joined(volume, self.placements.blended(logits))

    def decide(self, window: Tensor, generator: torch.Generator, last: Tensor | None) -> Decision:
        """A new volume where an interval begins, else the last one; a new placement always."""
        begins = self.steps_into(window) == 0
        chosen, of_volume = draw(self._volume_logits(window), generator)
        if last is not None:
            chosen = torch.where(begins, chosen, last[:, 0].long())
        volume = self.volumes.taken(chosen)
        logits, value = self._placed(window, volume)
        place, of_place = draw(logits, generator)
        log_prob = of_place + torch.where(begins, of_volume, 0.0)
        outputs = _joined(volume, self.placements.taken(place))
        return Decision(torch.stack([chosen, place], 1).float(), outputs, log_prob, value)

    def judge(self, window: Tensor, drawn: Tensor) -> Judged:
        """Volumes are judged where they were chosen, placements everywhere."""
        begins = self.steps_into(window) == 0
        chosen, place = drawn.long().unbind(1)
        of_volume, spread = likelihood(self._volume_logits(window), chosen)
        logits, value = self._placed(window, self.volumes.taken(chosen))
        of_place, entropy = likelihood(logits, place)
        log_prob = of_place + torch.where(begins, of_volume, 0.0)
        return Judged(log_prob, entropy + torch.where(begins, spread, 0.0), value)

    def _volume_logits(self, window: Tensor) -> Tensor:
        """Of the volumes, from what was seen when the running interval began [B, volume]."""
        rows = torch.arange(len(window), device=window.device)
        first = window[rows, self.history - 1 - self.steps_into(window)]
        logits: Tensor = self.macro(self.macro_body(first[:, None]))
        return logits

    def _placed(self, window: Tensor, volume: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the placements of a volume [B, 1], and the value of the state [B]."""
        seen = torch.cat([window[:, -1], volume], 1)
        out = self.micro(self.micro_body(seen[:, None]))
        return out[:, :-1], out[:, -1]


def _joined(volume: Tensor, placed: Tensor) -> Tensor:
    """The outputs of a volume [B, 1] that is placed so [B, actions]: multiples multiply."""
    return torch.cat([placed[:, :1] + volume, placed[:, 1:]], 1)


train = ppo_trainer(HierarchyNetwork)
