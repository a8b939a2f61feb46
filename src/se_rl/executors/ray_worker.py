"""A worker on a node of a cluster: it trains in a locked room of its own and scores what comes of it.

The worker's process is as trusted as the main process of a run, and holds what that holds but for
keys and test days; what a design wrote runs behind the lock of the node alone.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numba

from se_rl.data.features import FeatureScales
from se_rl.data.market_data import MarketData
from se_rl.environments.dynamic_world import EpisodeBank
from se_rl.executors.local import LockedProcesses
from se_rl.executors.local_sandbox import LocalSandbox
from se_rl.executors.node_report import NodeReport, this_node
from se_rl.executors.policy_scoring import PolicyScorer
from se_rl.executors.protocol import FinishedTask, TrainingInputs, TrainingTask
from se_rl.rl.policy import Neutral
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.sandbox.lockdown import SandboxError
from se_rl.scoring.validation import Validation

POLL_SECONDS = 1.0


@dataclass(frozen=True, eq=False)
class SharedInputs:
    """What all evaluations of a run share; it travels once to a node, named by its content."""

    data: MarketData | None
    scales: FeatureScales
    banks: Mapping[int, EpisodeBank]
    validation: Validation
    neutral: Mapping[str, Neutral]

    @classmethod
    def of(cls, scorer: PolicyScorer) -> SharedInputs:
        """What a scorer and its sandbox hold; markets are simulated here, not on every node."""
        inputs = scorer.sandbox.inputs
        return cls(inputs.data, inputs.scales, inputs.banks(), scorer.validation, scorer.neutral())

    def scorer(self, *, unsafe: bool) -> PolicyScorer:
        """The same on the other side, with a sandbox of that machine."""
        inputs = TrainingInputs(self.data, self.scales, lambda: self.banks)
        sandbox = LocalSandbox(inputs, unsafe=unsafe)
        return PolicyScorer(self.validation, sandbox, lambda: self.neutral)


def content_name(content: bytes) -> str:
    """The name of packed inputs."""
    return hashlib.sha256(content).hexdigest()


class RayWorker:
    """One evaluation at a time on one core of a node."""

    def open(self, here: NodeReport, name: str, content: bytes, *, unsafe: bool) -> NodeReport:
        """Say what this node is; where the run may use it, open the locked room.

        `here` is the machine that the run was started on.
        """
        node = this_node()
        if node.refused_by(here, unsafe=unsafe):
            return node
        if content_name(content) != name:
            raise SandboxError("the inputs were damaged on their way to the node")
        numba.set_num_threads(1)  # this worker has one core, however many the node has
        shared = cast(SharedInputs, pickle.loads(content))
        self._scorer = shared.scorer(unsafe=unsafe)
        self._room = LockedProcesses(self._scorer, workers=1)
        self._scorer.sandbox.with_retries(lambda: self._scorer.sandbox.trainer)
        return node

    def evaluate(self, task: TrainingTask) -> FinishedTask:
        """Train a design and score its policy; "lost" where the room went down."""
        try:
            self._room.submit(task)
            ended: list[FinishedTask] = []
            while not ended:
                ended = self._room.poll(POLL_SECONDS)
            [finished] = ended
            if not finished.trained.ok:
                return finished
            return replace(finished, scored=self._scorer.score(task.rung, finished.trained))
        except SandboxError as error:
            return FinishedTask(0, lost_training(task, str(error)))


def lost_training(task: TrainingTask, why: str) -> TrainedDesign:
    """The outcome of a task whose worker went down, which says nothing about the design."""
    return TrainedDesign(task.sources, "lost", why, "", 0.0)
