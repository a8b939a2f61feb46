"""The raw lines of a design bank: one training each, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import sqrt
from pathlib import Path

from se_rl.modules.design_bank.readings import BankHead, BankLine, BankScore, PlannedDesign
from se_rl.modules.design_bank.storage import read_bank
from se_rl.scoring.score import ScoreRule, Scores, contributions, difference

INCOMPARABLE = "too few of its orders can be compared"


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
    """The head and the trainings of a stored bank; a last line that was cut off is left out.

    A packed bank, which ends in .parquet, will do as well.
    """
    if place.suffix == ".parquet":
        packed = read_bank(place)
        return packed.head, list(packed.lines)
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
