"""The sandbox of this machine: opened when it is first needed, made anew where it was killed.

Modules are validated and policies answer in it, whatever executor trains them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from se_rl.executors.protocol import TrainingInputs, TrainingTask
from se_rl.llm.code_validator import CodeValidator, ValidationResult
from se_rl.rl.sandboxed_training import SandboxedTrainer
from se_rl.sandbox.calls import Call
from se_rl.sandbox.lockdown import SandboxError

T = TypeVar("T")
ATTEMPTS = 3
"""How often work in the sandbox is tried where its process was killed from outside."""


class LocalSandbox:
    """Locked processes of this machine that hold the trainings' inputs.

    `unsafe` runs without a lock.
    """

    def __init__(self, inputs: TrainingInputs, *, unsafe: bool = False) -> None:
        self.inputs = inputs
        self.unsafe = unsafe
        self._trainer: SandboxedTrainer | None = None

    @property
    def trainer(self) -> SandboxedTrainer:
        """The sandbox, opened on first use."""
        if self._trainer is None:
            with ThreadPoolExecutor(
                1
            ) as beside:  # markets are simulated while the sandbox warms up
                banks = beside.submit(self.inputs.banks)
                trainer = SandboxedTrainer(
                    data=self.inputs.data, scales=self.inputs.scales, unsafe=self.unsafe
                )
                trainer.share_banks(banks.result())
            self._trainer = trainer
        return self._trainer

    def start(self, task: TrainingTask) -> Call:
        """Begin a training in a locked process."""
        return self.with_retries(
            lambda: self.trainer.start(
                task.sources,
                training_worlds=task.training_worlds,
                config=task.config,
                seed=task.seed,
                neutral=task.neutral,
                seconds=task.seconds,
            )
        )

    def validate(self, code: str, code_type: str) -> ValidationResult:
        """Judge a module; SandboxError where no sandbox can be had, which is no verdict."""

        def judged() -> ValidationResult:
            validator = CodeValidator(self.trainer.sandbox, unsafe=self.unsafe)
            result = validator.validate(code, code_type)
            if result.stage == "sandbox":
                raise SandboxError(result.error_message)
            return result

        return self.with_retries(judged)

    def with_retries(self, work: Callable[[], T]) -> T:
        """Do work that needs the sandbox; again where a process was killed from outside.

        Where the sandbox itself is gone, a new one is opened.
        """
        for _ in range(ATTEMPTS - 1):
            try:
                return work()
            except SandboxError as error:
                if error.hopeless:
                    raise
                if not self.is_alive():
                    self.close()
        return work()

    def is_alive(self) -> bool:
        """Whether the sandbox, if it is open, still does anything."""
        if self._trainer is None:
            return False
        try:
            return self._trainer.sandbox.call("se_rl.sandbox.worker:nothing", seconds=60).ok
        except SandboxError:
            return False

    def close(self) -> None:
        """End the sandbox and everything in it."""
        if self._trainer is not None:
            self._trainer.stop()
            self._trainer = None
