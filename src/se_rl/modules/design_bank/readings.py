"""What a design bank holds: designs, where they come from, and what each training came to.

A design is kept by its sources and not by the numbers of its choices, so that a grammar which has
grown since reads it as what it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite

DEFAULT_KIND = "default"
"""The kind of the design that all others are held against."""


@dataclass(frozen=True)
class BankHead:
    """What all trainings of a bank share."""

    preset: str
    data: str
    scenario: str
    work: float
    modules: tuple[str, ...]
    default: Mapping[str, str]
    """The default's sources, by module."""


@dataclass(frozen=True)
class BankScore:
    """What one training came to, in bps; errors are those of days and episodes.

    `score` is over TWAP, `gain` over the default of the same seed and orders. `history` has `risk`
    in it already, which is 0 or less.
    """

    score: float
    score_se: float
    gain: float
    gain_se: float
    history: float
    simulated: float
    risk: float

    @property
    def is_finite(self) -> bool:
        """Whether all of it is known."""
        return all(map(isfinite, asdict(self).values()))


@dataclass(frozen=True)
class PlannedDesign:
    """A design to train: its modules that are not the default's, and where it comes from.

    `kind` is default, scan, edit, near, random, accepted or chain; `steps` is how many changes were
    made of its parent. A chain is named by the design that it began with.
    """

    id: str
    kind: str
    parent: str
    chain: str
    steps: int
    sources: Mapping[str, str]


@dataclass(frozen=True)
class BankLine:
    """One training of one design; without a score where it failed for a `reason`."""

    design: PlannedDesign
    rung: int
    work: float
    seed: int
    seconds: float
    score: BankScore | None = None
    reason: str = ""


@dataclass(frozen=True)
class BankedDesign:
    """A design of a bank: what it chose, in words, and all of its trainings in the order of seeds."""

    design: PlannedDesign
    words: Mapping[str, float]
    readings: tuple[BankLine, ...]

    def reading(self, seed: int) -> BankScore | None:
        """The score of the training with this seed; None where there is none."""
        for line in self.readings:
            if line.seed == seed:
                return line.score
        return None
