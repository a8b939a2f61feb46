"""The rooms that all tests of the sandbox share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from se_rl.sandbox.lockdown import LAYERS
from se_rl.sandbox.server import Room


@pytest.fixture(scope="session")
def room() -> Iterator[Room]:
    """A room with torch and a compiled kernel, locked as well as this machine can."""
    with Room("room_functions") as room:
        yield room


@pytest.fixture(scope="session")
def plain_room() -> Iterator[Room]:
    """A room without torch and with namespaces switched off: the least lock that is accepted."""
    with Room("se_rl.sandbox.worker", layers=[name for name in LAYERS if name != "namespaces"]) as room:
        yield room
