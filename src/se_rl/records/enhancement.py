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


@dataclass(frozen=True)
class KitUse:
    """How often each part of the search's kit acted in a run.

    `bank` says what the design bank was used for. Steps on the weights are counted by how they were
    made, `refused_steps` are those that were not. `idle` has a line for each part that did not act,
    with the reason.
    """

    bank: tuple[str, ...] = ()
    new_instructions: int = 0
    reflections: int = 0
    replays: int = 0
    reinforce_steps: int = 0
    ste_steps: int = 0
    refused_steps: int = 0
    stopped_by_rule: bool = False
    idle: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """All counts in one line."""
        stopped = "the stop rule ended the search" if self.stopped_by_rule else ""
        said = (
            *self.bank,
            f"{self.new_instructions} new instructions ({self.reflections} by reflection)",
            f"{self.replays} replays of old ones",
            f"{self.reinforce_steps} steps on weights by REINFORCE, {self.ste_steps} by STE, "
            f"{self.refused_steps} refused",
            stopped,
        )
        return "; ".join(filter(None, said))
