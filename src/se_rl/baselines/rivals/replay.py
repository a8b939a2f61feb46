"""Learning from what was played earlier: n-step returns, prioritised replay, a target network."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

LEAST_PRIORITY = 1e-3
"""Added to every error, so that nothing is forgotten for good."""


@dataclass(frozen=True, eq=False)
class Transitions:
    """Steps of orders, flat: what was seen and chosen, and what came of it some steps later."""

    seen: Tensor  # [sample, observation]
    choice: Tensor  # [sample]
    returned: Tensor  # [sample]: the rewards of the steps between
    later: Tensor  # [sample, observation]
    discount: Tensor  # [sample]: of the later state's value; 0 where the order had ended

    def __len__(self) -> int:
        return len(self.choice)

    def only(self, kept: Tensor) -> Transitions:
        """Those that are marked [sample]."""
        parts = (self.seen, self.choice, self.returned, self.later, self.discount)
        return Transitions(*(part[kept] for part in parts))


def n_step(
    observations: Tensor,
    choices: Tensor,
    rewards: Tensor,
    explored: Tensor,
    *,
    live: Tensor | None = None,
    steps: int,
    gamma: float = 1.0,
) -> Transitions:
    """Whole orders [step, order, ...] as transitions over `steps` steps, fewer at the end.

    They end before the next choice that was `explored`: what chance does later says nothing about
    the choice before (Watkins). What was decided on orders that were over, and so not `live`, is
    left out.
    """
    horizon, orders = rewards.shape
    returned = rewards.clone()
    length = torch.ones_like(rewards, dtype=torch.int64)
    follows = torch.ones_like(explored)
    for k in range(1, min(steps, horizon)):
        ahead = horizon - k
        follows[:ahead] &= ~explored[k:]
        follows[ahead:] = False
        # R_t = sum_k gamma^k r_{t+k}
        returned[:ahead] += gamma**k * rewards[k:] * follows[:ahead]
        length += follows
    later = torch.arange(horizon)[:, None] + length  # [step, order]
    goes_on = later < horizon
    place = later.clamp(max=horizon - 1), torch.arange(orders).expand_as(later)
    if live is not None:
        goes_on &= live[place]
    found = Transitions(
        seen=observations.flatten(0, 1),
        choice=choices.flatten(),
        returned=returned.flatten(),
        later=observations[place].flatten(0, 1),
        discount=(gamma**length * goes_on).flatten(),
    )
    return found if live is None else found.only(live.flatten())


class PrioritisedReplay:
    """The newest `capacity` transitions, drawn the more often the larger their last error was.

    Schaul et al. 2016: P(i) ~ p_i^alpha, and weights (N P(i))^-beta undo the bias of drawing so.
    """

    def __init__(
        self, capacity: int, observation_size: int, *, alpha: float = 0.6, beta: float = 0.4
    ) -> None:
        self.capacity = capacity
        self.alpha = alpha
        self.beta = beta
        self._seen = torch.empty((capacity, observation_size))
        self._later = torch.empty((capacity, observation_size))
        self._choice = torch.empty(capacity, dtype=torch.int64)
        self._numbers = torch.empty((capacity, 2))  # return, discount
        self._priority = torch.zeros(capacity, dtype=torch.float64)
        self._next = 0
        self.size = 0

    def add(self, new: Transitions) -> None:
        """Keep these, in the places of the oldest; they are as urgent as the most urgent one."""
        if len(new) > self.capacity:
            raise ValueError(f"{len(new)} transitions do not fit into {self.capacity} places")
        places = (self._next + torch.arange(len(new))) % self.capacity
        self._seen[places] = new.seen
        self._later[places] = new.later
        self._choice[places] = new.choice
        self._numbers[places] = torch.stack([new.returned, new.discount], 1)
        most = float(self._priority.max()) or 1.0
        self._priority[places] = most
        self._next = (self._next + len(new)) % self.capacity
        self.size = min(self.capacity, self.size + len(new))

    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Transitions, Tensor]:
        """Places, transitions and weights (the largest is 1) of `count` draws."""
        reach = self._priority[: self.size].cumsum(0)
        drawn = torch.rand(count, generator=generator, dtype=torch.float64) * reach[-1]
        places = torch.searchsorted(reach, drawn, right=True).clamp(max=self.size - 1)
        share = self._priority[places] / reach[-1]
        weight = (self.size * share).pow(-self.beta)
        returned, discount = self._numbers[places].unbind(1)
        found = Transitions(
            self._seen[places], self._choice[places], returned, self._later[places], discount
        )
        return places, found, (weight / weight.max()).float()

    def note(self, places: Tensor, errors: Tensor) -> None:
        """Remember how wrong the estimates of these were."""
        self._priority[places] = (errors.abs().double() + LEAST_PRIORITY).pow(self.alpha)


class TargetNetwork:
    """A copy that follows a network slowly: what estimates are measured against."""

    def __init__(self, network: nn.Module, copy: nn.Module, *, rate: float) -> None:
        self._network = network
        self.copy = copy
        self._rate = rate
        copy.load_state_dict(network.state_dict())
        copy.requires_grad_(False)

    @torch.no_grad()
    def follow(self) -> None:
        """Move every weight of the copy by the rate towards the network's."""
        for own, other in zip(self.copy.parameters(), self._network.parameters(), strict=True):
            own.lerp_(other, self._rate)
