"""What the ladder needs from outside: somebody who trains and scores designs, and a journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from se_rl.records.entries import Evaluation
from se_rl.records.jobs import TrainingJob
from se_rl.records.rungs import Rung
from se_rl.scoring.score import Array
from se_rl.scoring.standing import Regimes


class Evaluator(Protocol):
    """Trains and scores designs; `executors.training_pool.TrainingPool` is the real one."""

    def evaluate(
        self, jobs: Sequence[TrainingJob]
    ) -> Iterator[tuple[TrainingJob, Evaluation, bool]]:
        """Each job with its evaluation and whether it was looked up, as they finish."""
        ...

    def arrays(self, evaluation: Evaluation) -> dict[str, Array]:
        """The scores of an evaluation, a number per pair of orders."""
        ...

    @property
    def cells(self) -> Mapping[str, Sequence[str]]:
        """By world the names of the cells that orders are sorted into."""
        ...

    def regimes(self, rung: Rung) -> Regimes:
        """Which pairs of orders belong to which regime."""
        ...


class Journal(Protocol):
    """Where events are stored: the archive of a run."""

    def append(self, kind: str, key: str, payload: Mapping[str, Any]) -> bool:
        """Store an event; False where its key stands already."""
        ...
