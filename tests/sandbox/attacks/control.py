"""The positive control: attacks in plain children of a parent that believes what it reads."""

from __future__ import annotations

import atexit
import contextlib
import mmap
import os
import pickle
import signal
import socket
import time
from collections.abc import Callable

import attack_sandbox
import numpy as np
from attack_sandbox import ROWS, Evidence

from attacks.canaries import Canaries
from se_rl.sandbox import worker
from se_rl.sandbox.calls import readable

SHORT_SECONDS, LONG_SECONDS = 0.3, 30.0
"""What an endless attack is given, and all others."""
BARS = np.arange(1.0, 2048.0)
"""The data that all designs share."""
QUIET = "def reward(step):\n    return step.news\n"
"""A harmless design."""


class Control:
    """Runs attacks unprotected. The canaries' files are open to its children, the data lie in writable memory."""

    def __init__(self, canaries: Canaries) -> None:
        self.canaries = canaries
        attack_sandbox.warm_up()
        os.set_inheritable(canaries.file, True)
        self.shared = mmap.mmap(-1, BARS.nbytes)
        self.answer = mmap.mmap(-1, 16 << 20)
        worker._DATA["train"] = {"bars": np.frombuffer(self.shared, np.float64)}
        self.honest = b""
        self.honest = self.evidence(QUIET, "harm").value.tobytes()

    def evidence(self, source: str, oracle: str) -> Evidence:
        """What is known after one attack."""
        self.shared[:] = BARS.tobytes()
        found = self._run_as(source, oracle)
        found.alarms = self.canaries.alarms()
        return found

    def _run_as(self, source: str, oracle: str) -> Evidence:
        """Run one attack in the way its oracle needs."""
        if oracle == "struck":
            return self.struck(source)
        source = self.canaries.fill(source, server=0)
        if oracle == "varies":
            first, second = (self.child(lambda: self.run(source, 2)) for _ in range(2))
            parts = [np.array_split(e.value, 2) for e in (first, second)]
            first.harm = len({part.tobytes() for pair in parts for part in pair}) > 1
            return first
        if oracle == "policy":
            return self.policy(source)
        if oracle == "reader":
            found = self.child(lambda: _read(source), SHORT_SECONDS * 10)
            found.harm = found.status != "ok"
            return found
        if oracle == "harm":
            found = self.child(lambda: self.neighbour(source))
            found.harm = found.status != "ok" or found.value.tobytes() != self.honest
            return found
        return self.child(
            lambda: self.run(source), SHORT_SECONDS if oracle == "endless" else LONG_SECONDS
        )

    def run(self, source: str, calls: int = 1) -> Evidence:
        """In the child: what the attack returns."""
        payload = {"source": source, "guarded": False, "calls": calls}
        return Evidence("ok", attack_sandbox.run(payload)["value"])

    def neighbour(self, source: str) -> Evidence:
        """In the child: what an honest computation gives after the attack."""
        with contextlib.suppress(Exception):
            self.run(source)
        time.sleep(0.05)
        return Evidence("ok", attack_sandbox.honest({})["value"])

    def child(self, job: Callable[[], Evidence], seconds: float = LONG_SECONDS) -> Evidence:
        """Fork, do the job, and believe whatever the child has left as its answer."""
        self.answer[:64] = bytes(64)
        pid = os.fork()
        if pid == 0:
            self._live(job)
        status = _wait(pid, seconds)
        if status is None:
            return Evidence("running")
        if status != 0:
            return Evidence("crashed", error=f"\0 {status}")
        try:
            answer = pickle.loads(self.answer)
        except Exception:
            answer = None
        return (
            answer if isinstance(answer, Evidence) else Evidence("ok", forged=any(self.answer[:64]))
        )

    def _live(self, job: Callable[[], Evidence]) -> None:
        answer, code = self.answer, 1
        try:
            os.set_inheritable(self.canaries.pipe[1], True)
            null = os.open(os.devnull, os.O_RDWR)
            for file in (0, 1, 2):
                os.dup2(null, file)
            try:
                found = job()
            except BaseException as error:
                found = Evidence("failed", error=f"{type(error).__name__}: {error}")
            atexit._run_exitfuncs()
            text = pickle.dumps(found)
            answer[: len(text)] = text
            code = 0
        finally:
            os._exit(code)

    def struck(self, source: str) -> Evidence:
        """With a guardian in between, who plays the server: was it struck down?"""
        guardian = os.fork()
        if guardian == 0:
            os.setsid()
            self.child(lambda: self.run(self.canaries.fill(source, server=os.getppid())))
            os._exit(0)
        status = _wait(guardian, LONG_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(guardian, signal.SIGKILL)  # an orphan's late answer would be the next one's
        return Evidence("ok", harm=status is None or status < 0)

    def policy(self, source: str) -> Evidence:
        """The attack as a policy, for a parent that takes any finite number after a ring as an action."""
        shapes: tuple[int, list[int], list[int]] = (ROWS, [1], [])
        block = worker.Block(mmap.mmap(-1, worker.Block.size(*shapes)), *shapes)
        ours, theirs = socket.socketpair()

        def serve() -> Evidence:
            worker.serve(
                attack_sandbox.policy({"source": source, "guarded": False}), theirs.fileno(), block
            )
            return Evidence("ok")

        pid = os.fork()
        if pid == 0:
            ours.close()
            self._live(serve)
        theirs.close()
        block.rows[0], block.obs[:] = ROWS, 1.0
        good = all(_rung(ours, bytes([n])) and np.isfinite(block.actions).all() for n in (1, 2))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return Evidence("ok" if good else "failed", harm=not good)


def _read(source: str) -> Evidence:
    """What a reader without care does with a source."""
    import ast

    tree = ast.parse(source)
    ast.NodeVisitor().visit(tree)
    compile(tree, "<design>", "exec")
    return Evidence("ok")


def _wait(pid: int, seconds: float) -> int | None:
    """A child's exit code, or minus the signal; None if it had to be killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _rung(bell: socket.socket, ring: bytes) -> bool:
    with contextlib.suppress(OSError):
        bell.send(ring)
        return readable(bell, SHORT_SECONDS) and bell.recv(16) == ring
    return False
