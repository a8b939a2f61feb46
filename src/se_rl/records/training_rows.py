"""Stored trainings: which one of a design's is shown, and what alpha and beta did in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from se_rl.records.entries import Evaluation

JOINT = "joint"
"""The phase in which both worlds enter a step, with weights that move."""


@dataclass(frozen=True)
class WorldWeights:
    """The joint phase of a training, update by update.

    `alpha` is the weight of history's loss, the simulated markets have the rest. It follows
    history's share of the two losses; each is that part of what there was to foresee that was not
    foreseen. `work` is the work spent so far.
    """

    work: tuple[float, ...] = ()
    alpha: tuple[float, ...] = ()
    static_loss: tuple[float, ...] = ()
    dynamic_loss: tuple[float, ...] = ()

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> WorldWeights:
        """From the rows of a stored training; empty where only one world was trained in."""
        joint = [row for row in rows if row.get("phase") == JOINT and "loss_1" in row]
        return cls(
            work=tuple(row["work"] for row in joint),
            alpha=tuple(row["alpha"] for row in joint),
            static_loss=tuple(row["loss_0"] for row in joint),
            dynamic_loss=tuple(row["loss_1"] for row in joint),
        )

    @property
    def static_share(self) -> tuple[float, ...]:
        """History's share of the two losses: where alpha goes."""
        shares: list[float] = []
        for static, dynamic in zip(self.static_loss, self.dynamic_loss, strict=True):
            both = static + dynamic
            shares.append(static / both if both > 0.0 else 0.5)
        return tuple(shares)


def longest_training(evaluations: Iterable[Evaluation]) -> Evaluation | None:
    """The training at the highest rung, of the lowest seed; None where none ended well."""
    done = [evaluation for evaluation in evaluations if evaluation.ok and evaluation.curve]
    return max(done, key=lambda one: (one.rung, -one.seed), default=None)
