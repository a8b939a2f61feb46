"""The sandboxes that all tests of the sandbox share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from se_rl.sandbox.lockdown import LAYERS
from se_rl.sandbox.server import Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox with torch and a compiled kernel, locked as well as this machine can."""
    with Sandbox("sandbox_functions") as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def plain_sandbox() -> Iterator[Sandbox]:
    """A sandbox without torch and with namespaces switched off: the least lock that is accepted."""
    with Sandbox(
        "se_rl.sandbox.worker", layers=[name for name in LAYERS if name != "namespaces"]
    ) as sandbox:
        yield sandbox
