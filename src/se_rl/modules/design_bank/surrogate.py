"""What a design will score, from its choices: a Gaussian process over the words of banked designs.

The gain over the default is a sum over words, plus what choices do together, plus what it costs to
go far from the default, plus what a design has of its own, which its trainings alone tell; the
default itself gains exactly nothing. A training adds its luck, and designs that are alike share much
of a seed's: a few seeds tell less of a family than its many readings seem to. The levels of a ladder (a third
of the work, the search's, three times as much) share most of it. History and simulated markets are
learned side by side, each in units of its own spread, and large losses are squashed: what matters
is which designs are good, not how bad bad ones are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from se_rl.modules.design_bank.readings import BankedDesign, BankHead, BankLine
from se_rl.modules.design_bank.storage import DesignBank, load_bank
from se_rl.modules.design_bank.words import design_words

Array = npt.NDArray[np.float64]
Words = Mapping[str, float]
SHORT, SEARCH, LAST = 0, 1, 2
"""Levels: a third of a search training's work, as much, three times as much on other days."""
PARTS = ("history", "simulated")


@dataclass(frozen=True)
class Strengths:
    """How much of the spread each part of the surrogate may explain, and how far levels agree.

    `own` is what a design has that its words do not tell, `luck` that of one training, `family` the
    luck of a seed that designs share which are alike.
    """

    words: float = 0.00068
    together: float = 0.97
    reach: float = 2.7
    distance: float = 0.01
    own: float = 0.013
    agreement: float = 0.63
    luck: float = 0.14
    family: float = 0.15


STRENGTHS = Strengths()
"""Those under which the readings of the package's bank are most likely (`bank_strengths.py`)."""


@dataclass(frozen=True)
class Prediction:
    """What designs are expected to gain over the default, in bps; both are [design]."""

    history: Array
    simulated: Array

    def score(self, weights: Mapping[str, float]) -> Array:
        """The gain of the score, by the weights of history (`static`) and simulated markets."""
        return weights["static"] * self.history + weights["dynamic"] * self.simulated


@dataclass(frozen=True, eq=False)
class Examples:
    """Readings to learn from: whose design, at which level, with which seed, and their gains.

    `gains` are [reading, part] in bps, the others [reading].
    """

    designs: tuple[BankedDesign, ...]
    level: npt.NDArray[np.int64]
    seed: npt.NDArray[np.int64]
    gains: Array

    @classmethod
    def of(cls, bank: DesignBank) -> Examples:
        """All scored trainings of a bank but the default's, which all gains are over."""
        found: list[tuple[BankedDesign, int, int, list[float]]] = []
        for one in bank.designs:
            for line in one.readings if one is not bank.default else ():
                base = bank.default.reading(line.seed)
                if line.score is None or base is None:
                    continue
                gains = [getattr(line.score, part) - getattr(base, part) for part in PARTS]
                found.append((one, level_of(line, bank.head), line.seed, gains))
        return cls(
            tuple(row[0] for row in found),
            np.array([row[1] for row in found], np.int64),
            np.array([row[2] for row in found], np.int64),
            np.array([row[3] for row in found], np.float64).reshape(-1, len(PARTS)),
        )

    def some(self, chosen: npt.NDArray[np.bool_]) -> Examples:
        """Those that are chosen."""
        designs = tuple(self.designs[int(i)] for i in np.flatnonzero(chosen))
        return Examples(designs, self.level[chosen], self.seed[chosen], self.gains[chosen])


class Surrogate:
    """Predicts gains over the default at any level, from words relative to the default's."""

    def __init__(
        self, examples: Examples, default: Words, strengths: Strengths = STRENGTHS
    ) -> None:
        if not examples.designs:
            raise ValueError("the design bank has no scored design; train more of it")
        self.strengths = strengths
        self._default = default
        vocabulary: dict[str, int] = {}
        for one in (default, *(each.words for each in examples.designs)):
            for word in one:
                vocabulary.setdefault(word, len(vocabulary))
        self._vocabulary = vocabulary
        readings = self._matrix([one.words for one in examples.designs])
        self._rows, of = np.unique(readings, axis=0, return_inverse=True)  # each design once
        self._squares = np.square(self._rows).sum(1)
        self._spread = spread_of(examples.gains)  # [part]
        same_seed = examples.seed[:, None] == examples.seed[None]
        pairs = np.ix_(of, of)
        # the luck of each training, and that of the default's which it is held against
        luck = strengths.luck * (np.eye(len(same_seed)) + same_seed)
        luck += strengths.family * same_seed * self._together(self._rows)[pairs]
        agree = self._agreement(examples.level[:, None], examples.level[None])
        self._inverse = np.linalg.inv(self._covariance(self._rows)[pairs] * agree + luck)
        self._heights = squashed(examples.gains / self._spread)  # [reading, part]
        self._dual = self._inverse @ self._heights
        # what a design's readings together say at a level, [level, design, part]
        self._says = np.zeros((LAST + 1, len(self._rows), len(PARTS)))
        for level in range(LAST + 1):
            heard = self._agreement(level, examples.level)[:, None] * self._dual
            np.add.at(self._says[level], of, heard)

    @property
    def evidence(self) -> float:
        """The logarithm of how likely all readings are together, but for a constant."""
        parts = self._heights.shape[1]
        volume = float(np.linalg.slogdet(self._inverse).logabsdet)
        return 0.5 * (parts * volume - float(np.sum(self._heights * self._dual)))

    def predict(self, designs: Sequence[Words], *, level: int = LAST) -> Prediction:
        """Designs, given by their words, at one level."""
        mean = self._covariance(self._matrix(designs)) @ self._says[level]  # [design, part]
        gains = unsquashed(mean) * self._spread
        return Prediction(gains[:, 0], gains[:, 1])

    def _matrix(self, designs: Sequence[Words]) -> Array:
        """Counts of known words less the default's, [design, word]."""
        rows = np.zeros((len(designs), len(self._vocabulary)))
        for row, words in zip(rows, designs, strict=True):
            for word, count in words.items():
                place = self._vocabulary.get(word)
                if place is not None:
                    row[place] += count
            for word, count in self._default.items():
                row[self._vocabulary[word]] -= count
        return rows

    def _covariance(self, rows: Array) -> Array:
        """Of designs with those that were learned from, at one level, [design, known design]."""
        own, theirs = np.square(rows).sum(1), self._squares
        product = rows @ self._rows.T
        known = self.strengths
        far = np.sqrt(own)[:, None] * np.sqrt(theirs)[None]
        total = known.words * product + known.distance * far
        total += known.together * self._together(rows)
        same = own[:, None] + theirs[None] - 2.0 * product < 0.5
        return total + known.own * (same & (own > 0.5)[:, None])  # the very same design

    def _together(self, rows: Array) -> Array:
        """How alike designs and those that were learned from are, [design, known design].

        A difference to the default, so that the default itself has none.
        """
        own, theirs, reach = np.square(rows).sum(1), self._squares, self.strengths.reach
        near = _near(own[:, None] + theirs[None] - 2.0 * rows @ self._rows.T, reach)
        return near - _near(own, reach)[:, None] - _near(theirs, reach)[None] + 1.0

    def _agreement(self, level: npt.ArrayLike, other: npt.ArrayLike) -> Array:
        """How far trainings at two levels tell of each other."""
        return np.where(np.equal(level, other), 1.0, self.strengths.agreement)


def _near(squares: Array, reach: float) -> Array:
    return np.exp(-np.maximum(squares, 0.0) / (2.0 * reach**2))


def squashed(values: Array) -> Array:
    """Linear near 0, logarithmic far from it."""
    return np.arcsinh(values)


def unsquashed(values: Array) -> Array:
    """The inverse of `squashed`."""
    return np.sinh(values)


def spread_of(gains: Array) -> Array:
    """The usual size of each part's gains: the median of their absolute values."""
    return np.maximum(np.median(np.abs(gains), axis=0), 1e-9)


def level_of(line: BankLine, head: BankHead) -> int:
    """The level of a training."""
    if line.rung == LAST:
        return LAST
    return SHORT if line.work < 0.99 * head.work else SEARCH


@lru_cache(maxsize=1)
def bank_surrogate() -> Surrogate:
    """The surrogate of the package's own bank."""
    bank = load_bank()
    return Surrogate(Examples.of(bank), bank.default.words)


def bank_words(sources: Mapping[str, str]) -> Words:
    """A design in the words of the package's bank."""
    return design_words(sources, load_bank().head.modules)
