"""The lines of a design bank: one training each, as JSON.

A line holds the design's sources and not the numbers of its choices, so that a grammar which has
grown since reads it as what it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, sqrt
from pathlib import Path

from se_rl.scoring.score import ScoreRule, Scores, contributions, difference

INCOMPARABLE = "too few of its orders can be compared"


@dataclass(frozen=True)
class BankHead:
    """What all trainings of a bank share: its first line."""

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

    `kind` is default, scan, edit, random or chain; `steps` is how many changes were made of its
    parent. A chain is named by the design that it began with.
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


def bank_score(
    own: Scores, default: Scores, rule: ScoreRule, *, cells: Sequence[str]
) -> BankScore | None:
    """A training's score with its parts, and over the default; None where it cannot be told."""
    alone = contributions([own], rule, cells=cells)
    paired = difference([own], [default], rule, cells=cells)
    worlds = alone.by_world()
    history = worlds["static"].score
    specific = contributions([own], rule.on_history(risk=0.0)).score
    found = BankScore(
        alone.score,
        sqrt(alone.order_error().variance),
        paired.score,
        sqrt(paired.order_error().variance),
        history,
        worlds["dynamic"].score,
        history - specific,
    )
    return found if found.is_finite else None


def line_text(line: BankHead | BankLine) -> str:
    """A line as it is stored."""
    return json.dumps(asdict(line)) + "\n"


def read_lines(place: Path) -> tuple[BankHead, list[BankLine]]:
    """The head and the trainings of a stored bank; a last line that was cut off is left out."""
    texts = place.read_text().splitlines(keepends=True)
    whole = [text for text in texts if text.endswith("\n")]
    if not whole:
        raise ValueError(f"{place} has no lines; begin a new bank without --resume")
    head = json.loads(whole[0])
    lines = []
    for text in whole[1:]:
        told = json.loads(text)
        design = PlannedDesign(**told.pop("design"))
        score = told.pop("score")
        lines.append(BankLine(design, score=BankScore(**score) if score else None, **told))
    return BankHead(**head | {"modules": tuple(head["modules"])}), lines


def write_lines(place: Path, head: BankHead, lines: Iterable[BankLine]) -> None:
    """Put a bank in a place, at once or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(place.name + ".new")
    beside.write_text(line_text(head) + "".join(map(line_text, lines)))
    beside.replace(place)
