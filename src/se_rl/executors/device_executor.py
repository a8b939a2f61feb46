"""The executor of a run with a device: tasks with company are trained there, a batch at a time, all
others beside it by the executor that a run without one would have.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import count

from se_rl.executors.device_worker import DeviceInputs, TrainedBatch
from se_rl.executors.protocol import Executor, FinishedTask, Handle, TrainingInputs, TrainingTask
from se_rl.records.schema import AGAIN
from se_rl.rl.on_device.together import device_name
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.sandbox.calls import Result, printable
from se_rl.sandbox.lockdown import SandboxError

NEEDED_NO_LOCK = "not needed (made of the grammar's choices)"
"""The isolation of what was trained on a device."""
HOST = {"host": "cpu"}
"""Devices that torch calls otherwise."""


def torch_device(device: str) -> str:
    """What torch calls a device of the settings; refused in one line where it is not there."""
    name = HOST.get(device, device)
    device_name(name)
    return name


@dataclass(frozen=True, eq=False)
class _Batch:
    """A batch under way; `places` are those of its tasks that are waited for."""

    tasks: tuple[TrainingTask, ...]
    trained: Future[TrainedBatch | str]
    places: dict[Handle, int] = field(default_factory=dict)


class DeviceExecutor:
    """An `Executor` on `device`, with `others` for tasks without company."""

    def __init__(self, others: Executor, inputs: TrainingInputs, device: str) -> None:
        self._others = others
        self._inputs = inputs
        self._device = device
        self._torch_device = torch_device(device)
        self._handles = count(-1, -1)  # the others' are not negative
        self._batches: list[_Batch] = []
        self._process: _DeviceProcess | None = None

    def submit(self, task: TrainingTask) -> Handle:
        """Begin a task; the first of a batch begins them all."""
        if not task.company:
            return self._others.submit(task)
        known = [batch for batch in self._batches if batch.tasks == task.company]
        if not known:
            if self._process is None:
                self._process = _DeviceProcess(DeviceInputs.of(self._inputs, self._torch_device))
            known = [_Batch(task.company, self._process.train(task.company))]
            self._batches += known
        handle = next(self._handles)
        known[0].places[handle] = task.company.index(replace(task, company=()))
        return handle

    def poll(self, timeout_seconds: float) -> list[FinishedTask]:
        """Tasks that have ended, of either kind; waits up to the timeout for the first."""
        ended = [*self._ended(), *self._others.poll(0.0)]
        if ended:
            return ended
        if self._batches:  # the others look at theirs at once, and return where they have none
            wait([batch.trained for batch in self._batches], timeout_seconds / 2)
            timeout_seconds /= 2
        return [*self._ended(), *self._others.poll(timeout_seconds)]

    def cancel(self, handle: Handle) -> None:
        """Wait for a task no longer; a device that nobody waits for is let go."""
        if handle >= 0:
            self._others.cancel(handle)
            return
        for batch in self._batches:
            batch.places.pop(handle, None)
        if not any(batch.places for batch in self._batches):
            self._let_go()

    def capacity(self) -> int:
        """As many as the others take; a device takes all there are."""
        return self._others.capacity() + sum(len(batch.places) for batch in self._batches)

    def close(self) -> None:
        """End everything."""
        self._let_go()
        self._others.close()

    def _let_go(self) -> None:
        """End the process and every batch."""
        self._batches.clear()
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _ended(self) -> list[FinishedTask]:
        """What came of batches that have ended; all are lost where the process went down."""
        if any(batch.trained.done() and batch.trained.exception() for batch in self._batches):
            batches = list(self._batches)
            self._let_go()
            return [one for batch in batches for one in self._lost(batch)]
        ended = []
        for batch in [batch for batch in self._batches if batch.trained.done()]:
            self._batches.remove(batch)
            trained = batch.trained.result()
            if isinstance(trained, str):
                failed = f"{len(batch.tasks)} trainings together on {self._device} failed"
                raise SandboxError(f"{failed} ({printable(trained)}); mend that, {AGAIN}")
            ended += self._finished(batch, trained)
        return ended

    def _finished(self, batch: _Batch, trained: TrainedBatch) -> list[FinishedTask]:
        """The tasks of a batch that somebody waits for, their answers held to what was agreed."""
        device = trained.device if self._device not in HOST else self._device
        seconds = trained.seconds / len(batch.tasks)
        ended = []
        for handle, place in batch.places.items():
            task = batch.tasks[place]
            result = Result("ok", trained.answers[place], "", seconds, NEEDED_NO_LOCK)
            design = TrainedDesign.of(result, task.sources, task.expected)
            ended.append(FinishedTask(handle, design, device=device))
        return ended

    def _lost(self, batch: _Batch) -> list[FinishedTask]:
        ended = []
        for handle, place in batch.places.items():
            lost = TrainedDesign(batch.tasks[place].sources, "lost", "", "", 0.0)
            ended.append(FinishedTask(handle, lost, device=self._device))
        return ended


class _DeviceProcess:
    """The process that trains on the device, and a thread that waits for its answers."""

    def __init__(self, inputs: DeviceInputs) -> None:
        code = f"from se_rl.executors.device_worker import main; main({os.getpid()})"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the parent's affair
        )
        self._thread = ThreadPoolExecutor(1)
        self._thread.submit(self._send, inputs)

    def train(self, tasks: Sequence[TrainingTask]) -> Future[TrainedBatch | str]:
        """What comes of a batch, once those before it have ended."""
        return self._thread.submit(self._answer, tasks)

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._thread.shutdown(cancel_futures=True)
        self._process.communicate()

    def _answer(self, tasks: Sequence[TrainingTask]) -> TrainedBatch | str:
        self._send(tasks)
        assert self._process.stdout is not None
        answer: TrainedBatch | str = pickle.load(self._process.stdout)
        return answer

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        pickle.dump(message, self._process.stdin)
        self._process.stdin.flush()
