"""What one round of enhancement changed: the instructions, and the designer's weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from se_rl.records.entries import Instruction


@dataclass(frozen=True)
class WeightUpdate:
    """A step on the designer's weights.

    `reason` says why the weights did not move, or in what way the step was not the one asked for
    ("": it was). `measured` is what the step measured, by name.
    """

    moved: bool
    reason: str = ""
    measured: Mapping[str, float] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        """One flat record, as the archive keeps it."""
        return {**self.measured, "moved": self.moved, "reason": self.reason}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> WeightUpdate:
        """The update that `to_row` wrote."""
        measured = dict(row)
        moved = bool(measured.pop("moved"))
        reason = str(measured.pop("reason"))
        return cls(moved, reason, measured)


@dataclass(frozen=True)
class InstructionCredit:
    """What the designs of an instruction gained on average, in bps, over how many uses."""

    id: str
    credit: float = math.nan
    uses: int = 0


@dataclass(frozen=True)
class EnhancementStep:
    """Step 4 of Algorithm 1: credits that were booked, new instructions, the step on the weights.

    `weights` is None if weights do not learn in this run.
    """

    credits: tuple[InstructionCredit, ...] = ()
    instructions: tuple[Instruction, ...] = ()
    weights: WeightUpdate | None = None

    @property
    def moved(self) -> bool:
        """Whether the weights moved."""
        return self.weights is not None and self.weights.moved

    @property
    def learned(self) -> Mapping[str, Any]:
        """The step on the weights as one flat record; empty if weights do not learn."""
        return {} if self.weights is None else self.weights.to_row()
