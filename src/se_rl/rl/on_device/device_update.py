"""PPO's update of many policies of one network at once, each on its own batches.

What `rl.ppo` does for one policy is done here for a row of them. The shuffles come from each
policy's own generator, so that neighbours change nothing but the last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional

from se_rl.rl.on_device.device_estimates import Taught
from se_rl.rl.on_device.device_rollout import Owner, StackRollout
from se_rl.rl.on_device.stack import Stack
from se_rl.rl.ppo import ADAM_EPSILON, MEAN_DECAY, SQUARE_DECAY, UpdateStats
from se_rl.rl.rollout import Diverged
from se_rl.rl.surrogate import TERMS, differentiate, mean_terms

DoAll = Callable[[Callable[[int], None], Iterable[int]], object]
"""Does something for every number, perhaps several at a time."""


@dataclass(frozen=True, eq=False)
class BatchRow:
    """The samples of one world, of one policy beside the other.

    Markets break and horizons differ, so that there may be fewer `samples` of one than of another;
    then its shuffled ones begin again until there are as many as the most have.
    """

    observations: Tensor  # [policy, (history - 1 + step) * order, size]
    columns: Tensor  # [policy, step * order, number]
    orders: Sequence[int]
    samples: Sequence[Tensor | int]
    """Where samples that count stand, or how many there are where all do."""
    history: int
    place: int

    @classmethod
    def of(cls, rollout: StackRollout[Owner], lessons: Taught) -> BatchRow:
        """Keep the orders whose market did not break."""
        history = rollout.stack.policy.history
        policies, steps, orders, _ = rollout.observations.shape
        past = rollout.observations.new_zeros(
            (policies, history - 1, *rollout.observations[0, 0].shape)
        )
        rest = [rollout.log_probs, rollout.values, lessons.advantages, lessons.returns]
        samples: list[Tensor | int] = []
        for kept in rollout.kept.cpu():
            counted = kept.expand(steps, orders).flatten()
            samples.append(len(counted) if bool(kept.all()) else torch.nonzero(counted)[:, 0])
        return cls(
            observations=torch.cat([past, rollout.observations], dim=1).flatten(1, 2),
            columns=torch.cat([rollout.outputs, torch.stack(rest, dim=3)], dim=3).flatten(1, 2),
            orders=[orders] * policies,
            samples=samples,
            history=history,
            place=rollout.place,
        )

    @classmethod
    def joined(cls, rows: Sequence[BatchRow], places: Sequence[tuple[int, int]]) -> BatchRow:
        """Some policies of one stack from several rows, by number of row and place in it."""
        own = {k: rows[k] for k, _ in places}
        first = rows[places[0][0]]
        before = dict(
            zip(own, accumulate([0, *(len(r.orders) for r in own.values())]), strict=False)
        )
        which = torch.tensor([before[k] + i for k, i in places], device=first.columns.device)
        return cls(
            observations=_padded([row.observations for row in own.values()])[which],
            columns=_padded([row.columns for row in own.values()])[which],
            orders=[rows[k].orders[i] for k, i in places],
            samples=[rows[k].samples[i] for k, i in places],
            history=first.history,
            place=first.place,
        )

    @cached_property
    def most(self) -> int:
        """Samples of the policy that has most."""
        return max(one if isinstance(one, int) else len(one) for one in self.samples)

    def shuffle(self, i: int, generator: torch.Generator, out: Tensor) -> None:
        """Write the samples of one policy in random order to `out` [most]."""
        own = self.samples[i]
        if isinstance(own, int) and own == self.most:
            torch.randperm(own, generator=generator, out=out)
            return
        drawn = torch.randperm(own if isinstance(own, int) else len(own), generator=generator)
        if not isinstance(own, int):
            drawn = own[drawn]
        out.copy_(drawn.repeat(-(-self.most // len(drawn)))[: self.most])

    def windows(self, samples: Tensor) -> Tensor:
        """The observations [policy, sample, history, size] that led to samples [policy, sample]."""
        rows = torch.arange(len(samples), device=samples.device)[:, None]
        if self.history == 1:
            return self.observations[rows, samples][:, :, None]
        orders = torch.tensor(self.orders, device=samples.device)[:, None, None]
        reach = samples[:, :, None] + torch.arange(self.history, device=samples.device) * orders
        return self.observations[rows[:, None], reach]

    def gathered(self, samples: Tensor) -> Tensor:
        """The columns [number, policy, sample] of samples [policy, sample]."""
        rows = torch.arange(len(samples), device=samples.device)[:, None]
        return self.columns[rows, samples].permute(2, 0, 1).contiguous()


def _padded(tensors: Sequence[Tensor]) -> Tensor:
    """One after the other [policy, sample, number], as long as the longest of them."""
    most = max(one.shape[1] for one in tensors)
    return torch.cat([functional.pad(one, (0, 0, 0, most - one.shape[1])) for one in tensors])


class RowUpdate:
    """One update of the policies `who` of a stack, on a row of batches for every world.

    `weights` [world, policy] are those of the worlds' losses; `do_all` does several things at a time.
    """

    def __init__(
        self,
        stack: Stack,
        who: Sequence[int],
        rows: Sequence[BatchRow],
        weights: Sequence[Sequence[float]],
        *,
        do_all: DoAll,
    ) -> None:
        self.stack = stack
        self.who = list(who)
        self.rows = rows
        self._weights = torch.tensor(weights, device=stack.device)[..., None]
        self._do_all = do_all
        self._settings = stack.first.ppo.settings
        self._flat = stack.flat(who).requires_grad_()
        self._moments = stack.moments[:, self.who]
        self._steps = torch.tensor([stack.steps[i] for i in who], dtype=torch.float64)
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
            surprise = []
            for row in self.rows:
                own = row.samples[i]
                chances = row.columns[i, :, 1]
                surprise.append(-(chances[:own] if isinstance(own, int) else chances[own]))
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
        corrections = self._corrections(parts)
        for step, pieces in enumerate(zip(*shuffles, strict=True)):
            self._flat.grad = None
            noise = torch.zeros_like(self._flat)
            for k, (row, samples) in enumerate(zip(self.rows, pieces, strict=True)):
                seen[:, k] += self._backward(row, samples, self._weights[k], noise)
            self._step(noise, moving, corrections[step])
        return seen / parts

    def _corrections(self, steps: int) -> Tensor:
        """What Adam divides its means by in the next steps [step, moment, policy, 1]."""
        counts = self._steps + torch.arange(1, steps + 1)[:, None]
        self._steps = self._steps + steps * self._open
        first, second = 1.0 - MEAN_DECAY**counts, (1.0 - SQUARE_DECAY**counts).sqrt()
        return torch.stack([first, second], dim=1)[..., None].float().to(self.stack.device)

    def _shuffles(self, row: BatchRow) -> Tensor:
        """The samples of all policies in random order; those that are done draw nothing more."""
        drawn = torch.zeros((len(self.who), row.most), dtype=torch.int64)

        def draw(i: int) -> None:
            row.shuffle(i, self.stack.learners[self.who[i]].ppo.generator, drawn[i])

        self._do_all(draw, torch.nonzero(self._open)[:, 0].tolist())
        return drawn.to(self.stack.device)

    def _backward(self, row: BatchRow, samples: Tensor, weight: Tensor, noise: Tensor) -> Tensor:
        """Add the gradients of a minibatch's weighted losses; the terms' means [policy, term].

        Derivatives by the policies' noise are found by hand and added to `noise`.
        """
        columns, count = row.gathered(samples), samples.shape[1]
        used = len(columns) - 4
        out = self.stack.answering(self._flat, row.place)(row.windows(samples))
        to_out = torch.empty(out.shape, device=out.device)
        to_noise = torch.zeros((used, len(self.who)), device=out.device)
        law = self.stack.law(self._flat.detach(), row.place, used=used, to_noise=to_noise)
        sums = differentiate(
            out.detach(), columns, to_out, law, settings=self._settings, scale=1.0 / count
        )
        out.backward(to_out * weight)
        if not self.stack.policy.chooses:
            noise[:, self.stack.noise_place(row.place, used)] += to_noise.t() * weight
        return mean_terms(sums.t(), count)

    @torch.no_grad()
    def _step(self, noise: Tensor, moving: Tensor, corrections: Tensor) -> None:
        """One step of Adam along each gradient, cut to its longest length, where policies move."""
        assert self._flat.grad is not None  # _backward came first
        gradient = self._flat.grad + noise
        norm = gradient.norm(dim=1, keepdim=True)
        gradient *= (self._settings.gradient_norm / (norm + 1e-6)).clamp(max=1.0)
        mean = torch.lerp(self._moments[0], gradient, 1.0 - MEAN_DECAY)
        square = self._moments[1] * SQUARE_DECAY + (1.0 - SQUARE_DECAY) * gradient.square()
        first, second = corrections
        step = self._rates / first * mean / (square.sqrt() / second + ADAM_EPSILON)
        self._moments = torch.where(moving, torch.stack([mean, square]), self._moments)
        self._flat -= torch.where(moving, step, 0.0)
