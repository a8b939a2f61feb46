"""The lock: what a process gives up for good before it runs source that a language model wrote.

The boundary is the operating system: namespaces where they are to be had, Landlock, resource
limits, and a seccomp allow-list last; each is tried with a probe. Kernel exploits and side channels
are out of scope: put a virtual machine around the whole for those.
"""

from __future__ import annotations

import ctypes
import errno
import json
import math
import os
import platform
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from se_rl.sandbox import bpf, landlock

LAYERS = ("namespaces", "landlock", "rlimits", "seccomp")
"""The layers in the order they are put on.

Leaving one out of a `layers` argument switches it off.
"""
UNSAFE = "none (unsafe)"
"""What a result's isolation says when the user has overridden the refusal."""
NO_NEW_PRIVILEGES, DUMPABLE, PARENT_DEATH = 38, 4, 1
NEW_USER = 0x10000000
NEW_REST = (
    0x40000000 | 0x00020000 | 0x08000000 | 0x04000000 | 0x02000000
)  # net, mount, ipc, uts, cgroup
PROBE_SECONDS = 60


class SandboxError(RuntimeError):
    """The sandbox cannot be trusted or does not answer; the message says why in one line.

    A design alone never causes it, save in `PolicyServer`, where a design that stalls or answers
    nonsense ends its own evaluation. `hopeless`: trying again cannot help, since this machine has
    no lock, or since a policy has used up all of its time.
    """

    hopeless = False


@dataclass(frozen=True)
class Isolation:
    """How well a process is locked: strong, standard, weak or none; the layers that hold; why
    others do not."""

    level: str
    layers: tuple[str, ...]
    why: str = ""

    @property
    def enough(self) -> bool:
        """Whether source of a language model may run behind it."""
        return self.level in ("strong", "standard")


def level_of(layers: Sequence[str]) -> str:
    """The level that layers amount to.

    Only a full lock is standard, only with namespaces strong.
    """
    if {"landlock", "rlimits", "seccomp"} <= set(layers):
        return "strong" if "namespaces" in layers else "standard"
    return "weak" if "rlimits" in layers else "none"


def isolation_level(layers: Sequence[str] = LAYERS) -> Isolation:
    """What this machine can do, found out by locking a throw-away process."""
    if sys.platform != "linux":
        return Isolation("none", (), f"the sandbox needs Linux, this is {sys.platform}")
    code = f"from se_rl.sandbox.lockdown import _report; _report({tuple(layers)!r})"
    command, path = [sys.executable, "-P", "-c", code], os.pathsep.join(filter(None, sys.path))
    try:
        answer = subprocess.run(
            command, capture_output=True, env={"PYTHONPATH": path}, timeout=PROBE_SECONDS
        )
        level, held, why = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Isolation("none", (), f"the probe did not answer ({type(error).__name__})")
    return Isolation(level, tuple(held), why)


def refusal(isolation: Isolation) -> SandboxError:
    """The one line with which every entry point refuses to run below `standard`."""
    error = SandboxError(
        f"isolation is {isolation.level}, standard is needed "
        f"({isolation.why or 'no reason given'}); run on Linux 5.13 or"
        " newer with Landlock and seccomp, or accept the risk with --unsafe-no-sandbox"
    )
    error.hopeless = True
    return error


def lock(
    layers: Sequence[str] = LAYERS,
    *,
    memory_bytes: int,
    seconds: float,
    parent: int = 0,
    unsafe: bool = False,
) -> Isolation:
    """Lock this process for good and say what holds; SandboxError below `standard` unless unsafe.

    `memory_bytes` is what may be allocated on top of what is mapped now; `parent`, where given,
    must still be alive. The caller has closed its descriptors; the process must have one thread.
    """
    present = _address_space_bytes()
    steps: dict[str, Callable[[], object]] = {
        "namespaces": leave_namespaces,
        "landlock": _landlock,
        "rlimits": lambda: limit_resources(present + memory_bytes, seconds),
        "seccomp": _seccomp,
    }
    held, why = [], []
    for name in LAYERS:
        if name not in layers:
            why.append(f"{name}: switched off")
        else:
            try:
                steps[name]()
                held.append(name)
            except (OSError, ValueError) as error:
                why.append(f"{name}: {getattr(error, 'strerror', None) or error}")
        if (
            name == "namespaces"
        ):  # not before: leaving them needs privileges, and new credentials undo the rest
            _without_privileges(parent)
    isolation = Isolation(level_of(held), tuple(held), "; ".join(why))
    if not (isolation.enough or unsafe):
        raise refusal(isolation)
    return isolation


def leave_namespaces() -> None:
    """Leave the network, mounts, IPC, host name and cgroups of the machine behind, by a user
    namespace where one is allowed. The uid stays unmapped: nothing may be opened later anyway."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_USER | NEW_REST) and libc.unshare(NEW_REST):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def limit_resources(address_space_bytes: int, seconds: float) -> None:
    """No new descriptors, files, processes, locked pages or core dumps; bounded memory and CPU
    time."""
    cpu_seconds = (
        math.ceil(min(seconds, 1e9)) + 2
    )  # a second line: the watchdog's wall clock comes first
    for name, most in (
        ("AS", address_space_bytes),
        ("CPU", cpu_seconds),
        *((name, 0) for name in ("CORE", "FSIZE", "NOFILE", "NPROC", "MEMLOCK", "MSGQUEUE")),
    ):
        limit = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))


def die_with_parent(on: bool = True) -> None:
    """SIGKILL for this process when the thread that made it ends; or no longer."""
    ctypes.CDLL(None).prctl(PARENT_DEATH, int(signal.SIGKILL) if on else 0, 0, 0, 0)


def _without_privileges(parent: int) -> None:
    """Die with the parent, gain nothing by exec, no core dump or tracer, no capabilities."""
    libc = ctypes.CDLL(None, use_errno=True)
    if parent:
        die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    libc.prctl(DUMPABLE, 0, 0, 0, 0)
    machine = bpf.MACHINES.get(platform.machine())
    if machine:
        libc.syscall(machine[3], struct.pack("=II", 0x20080522, 0), bytes(24))


def _landlock() -> None:
    landlock.deny_all()
    _probe(errno.EACCES)


def _seccomp() -> None:
    bpf.install()
    _probe(errno.EPERM)


def _probe(expected: int) -> None:
    """Opening a folder must fail, and in the way that shows which layer stopped it."""
    try:
        os.close(os.open("/", os.O_RDONLY))
    except OSError as error:
        if error.errno == expected:
            return
        raise OSError(
            error.errno, f"the probe failed otherwise than it should: {error.strerror}"
        ) from None
    raise OSError(errno.EINVAL, "a folder could still be opened")


def _address_space_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 (bare open: nothing to import on the way to the lock)
        return int(file.read().split()[0]) * resource.getpagesize()


def _report(layers: Sequence[str]) -> None:
    """In a process of its own: lock, print what held as JSON, leave."""
    isolation = lock(layers, memory_bytes=1 << 30, seconds=60, unsafe=True)
    os.write(1, json.dumps([isolation.level, isolation.layers, isolation.why]).encode())
    os._exit(0)
