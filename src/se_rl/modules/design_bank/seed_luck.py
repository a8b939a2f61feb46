"""What single trainings of one design differ by, as a bank's pairs of seeds tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np

from se_rl.modules.design_bank.readings import DEFAULT_KIND, BankedDesign, BankScore

FIRST, AGAIN, LONG, BRIEF, LONG_AGAIN = 0, 1, 2, 3, 4
"""Seeds of the ways to train a banked design: a search training, the same again, the last rung, a
third of a search training's work, and the last rung again."""
FEWEST_PAIRS = 20
"""Pairs of trainings below which the usual luck is taken."""
USUAL = 0.15
"""Luck of one training's score in bps before anything is measured, as scoring takes it, too."""


@dataclass(frozen=True)
class SeedLuck:
    """Standard deviations of one training's parts, in bps, from so many `pairs` (0: a guess)."""

    history: float
    simulated: float
    pairs: int = 0

    def of_score(self, weights: Mapping[str, float]) -> float:
        """That of the score, the parts taken to be independent."""
        return hypot(weights["static"] * self.history, weights["dynamic"] * self.simulated)


def seed_luck(designs: Sequence[BankedDesign]) -> SeedLuck:
    """From designs that were trained twice alike.

    What two trainings of the default differ by is in all pairs alike and taken out. Designs that
    fall apart with one seed are no measure for the others, so the median stands for all.
    """
    apart = [np.empty((0, 2))]
    for pair in ((FIRST, AGAIN), (LONG, LONG_AGAIN)):
        found = list(both(designs, *pair))
        if found:
            parts = [[a.history - b.history, a.simulated - b.simulated] for a, b in found]
            apart.append(np.array(parts) - np.median(parts, axis=0))
    every = np.concatenate(apart)
    if len(every) < FEWEST_PAIRS:
        part = USUAL * 2.0**0.5  # of two equal and independent halves
        return SeedLuck(part, part)
    # sd of one = 1.4826 * median |difference| / sqrt 2
    history, simulated = (1.4826 * np.median(np.abs(every), axis=0) / 2.0**0.5).tolist()
    return SeedLuck(history, simulated, len(every))


def both(
    designs: Sequence[BankedDesign], seed: int, other: int
) -> Iterator[tuple[BankScore, BankScore]]:
    """The readings of two seeds, of every design but the default that has them."""
    for one in designs:
        first, second = one.reading(seed), one.reading(other)
        if one.design.kind != DEFAULT_KIND and first is not None and second is not None:
            yield first, second
