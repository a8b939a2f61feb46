"""What `se-rl llm list` and `se-rl llm pull NAME` print."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from se_rl.llm.catalog import list_models, pull


def model_rows() -> list[dict[str, Any]]:
    """The known models, one flat record each, with the command that fetches them."""
    return [asdict(row) for row in list_models()]


def pull_model(name: str, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Fetch a model unless it is here; its name, folder and the hash that adapters are tied to."""
    source = pull(name, say)
    return {"name": source.name, "folder": str(source.folder), "base_sha256": source.base_sha256()}
