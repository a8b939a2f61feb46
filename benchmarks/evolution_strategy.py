"""Policies of the observations found by an evolution strategy: what can be read from the book.

No gradient and no learner of ours is involved, so that what it finds says something about the
market and not about the training. A generation is one batch of the market: every member and its
mirror image trade both sides of a book of their own, and what counts is by how much one beats the
other there. So the noise of the books enters as little as with all members on the same books, and
there are as many directions as books.
"""

from __future__ import annotations

from collections.abc import Iterator
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
MOMENTUM = 0.9
SIZE_MEMORY = 0.98
"""Of the steps' direction and of the slopes' usual size."""
CLIP = 3.0
NORMAL_MEDIAN = 0.6745
"""Median of the absolute value of a standard normal number."""
VOID_COST = 100.0
"""Bps that an order in a broken market counts as, while searching."""


@dataclass(frozen=True)
class PolicyShape:
    """A policy of the observations: linear, and `hidden` tanh units beside it."""

    inputs: int
    hidden: int = 0

    @property
    def linear_size(self) -> int:
        """How many weights the linear part has; they come first."""
        return OUTPUTS * (self.inputs + 1)

    @property
    def size(self) -> int:
        """How many weights it has."""
        return self.linear_size + self.hidden * (self.inputs + 1 + OUTPUTS)

    def start(self, rng: np.random.Generator, linear: Array | None = None) -> Array:
        """Weights that act as the linear policy given, or else as the neutral schedule.

        The tanh units look somewhere, and what they see does not count yet.
        """
        weights = np.zeros(self.size)
        if linear is not None:
            weights[: self.linear_size] = linear
        looks = self.hidden * (self.inputs + 1)
        drawn = rng.normal(size=looks) / np.sqrt(self.inputs)
        weights[self.linear_size : self.linear_size + looks] = drawn
        return weights

    def outputs(self, weights: Array, seen: Array) -> Array:
        """From weights [member, size] and inputs [member, order, inputs] to [member, order, 2]."""
        out = _layer(weights[:, : self.linear_size], seen, OUTPUTS)
        if self.hidden:
            counted = self.size - self.hidden * OUTPUTS
            inner = np.tanh(_layer(weights[:, self.linear_size : counted], seen, self.hidden))
            out += inner @ weights[:, counted:].reshape(-1, self.hidden, OUTPUTS)
        return out


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

    generations: int = 100
    pairs: int = 160
    """Members of a generation that have a mirror image, and books that they meet."""
    books: int = 1200
    """How many there are; generations go through them again and again."""
    noise: float = 0.1
    step: float = 0.03
    """Length of a step per weight, at first; it falls to a tenth."""


def evolve(
    world: DynamicWorld,
    shape: PolicyShape,
    neutral: ConstantSchedule,
    strategy: Strategy,
    *,
    start: Array,
    rng: np.random.Generator,
    first_entry: int = 0,
) -> Array:
    """The weights at the end of the search; the mean over its last fifth, which is less noisy.

    The books are the entries of the bank from `first_entry` on.
    """
    mean = start
    velocity = np.zeros_like(mean)
    size = 0.0
    kept: list[Array] = []
    generations = strategy.generations
    for generation, entry in enumerate(_books(strategy, rng)):
        noise = rng.normal(size=(strategy.pairs, shape.size))
        members = mean + strategy.noise * np.concatenate([noise, -noise])
        episodes = world.bank.episodes(first_entry + entry, horizon=world.horizon)
        gains = member_gains(world, Members(shape, members, neutral), episodes)
        slope = _without_outliers(gains[: strategy.pairs] - gains[strategy.pairs :]) @ noise
        velocity = MOMENTUM * velocity + (1.0 - MOMENTUM) * slope
        size = SIZE_MEMORY * size + (1.0 - SIZE_MEMORY) * float(np.mean(slope**2))
        # both averages began at 0
        direction = velocity / (1.0 - MOMENTUM ** (generation + 1))
        scale = np.sqrt(size / (1.0 - SIZE_MEMORY ** (generation + 1))) + 1e-12
        progress = generation / generations
        mean = mean + strategy.step * (1.0 - 0.9 * progress) * direction / scale
        if progress >= 0.8:
            kept.append(mean)
    return np.mean(kept, axis=0) if kept else mean


def _books(strategy: Strategy, rng: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    """The books of each generation: all of them in a new order, then again."""
    waiting = np.zeros(0, np.int64)
    for _ in range(strategy.generations):
        while len(waiting) < strategy.pairs:
            waiting = np.concatenate([waiting, rng.permutation(strategy.books)])
        yield waiting[: strategy.pairs]
        waiting = waiting[strategy.pairs :]


def _without_outliers(difference: Array) -> Array:
    """Scaled by their usual size and cut at CLIP of it: a broken book is no direction."""
    usual = np.median(np.abs(difference)) / NORMAL_MEDIAN + 1e-12
    return np.clip(difference / usual, -CLIP, CLIP)


def member_gains(world: DynamicWorld, actor: Members, episodes: Episodes) -> Array:
    """The mean gain of each member in bps on both sides of its book; a void order is no way out.

    The first half of the members has a book each, the second half the same books again.
    """
    books = len(episodes) // 2
    by_book = np.arange(2 * books).reshape(2, books).T.ravel()  # both sides of a book together
    place = np.tile(by_book, 2)
    orders = Episodes(episodes.orders.take(place), episodes.book_seeds[place])
    gain = np.nan_to_num(execute(world, actor, orders).gain, nan=-VOID_COST)
    return np.asarray(gain.reshape(-1, 2).mean(axis=1))
