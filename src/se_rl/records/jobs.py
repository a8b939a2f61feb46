"""The unit of work of a search: one design, trained with one seed and scored at one rung."""

from __future__ import annotations

from dataclasses import dataclass

from se_rl.records.entries import Candidate
from se_rl.records.rungs import REFERENCE_SEEDS, Rung


@dataclass(frozen=True)
class TrainingJob:
    """One training of a design and its scoring."""

    candidate: Candidate
    rung: Rung
    seed: int


def reference_jobs(default: Candidate, naive: Candidate, last: Rung) -> list[TrainingJob]:
    """The trainings at the last rung that every search makes in the end, whatever it finds."""
    jobs = [TrainingJob(default, last, seed) for seed in last.training_seeds]
    return jobs + [TrainingJob(naive, last, seed) for seed in last.training_seeds[:REFERENCE_SEEDS]]
