"""Harmless things that an attack would like to reach, in a folder and processes of their own, and whether one was reached."""

from __future__ import annotations

import contextlib
import os
import platform
import select
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from string import Template
from types import TracebackType

NAME = "SE_RL_CANARY"
"""The environment variable that holds the secret."""
VICTIM = """
import ctypes, os, sys
token = ctypes.create_string_buffer(os.environ["SE_RL_CANARY"].encode())
ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)  # who may trace it: anybody
print(ctypes.addressof(token), flush=True)
sys.stdin.read()
"""
CALLS = {
    "openat": (257, 56),
    "mkdirat": (258, 34),
    "socket": (41, 198),
    "execve": (59, 221),
    "clone": (56, 220),
    "tgkill": (234, 131),
    "kcmp": (312, 272),
    "capget": (125, 90),
    "getrandom": (318, 278),
}
"""Numbers of system calls on x86_64 and aarch64."""
MODULE = "import os\nos.path.exists({mark!r}) or os.mkdir({mark!r})\ndef canary():\n    pass\n"
KERNEL = "from numba import njit\n@njit(cache=True)\ndef double(x):\n    return x + x\n"


class Canaries:
    """A folder, listeners and a sleeping process; `alarms()` tells what was touched since it was last asked."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.base = Path(tempfile.mkdtemp(prefix="canary-"))
        self.folder, self.sockets = self.base / "folder", self.base / "sockets"
        self.sockets.mkdir()
        self.listeners = self._listen()
        self.pipe = os.pipe()
        (self.base / "open.txt").write_text(token)
        self.file = os.open(self.base / "open.txt", os.O_RDONLY)
        self.victim: subprocess.Popen[str] | None = None
        self._set_out()

    def fill(self, source: str, server: int) -> str:
        """A source with its marks replaced by where the canaries are; `server` is the process above the attacker."""
        return Template(source).substitute(self.marks, server=server)

    def alarms(self) -> tuple[str, ...]:
        """What was reached; everything is then as new."""
        reached = []
        if self._snapshot() != self.before:
            reached.append("folder")
        places: list[socket.socket | int] = [*self.listeners, self.pipe[0]]
        while ready := select.select(places, [], [], 0)[0]:
            reached.append("knock")
            self._answer(ready[0])
        if self._victim_state() not in ("S", "R", "D"):
            reached.append("victim")
        if reached:
            self._set_out()
        return tuple(dict.fromkeys(reached))

    def __enter__(self) -> Canaries:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end_victim()
        shutil.rmtree(self.base, ignore_errors=True)

    def _set_out(self) -> None:
        """Lay out the folder and wake a victim where there is none."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("vault", "module", "empty"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "secret.txt").write_text(self.token)
        (self.folder / "vault" / self.token).touch()
        (self.folder / "link").symlink_to(self.token)
        text = MODULE.format(mark=str(self.folder / "mark"))
        for name in ("canary_module.py", "hubconf.py"):
            (self.folder / "module" / name).write_text(text)
        (self.folder / "module" / "canary_kernel.py").write_text(KERNEL)
        (self.folder / "module" / "canary.pth").write_text("import canary_module\n")
        (self.folder / "module" / "canary.txt").write_text(
            f">>> import os; os.mkdir({str(self.folder / 'mark')!r})\n"
        )
        with zipfile.ZipFile(self.folder / "module" / "canary.zip", "w") as archive:
            archive.writestr("canary_zipped.py", text)
        self.before = self._snapshot()
        if self.victim is None or self._victim_state() not in ("S", "R", "D"):
            self._wake_victim()
        self.marks = self._marks()

    def _wake_victim(self) -> None:
        self._end_victim()
        self.victim = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", VICTIM],
            env={NAME: self.token},
            stdin=subprocess.PIPE,  # it ends when this closes
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.victim.stdout
        self.address = int(self.victim.stdout.readline())

    def _end_victim(self) -> None:
        if self.victim is None:
            return
        self.victim.kill()
        self.victim.communicate()

    def _victim_state(self) -> str:
        assert self.victim
        with contextlib.suppress(OSError):
            return Path(f"/proc/{self.victim.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return "gone"

    def _marks(self) -> dict[str, str]:
        assert self.victim
        column = ("x86_64", "aarch64").index(platform.machine())
        marks = {
            "folder": self.folder,
            "secret": self.folder / "secret.txt",
            "port": self.listeners[0].getsockname()[1],
            "udp": self.listeners[1].getsockname()[1],
            "unix": self.sockets / "stream",
            "dgram": self.sockets / "datagram",
            "abstract": self.base.name,
            "victim": self.victim.pid,
            "address": self.address,
            "holder": os.getpid(),
            "file": self.file,
            "library": _library(),
            **{name: numbers[column] for name, numbers in CALLS.items()},
        }
        return {name: str(value) for name, value in marks.items()}

    def _listen(self) -> list[socket.socket]:
        tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        stream, datagram = (
            socket.socket(socket.AF_UNIX),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
        )
        abstract = socket.socket(socket.AF_UNIX)
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", 0))
        stream.bind(str(self.sockets / "stream"))
        datagram.bind(str(self.sockets / "datagram"))
        abstract.bind(f"\0{self.base.name}")
        for listener in (tcp, stream, abstract):
            listener.listen(64)
        return [tcp, udp, stream, datagram, abstract]

    def _answer(self, ready: socket.socket | int) -> None:
        if isinstance(ready, int):
            os.read(ready, 1 << 16)
        elif ready.type == socket.SOCK_STREAM:
            ready.accept()[0].close()
        else:
            ready.recv(1 << 16)

    def _snapshot(self) -> dict[str, tuple[object, ...]]:
        """Names, kinds, sizes, times and contents in the folder."""
        seen: dict[str, tuple[object, ...]] = {}
        for path in [self.folder, *self.folder.rglob("*")]:
            status = path.lstat()
            content = path.read_bytes()[:4096] if stat.S_ISREG(status.st_mode) else b""
            seen[str(path)] = (
                status.st_mode,
                status.st_size,
                status.st_mtime_ns,
                status.st_nlink,
                content,
            )
        return seen


def _library() -> str:
    """A shared library that no process of ours has loaded yet, or at least one by its path."""
    folder = next(Path(entry) for entry in sys.path if entry.endswith("lib-dynload"))
    return str(next(iter(sorted(folder.glob("_xxtestfuzz*.so")) + sorted(folder.glob("*.so")))))
