"""The process that trains batches on a device, outside the lock: it builds what the grammar spells for
a design's choices and runs no text of a design's own.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from se_rl.environments.dynamic_world import EpisodeBank
from se_rl.executors.protocol import TrainingInputs, TrainingTask
from se_rl.modules.defaults import Modules
from se_rl.rl.locked_training import answer_of
from se_rl.rl.on_device.together import device_name, train_together
from se_rl.rl.threads import one_thread
from se_rl.rl.training_worlds import data_arrays, data_from_arrays, make_worlds
from se_rl.rl.written_policy import written_modules
from se_rl.sandbox.lockdown import die_with_parent
from se_rl.sandbox.message import Content


@dataclass(frozen=True, eq=False)
class TrainedBatch:
    """What came of a batch: the device by name, seconds, and an answer for each task in order."""

    device: str
    seconds: float
    answers: Sequence[Content]


@dataclass(frozen=True, eq=False)
class DeviceInputs:
    """What all batches of a run share: the device, train days as a locked process has them, and
    simulated episodes by horizon."""

    device: str
    arrays: Mapping[str, npt.NDArray[Any]] | None
    banks: Mapping[int, EpisodeBank]

    @classmethod
    def of(cls, inputs: TrainingInputs, device: str) -> DeviceInputs:
        """The same from what locked processes share."""
        arrays = None if inputs.data is None else data_arrays(inputs.data, inputs.scales)
        return cls(device, arrays, inputs.banks())

    def train(self, tasks: Sequence[TrainingTask]) -> TrainedBatch:
        """Train a batch, whose tasks differ in designs and seeds alone."""
        started = time.monotonic()
        designs = []
        for task in tasks:
            modules = written_modules(task.sources)
            if modules is None:
                raise ValueError("a design that needs a lock came to a device")
            designs.append(modules)
        data, scales = data_from_arrays(self.arrays) if self.arrays else (None, None)
        worlds = make_worlds(
            Modules(),
            tasks[0].training_worlds,
            data=data,
            scales=scales,
            table=self.arrays["table"] if self.arrays else None,
            banks=self.banks,
        )
        trained = train_together(
            designs,
            worlds.train,
            tasks[0].config,
            seeds=[task.seed for task in tasks],
            neutral=tasks[0].neutral,
            held_back=worlds.held_back,
            device=self.device,
        )
        seconds = time.monotonic() - started
        return TrainedBatch(device_name(self.device), seconds, [answer_of(one) for one in trained])


def main(parent: int) -> None:
    """Answer batches from stdin on stdout until there are no more; an error is answered as text."""
    die_with_parent()
    if os.getppid() != parent:
        return
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed must not stand among answers
    inputs: DeviceInputs = pickle.load(sys.stdin.buffer)
    while True:
        try:
            tasks: Sequence[TrainingTask] = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            with one_thread():
                answer: TrainedBatch | str = inputs.train(tasks)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, answers)
        answers.flush()
