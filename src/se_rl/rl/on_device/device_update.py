"""PPO's update of many policies of one network at once, each on its own batches.

What `rl.ppo` does for one policy is done here for a row of them. The shuffles come from each
policy's own generator, so that neighbours change nothing but the last bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from se_rl.rl.batch import Batch
from se_rl.rl.on_device.stack import Stack
from se_rl.rl.ppo import ADAM_EPSILON, MEAN_DECAY, SQUARE_DECAY, UpdateStats
from se_rl.rl.rollout import Diverged
from se_rl.rl.surrogate import TERMS, differentiate, mean_terms

One = TypeVar("One")
Other = TypeVar("Other")
Map = Callable[[Callable[[One], Other], Iterable[One]], Iterable[Other]]
"""`map`, or one that does several things at a time."""


@dataclass(frozen=True, eq=False)
class BatchRow:
    """Batches of one world, one for each policy, padded to the longest.

    Markets break, so that batches may differ in length; then a policy's shuffled samples begin
    again until there are as many as the longest has.
    """

    observations: Tensor  # [policy, (history - 1 + step) * order, size]
    columns: Tensor  # [policy, step * order, number]
    orders: Tensor  # [policy, 1, 1]
    weights: Tensor  # [policy, 1]
    units: Sequence[int]
    history: int
    place: int

    @classmethod
    def of(cls, batches: Sequence[Batch]) -> BatchRow:
        """Put batches side by side."""
        device = batches[0].columns.device
        orders = [[[batch.orders]] for batch in batches]
        weights = [[batch.weight] for batch in batches]
        return cls(
            observations=_padded([batch.observations for batch in batches]),
            columns=_padded([batch.columns for batch in batches]),
            orders=torch.tensor(orders, device=device),
            weights=torch.tensor(weights, device=device),
            units=[batch.units for batch in batches],
            history=batches[0].history,
            place=batches[0].place,
        )

    def shuffled(self, place: int, generator: torch.Generator) -> Tensor:
        """The samples of one policy in random order, as many as the longest batch has."""
        drawn = torch.randperm(self.units[place], generator=generator)
        most = max(self.units)
        return drawn.repeat(-(-most // len(drawn)))[:most]

    def windows(self, samples: Tensor) -> Tensor:
        """The observations [policy, sample, history, size] that led to samples [policy, sample]."""
        back = torch.arange(self.history, device=samples.device)
        reach = samples[:, :, None] + back * self.orders  # [policy, sample, history]
        rows = torch.arange(len(samples), device=samples.device)[:, None, None]
        return self.observations[rows, reach]

    def gathered(self, samples: Tensor) -> Tensor:
        """The columns [number, policy, sample] of samples [policy, sample]."""
        rows = torch.arange(len(samples), device=samples.device)[:, None]
        return self.columns[rows, samples].permute(2, 0, 1).contiguous()


def _padded(tensors: Sequence[Tensor]) -> Tensor:
    most = max(map(len, tensors))
    return torch.stack([functional.pad(one, (0, 0, 0, most - len(one))) for one in tensors])


class RowUpdate:
    """One update of the policies `who` of a stack, on a row of batches for every world.

    `draw_all` is how the policies' shuffles are drawn.
    """

    def __init__(
        self, stack: Stack, who: Sequence[int], rows: Sequence[BatchRow], *, draw_all: Map = map
    ) -> None:
        self.stack = stack
        self.who = list(who)
        self.rows = rows
        self._draw_all = draw_all
        self._settings = stack.first.ppo.settings
        self._flat = stack.flat(who).requires_grad_()
        self._moments = stack.moments[:, self.who]
        self._steps = torch.tensor([stack.steps[i] for i in who])
        self._open = torch.ones(len(self.who), dtype=torch.bool)
        rates = [[stack.learners[i].ppo.rate_left] for i in who]
        rate = stack.first.ppo.groups[0].rate
        self._rates = rate * torch.tensor(rates, device=stack.device)

    def run(self) -> list[UpdateStats | Diverged]:
        """Epochs until every policy has had enough; what became of each."""
        policies = len(self.who)
        totals = torch.zeros((policies, len(self.rows), TERMS))
        done = [0] * policies
        wrong: dict[int, str] = {}
        for epoch in range(self.stack.first.ppo.epochs):
            seen = self._epoch().cpu()
            for i in torch.nonzero(self._open)[:, 0].tolist():
                totals[i] = seen[i]
                done[i] += self._settings.minibatches
                if not torch.isfinite(seen[i]).all():
                    wrong[i] = f"loss is not finite in epoch {epoch + 1}"
                if i in wrong or float(seen[i, :, 2].max()) > self._settings.kl_stop:
                    self._open[i] = False
            if not self._open.any():
                break
        self._store(done)
        for i in torch.nonzero(~torch.isfinite(self._flat).all(1))[:, 0].tolist():
            wrong.setdefault(i, "weights are not finite after an update")
        stats: list[UpdateStats | Diverged] = []
        for i in range(policies):
            stats.append(Diverged(wrong[i]) if i in wrong else self._stats(i, totals[i], done[i]))
        return stats

    def _stats(self, i: int, totals: Tensor, steps: int) -> UpdateStats:
        ppo = self.stack.learners[self.who[i]].ppo
        if self.stack.policy.chooses:
            surprise = [-row.columns[i, : row.units[i], 1] for row in self.rows]
            return UpdateStats.of(totals, entropy=float(torch.cat(surprise).mean()), steps=steps)
        return UpdateStats.of(totals, entropy=ppo.entropy(), steps=steps)

    def _store(self, done: Sequence[int]) -> None:
        self.stack.store(self.who, self._flat)
        self.stack.moments[:, self.who] = self._moments
        for i, steps in zip(self.who, done, strict=True):
            self.stack.steps[i] += steps

    def _epoch(self) -> Tensor:
        """One pass over all batches; the mean terms of each one's loss [policy, batch, term]."""
        parts = self._settings.minibatches
        shuffles = [self._shuffles(row).tensor_split(parts, dim=1) for row in self.rows]
        seen = torch.zeros((len(self.who), len(self.rows), TERMS), device=self.stack.device)
        moving = self._open.to(self.stack.device)[:, None]
        for pieces in zip(*shuffles, strict=True):
            self._flat.grad = None
            noise = torch.zeros_like(self._flat)
            for k, (row, samples) in enumerate(zip(self.rows, pieces, strict=True)):
                seen[:, k] += self._backward(row, samples, noise)
            self._step(noise, moving)
        return seen / parts

    def _shuffles(self, row: BatchRow) -> Tensor:
        """The samples of all policies in random order; those that are done draw nothing more."""

        def drawn(i: int) -> Tensor:
            if not self._open[i]:
                return torch.arange(max(row.units)) % row.units[i]
            return row.shuffled(i, self.stack.learners[self.who[i]].ppo.generator)

        return torch.stack(list(self._draw_all(drawn, range(len(self.who))))).to(self.stack.device)

    def _backward(self, row: BatchRow, samples: Tensor, noise: Tensor) -> Tensor:
        """Add the gradients of a minibatch's weighted losses; the terms' means [policy, term].

        Derivatives by the policies' noise are found by hand and added to `noise`.
        """
        columns, count = row.gathered(samples), samples.shape[1]
        used = len(columns) - 4
        out = self.stack.answer(self._flat, row.windows(samples), row.place)
        to_out = torch.empty_like(out, memory_format=torch.contiguous_format)
        to_noise = torch.zeros((used, len(self.who)), device=self.stack.device)
        flat = self._flat.detach()
        law = self.stack.law(flat, row.place, used=used, to_noise=to_noise)
        sums = differentiate(
            out.detach(), columns, to_out, law, settings=self._settings, scale=1.0 / count
        )
        out.backward(to_out * row.weights)
        if not self.stack.policy.chooses:
            noise[:, self.stack.noise_place(row.place, used)] += to_noise.t() * row.weights
        return mean_terms(sums.t(), count)

    @torch.no_grad()
    def _step(self, noise: Tensor, moving: Tensor) -> None:
        """One step of Adam along each gradient, cut to its longest length, where policies move."""
        assert self._flat.grad is not None  # _backward came first
        gradient = self._flat.grad + noise
        norm = gradient.norm(dim=1, keepdim=True)
        gradient *= (self._settings.gradient_norm / (norm + 1e-6)).clamp(max=1.0)
        self._steps += self._open
        counts = self._steps.tolist()
        first = [[1.0 - MEAN_DECAY**count] for count in counts]
        second = [[math.sqrt(1.0 - SQUARE_DECAY**count)] for count in counts]
        scale = torch.tensor([first, second]).to(self.stack.device)
        mean = torch.lerp(self._moments[0], gradient, 1.0 - MEAN_DECAY)
        square = self._moments[1] * SQUARE_DECAY + (1.0 - SQUARE_DECAY) * gradient.square()
        step = self._rates / scale[0] * mean / (square.sqrt() / scale[1] + ADAM_EPSILON)
        self._moments = torch.where(moving, torch.stack([mean, square]), self._moments)
        self._flat -= torch.where(moving, step, 0.0)
