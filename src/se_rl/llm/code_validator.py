"""Two stages of validation: the source is read first, then run in the sandbox on recorded steps.

    result = CodeValidator().validate(code, code_type="reward")
    print("valid" if result.is_valid else f"{result.stage}: {result.error_message}")

A failure is data with one line that a language model can act on. Without a lock nothing is run.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from se_rl.llm.recorded_steps import recorded_steps
from se_rl.modules.kinds import KINDS
from se_rl.modules.kinds.kind import BEHAVIOUR
from se_rl.modules.static_check import check_source
from se_rl.sandbox.calls import Call, Result, printable
from se_rl.sandbox.lockdown import SandboxError
from se_rl.sandbox.server import Sandbox

__all__ = ["CodeValidator", "ValidationResult", "recorded_steps", "shared_sandbox"]

Floats = npt.NDArray[np.float32]

WARM_UP = "se_rl.modules.runtime_check"
PROBE = "se_rl.modules.runtime_check:probe_in_sandbox"
SECONDS = 20.0
"""How long a module may take."""
MEMORY_BYTES, RESULT_BYTES = 1 << 30, 1 << 16
"""What its process may use, and send back."""


@dataclass(frozen=True, eq=False)
class ValidationResult:
    """Whether a module may be trained, and if not why, in one line.

    `stage` is the one that refused it (static, runtime, sandbox). `fingerprint` is a digest of its
    outputs, `behaviour` its scaled outputs on a few rows (equal for modules that do the same),
    `isolation` the level of the lock it ran behind.
    """

    is_valid: bool
    stage: str
    error_message: str = ""
    fingerprint: str = ""
    behaviour: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    warnings: tuple[str, ...] = ()
    isolation: str = "none (never ran)"
    seconds: float = 0.0


class CodeValidator:
    """Validates modules in `sandbox`, or in one that all validators of this process share.

    `unsafe` runs them even if there is no lock, which every result then says. `seconds` is the
    deadline of a module.
    """

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        *,
        unsafe: bool = False,
        warmup: str = WARM_UP,
        seconds: float = SECONDS,
    ) -> None:
        self._own = sandbox
        self.unsafe = unsafe
        self.warmup = warmup
        self.seconds = seconds

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
        """Read the source, then run it in two fresh locked processes whose results must agree."""
        if code_type not in KINDS:
            raise ValueError(f"there is no code_type {code_type!r}; use one of {', '.join(KINDS)}")
        started = time.monotonic()
        if problem := check_source(code, code_type):
            return ValidationResult(
                False, "static", problem.message, seconds=time.monotonic() - started
            )
        try:
            first, second = self._probe_twice({"source": code.encode(), "code_type": code_type})
        except SandboxError as error:
            return ValidationResult(
                False, "sandbox", str(error), seconds=time.monotonic() - started
            )
        return _judged(first, second, seconds=time.monotonic() - started, deadline=self.seconds)

    def _probe_twice(self, payload: dict[str, Any]) -> tuple[Result, Result]:
        """Both results; a worker killed from outside is tried again.

        A shared sandbox whose server has died is replaced.
        """
        for last_try in (False, False, True):
            sandbox = self._own or shared_sandbox(self.warmup, unsafe=self.unsafe)
            try:
                _share_steps(sandbox)
                calls = [self._start(sandbox, payload | {"salt": salt}) for salt in (0, 1)]
                results = calls[0].wait(), calls[1].wait()
                if last_try or not any(result.status == "killed" for result in results):
                    return results
            except SandboxError:
                if last_try or self._own is not None:
                    raise
                _forget(sandbox)
        raise AssertionError("unreachable")

    def _start(self, sandbox: Sandbox, payload: dict[str, Any]) -> Call:
        return sandbox.start(
            PROBE,
            payload,
            seconds=self.seconds,
            memory_bytes=MEMORY_BYTES,
            result_bytes=RESULT_BYTES,
        )


_LOCK = threading.RLock()
_SANDBOXES: dict[tuple[int, str, bool], Sandbox] = {}
_READY: WeakSet[Sandbox] = WeakSet()


def shared_sandbox(warmup: str = WARM_UP, *, unsafe: bool = False) -> Sandbox:
    """The process's own sandbox with this warm-up, started when it is first asked for.

    Raises SandboxError if there can be none.
    """
    key = (os.getpid(), warmup, unsafe)  # a forked child must not use its parent's
    with _LOCK:
        if key not in _SANDBOXES:
            _SANDBOXES[key] = Sandbox(warmup, functions=[PROBE], unsafe=unsafe)
            atexit.register(_SANDBOXES[key].stop)
        return _SANDBOXES[key]


def _forget(sandbox: Sandbox) -> None:
    with _LOCK:
        for key in [key for key, known in _SANDBOXES.items() if known is sandbox]:
            del _SANDBOXES[key]
    sandbox.stop()


def _share_steps(sandbox: Sandbox) -> None:
    with _LOCK:
        if sandbox not in _READY:
            sandbox.share("recorded", recorded_steps())
            _READY.add(sandbox)


def _judged(first: Result, second: Result, *, seconds: float, deadline: float) -> ValidationResult:
    """One result of two runs; all they hold may be forged, so only the expected kinds are taken."""
    for run in (first, second):
        if error := _said(run.value.get("error")) if run.ok else _ending(run, deadline):
            return _refused(error, run, seconds)
    prints = [run.value.get("fingerprint") for run in (first, second)]
    behaviour, warnings = first.value.get("behaviour"), first.value.get("warnings")
    if not all(map(_is_digest, prints)) or not _is_vector(behaviour):
        return _refused(
            "the module interfered with its own validation; write only what the contract asks for",
            first,
            seconds,
        )
    if prints[0] != prints[1]:
        return _refused(
            "two fresh processes gave different outputs;"
            " use no clock, no hash or repr of objects, no randomness of its own",
            first,
            seconds,
        )
    kept = tuple(printable(text) for text in warnings[:10]) if isinstance(warnings, list) else ()
    return ValidationResult(
        True, "passed", "", str(prints[0]), np.asarray(behaviour), kept, first.isolation, seconds
    )


def _said(error: Any) -> str:
    """The error of a verdict; "" for none, which is the empty text and nothing else."""
    if isinstance(error, str) and not error:
        return ""
    return printable(error) or "no verdict"


def _refused(error: str, run: Result, seconds: float) -> ValidationResult:
    return ValidationResult(False, "runtime", error, isolation=run.isolation, seconds=seconds)


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and bool(re.fullmatch("[0-9a-f]{64}", value))


def _ending(run: Result, deadline: float) -> str:
    """Why a run that gave no verdict ended, and what to do about it."""
    if run.status == "timeout":
        return (
            f"it did not end within {deadline:g} s;"
            " write no endless or long loops, and smaller layers"
        )
    if run.status == "memory":
        return (
            f"it needs more than {MEMORY_BYTES >> 20:,} MB of memory;"
            " make smaller tensors and layers"
        )
    return (
        f"its process ended without a verdict ({run.status}: {run.error});"
        " use only torch, nn, F and math"
    )


def _is_vector(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.dtype != np.float32:
        return False
    return value.shape == (BEHAVIOUR,) and bool(np.isfinite(value).all())
