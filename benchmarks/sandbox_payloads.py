"""Functions that run inside the sandbox: a small training, and everything that must be stopped.

The benchmark times them and the sandbox's tests run them; each takes one payload.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np

Payload = dict[str, Any]
"""What crosses into the sandbox: JSON and arrays."""


def warm_up() -> None:
    """Import torch and build its kernels before the sandbox forks."""
    train_small({"steps": 3})


def train_small(payload: Payload) -> Payload:
    """Train a small convolutional and recurrent network on noise; return losses and CPU seconds."""
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        conv = nn.Conv1d(32, 32, 3)
        gru = nn.GRU(32, 32, batch_first=True)
        head = nn.Linear(32, 1)
    parameters = [*conv.parameters(), *gru.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, foreach=False)
    losses = []
    started = time.process_time()
    for _step in range(payload["steps"]):
        obs = torch.randn(128, 32, 16, generator=generator)
        hidden, _last = gru(torch.relu(conv(obs)).transpose(1, 2))
        loss = (head(hidden[:, -1]).squeeze(-1) - obs.mean((1, 2))).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return {"loss": np.array(losses, np.float32), "cpu_seconds": time.process_time() - started}


def nothing(_: Payload) -> None:
    """Return at once."""


def python_loop(_: Payload) -> None:
    """Never return, in Python."""
    while True:
        pass


def c_loop(_: Payload) -> None:
    """Never return, in C, where no signal handler of Python runs."""
    deque(repeat(None), maxlen=0)


def deaf_loop(_: Payload) -> None:
    """Never return, and ignore every signal that can be ignored."""
    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    python_loop({})


def memory_bomb(_: Payload) -> None:
    """Take memory until there is none."""
    taken = []
    while True:
        taken.append(np.ones(1 << 20))


def fork_bomb(_: Payload) -> Payload:
    """Try to fork 1,000 times; say how often it worked."""
    made = 0
    for _try in range(1000):
        with contextlib.suppress(OSError):
            made += os.fork() >= 0
    return {"tried": 1000, "made": made}


def print_flood(_: Payload) -> None:
    """Print forever."""
    while True:
        print("x" * 65536)


def large_result(_: Payload) -> Payload:
    """Return more than a caller allows."""
    return {"large": np.zeros(1 << 20)}


def linear_policy(_: Payload) -> Callable[[Any], Any]:
    """A policy that costs next to nothing."""
    weights = np.linspace(-1, 1, 32, dtype=np.float32)
    return lambda obs: obs @ weights
