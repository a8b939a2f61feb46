"""torch on one thread, for networks as small as these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread.

    For these sizes it is as fast, gives the same bits on every machine, and leaves the cores to the
    simulated markets.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
