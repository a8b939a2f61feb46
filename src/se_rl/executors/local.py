"""The executor of this machine: every training in a locked process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from se_rl.executors.policy_scoring import PolicyScorer
from se_rl.executors.protocol import FinishedTask, Handle, TrainingTask
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.sandbox.calls import Call
from se_rl.sandbox.lockdown import SandboxError


class LockedProcesses:
    """An `Executor` with `workers` trainings at once in the sandbox of this machine."""

    def __init__(self, scorer: PolicyScorer, *, workers: int) -> None:
        self._sandbox = scorer.sandbox
        self._workers = workers
        self._handles = count()
        self._running: dict[Handle, _RunningTask] = {}

    def submit(self, task: TrainingTask) -> Handle:
        """Begin a training in a locked process."""
        handle = next(self._handles)
        self._running[handle] = _RunningTask(self._sandbox.start(task), task)
        return handle

    def poll(self, timeout_seconds: float) -> list[FinishedTask]:
        """Trainings that have ended; waits up to the timeout for the oldest one."""
        ended = self._ended()
        if ended or not self._running:
            return ended
        oldest = next(iter(self._running.values()))
        oldest.has_ended(timeout_seconds)
        return self._ended()

    def cancel(self, handle: Handle) -> None:
        """Kill a training."""
        running = self._running.pop(handle, None)
        if running is not None:
            running.call.close()

    def capacity(self) -> int:
        """How many trainings run at once."""
        return self._workers

    def close(self) -> None:
        """Kill all trainings; whoever made the sandbox closes it."""
        for handle in list(self._running):
            self.cancel(handle)

    def _ended(self) -> list[FinishedTask]:
        handles = [handle for handle, one in self._running.items() if one.has_ended()]
        return [FinishedTask(handle, self._running.pop(handle).outcome()) for handle in handles]


@dataclass(frozen=True)
class _RunningTask:
    """A training under way and the task that it is."""

    call: Call
    task: TrainingTask

    def has_ended(self, within_seconds: float = 0.0) -> bool:
        """Whether it has ended, well or not."""
        try:
            return self.call.poll(within_seconds) is not None
        except SandboxError:
            return True

    def outcome(self) -> TrainedDesign:
        """What an ended training gave; it is "lost" where the whole sandbox went down."""
        try:
            return TrainedDesign.of(self.call.wait(), self.task.sources, self.task.expected)
        except SandboxError as error:
            return TrainedDesign(self.task.sources, "lost", str(error), "", 0.0)
