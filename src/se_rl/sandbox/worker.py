"""What happens in a fresh fork: close, lock, report, and only then run the function that was asked
for.

Nothing here is trusted once the function runs: it may change any of it, but only in this process,
which has no descriptor but /dev/null (and a policy server's doorbell), can open nothing, and ends.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from se_rl.sandbox import memory, message
from se_rl.sandbox.lockdown import Isolation, SandboxError, lock
from se_rl.sandbox.message import Content

OK, FAILED, OUT_OF_MEMORY, REFUSED = 0, 11, 12, 13
"""Exit codes of a worker. They and the answer are hostile: a design may forge both, for itself
alone."""
PATIENCE = 10
"""How far a call steps back for policies that somebody waits for, as Unix counts niceness."""
HEADER = 64
"""Bytes before the observations in a policy server's block."""
MOST_DESCRIPTORS = 1 << 20
"""What Linux allows a process at most, unless an administrator has raised it."""
_DATA: dict[str, Content] = {}


def shared_data() -> dict[str, Content]:
    """In a worker: what the parent has shared, name -> arrays (read-only, one copy for all
    workers)."""
    return _DATA


def nothing(_: Content) -> Content:
    """A function that does nothing, to try the lock with."""
    return {}


@dataclass
class WorkerJob:
    """What the server hands to a fresh fork; `serve` holds rows, observation and action shape of a
    policy server."""

    function: Callable[[Content], Any]
    channel: int
    payload: int
    result: int
    layers: Sequence[str]
    unsafe: bool
    seconds: float
    memory_bytes: int
    serve: tuple[int, Sequence[int], Sequence[int]] | None = None
    doorbell: int = -1
    block: int = -1


class Block:
    """Shared memory of a policy server: how many rows, observations, actions; float32."""

    def __init__(
        self,
        memory_map: mmap.mmap,
        rows: int,
        obs_shape: Sequence[int],
        action_shape: Sequence[int],
    ) -> None:
        obs_bytes = 4 * rows * int(np.prod(obs_shape, dtype=np.int64))
        self.rows = np.frombuffer(memory_map, np.uint32, 1)
        self.obs = _floats(memory_map, (rows, *obs_shape), HEADER)
        self.actions = _floats(memory_map, (rows, *action_shape), HEADER + obs_bytes)

    @staticmethod
    def size(rows: int, obs_shape: Sequence[int], action_shape: Sequence[int]) -> int:
        """Bytes that such a block takes."""
        return HEADER + 4 * rows * sum(
            int(np.prod(shape, dtype=np.int64)) for shape in (obs_shape, action_shape)
        )


def work(job: WorkerJob, parent: int) -> NoReturn:
    """Lock this fork, run the job, leave the answer in the result's memory, and end."""
    code = FAILED
    try:
        code = _work(job, parent)
    finally:
        os._exit(code)


def _work(job: WorkerJob, parent: int) -> int:
    try:
        os.setpgid(0, 0)
        if job.serve is None:
            os.nice(PATIENCE)
        answer = memory.mapped(job.result, writable=True)
        payload = message.decode(memory.mapped(job.payload))
        block = Block(memory.mapped(job.block, writable=True), *job.serve) if job.serve else None
        os.environ.clear()
        _close_all_but(sorted({0, 1, 2, job.channel, job.doorbell} - {-1}))
        most = job.memory_bytes
        isolation = lock(
            job.layers, memory_bytes=most, seconds=job.seconds, parent=parent, unsafe=job.unsafe
        )
    except Exception as error:  # nothing hostile has run yet: it is ours to mend
        _say(
            job.channel,
            refused=str(error) if isinstance(error, SandboxError) else repr(error)[:500],
        )
        return REFUSED
    _report(job.channel, isolation)
    try:
        value = job.function(payload)
        if block is not None:
            serve(value, job.doorbell, block)
        _leave(answer, value)
        return OK
    except BaseException as error:
        return _failed(answer, error)


def serve(policy: Any, doorbell: int, block: Block) -> None:
    """Answer each ring with the actions for the observations in the block; 0 rows mean a new
    episode."""
    while ring := os.read(doorbell, 1):
        rows = int(block.rows[0])
        if rows == 0 and hasattr(policy, "reset"):
            policy.reset()
        elif rows:
            actions = np.asarray(policy(block.obs[:rows].copy()))
            if actions.shape != (rows, *block.actions.shape[1:]):
                raise ValueError(
                    f"actions have shape {actions.shape}, expected "
                    f"{(rows, *block.actions.shape[1:])}"
                )
            block.actions[:rows] = actions
        os.write(doorbell, ring)


def _report(channel: int, isolation: Isolation) -> None:
    """Tell the parent that the lock holds, by the last means there is, and give that up too."""
    _say(
        channel,
        level=isolation.level,
        layers=isolation.layers,
        why=isolation.why,
        at=time.monotonic(),
    )
    os.close(channel)


def _say(channel: int, **words: Any) -> None:
    with contextlib.suppress(OSError):  # the parent may have gone
        os.write(channel, json.dumps(words).encode())


def _leave(answer: mmap.mmap, value: Any) -> None:
    """Write the answer as far as it fits; the parent sees from its head that one too long is."""
    at = 0
    for piece in message.pack(value if value is not None else {}):
        fits = len(answer) - at
        answer[at : at + min(len(piece), fits)] = bytes(piece[:fits])
        at += min(len(piece), fits)


def _failed(answer: mmap.mmap, error: BaseException) -> int:
    try:
        text = str(error)[:2000]
        if (
            isinstance(error, MemoryError) or "can't allocate memory" in text
        ):  # the second is torch's
            return OUT_OF_MEMORY
        _leave(
            answer, {"error": type(error).__name__[:100], "text": text.encode("utf-8", "replace")}
        )
        return FAILED
    except MemoryError:
        return OUT_OF_MEMORY


def _close_all_but(kept: Sequence[int]) -> None:
    for low, high in zip([-1, *kept], [*kept, MOST_DESCRIPTORS], strict=True):
        if low + 1 < high:  # an empty range at 0 would close everything
            os.closerange(low + 1, high)


def _floats(memory_map: mmap.mmap, shape: tuple[int, ...], offset: int) -> Any:
    count = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(memory_map, np.float32, count, offset).reshape(shape)
