"""What a rung is: one step of the evaluation ladder, from one training to many and longer ones.

screen  a training for every new design
search  a race: more of the same, with other seeds, for the promising designs of each batch
last    three times the work for the finalists, with seeds, days and episodes that no other rung saw
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

FUTILITY_SEEDS = 3
"""Trainings of a design before it may be stopped for futility."""
REFERENCE_SEEDS = 2
"""Trainings of a reference at the last rung: it stands in the tables, and nothing is chosen by it."""


@dataclass(frozen=True)
class Rung:
    """One step of the ladder.

    `index` is how the archive stores it, `work` the work units of one training, `seeds` the
    trainings per design that are made here, from `first_seed` on, `episodes` the simulated orders
    to score on. Every rung scores the same mix of orders and markets; a `fresh` one on validation
    days and episodes that no other has seen.
    """

    index: int
    name: str
    work: float
    seeds: int
    episodes: int
    fresh: bool = False
    first_seed: int = 0

    @property
    def training_seeds(self) -> range:
        """The seeds of the trainings that are made here; no other rung has them."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def trains_like(self, other: Rung) -> bool:
        """Whether a training of the other rung tells as much: as long, scored on the same orders."""
        mine = (self.work, self.episodes, self.fresh)
        return mine == (other.work, other.episodes, other.fresh)


class Rungs(NamedTuple):
    """The rungs of a run, from the first to the last."""

    screen: Rung
    search: Rung
    last: Rung

    @classmethod
    def of(cls, work: float, *, seeds: Sequence[int], episodes: Sequence[int]) -> Rungs:
        """The ladder around a search training of `work` units.

        `seeds` and `episodes` have a number per rung. A screen is as long as a search training: at a
        ninth of the last rung's budget ranks keep .4 to .5 of theirs there, at a third .72 to .77,
        and one longer training tells more than three short ones.
        """
        screen = Rung(0, "screen", work, seeds[0], episodes[0])
        search = Rung(1, "search", work, seeds[1], episodes[1], first_seed=seeds[0])
        last = Rung(
            2, "last", 3.0 * work, seeds[2], episodes[2], fresh=True, first_seed=seeds[0] + seeds[1]
        )
        return cls(screen, search, last)

    def alike(self, rung: Rung) -> tuple[Rung, ...]:
        """The rungs that train and score as this one does, itself among them."""
        return tuple(one for one in self if one.trains_like(rung))
