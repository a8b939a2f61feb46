"""The unit of work of a search: one design, trained with one seed and scored at one rung."""

from __future__ import annotations

from dataclasses import dataclass

from se_rl.records.entries import Candidate
from se_rl.records.rungs import Rung


@dataclass(frozen=True)
class TrainingJob:
    """One training of a design and its scoring."""

    candidate: Candidate
    rung: Rung
    seed: int
