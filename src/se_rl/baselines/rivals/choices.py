"""Discrete choices of what an order does in a step, and the networks that choose.

A choice is a multiple of the neutral schedule's slice and, where orders have prices, a number of
ticks from its limit. It is spelled in the outputs that `ActionMap` reads, so that a network that
chooses is the network of an ordinary policy: it plays, is stored and is evaluated like any other.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from se_rl.modules.defaults import Modules, TwoLayers
from se_rl.rl.policy import ActionMap, Policy

MULTIPLES = (1.0, 0.5, 1.5, 0.0, 2.0)
"""Of the neutral slice (in odds of what is left, which never leave (0, 1)); their mean is 1."""
OFFSETS = (0.0, -1.0, 1.0, -2.0, 2.0)
"""Ticks from the neutral limit, positive on the passive side."""
LEAST_MULTIPLE = 1e-3
"""What a multiple of 0 trades: outputs are logarithms."""
ACTION_MAP = ActionMap()


class ChoiceGrid(nn.Module):
    """A grid of multiples and, with two actions, of offsets; the neutral choice comes first.

    So a network that knows nothing, to which all are alike, takes the neutral one.
    """

    multiples: Tensor
    offsets: Tensor

    def __init__(self, actions: int, multiples: tuple[float, ...] = MULTIPLES) -> None:
        super().__init__()
        self.actions = actions
        sizes = torch.tensor(multiples).clamp(min=LEAST_MULTIPLE)
        ticks = torch.tensor(OFFSETS if actions > 1 else OFFSETS[:1])
        self.register_buffer("multiples", sizes, persistent=False)
        self.register_buffer("offsets", ticks, persistent=False)

    def __len__(self) -> int:
        return len(self.multiples) * len(self.offsets)

    def taken(self, choice: Tensor) -> Tensor:
        """The outputs [B, actions] of choices [B]."""
        multiple = self.multiples[choice // len(self.offsets)]
        return self._outputs(multiple, self.offsets[choice % len(self.offsets)])

    def blended(self, logits: Tensor) -> Tensor:
        """The outputs [B, actions] of choices by their probabilities.

        Shares can be divided, so the mean multiple is traded; a price cannot, so the likeliest is
        quoted.
        """
        grid = logits.softmax(1).view(-1, len(self.multiples), len(self.offsets))
        multiple = grid.sum(2) @ self.multiples
        return self._outputs(multiple, self.offsets[grid.sum(1).argmax(1)])

    def _outputs(self, multiple: Tensor, offset: Tensor) -> Tensor:
        moved = [multiple.log() / ACTION_MAP.scale, offset / ACTION_MAP.price_scale]
        return torch.stack(moved[: self.actions], 1)


class Decision(NamedTuple):
    """A step's decision of a batch: what was drawn, the outputs it means, and how likely it was."""

    drawn: Tensor  # [B, drawn]: what `judge` needs to know it again
    outputs: Tensor  # [B, actions]
    log_prob: Tensor  # [B]
    value: Tensor  # [B]


class Judged(NamedTuple):
    """How likely decisions are by the present weights, and the value of the states."""

    log_prob: Tensor
    entropy: Tensor
    value: Tensor
    lesson: Tensor | None = None
    """Log-probability of what a teacher would have drawn."""


class RivalNetwork(nn.Module, ABC):
    """A network whose features are the outputs themselves; `forward` decides without noise."""

    history: ClassVar[int] = 1

    def __init__(self, obs_dim: int, actions: int) -> None:
        super().__init__()
        self.feature_dim = actions

    @abstractmethod
    def forward(self, window: Tensor) -> Tensor:
        """[B, history, obs_dim] -> outputs [B, actions]."""

    @abstractmethod
    def decide(self, window: Tensor, generator: torch.Generator, last: Tensor | None) -> Decision:
        """Draw a decision for every row; `last` is what was drawn in the step before."""

    @abstractmethod
    def judge(self, window: Tensor, drawn: Tensor) -> Judged:
        """Judge decisions that were drawn earlier."""


class ChoiceNetwork(RivalNetwork):
    """The default design's layers, and one score for each choice; a softmax makes it a policy."""

    def __init__(self, obs_dim: int, actions: int) -> None:
        super().__init__(obs_dim, actions)
        self.choices = ChoiceGrid(actions)
        self.body = TwoLayers(obs_dim, self.history)
        self.scores = zero_linear(self.body.feature_dim, len(self.choices) + 1)

    def forward(self, window: Tensor) -> Tensor:
        """The choices by their probabilities."""
        return self.choices.blended(self.scored(window)[0])

    def scored(self, window: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of all choices [B, choice] and the value of the state [B]."""
        out = self.scores(self.body(window))
        return out[:, :-1], out[:, -1]

    def decide(self, window: Tensor, generator: torch.Generator, last: Tensor | None) -> Decision:
        """Draw by the probabilities."""
        scores, value = self.scored(window)
        choice, log_prob = draw(scores, generator)
        return Decision(choice[:, None].float(), self.choices.taken(choice), log_prob, value)

    def judge(self, window: Tensor, drawn: Tensor) -> Judged:
        """Judge the choices drawn and, where there is a second column, a teacher's beside them."""
        scores, value = self.scored(window)
        choice = drawn.long()
        own = likelihood(scores, choice[:, 0])
        lesson = likelihood(scores, choice[:, 1])[0] if choice.shape[1] > 1 else None
        return Judged(*own, value, lesson)


def zero_linear(inputs: int, outputs: int) -> nn.Linear:
    """A last layer that begins at 0: nothing is known, every choice is as good."""
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def draw(logits: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """One choice for each row of logits [B, choice], and its log-probability."""
    log_probs = logits.log_softmax(1)
    choice = torch.multinomial(log_probs.exp(), 1, generator=generator)
    return choice[:, 0], log_probs.gather(1, choice)[:, 0]


def likelihood(logits: Tensor, choice: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of choices [B] under logits [B, choice], and the entropy."""
    log_probs = logits.log_softmax(1)
    entropy = -(log_probs.exp() * log_probs).sum(1)
    return log_probs.gather(1, choice[:, None])[:, 0], entropy


def normal_log_prob(mean: Tensor, log_std: Tensor, at: Tensor) -> Tensor:
    """log N(x; m, s) = -z^2 / 2 - log s - log(2 pi) / 2 with z = (x - m) / s."""
    z = (at - mean) * torch.exp(-log_std)
    return -0.5 * z * z - log_std - 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class RivalFactory:
    """Makes a rival's network where the framework makes that of a design."""

    network: type[RivalNetwork]
    outputs: int

    @property
    def history(self) -> int:
        """Observations of the past that it sees."""
        return self.network.history

    def __call__(self, obs_dim: int, history: int) -> nn.Module:
        """A fresh network."""
        return self.network(obs_dim, self.outputs)


def rival_policy(network: type[RivalNetwork], *, observation_size: int, actions: int) -> Policy:
    """A fresh policy whose outputs are what the network decides."""
    modules = Modules(network=RivalFactory(network, actions))
    policy = Policy(modules, observation_size=observation_size, actions=actions)
    with torch.no_grad():  # the heads hand the network's outputs on
        policy.heads.weight.copy_(torch.eye(actions + 1, actions))
        policy.heads.bias.zero_()
    return policy
