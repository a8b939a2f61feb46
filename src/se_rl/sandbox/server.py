"""The sandbox as the parent sees it: start functions in locked processes and get their results.

What a function raises comes back as a result, never as an exception.

    with Sandbox("se_rl.rl.locked_training") as sandbox:
        sandbox.share("train", {"bars": bars})
        result = sandbox.call("se_rl.rl.locked_training:train_design", {"source": b"..."}, seconds=600)

Make the sandbox before you load keys and sealed data: its server starts with a clean environment and
knows only what it is given. The function named is trusted code that may run a design's source; the
design's process ends with the call.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from se_rl.sandbox import memory, message
from se_rl.sandbox.calls import Call, Result, printable, readable, received
from se_rl.sandbox.lockdown import LAYERS, Isolation, SandboxError, refusal
from se_rl.sandbox.message import Content, Message

MEMORY_BYTES, RESULT_BYTES = 2 << 30, 16 << 20
KEPT = (
    "PATH",
    "HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "NUMBA_CACHE_DIR",
    "XDG_CACHE_HOME",
    "SE_RL_CACHE",
    "SE_RL_HOME",
)
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
"""Behind the lock there is no GPU, and where torch sees one it starts threads that a fork-server
must not have."""
THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
KEEP_FREED = {"MALLOC_TRIM_THRESHOLD_": str(256 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
"""For glibc: a training step's buffers are used again, not given back and faulted in anew (3 % of a
small training)."""


class Sandbox:
    """A fork-server and the locked workers it makes.

    `warmup` names a module whose `warm_up()` imports and compiles what workers need; `functions`
    are imported as well. Below `standard` it refuses with SandboxError unless `unsafe`; `layers`
    without a name switches that layer off.
    """

    def __init__(
        self,
        warmup: str,
        *,
        functions: Sequence[str] = (),
        layers: Sequence[str] = LAYERS,
        unsafe: bool = False,
        start_seconds: float = 600.0,
    ) -> None:
        if sys.platform != "linux":
            raise refusal(Isolation("none", (), f"the sandbox needs Linux, this is {sys.platform}"))
        self.unsafe = unsafe
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = f"from se_rl.sandbox.forkserver import main; main({theirs.fileno()}, {os.getpid()})"
        quiet = subprocess.DEVNULL
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                env=_clean_environment(),
                stdin=quiet,
                stdout=quiet,
                stderr=quiet,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is the parent's affair
            )
        options = {
            "warmup": warmup,
            "functions": list(functions),
            "layers": list(layers),
            "unsafe": unsafe,
        }
        try:
            self._await_server(options, start_seconds)
            trial = self.start("se_rl.sandbox.worker:nothing", seconds=60)
            ended = trial.wait()
            if (ended.status, ended.error) == (
                "killed",
                "SIGKILL",
            ):  # that says nothing about the lock
                raise SandboxError(
                    "the sandbox's trial worker was killed from outside; make a new sandbox"
                )
            self.isolation: Isolation = trial.isolation or Isolation(
                "none", (), f"the trial worker {ended.error}"
            )
            if not (ended.ok and (self.isolation.enough or unsafe)):
                raise refusal(self.isolation)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """The fork-server's process id."""
        return self._process.pid

    def call(self, function: str, payload: Message | bytes = b"", **limits: Any) -> Result:
        """Run `module:function` on the payload in a locked process and wait; the limits are those
        of `start`."""
        call = self.start(function, payload, **limits)
        try:
            return call.wait()
        finally:
            call.close()

    def start(
        self,
        function: str,
        payload: Message | bytes = b"",
        *,
        seconds: float,
        memory_bytes: int = MEMORY_BYTES,
        result_bytes: int = RESULT_BYTES,
    ) -> Call:
        """The same without waiting. The function gets the payload as a dict (bytes alone as
        {"bytes": ...})."""
        request = {
            "function": function,
            "seconds": seconds,
            "memory_bytes": memory_bytes,
            "serve": None,
        }
        return self._start(request, sealed_payload(payload), result_bytes=result_bytes)

    def share(self, name: str, arrays: Message) -> None:
        """Give all later workers read-only arrays as `shared_data()[name]`, without a copy for
        each."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            self._send({"share": name}, theirs, [memory.sealed(message.pack(arrays))])
            answer = json.loads(received(ours) or b'{"refused": "the fork-server is gone"}')
        if "refused" in answer:
            raise SandboxError(answer["refused"])

    def stop(self) -> None:
        """End the server and all workers; nothing is left running. May be called twice."""
        self._control.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its workers die with it
            self._process.wait()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _start(
        self, request: Content, payload: int, *, result_bytes: int, files: Sequence[int] = ()
    ) -> Call:
        """Send a request with its payload and a place for the result; the descriptors given are
        closed here."""
        result = memory.blank(result_bytes)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        call = Call(
            ours, result, seconds=request["seconds"], result_bytes=result_bytes, unsafe=self.unsafe
        )
        self._send(request, theirs, [payload, os.dup(result), *files])
        return call

    def _send(self, request: Content, channel: socket.socket, files: list[int]) -> None:
        try:
            socket.send_fds(
                self._control, [json.dumps(request).encode()], [channel.fileno(), *files]
            )
        except OSError:
            raise SandboxError("the fork-server is gone; make a new sandbox") from None
        finally:
            channel.close()
            for file in files:
                os.close(file)

    def _await_server(self, options: Content, seconds: float) -> None:
        answer = b""
        with contextlib.suppress(OSError):  # it may have ended already
            self._control.send(json.dumps(options).encode())
            if not readable(self._control, seconds):
                raise SandboxError(
                    f"the warm-up of {options['warmup']!r} did not end within {seconds:g} s"
                )
            answer = received(self._control)
        if not answer:
            code = self._process.wait()
            raise SandboxError(
                f"the fork-server ended in the warm-up of {options['warmup']!r} (exit code {code})"
            )
        if error := json.loads(answer).get("error"):
            raise SandboxError(f"the warm-up of {options['warmup']!r} failed: {printable(error)}")


def sealed_payload(payload: Message | bytes) -> int:
    """A payload as a descriptor of memory that nobody can change."""
    return memory.sealed(
        message.pack({"bytes": payload} if isinstance(payload, bytes) else payload)
    )


def _clean_environment() -> dict[str, str]:
    """Only what is needed to find code and caches, one thread everywhere, no random hashes: no
    keys."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return (
        kept
        | NO_GPU
        | KEEP_FREED
        | dict.fromkeys(THREADS, "1")
        | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    )
