"""A locked process that keeps a design's policy and answers batches of observations with actions.

Observations and actions lie in one block of shared memory; a one-byte doorbell says when to look.
The parent never sees the policy, only float32 numbers of the shape it asked for, which it copies
first and checks then.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.sandbox import memory
from se_rl.sandbox.calls import readable
from se_rl.sandbox.lockdown import SandboxError
from se_rl.sandbox.message import Message
from se_rl.sandbox.server import MEMORY_BYTES, RESULT_BYTES, Sandbox, sealed_payload
from se_rl.sandbox.worker import Block

FIRST_SECONDS = 60.0
"""What a policy may take in all beside the following: a busy machine must not end a good one."""
SECONDS_PER_OPENING = 5.0
SECONDS_PER_ANSWER = 0.1
SECONDS_PER_ROW = 5e-4
"""Ten times what the contract allows a network."""


@dataclass
class WaitAllowance:
    """How long the parent waits for one policy in a whole play, in every process it is opened in.

    Each answer that is asked for adds to what is `allowed`, each one waited for to what is spent.
    """

    allowed: float = FIRST_SECONDS
    waited: float = 0.0
    answers: int = 0

    @property
    def left(self) -> float:
        """Seconds that it may still take."""
        return self.allowed - self.waited

    def grant(self, rows: int) -> None:
        """An answer for so many rows is asked for."""
        self.answers += 1
        self.allowed += SECONDS_PER_ANSWER + SECONDS_PER_ROW * rows


class PolicyServer:
    """A policy behind the lock: `module:function` (trusted) makes from the payload, in the locked
    process, a callable float32[n, *obs_shape] -> [n, *action_shape], for n up to `rows`; its
    `reset()`, if it has one, starts an episode.

    It lives at most `seconds`; one batch may take `stall_seconds`, all of them what `allowance`
    says, which several processes of one policy may share.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        function: str,
        payload: Message | bytes = b"",
        *,
        rows: int,
        obs_shape: Sequence[int],
        action_shape: Sequence[int] = (),
        seconds: float = 3600.0,
        stall_seconds: float = 10.0,
        memory_bytes: int = MEMORY_BYTES,
        allowance: WaitAllowance | None = None,
    ) -> None:
        self.stall_seconds, self._ring, self._asked = stall_seconds, 0, 0
        self.allowance = allowance or WaitAllowance()
        self.allowance.allowed += SECONDS_PER_OPENING
        sealed = sealed_payload(payload)
        shapes = (rows, list(obs_shape), list(action_shape))
        file = memory.blank(Block.size(*shapes))
        self._block = Block(memory.mapped(file, writable=True), *shapes)
        self._bell, theirs = socket.socketpair()
        request = {
            "function": function,
            "seconds": seconds,
            "memory_bytes": memory_bytes,
            "serve": shapes,
        }
        self._call = sandbox._start(
            request, sealed, result_bytes=RESULT_BYTES, files=[theirs.detach(), file]
        )
        self._call.wait_locked()
        self.reset()  # the policy is made now, and what is wrong with it known

    @property
    def isolation(self) -> str:
        """The level of the lock that holds the policy."""
        return self._call.level

    def act(self, obs: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Actions for a batch of observations; SandboxError on a stall, an error of the policy, or
        what is not finite."""
        self.ask(obs)
        return self.answer()

    def ask(self, obs: npt.ArrayLike) -> None:
        """Hand a batch of observations over; `answer` waits for its actions."""
        obs = np.asarray(obs, np.float32)
        rows = len(obs)
        if not 0 < rows <= len(self._block.obs) or obs.shape[1:] != self._block.obs.shape[1:]:
            raise ValueError(
                f"observations have shape {obs.shape}, at most {self._block.obs.shape} was agreed"
            )
        self._block.obs[:rows] = obs
        self._block.actions[:rows] = np.nan  # what is not written is not an answer
        self._ring_bell(rows)

    def answer(self) -> npt.NDArray[np.float32]:
        """The actions for what was asked last."""
        rows = self._asked
        self._hear()
        actions = self._block.actions[:rows].copy()  # the policy could still write to the block
        if not np.isfinite(actions).all():
            self._fail(
                f"{int((~np.isfinite(actions)).sum())} of {actions.size} action numbers are not "
                "finite"
            )
        return actions

    def reset(self) -> None:
        """A new episode begins: the policy forgets, if it has a `reset()`."""
        self._ring_bell(0)
        self._hear()

    def close(self) -> None:
        """End the process. May be called twice."""
        self._bell.close()
        self._call.close()

    def __enter__(self) -> PolicyServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if "_call" in self.__dict__:
            self.close()

    def _ring_bell(self, rows: int) -> None:
        self._ring = (self._ring + 1) % 256
        self._asked = rows
        self._block.rows[0] = rows
        with contextlib.suppress(OSError):  # one that hung up is found out when it is heard
            self._bell.send(bytes([self._ring]))

    def _hear(self) -> None:
        try:
            self._wait(self._asked)
            answer = self._bell.recv(16)
        except (OSError, ValueError):  # it hung up, or this side did before
            answer = b""
        if not answer:
            result = self._call.poll(self.stall_seconds)
            self._fail(
                f"it ended: {result.status}, {result.error}" if result else "it hung up and runs on"
            )
        if answer != bytes([self._ring]):
            self._fail("it rang the bell when it was not its turn")

    def _wait(self, rows: int) -> None:
        """Wait for an answer, as long as this one and all of them together may take."""
        allowance = self.allowance
        allowance.grant(rows)
        asked = time.monotonic()
        came = readable(self._bell, min(self.stall_seconds, allowance.left))
        allowance.waited += time.monotonic() - asked
        if allowance.left <= 0.0:
            took = f"{allowance.answers:,} answers took {allowance.waited:.1f} s"
            self._fail(f"{took}; {allowance.allowed:.1f} s are allowed in all", hopeless=True)
        if not came:
            self._fail(f"no answer within {self.stall_seconds:g} s")

    def _fail(self, why: str, *, hopeless: bool = False) -> Any:
        self.close()
        error = SandboxError(f"the policy is no longer usable: {why}")
        error.hopeless = hopeless
        raise error
