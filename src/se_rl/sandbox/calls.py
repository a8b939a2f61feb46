"""A call into the sandbox, seen by the parent: its handle, and the judgement on how it ended.

Everything a worker leaves behind is hostile. Whatever it is becomes a status with one printable
line.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from dataclasses import dataclass
from signal import Signals
from typing import Any

from se_rl.sandbox import message
from se_rl.sandbox.forkserver import KILL, MOST_REQUEST
from se_rl.sandbox.lockdown import UNSAFE, Isolation, SandboxError
from se_rl.sandbox.message import Content, MessageError
from se_rl.sandbox.worker import FAILED, OK, OUT_OF_MEMORY

GRACE_SECONDS = 30.0
"""How long after a deadline the server may stay silent before it is given up; the worker itself is
killed at once."""
MOST_TEXT = 500


@dataclass(frozen=True)
class Result:
    """How a call ended: ok, failed, timeout, memory, killed, invalid or crashed.

    `value` is what the function returned (ok only; untrusted), `error` says in one printable line
    what went wrong, `seconds` is the worker's life, `lock_seconds` the part until it was locked,
    `isolation` its level.
    """

    status: str
    value: Content
    error: str
    seconds: float
    isolation: str
    lock_seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.status == "ok"


class Call:
    """A running call: `poll`, `wait`, `kill`; `fileno()` becomes readable when there is news.
    Dropping it kills it."""

    def __init__(
        self,
        channel: socket.socket,
        result: int,
        *,
        seconds: float,
        result_bytes: int,
        unsafe: bool,
    ) -> None:
        self._channel, self._file, self._result_bytes, self._unsafe = (
            channel,
            result,
            result_bytes,
            unsafe,
        )
        self._asked = time.monotonic()
        self._give_up = self._asked + seconds + GRACE_SECONDS
        self._locked: Content = {}
        self._result: Result | None = None

    def fileno(self) -> int:
        """For select and poll."""
        return self._channel.fileno()

    @property
    def isolation(self) -> Isolation | None:
        """What holds in the worker, once it has reported its lock."""
        lock = self._locked
        return Isolation(lock["level"], tuple(lock["layers"]), lock["why"]) if lock else None

    @property
    def level(self) -> str:
        """The level for the record: that of the lock, or that the refusal was overridden."""
        return UNSAFE if self._unsafe else self._locked.get("level", "none (never ran)")

    def poll(self, seconds: float = 0.0) -> Result | None:
        """The result if there is one within `seconds`.

        SandboxError if the sandbox itself failed.
        """
        end = time.monotonic() + seconds
        while self._result is None:
            if not self._listen(end - time.monotonic()) and time.monotonic() >= end:
                return None
        return self._result

    def wait(self) -> Result:
        """The result; at the latest shortly after the call's deadline."""
        result = None
        while result is None:
            result = self.poll(GRACE_SECONDS)
        return result

    def wait_locked(self) -> None:
        """Wait until the worker is locked or has ended."""
        while not self._locked and self._result is None:
            self._listen(GRACE_SECONDS)

    def kill(self) -> None:
        """End the worker; the result will be `killed` unless it was there already."""
        if self._result is None:
            with contextlib.suppress(OSError):
                self._channel.send(KILL)

    def close(self) -> None:
        """Let go of the call; a worker that still runs is killed."""
        self._channel.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        self.close()

    def _listen(self, seconds: float) -> bool:
        """Take in one piece of news, if there is one within `seconds`."""
        if self.fileno() < 0:
            raise SandboxError("the call was closed before it ended")
        if readable(self._channel, seconds):
            self._hear(received(self._channel))
            return True
        if time.monotonic() > self._give_up:
            self.close()
            raise SandboxError(
                "the fork-server does not answer; stop the sandbox and make a new one"
            )
        return False

    def _hear(self, text: bytes) -> None:
        words: Content = (
            json.loads(text) if text else {"refused": "the fork-server is gone; make a new sandbox"}
        )
        if "refused" in words:
            self.close()
            raise SandboxError(words["refused"])
        if "level" in words:
            self._locked = words
            return
        self._result = self._conclude(words["exit"], words["cause"], words["seconds"])
        self.close()

    def _conclude(self, code: int, cause: str, seconds: float) -> Result:
        status, value, error = _outcome(code, cause, self._file, self._result_bytes)
        lock_seconds = self._locked.get("at", self._asked) - self._asked
        return Result(status, value, error, seconds, self.level, lock_seconds)


def printable(text: Any, most: int = MOST_TEXT) -> str:
    """Hostile text as one line of at most `most` printable characters."""
    try:
        line = str(text)[: 4 * most]
    except (ValueError, RecursionError):  # a number of too many digits, lists too deep
        line = f"({type(text).__name__})"
    shown = [c if c.isprintable() else " " for c in line]
    return " ".join("".join(shown).split())[:most]


def _outcome(code: int, cause: str, file: int, result_bytes: int) -> tuple[str, Content, str]:
    """Status, value and error of a worker that has ended."""
    if cause:
        words = {
            "timeout": "over its time",
            "memory": "over its memory",
            "killed": "ended on request",
        }
        return cause, {}, words[cause]
    if code < 0:
        return "killed", {}, _signal_name(-code)
    if code == OUT_OF_MEMORY:
        return "memory", {}, "out of memory"
    if code not in (OK, FAILED):
        return "crashed", {}, f"ended with exit code {code}"
    try:
        value = message.read(file, result_bytes)
        if code == OK:
            return "ok", value, ""
        return "failed", {}, _failure(value)
    except MessageError as error:
        return "invalid", {}, printable(error)


def _failure(value: Content) -> str:
    kind, text = value.get("error"), value.get("text", b"")
    kind = kind if isinstance(kind, str) and kind.isidentifier() else "Error"
    return (
        f"{printable(kind, 100)}: "
        f"{printable(text.decode('utf-8', 'replace') if isinstance(text, bytes) else '')}"
    )


def _signal_name(number: int) -> str:
    return Signals(number).name if number in set(Signals) else f"signal {number}"


def received(channel: socket.socket) -> bytes:
    """The next message, or nothing when there will be none."""
    try:
        return channel.recv(MOST_REQUEST)
    except (
        ConnectionResetError
    ):  # the other side left something unread; what it said before is still there
        return channel.recv(MOST_REQUEST)


def readable(channel: socket.socket, seconds: float) -> bool:
    """Whether there is something to read within `seconds`."""
    waiting = select.poll()
    waiting.register(channel, select.POLLIN)
    return bool(waiting.poll(max(0.0, seconds) * 1000))
