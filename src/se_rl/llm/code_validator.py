"""Two stages of validation: the source is read first, then run in the sandbox on recorded steps.

    result = CodeValidator().validate(code, code_type="reward")
    print("valid" if result.is_valid else f"{result.stage}: {result.error_message}")

A failure is data with one line that a language model can act on. Without a lock nothing is run at all.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from se_rl.modules.kinds import KINDS
from se_rl.modules.kinds.kind import BEHAVIOUR
from se_rl.modules.static_check import check_source
from se_rl.sandbox.calls import Result, printable
from se_rl.sandbox.lockdown import SandboxError
from se_rl.sandbox.server import Sandbox

Floats = npt.NDArray[np.float32]

WARM_UP = "se_rl.modules.runtime_check"
PROBE = "se_rl.modules.runtime_check:probe_in_sandbox"
SECONDS, MEMORY_BYTES, RESULT_BYTES = 20.0, 1 << 30, 1 << 16
HORIZON, PAIRS, SYMBOLS, SESSIONS = 20, 16, 8, 4
"""Size of the recorded steps: bars of an order, windows with both sides, and the market they are taken from."""
TILT = 1.5
"""How strongly a schedule that knows the prices follows them, per standard deviation."""


@dataclass(frozen=True, eq=False)
class ValidationResult:
    """Whether a module may be trained; else the `stage` that refused it (static, runtime, sandbox) and why, in one line.

    `fingerprint` is a digest of its outputs, `behaviour` its scaled outputs on a few rows (equal for modules that do the
    same), `isolation` the level of the lock it ran behind.
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
    """Validates modules in `sandbox`, or in one room that all validators of this process share.

    `unsafe` runs them even where no lock is to be had, which every result then says. `seconds` is the deadline of a module.
    """

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        *,
        unsafe: bool = False,
        warmup: str = WARM_UP,
        seconds: float = SECONDS,
    ) -> None:
        self._own, self.unsafe, self.warmup, self.seconds = sandbox, unsafe, warmup, seconds

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
        """Both results; workers killed from outside are tried again, a shared room whose server has died is replaced."""
        for last_try in (False, False, True):
            sandbox = self._own or shared_sandbox(self.warmup, unsafe=self.unsafe)
            try:
                _share_steps(sandbox)
                limits: dict[str, Any] = {
                    "seconds": self.seconds,
                    "memory_bytes": MEMORY_BYTES,
                    "result_bytes": RESULT_BYTES,
                }
                calls = [
                    sandbox.start(PROBE, payload | {"salt": salt}, **limits) for salt in (0, 1)
                ]
                results = calls[0].wait(), calls[1].wait()
                if last_try or not any(result.status == "killed" for result in results):
                    return results
            except SandboxError:
                if last_try or self._own is not None:
                    raise
                _forget(sandbox)
        raise AssertionError("unreachable")


_LOCK = threading.RLock()
_SANDBOXES: dict[tuple[int, str, bool], Sandbox] = {}
_READY: WeakSet[Sandbox] = WeakSet()


def shared_sandbox(warmup: str = WARM_UP, *, unsafe: bool = False) -> Sandbox:
    """The process's own room with this warm-up, started when it is first asked for; SandboxError where none is to be had."""
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
    """One result of two runs. All they hold may be forged, so nothing is taken that is not of the expected kind."""
    for run in (first, second):
        error = (
            _ending(run, deadline)
            if not run.ok
            else printable(run.value.get("error", "no verdict"))
        )
        if error:
            return ValidationResult(
                False, "runtime", error, isolation=run.isolation, seconds=seconds
            )
    prints = [run.value.get("fingerprint") for run in (first, second)]
    behaviour, warnings = first.value.get("behaviour"), first.value.get("warnings")
    digests = all(isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text) for text in prints)
    if not digests or not _is_vector(behaviour):
        error = (
            "the module interfered with its own validation; write only what the contract asks for"
        )
        return ValidationResult(False, "runtime", error, isolation=first.isolation, seconds=seconds)
    if prints[0] != prints[1]:
        error = "two fresh processes gave different outputs; use no clock, no hash or repr of objects, no randomness of its own"
        return ValidationResult(False, "runtime", error, isolation=first.isolation, seconds=seconds)
    kept = tuple(printable(text) for text in warnings[:10]) if isinstance(warnings, list) else ()
    return ValidationResult(
        True, "passed", "", str(prints[0]), np.asarray(behaviour), kept, first.isolation, seconds
    )


def _ending(run: Result, deadline: float) -> str:
    """Why a run that gave no verdict ended, and what to do about it."""
    if run.status == "timeout":
        return f"it did not end within {deadline:g} s; write no endless or long loops, and smaller layers"
    if run.status == "memory":
        return f"it needs more than {MEMORY_BYTES >> 20:,} MB of memory; make smaller tensors and layers"
    return f"its process ended without a verdict ({run.status}: {run.error}); use only torch, nn, F and math"


def _is_vector(value: Any) -> bool:
    kind = (
        isinstance(value, np.ndarray) and value.dtype == np.float32 and value.shape == (BEHAVIOUR,)
    )
    return bool(kind and np.isfinite(value).all())


@lru_cache(maxsize=4)
def recorded_steps(seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    """What the runtime stage tries modules on (see `kinds.kind.Recorded`): schedules of known and unknown merit, played in
    the static world on synthetic history and in the dynamic world."""
    from se_rl.data.synthetic import SyntheticConfig, synthetic_market
    from se_rl.environments.dynamic_world import DynamicWorld
    from se_rl.environments.static_world import StaticWorld

    data = synthetic_market(SyntheticConfig(symbols=SYMBOLS, sessions=SESSIONS, seed=seed))
    static = StaticWorld(data, horizon=HORIZON)
    dynamic = DynamicWorld(horizon=HORIZON, bank=PAIRS, takes_price=True, seed=seed)
    steps: dict[str, npt.NDArray[Any]] = {}
    seen = []
    for world in (static, dynamic):
        merit, fields, observations = _played(world, np.random.default_rng(seed))
        steps |= {f"fields_{world.name}": fields, f"merit_{world.name}": merit}
        seen.append(observations)
    bars = [getattr(data, name) for name in ("open", "high", "low", "close", "volume")]
    steps["observations"] = np.concatenate(seen)
    steps["bars"] = np.ascontiguousarray(np.stack(bars, axis=-1).swapaxes(0, 1))
    for array in steps.values():
        array.flags.writeable = False
    return steps


def _played(world: Any, rng: np.random.Generator) -> tuple[npt.NDArray[Any], Floats, Floats]:
    """Merit [schedule], fields [schedule, field, step, order] and observations [schedule * order, step, field].

    Those who know the market's prices and follow them are better than TWAP, those who trade against them are worse; so is,
    where orders move the market, selling all at once. Of the others nothing is known.
    """
    episodes = world.draw(rng, 2 * PAIRS)
    even = np.ones((len(episodes), HORIZON))
    ramp = np.linspace(0.2, 1.8, HORIZON)
    twap = _play(world, episodes, even)
    price = twap[0][world.field_names.index("benchmark_price")].T.astype(np.float64)
    known = TILT * (price - price.mean(1, keepdims=True)) / price.std(1, keepdims=True).clip(1e-9)
    at_once = np.where(np.arange(HORIZON) == 0, 1.0, 1e-9) * even
    impact = -1.0 if world.takes_price else np.nan
    away = rng.integers(-2, 4, len(episodes)).astype(
        np.float64
    )  # ticks; without impact nobody asks for it
    schedules = [
        (1.0, np.exp(known), None),
        (-1.0, np.exp(-known), None),
        (impact, at_once, None),
        (np.nan, even * ramp, None),
        (np.nan, even * ramp[::-1], None),
        (np.nan, rng.exponential(size=even.shape), away),
    ]
    played = [twap, *(_play(world, episodes, weights, offset) for _, weights, offset in schedules)]
    merit = np.array([0.0, *(merit for merit, _, _ in schedules)])
    return (
        merit,
        np.stack([fields for fields, _ in played]),
        np.concatenate([seen for _, seen in played]),
    )


def _play(
    world: Any, episodes: Any, weights: npt.NDArray[np.float64], offset: Any = None
) -> tuple[Floats, Floats]:
    """Trade by weights [order, step]; the fields [field, step, order] and observations [order, step, field] on the way."""
    left = weights[:, ::-1].cumsum(1)[:, ::-1]
    fields = np.zeros((HORIZON, len(world.field_names), len(episodes)), np.float32)
    observation = world.reset(episodes)
    seen = np.zeros((len(episodes), HORIZON, observation.shape[1]), np.float32)
    for t in range(HORIZON):
        seen[:, t] = observation
        observation = world.step(weights[:, t] / left[:, t], offset, fields[t])
    return np.ascontiguousarray(fields.swapaxes(0, 1)), seen
