"""A Ray cluster of several nodes on this machine, for tests and measurements: no node is shared.

    with LocalCluster(nodes=3) as cluster:
        subprocess.run(command, env=cluster.environment)

There is one at a time on a machine: nodes find their ports by trying, and those of two clusters that
begin together may take the same. Only processes that know its secret may use it (Ray's
token), since Ray listens on the machine's own address and not on the loopback alone.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

START_SECONDS = 60.0
STORE_BYTES = 200 << 20
STARTED = b"Ray runtime started"
LOCK = Path(tempfile.gettempdir()) / "se-rl-local-cluster.lock"


class LocalCluster:
    """So many nodes with one core each; `environment` is that of processes that may use them."""

    def __init__(self, *, nodes: int) -> None:
        self._alone = LOCK.open("w")
        fcntl.flock(self._alone, fcntl.LOCK_EX)
        self._folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # sockets' names are short
        self._head = f"127.0.0.1:{_free_port()}"
        self.client_port = _free_port()
        self.environment = {
            **os.environ,
            "RAY_ADDRESS": self._head,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        }
        self._nodes: list[subprocess.Popen[bytes]] = []
        try:
            self._start(
                "--head",
                f"--port={self._head.rpartition(':')[2]}",
                f"--ray-client-server-port={self.client_port}",
                "--include-dashboard=false",
                f"--temp-dir={self._folder}",
            )
            for _ in range(nodes - 1):
                self.add_node()
        except BaseException:
            self.stop()
            raise

    def add_node(self) -> None:
        """One more node."""
        self._start(f"--address={self._head}")

    def raylets(self) -> list[int]:
        """The process of every node but the first that gives it its work."""
        found = []
        for node in self._nodes[1:]:
            found += [pid for pid in children(node.pid) if "raylet/raylet" in _command(pid)]
        return found

    def workers(self) -> list[int]:
        """The processes of executors' workers, on all nodes."""
        found = []
        for node in self._nodes:
            for raylet in children(node.pid):
                found += [pid for pid in children(raylet) if "RayWorker" in _command(pid)]
        return found

    def stop(self) -> None:
        """End every node."""
        for node in reversed(self._nodes):
            node.terminate()
        for node in self._nodes:
            try:
                node.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(node.pid, signal.SIGKILL)
                node.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._alone.close()

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, *options: str) -> None:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *options]
        command += ["--num-cpus=1", f"--object-store-memory={STORE_BYTES}", "--block"]
        environment = {n: v for n, v in self.environment.items() if n != "RAY_ADDRESS"}
        log = self._folder / f"node{len(self._nodes)}.log"
        with log.open("wb") as said:
            node = subprocess.Popen(
                command, env=environment, stdout=said, stderr=said, start_new_session=True
            )
        self._nodes.append(node)
        end = time.monotonic() + START_SECONDS  # one after the other: they would share ports
        while STARTED not in log.read_bytes():
            if node.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"a node did not start: {log.read_text()[-500:]}")
            time.sleep(0.05)


def children(pid: int) -> list[int]:
    """The processes that a process has started and that are alive."""
    found = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(word) for word in tasks.read_text().split()]
        except OSError:  # it has just ended
            continue
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
