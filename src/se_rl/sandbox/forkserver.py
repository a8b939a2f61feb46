"""The fork-server: a clean process with one thread that has imported and compiled all that a worker
may need.

It runs nothing that a language model wrote. It forks one locked worker per request, watches the
clock and the memory of each, kills what is over, reports how each ended, and ends with its parent.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from se_rl.sandbox import memory, message, worker
from se_rl.sandbox.lockdown import die_with_parent
from se_rl.sandbox.message import Content

BUSY_SECONDS, IDLE_SECONDS = 0.02, 1.0
"""How often workers' memory, or only the parent's life, is looked at."""
MOST_REQUEST = 1 << 16
KILL = b"kill"
SLEEPERS = ("jemalloc_bg_thd", "cuda")


@dataclass
class Watched:
    """A running worker: what it may use, and why it was killed, if it was."""

    pid: int
    channel: int
    started: float
    deadline: float
    most_own_bytes: int
    cause: str = ""


def main(descriptor: int, parent: int) -> None:
    """The server's whole life; `descriptor` is its end of the control socket, `parent` the process
    that started it."""
    die_with_parent()  # while the parent waits for the warm-up; later the loop sees for itself
    if os.getppid() != parent:  # it died while this interpreter started, and will send no signal
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    options = json.loads(control.recv(MOST_REQUEST))
    try:
        warm_up(options["warmup"], options["functions"])
    except BaseException as error:
        control.send(json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}).encode())
        return
    gc.collect()
    gc.freeze()  # a collection in a worker shall not touch, and so copy, the server's pages
    die_with_parent(False)
    control.send(b"{}")
    Server(control, options["layers"], options["unsafe"]).run()


def warm_up(module: str, functions: Sequence[str]) -> None:
    """Import the caller's module, call its `warm_up()` where it has one, import the functions."""
    getattr(import_module(module), "warm_up", lambda: None)()
    for name in functions:
        find(name)


def find(name: str) -> Callable[[Content], Any]:
    """The trusted function named `module:function`."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def tasks() -> int:
    """Threads of this process that could hold a lock when it forks.

    Two kinds sleep for good and are left out: jemalloc's (it has its own care for forks) and the
    CUDA driver's, which starts one where torch was built for GPUs even if none may be used.
    """
    names = ((task / "comm").read_text() for task in Path("/proc/self/task").iterdir())
    return sum(not name.startswith(SLEEPERS) for name in names)


class Server:
    """The loop: requests in, workers forked, watched and reported."""

    def __init__(self, control: socket.socket, layers: Sequence[str], unsafe: bool) -> None:
        self.control, self.layers, self.unsafe = control, layers, unsafe
        self.parent = os.getppid()
        self.workers: dict[int, Watched] = {}  # by pidfd
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)

    def run(self) -> None:
        """Serve until the parent hangs up or is gone; then nothing is left running."""
        try:
            while os.getppid() == self.parent:
                wait = BUSY_SECONDS if self.workers else IDLE_SECONDS
                ready = [descriptor for descriptor, _ in self.poll.poll(wait * 1000)]
                if self.control.fileno() in ready and not self.request():
                    return
                for pidfd, watched in list(self.workers.items()):
                    if pidfd in ready:
                        self.reap(pidfd)
                    elif watched.channel in ready:
                        with contextlib.suppress(OSError):  # asked for, or nobody listens any more
                            os.read(watched.channel, MOST_REQUEST)
                        self.kill(watched, "killed")
                self.watch()
        finally:
            for pidfd, watched in list(self.workers.items()):
                self.kill(watched, "killed")
                self.reap(pidfd)

    def request(self) -> bool:
        """Take one request; False when there will be no more."""
        text, files, *_ = socket.recv_fds(self.control, MOST_REQUEST, 8)
        if not text:
            return False
        words = json.loads(text)
        try:
            if "share" in words:
                self.share(words["share"], *files)
            else:
                self.start(words, files)
        except Exception as error:
            _tell(files[0], refused=f"{type(error).__name__}: {error}"[:500])
        kept = [watched.channel for watched in self.workers.values()]
        for file in files:
            if file not in kept:
                os.close(file)
        return True

    def share(self, name: str, channel: int, file: int) -> None:
        """Map a block of arrays for all later workers, in the place of an older one of that
        name.
        """
        worker._DATA[name] = message.decode(memory.mapped(file), copy=False)
        _tell(channel, shared=name)

    def start(self, words: Content, files: list[int]) -> None:
        """Fork a worker for one request."""
        channel, payload, result, *rest = files
        job = worker.WorkerJob(
            find(words["function"]),
            channel,
            payload,
            result,
            layers=self.layers,
            unsafe=self.unsafe,
            seconds=words["seconds"],
            memory_bytes=words["memory_bytes"],
            serve=words["serve"],
        )
        if job.serve:
            job.doorbell, job.block = rest
        if tasks() != 1:  # a fork would keep one thread and the locks of all
            raise RuntimeError(
                f"the fork-server has {tasks()} threads and must have one; "
                "its warm-up starts threads"
            )
        started, server = time.monotonic(), os.getpid()
        present = _own_bytes(server)
        pid = os.fork()
        if pid == 0:
            worker.work(job, server)
        with contextlib.suppress(OSError):  # the child may have done it, or be gone
            os.setpgid(pid, pid)
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:  # no descriptor left: nobody runs unwatched
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        deadline = started + words["seconds"]
        self.workers[pidfd] = Watched(
            pid, job.channel, started, deadline, present + words["memory_bytes"]
        )
        self.poll.register(pidfd, select.POLLIN)
        self.poll.register(job.channel, select.POLLIN)

    def watch(self) -> None:
        """Kill what is past its deadline or over its memory."""
        now = time.monotonic()
        for watched in self.workers.values():
            if now >= watched.deadline:
                self.kill(watched, "timeout")
            elif _own_bytes(watched.pid) > watched.most_own_bytes:
                self.kill(watched, "memory")

    def kill(self, watched: Watched, cause: str) -> None:
        """SIGKILL to the worker's process group; it is not reaped yet, so the number is still its
        own."""
        watched.cause = watched.cause or cause
        with contextlib.suppress(ProcessLookupError):
            os.killpg(watched.pid, signal.SIGKILL)

    def reap(self, pidfd: int) -> None:
        """Collect an ended worker and tell its caller how it ended."""
        watched = self.workers.pop(pidfd)
        status = os.waitstatus_to_exitcode(os.waitpid(watched.pid, 0)[1])
        cause = watched.cause if status == -signal.SIGKILL else ""  # it may have ended just before
        _tell(watched.channel, exit=status, cause=cause, seconds=time.monotonic() - watched.started)
        for descriptor in (pidfd, watched.channel):
            self.poll.unregister(descriptor)
            os.close(descriptor)


def _tell(channel: int, **words: Any) -> None:
    with contextlib.suppress(OSError):  # the caller may have gone
        os.write(channel, json.dumps(words).encode())


def _own_bytes(pid: int) -> int:
    """Resident bytes of a process that are its own: not files, not what it shares with others; 0
    when it is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123
            _, resident, shared, *_ = map(int, file.read().split())
            return (resident - shared) * resource.getpagesize()
    except (OSError, ValueError):
        return 0
