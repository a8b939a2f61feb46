"""Is a model there? Found out before anything is loaded, written or paid for."""

from __future__ import annotations

from se_rl.llm.backends import ADDRESS_PREFIXES
from se_rl.llm.catalog import resolve
from se_rl.llm.endpoint import named_endpoint


def greet(name: str) -> None:
    """One small request to an endpoint, a look at the files of a local model; LlmError where the
    model of this name cannot be asked.
    """
    if not name.startswith(ADDRESS_PREFIXES):
        resolve(name)
        return
    designer = named_endpoint(name)
    try:
        designer.greet()
    finally:
        designer.close()
