"""Where trainings run: what an executor takes, what it gives back, and what it promises.

A task is idempotent: the same task gives the same weights, wherever and however often it runs. A
worker that is lost is the executor's misfortune (the training pool tries again); what a design
breaks itself is a result with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.dynamic_world import EpisodeBank
from se_rl.executors.node_report import NodeReport
from se_rl.records.rungs import Rung
from se_rl.rl.expected_answer import ExpectedAnswer
from se_rl.rl.policy import Neutral
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.rl.trainer import TrainConfig
from se_rl.rl.training_worlds import TrainingWorldsConfig
from se_rl.scoring.score import Array

Handle = int
"""Names a task that was submitted, within one executor."""
LOST = ("killed", "crashed", "lost")
"""Statuses of a training whose worker went down: they say nothing about the design."""


@dataclass(frozen=True)
class TrainingInputs:
    """What all trainings of a run share: `data` are the train days (None where none is trained on).

    `banks` simulates the usual markets' episodes by horizon when it is called (none where none is
    trained on).
    """

    data: MarketData | None
    scales: FeatureScales
    banks: Callable[[], Mapping[int, EpisodeBank]]


@dataclass(frozen=True)
class TrainingTask:
    """One training: all that its outcome depends on beside the inputs; its deadline in seconds.

    `rung` is where its policy will be scored. `company` are the tasks, itself among them, that it
    shares a device with; without any it has a locked process of its own.
    """

    sources: Mapping[str, str]
    training_worlds: TrainingWorldsConfig
    config: TrainConfig
    seed: int
    neutral: Mapping[str, Neutral]
    seconds: float
    rung: Rung
    company: tuple[TrainingTask, ...] = ()

    @property
    def expected(self) -> ExpectedAnswer:
        """What its answer is held against (`TrainedDesign.of`)."""
        return ExpectedAnswer.of(self.training_worlds, self.config)


@dataclass(frozen=True, eq=False)
class ScoredPolicy:
    """Scores per pair of orders; none, and the `reason`, where the policy failed in use."""

    arrays: Mapping[str, Array]
    reason: str
    seconds: float


@dataclass(frozen=True)
class FinishedTask:
    """A task that ended, well or not: its status is one of LOST where the worker went down.

    An executor that works elsewhere may score the policy there at once and say where that was;
    `device` is where it had company.
    """

    handle: Handle
    trained: TrainedDesign
    scored: ScoredPolicy | None = None
    node: NodeReport | None = None
    device: str = ""

    @property
    def lost(self) -> bool:
        """Whether the worker went down, so that the task may be tried again."""
        return self.trained.status in LOST


class Executor(Protocol):
    """Runs tasks, several at once. Only the training pool calls it, from one thread."""

    def submit(self, task: TrainingTask) -> Handle:
        """Begin a task; the pool submits no more than `capacity` at once."""
        ...

    def poll(self, timeout_seconds: float) -> Sequence[FinishedTask]:
        """Tasks that have ended since the last call, each once.

        Waits up to the timeout for the first.
        """
        ...

    def cancel(self, handle: Handle) -> None:
        """End a task whose result nobody wants any more; one that has ended already is let go."""
        ...

    def capacity(self) -> int:
        """How many tasks may be under way at once."""
        ...

    def close(self) -> None:
        """End everything; the executor may be used again and then starts anew."""
        ...
