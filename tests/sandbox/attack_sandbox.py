"""The worker's side of the attack corpus, and the oracles that tell whether an attack got its way.

`run`, `run_many`, `policy` and `honest` are the trusted code that a sandbox calls by name; the same code runs unprotected in
the control. Who starts them is `attacks.campaign`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np

from se_rl.sandbox.worker import shared_data

CLAIM = 7777.0
ROWS = 5
RESULT_BYTES = 1 << 20
"""The most that a parent takes as a result."""
TOKEN = ""
"""The secret; empty everywhere but in the process that plays the unprotected parent."""
LEVELS = (1.0, 2.0, 3.0)
ARSENAL = (
    "_posixshmem ast asyncio atexit base64 bdb cProfile code codecs concurrent.futures copy copyreg csv ctypes.util"
    " datetime dbm.dumb decimal doctest faulthandler fcntl fileinput ftplib functools gc glob gzip http.client"
    " importlib.metadata importlib.util inspect jinja2.debug linecache llvmlite.binding logging.config"
    " logging.handlers marshal mmap multiprocessing.connection multiprocessing.pool multiprocessing.queues"
    " multiprocessing.popen_fork multiprocessing.resource_tracker multiprocessing.shared_memory"
    " multiprocessing.synchronize numba numba.core.typing.cffi_utils numpy.ctypeslib numpy.lib.npyio numpy.ma"
    " numpy.rec numpy.testing operator pathlib pickle pkgutil pty py_compile random resource runpy sched secrets"
    " select shutil signal site smtplib socket sqlite3 statistics string subprocess tarfile tempfile timeit tokenize"
    " torch.distributed torch.hub torch.multiprocessing torch.overrides torch.package torch.utils._device"
    " torch.utils.collect_env torch.utils.data traceback tracemalloc typing unittest.mock urllib.request uuid warnings"
    " weakref xmlrpc.client yaml zipfile zipimport"
)
"""Modules that a worker finds already imported, so that an attack fails at the lock and not for want of an import."""


@dataclass
class Evidence:
    """What is known after an attack: how it ended, what came back, and what happened elsewhere."""

    status: str
    value: Any = ()
    error: str = ""
    alarms: tuple[str, ...] = ()
    harm: bool = False
    forged: bool = False

    def leaked(self) -> bool:
        """Whether the secret came back, as numbers or as text."""
        codes = bytes(int(x) for x in np.ravel(self.value)[:100_000] if 0 <= x < 256)
        return TOKEN.encode() in codes or TOKEN in self.error

    def loud(self) -> bool:
        """Whether the error is more than a class and 500 printable characters."""
        kind, _, said = self.error.partition(": ")
        return len(kind) > 100 or len(said) > 500 or not self.error.isprintable()


ORACLES: dict[str, Callable[[Evidence], bool]] = {
    "leak": Evidence.leaked,
    "claim": lambda e: np.size(e.value) > 0 and bool(np.all(np.equal(e.value, CLAIM))),
    "alarm": lambda e: bool(e.alarms),
    "endless": lambda e: e.status == "running",
    "oversize": lambda e: np.size(e.value) * 8 > RESULT_BYTES,
    "text": Evidence.loud,
    "forged": lambda e: e.forged,
    **dict.fromkeys(("harm", "struck", "varies", "reader", "policy"), lambda e: e.harm),
}
"""Whether an attack got its way. `harm` is set by the runner: the neighbour or the master changed, the server was struck,
a reward that varies was not found out, the reader of the source broke, a policy's nonsense was taken for an answer."""


def warm_up() -> None:
    """Import what attacks use, and run each thing once that a locked process could not make."""
    for name in ARSENAL.split():
        import_module(name)
    for name in ("idna", "rot13", "utf-7", "unicode_escape"):
        import_module("codecs").lookup(name)
    import numba
    import torch

    from se_rl.modules.loading import load_module

    load_module("def reward(step):\n    return step.news\n", "reward")
    torch.save(torch.zeros(1), import_module("io").BytesIO())
    numba.njit(lambda x: x + x)(1.0)
    layer = torch.nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    honest({})


def run(payload: dict[str, Any]) -> dict[str, Any]:
    """Execute a source and use what it defines, `calls` times on the same input; guarded, by the framework's own loader."""
    use = _use(payload["source"], payload["guarded"])
    return {"value": np.concatenate([_numbers(use()) for _ in range(payload["calls"])])}


def run_many(payload: dict[str, Any]) -> dict[str, Any]:
    """Several attacks one after another in one process: what each returned, and the class of what it raised."""
    values, errors = {}, []
    for i, source in enumerate(payload["sources"]):
        try:
            values[str(i)] = _numbers(_use(source, guarded=False)())
            errors.append("")
        except BaseException as error:
            errors.append(
                f"{type(error).__name__}: {error}"[:300].encode("ascii", "replace").decode()
            )
    return {**values, "errors": errors}


def policy(payload: dict[str, Any]) -> Callable[[Any], Any]:
    """A reward as a policy: its field `news` is the observation."""
    import torch

    from se_rl.modules.loading import load_module

    source = payload["source"]
    reward = load_module(source, "reward") if payload["guarded"] else _execute(source)["reward"]
    return lambda obs: reward(SimpleNamespace(news=torch.from_numpy(obs[:, 0])))


def keep_contract(payload: dict[str, Any]) -> dict[str, Any]:
    """Load an ordinary module and hold it to its contract."""
    from contract_runs import RUNS

    from se_rl.modules.loading import load_module

    RUNS[payload["code_type"]](load_module(payload["source"], payload["code_type"]))
    return {}


def honest(_: dict[str, Any]) -> dict[str, Any]:
    """A computation and the state of the interpreter as numbers: what an attack on neighbours would change."""
    return {"value": np.array([float(x) for x in _fingerprint()])}


def level(scale: float = 1.0) -> float:
    """A constant of the framework."""
    return scale * LEVELS[0]


def _fingerprint() -> Iterator[Any]:
    import codecs
    import copyreg
    import decimal
    import gc
    import math
    import signal
    import threading
    import time
    import warnings
    import zlib

    import torch
    import torch.nn.functional as F
    from torch import nn

    from se_rl.sandbox import message

    class Plain:
        pass

    rows, layer = torch.linspace(-1, 2, 8), nn.Linear(8, 2)
    with torch.no_grad():
        layer.weight.fill_(0.7)
        layer.bias.zero_()
    yield from (
        torch.tanh(rows).sum(),
        F.relu(rows).mean(),
        layer(rows).sum().detach(),
        (rows * rows).sum(),
        torch.rand(1),
    )
    yield from (
        rows.dtype == torch.float32,
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
    )
    yield from (
        math.sqrt(2.0),
        sum([1, 2]),
        len("abc"),
        max(1, 2),
        isinstance(1, int),
        int("4") + 1,
        level(),
    )
    yield from (
        zlib.crc32(b"x"),
        len(json.dumps([1])),
        len(str.split("a b")),
        len(b"".join(message.pack({"a": 1}))),
    )
    yield from (np.sum(np.asarray([1.0, 2.0])), np.random.random(), np.geterr()["divide"] == "warn")  # noqa: NPY002 (its state)
    yield from (time.monotonic() == CLAIM, sys.modules["math"] is math, sys.modules["json"] is json)
    yield from (
        sys.gettrace() is None,
        sys.getprofile() is None,
        sys.getrecursionlimit(),
        sys.getswitchinterval(),
    )
    yield from (
        len(sys.meta_path),
        len(sys.path_hooks),
        len(sys.path),
        gc.isenabled(),
        len(gc.callbacks),
    )
    yield from (
        getattr(sys, name) is getattr(sys, f"__{name}__")
        for name in ("excepthook", "unraisablehook", "displayhook", "breakpointhook")
    )
    yield from (
        len(warnings.filters),
        signal.getsignal(15) == 0,
        signal.getsignal(14) == 0,
        threading.active_count(),
    )
    yield from (
        threading.gettrace() is None,
        len(copyreg.dispatch_table),
        copyreg.dispatch_table[complex].__module__ == "copyreg",
    )
    yield from (
        sys.intern.__name__ == "intern",
        sys.stdout is None,
        decimal.getcontext().prec,
        Plain.__name__ == "Plain",
    )
    yield codecs.lookup_error("strict") is codecs.strict_errors
    sys.audit("canary")
    yield from (zlib.crc32(array.tobytes()) for array in shared_data().get("train", {}).values())


def _execute(source: str) -> dict[str, Any]:
    """What a source defines, with every builtin there is: nothing but the operating system stands in its way."""
    from se_rl.modules.allowed_names import PREIMPORTED

    namespace: dict[str, Any] = {alias: import_module(name) for alias, name in PREIMPORTED.items()}
    namespace["__name__"] = "design"
    exec(compile(source.encode(), "<design>", "exec", dont_inherit=True), namespace)
    return namespace


def kind_of(source: str) -> str:
    """Which of the five modules a source is."""
    from se_rl.modules.kinds import KINDS

    kinds = [
        name
        for name, kind in KINDS.items()
        if f"def {kind.contract.entry}(" in source or f"class {kind.contract.entry}(" in source
    ]
    return kinds[0]


def _use(source: str, guarded: bool) -> Callable[[], Any]:
    """A function that uses the design as the framework would."""
    import torch

    from se_rl.modules.contracts import REWARD_FIELDS
    from se_rl.modules.kinds import KINDS
    from se_rl.modules.loading import load_module

    kind = kind_of(source)
    live = load_module(source, kind) if guarded else _execute(source)[KINDS[kind].contract.entry]
    step = SimpleNamespace(
        **{name: torch.linspace(f.low, f.high, ROWS) for name, f in REWARD_FIELDS.items()}
    )
    uses: dict[str, Callable[[], Any]] = {
        "reward": lambda: live(step),
        "network": lambda: live(4, 1)(torch.ones(ROWS, 1, 4)),
        "communication": lambda: live(3, 4)(torch.ones(ROWS, 3, 4)),
        "profiling": lambda: [] if guarded else list(live().values()),
        "imagination": lambda: live(torch.ones(ROWS, 9, 5), torch.Generator()),
    }
    return uses[kind]


def _numbers(value: Any) -> Any:
    return np.asarray(value.detach() if hasattr(value, "detach") else value, np.float64).reshape(-1)
