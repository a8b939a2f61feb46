"""Policies of the observations found by an evolution strategy: what can be read from the book.

No gradient and no learner of ours is involved, so that what it finds says something about the
market and not about the training. Antithetic noise, ranks instead of gains, the same episodes for
all members of a generation and fresh ones for each generation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.worlds import Episodes
from se_rl.scoring.execution import ConstantSchedule, execute

Array = npt.NDArray[np.float64]

PRICE_SCALE = 2.0
"""Ticks by which one unit of the second output moves the limit."""
FARTHEST_TICKS = 20.0
OUTPUTS = 2
MOMENTUM = 0.8
VOID_COST = 100.0
"""Bps that an order in a broken market counts as, while searching."""


@dataclass(frozen=True)
class PolicyShape:
    """A policy of the observations: linear, or with one layer of `hidden` tanh units."""

    inputs: int
    hidden: int = 0

    @property
    def size(self) -> int:
        """How many weights it has."""
        if not self.hidden:
            return OUTPUTS * (self.inputs + 1)
        return self.hidden * (self.inputs + 1) + OUTPUTS * (self.hidden + 1)

    def start(self, rng: np.random.Generator) -> Array:
        """Weights whose outputs are 0 everywhere: the neutral schedule."""
        weights = np.zeros(self.size)
        if self.hidden:
            first = self.hidden * (self.inputs + 1)
            weights[:first] = rng.normal(size=first) / np.sqrt(self.inputs)
        return weights

    def outputs(self, weights: Array, seen: Array) -> Array:
        """From weights [member, size] and inputs [member, order, inputs] to [member, order, 2]."""
        if not self.hidden:
            return _layer(weights, seen, OUTPUTS)
        first = self.hidden * (self.inputs + 1)
        inner = np.tanh(_layer(weights[:, :first], seen, self.hidden))
        return _layer(weights[:, first:], inner, OUTPUTS)


def _layer(weights: Array, seen: Array, width: int) -> Array:
    """A linear layer with an offset for each member."""
    inputs = seen.shape[2]
    matrix = weights.reshape(len(weights), inputs + 1, width)
    return np.asarray(seen @ matrix[:, :inputs] + matrix[:, inputs:])


class Members:
    """Policies of one shape, each with its own weights, acting in one batch: an `Actor`.

    The orders of member m are the m-th part of the batch. An output of 0 is the neutral schedule.
    """

    def __init__(self, shape: PolicyShape, weights: Array, neutral: ConstantSchedule) -> None:
        self._shape = shape
        self.weights = weights
        self._neutral = neutral

    def start(self, n: int, horizon: int) -> None:
        """Begin `n` orders of `horizon` steps."""
        self._left = horizon

    def act(self, observation: npt.NDArray[np.float32]) -> tuple[Array, Array]:
        """Ratios of what is left and offsets in ticks."""
        seen = observation.reshape(len(self.weights), -1, self._shape.inputs).astype(np.float64)
        out = self._shape.outputs(self.weights, seen).reshape(-1, OUTPUTS)
        neutral = min(self._neutral.multiple / self._left, 1.0 - 1e-9)
        last = self._left == 1
        self._left -= 1
        # log-odds of the ratio = output + log-odds of the neutral ratio
        log_odds = np.clip(out[:, 0] + np.log(neutral / (1.0 - neutral)), -30.0, 30.0)
        ratio = np.ones(len(out)) if last else 1.0 / (1.0 + np.exp(-log_odds))
        offset = self._neutral.offset + PRICE_SCALE * out[:, 1]
        return ratio, np.clip(offset, -FARTHEST_TICKS, FARTHEST_TICKS)

    def close(self) -> None:
        """Nothing to end."""


@dataclass(frozen=True)
class Strategy:
    """How long and how wide the evolution strategy searches."""

    generations: int = 150
    pairs: int = 12
    books: int = 40
    noise: float = 0.1
    step: float = 0.15
    """Length of a step in units of the noise, at first; it falls to a tenth."""


def evolve(
    world: DynamicWorld,
    shape: PolicyShape,
    neutral: ConstantSchedule,
    strategy: Strategy,
    *,
    rng: np.random.Generator,
    first_entry: int = 0,
) -> Array:
    """The weights at the end of the search; the mean over its last fifth, which is less noisy.

    Generation g meets the entries of the bank from `first_entry + g * books` on, as often as needed
    from the start again.
    """
    mean = shape.start(rng)
    velocity = np.zeros_like(mean)
    kept: list[Array] = []
    available = len(world.bank) - first_entry
    for generation in range(strategy.generations):
        noise = rng.normal(size=(strategy.pairs, shape.size))
        both = np.concatenate([noise, -noise])
        entry = (generation * strategy.books + np.arange(strategy.books)) % available
        episodes = world.bank.episodes(first_entry + entry, horizon=world.horizon)
        gains = member_gains(
            world, Members(shape, mean + strategy.noise * both, neutral), episodes, len(both)
        )
        ranks = np.argsort(np.argsort(gains)) / (len(gains) - 1) - 0.5
        slope = ranks @ both
        slope /= np.sqrt(np.mean(slope**2)) + 1e-12
        velocity = MOMENTUM * velocity + (1.0 - MOMENTUM) * slope
        progress = generation / strategy.generations
        mean = mean + strategy.step * strategy.noise * (1.0 - 0.9 * progress) * velocity
        if progress >= 0.8:
            kept.append(mean)
    return np.mean(kept, axis=0) if kept else mean


def member_gains(world: DynamicWorld, actor: Members, episodes: Episodes, members: int) -> Array:
    """The mean gain of each member in bps, all on the same episodes; a void order is no way out."""
    orders = episodes.orders.take(np.tile(np.arange(len(episodes)), members))
    tiled = Episodes(orders, np.tile(episodes.book_seeds, members))
    done = execute(world, actor, tiled)
    gain = np.nan_to_num(done.gain, nan=-VOID_COST)
    return np.asarray(gain.reshape(members, -1).mean(axis=1))
