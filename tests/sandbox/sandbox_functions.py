"""Functions that the tests run behind the lock: some do as they should, some as a hostile design would."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.sandbox.worker import shared_data

KERNELS: dict[str, Any] = {}


def warm_up() -> None:
    """torch, and a numba kernel for one signature."""
    import numba

    from se_rl_benchmarks import sandbox_payloads

    sandbox_payloads.warm_up()
    KERNELS["double"] = numba.njit(lambda x: 2 * x)
    KERNELS["double"](1.5)


def echo(payload: dict[str, Any]) -> dict[str, Any]:
    return payload


def kernel(payload: dict[str, Any]) -> dict[str, Any]:
    return {"double": KERNELS["double"](payload["x"])}


def fail(payload: dict[str, Any]) -> None:
    raise ValueError(payload["text"])


def fail_strangely(_: dict[str, Any]) -> None:
    raise type(
        "\x1b[31m rude name", (Exception,), {"__str__": lambda self: "\ud800\u202e" + "x" * 10_000}
    )


def leave(payload: dict[str, Any]) -> None:
    os._exit(payload["code"])


def quit_python(_: dict[str, Any]) -> None:
    sys.exit(0)


def segfault(_: dict[str, Any]) -> None:
    ctypes.string_at(0)


def sleep(payload: dict[str, Any]) -> dict[str, Any]:
    time.sleep(payload["seconds"])
    return {"slept": payload["seconds"]}


def forge(payload: dict[str, Any]) -> None:
    """Put any bytes at all where the answer belongs, and end as if all were well."""
    sys._getframe(1).f_locals["answer"][: len(payload["bytes"])] = payload["bytes"]
    os._exit(0)


def answer_with_object(_: dict[str, Any]) -> dict[str, Any]:
    return {"object": object()}


def torch_bomb(_: dict[str, Any]) -> None:
    import torch

    torch.ones(1 << 33)


def look(_: dict[str, Any]) -> dict[str, Any]:
    """What harms nobody even where it works: the control that shows what stops it elsewhere."""
    tries = {
        "open a file": lambda: os.open("/", os.O_RDONLY),
        "list a folder": lambda: list(Path("/").iterdir()),
        "stat": lambda: Path("/").lstat(),
        "signal": lambda: os.kill(os.getpid(), 0),
        "socket": lambda: socket.socket().close(),
        "pipe": os.pipe,
        "memory file": lambda: os.memfd_create("x"),
    }
    return {name: _outcome(attempt) for name, attempt in tries.items()}


def attempts(_: dict[str, Any]) -> dict[str, Any]:
    """What a process should not be able to do, each with how it ended. Only behind the lock."""
    tries = {
        "write a file": lambda: os.open("/tmp/se_rl_escape", os.O_WRONLY | os.O_CREAT),
        "fork": os.fork,
        "thread": lambda: threading.Thread(target=print).start(),
        "exec": lambda: os.execv("/bin/true", ["true"]),
        "import": lambda: __import__("turtledemo"),
    }
    return look({}) | {name: _outcome(attempt) for name, attempt in tries.items()}


def _outcome(attempt: Any) -> str:
    try:
        attempt()
    except BaseException as error:
        return type(error).__name__
    return "worked"


def surroundings(_: dict[str, Any]) -> dict[str, Any]:
    """What there is to find: variables, open descriptors, threads of libraries."""
    descriptors = []
    for number in range(1024):
        with contextlib.suppress(OSError):
            os.read(number, 0)
            descriptors.append(number)
    return {"environment": dict(os.environ), "descriptors": descriptors}


def anonymous_code(_: dict[str, Any]) -> dict[str, Any]:
    """oneDNN makes code while it runs: that must stay possible."""
    pages = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    return {"bytes": len(pages)}


def shared_sum(payload: dict[str, Any]) -> dict[str, Any]:
    values = shared_data()[payload["name"]]["values"]
    return {
        "sum": float(values.sum()),
        "writeable": bool(values.flags.writeable),
        "aligned": values.ctypes.data % 64,
    }


def shared_overwrite(payload: dict[str, Any]) -> dict[str, Any]:
    """Write to shared data by every means: numpy's flag, then the raw page made writable."""
    values = shared_data()["data"]["values"]
    refused = (
        _outcome(lambda: values.__setitem__(0, -1)),
        _outcome(lambda: values.setflags(write=True)),
    )
    if payload["force"]:
        page = values.ctypes.data // 4096 * 4096
        ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), 4096, 3)
        ctypes.memset(values.ctypes.data, 0xFF, 8)
    if payload["crash"]:
        ctypes.memset(values.ctypes.data, 0xFF, 8)
    return {"refused": refused, "first": repr(float(values[0]))}


def linear(payload: dict[str, Any]) -> Any:
    return lambda obs: obs @ payload["weights"]


class Counter:
    """A policy with a memory, which `reset` empties."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, obs: Any) -> Any:
        self.calls += 1
        return np.full((len(obs), 2), self.calls, np.float32)

    def reset(self) -> None:
        self.calls = 0


def counter(_: dict[str, Any]) -> Counter:
    return Counter()


def bad_policy(payload: dict[str, Any]) -> Any:
    """A policy that goes wrong in the way asked for."""
    return {
        "nan": lambda obs: np.where(obs[:, 0] > 0.5, np.nan, 1.0),
        "shape": lambda obs: obs,
        "raise": lambda obs: 1 / 0,
        "stall": lambda obs: time.sleep(60),
        "silent": _ring_at_once,
        "ring": _ring_wrongly,
        "hang up": _hang_up,
        "leave": lambda obs: os._exit(0),
        "mutate": lambda obs: (obs.__setitem__(..., 7), obs[:, 0])[1],
    }[payload["how"]]


def bad_maker(_: dict[str, Any]) -> Any:
    raise RuntimeError("no policy today")


def _ring(bell: bytes) -> None:
    for number in range(3, 1024):
        with contextlib.suppress(OSError):
            os.write(number, bell)


def _ring_at_once(_: Any) -> None:
    """The right ring (the second: the first was the reset) without an answer."""
    _ring(b"\x02")
    time.sleep(60)


def _ring_wrongly(obs: Any) -> Any:
    _ring(b"xyz")
    return obs[:, 0]


def _hang_up(_: Any) -> None:
    os.closerange(3, 1024)
    time.sleep(60)


def drifting(_: dict[str, Any]) -> dict[str, Any]:
    """A training whose loss depends on the process it runs in."""
    return {"loss": np.array([os.getpid()], np.float32), "cpu_seconds": 1.0}
