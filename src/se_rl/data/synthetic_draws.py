"""The random numbers behind a synthetic market, with those of sealed days in their place.

A market's draws come from its configuration's seed. Where its later days are sealed, the draws of
those days are replaced by others from the seal's streams: the first days keep every bit, and states
that carry over (prices, volatility) go on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from se_rl.data.market_data import Array
from se_rl.seal import sealed_seed

Kind = TypeVar("Kind")
STEPS = 5
"""Price moves, and prints, inside a minute."""
SCALES = 3
"""Time scales of volatility."""
TAIL_DEGREES = 7.0
"""Degrees of freedom of the Student-t scale that a minute's moves share."""


@dataclass(frozen=True)
class SealedDays:
    """Sessions from number `first` on follow from a seal and not from the market's own seed.

    They come in blocks of so many sessions, each from streams of its own: a block does not depend
    on whether another one comes after it.
    """

    first: int
    seal: str
    blocks: tuple[int, ...]

    @property
    def sessions(self) -> int:
        """Sessions of the market in all."""
        return self.first + sum(self.blocks)

    def streams(
        self, exchange: str, seed: int, part: int
    ) -> Iterator[tuple[np.random.Generator, int]]:
        """The random stream of each block and its sessions; part 0 is the market as a whole, k + 1
        symbol k."""
        purpose = f"days of {exchange}, seed {seed}"
        for number, sessions in enumerate(self.blocks):
            sealed = sealed_seed(self.seal, f"{purpose}, block {number}" if number else purpose)
            yield np.random.default_rng((sealed, part)), sessions


@dataclass(frozen=True)
class Both(Generic[Kind]):
    """What a market uses, and the same without a seal: scales are taken from that one, so that no
    train day depends on a sealed day. One object where no day is sealed."""

    used: Kind
    public: Kind

    @property
    def is_sealed(self) -> bool:
        """Whether the two differ."""
        return self.used is not self.public


@dataclass(frozen=True)
class MinuteDraws:
    """Draws of one price: volatility's shocks, the minute's scale, and the moves."""

    shocks: Array  # [session, minute, scale]
    gamma: Array  # [session, minute]
    moves: Array  # [session, minute, step]

    @classmethod
    def draw(cls, rng: np.random.Generator, sessions: int, minutes: int) -> MinuteDraws:
        """Draw from a stream, in this order."""
        shocks = rng.standard_normal((sessions, minutes, SCALES))
        gamma = rng.standard_gamma(TAIL_DEGREES / 2, (sessions, minutes))
        return cls(shocks, gamma, rng.standard_normal((sessions, minutes, STEPS)))

    def until(self, first: int, later: MinuteDraws) -> MinuteDraws:
        """These draws up to session `first`, then the later ones."""
        return MinuteDraws(
            np.concatenate([self.shocks[:first], later.shocks]),
            np.concatenate([self.gamma[:first], later.gamma]),
            np.concatenate([self.moves[:first], later.moves]),
        )


@dataclass(frozen=True)
class NameDraws:
    """Draws of one name: what it is like, its minutes, volumes, silent minutes and queue sizes."""

    traits: Array  # [2]
    minutes: MinuteDraws
    volumes: Array  # [session, minute]
    silence: Array  # [session, minute]
    sizes: Array  # [side, session, bar]

    @classmethod
    def draw(cls, rng: np.random.Generator, sessions: int, minutes: int, *, bars: int) -> NameDraws:
        """Draw from a stream, in this order."""
        traits = rng.standard_normal(2)
        own = MinuteDraws.draw(rng, sessions, minutes)
        volumes = rng.standard_normal((sessions, minutes))
        silence = rng.random((sessions, minutes))
        return cls(traits, own, volumes, silence, rng.standard_normal((2, sessions, bars)))

    def until(self, first: int, later: NameDraws) -> NameDraws:
        """These draws up to session `first`, then the later ones; the name stays what it is."""
        return NameDraws(
            self.traits,
            self.minutes.until(first, later.minutes),
            np.concatenate([self.volumes[:first], later.volumes]),
            np.concatenate([self.silence[:first], later.silence]),
            np.concatenate([self.sizes[:, :first], later.sizes], axis=1),
        )
