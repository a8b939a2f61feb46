"""What a rung is: one step of the evaluation ladder, from short trainings to long.

screen  a short training for every new design
search  a longer one for the promising designs of each batch
last    three times that for the finalists, scored on days and episodes that the search has not seen
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Rung:
    """One step of the ladder.

    `index` is how the archive stores it, `work` the work units of one training, `seeds` the
    trainings per design, `episodes` the simulated orders to score on. Every rung scores the same mix
    of orders and markets; a `fresh` one on validation days and episodes that no other has seen.
    """

    index: int
    name: str
    work: float
    seeds: int
    episodes: int
    fresh: bool = False


class Rungs(NamedTuple):
    """The rungs of a run, from the first to the last."""

    screen: Rung
    search: Rung
    last: Rung

    @classmethod
    def of(cls, work: float, *, seeds: Sequence[int], episodes: Sequence[int]) -> Rungs:
        """The ladder around a search training of `work` units.

        `seeds` and `episodes` have a number per rung.
        """
        return cls(
            Rung(0, "screen", work / 3.0, seeds[0], episodes[0]),
            Rung(1, "search", work, seeds[1], episodes[1]),
            Rung(2, "last", 3.0 * work, seeds[2], episodes[2], fresh=True),
        )
