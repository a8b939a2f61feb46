"""The samples of one world's rollout, ready for shuffling."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from se_rl.rl.policy import Policy
from se_rl.rl.rollout import Diverged, Rollout


@dataclass(frozen=True, eq=False)
class Batch:
    """The samples of one world's rollout, and the weight of that world's loss.

    A sample is one step of one order, flat: step * orders + order. `observations` has the zeros
    before the first step in front; `columns` holds each sample's outputs, log-prob, value,
    advantage and return, so that one gather fetches all.
    """

    observations: Tensor  # [(history - 1 + step) * order, observation]
    columns: Tensor  # [step * order, outputs + 4]
    orders: int
    history: int
    agents: int
    place: int = 0
    """Which of the policy's heads the world has."""
    weight: float = 1.0
    live: Tensor | None = None
    """The books' steps on which something was still to do; None where that is all of them."""

    @classmethod
    def of(
        cls,
        rollout: Rollout,
        advantages: Tensor,
        *,
        policy: Policy,
        returns: Tensor | None = None,
        weight: float = 1.0,
    ) -> Batch:
        """Keep the orders whose market did not break; scale the advantages over the batch.

        `returns` is what the value is to foresee (None: value plus advantage).
        """
        kept = rollout.kept.view(-1, policy.agents).all(1).repeat_interleave(policy.agents)
        if not bool(kept.any()):
            raise Diverged("every market of a batch broke")
        whole = bool(kept.all())

        def part(column: Tensor) -> Tensor:
            return column if whole else column[:, kept]

        taken = part(advantages)
        live = None if rollout.live is None else part(rollout.live)
        values = part(rollout.values)
        observations = part(rollout.observations)
        # centred and scaled: (A - mean A) / (std A + 1e-8)
        counted = taken if live is None else taken[live]
        scaled = (taken - counted.mean()) / (counted.std() + 1e-8)
        targets = taken + values if returns is None else part(returns)
        rest = torch.stack([part(rollout.log_probs), values, scaled, targets], dim=2)
        columns = torch.cat([part(rollout.outputs), rest], dim=2)
        if policy.history > 1:
            past = observations.new_zeros((policy.history - 1, *observations[0].shape))
            observations = torch.cat([past, observations])
        return cls(
            observations=observations.flatten(0, 1),
            columns=columns.flatten(0, 1),
            orders=values.shape[1],
            history=policy.history,
            agents=policy.agents,
            place=rollout.place,
            weight=weight,
            live=None if live is None else live.view(-1, policy.agents).any(1).nonzero()[:, 0],
        )

    @property
    def units(self) -> int:
        """How many things are shuffled: single steps of single books that are not over."""
        return len(self.columns) // self.agents if self.live is None else len(self.live)

    def samples(self, units: Tensor) -> Tensor:
        """The samples of these units; a book's agents stay neighbours."""
        if self.live is not None:
            units = self.live[units]
        if self.agents == 1:
            return units
        agents = torch.arange(self.agents, device=units.device)
        return (units[:, None] * self.agents + agents).flatten()

    def windows(self, samples: Tensor) -> Tensor:
        """The observations [sample, history, size] that led to these steps."""
        if self.history == 1:
            return self.observations.index_select(0, samples).unsqueeze(1)
        reach = samples[:, None] + torch.arange(self.history, device=samples.device) * self.orders
        # whole rows in one go: an index of two dimensions takes ten times as long
        rows = self.observations.index_select(0, reach.flatten())
        return rows.view(*reach.shape, -1)
