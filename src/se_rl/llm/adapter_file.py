"""Adapters as files: which one a run begins with, and whether it fits the model.

An adapter that ships with the package lies beside this module as `shipped/MODEL.safetensors`, with
its card; it has been measured to earn its place (docs/results/designers.md).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from se_rl.bounded_reading import read_regular
from se_rl.llm.backends import LlmError
from se_rl.llm.catalog import KNOWN, abilities_of, resolve

SHIPPED_FOLDER = Path(__file__).with_name("shipped")
NONE, SHIPPED = "none", "shipped"
MOST_BYTES = 64_000_000
"""Of an adapter's file; what ships is far below."""


@dataclass(frozen=True)
class AdapterHead:
    """What an adapter's file says about itself: name, updates, and the model it belongs to."""

    label: str
    updates: int
    base: str
    base_sha256: str
    rank: int
    alpha: int
    targets: tuple[str, ...]
    norms: bool

    @property
    def id(self) -> str:
        """The name that records have."""
        return f"{self.label}@{self.updates}"


@dataclass(frozen=True)
class AdapterFile:
    """An adapter that a run begins with."""

    place: Path
    head: AdapterHead
    sha256: str
    content: bytes = field(repr=False)


def adapter_head(content: bytes) -> AdapterHead | None:
    """The head of an adapter's file; None for bytes that are none."""
    try:
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        told = json.loads(header["__metadata__"]["card"])
        shape = told["settings"]
        ends = [one["data_offsets"][1] for name, one in header.items() if name != "__metadata__"]
        if len(content) != 8 + length + max(ends):
            return None
        return AdapterHead(
            str(told["label"]),
            int(told["updates"]),
            str(told["base"]),
            str(told["base_sha256"]),
            int(shape["rank"]),
            int(shape["alpha"]),
            tuple(map(str, shape["targets"])),
            bool(shape["norms"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def read_adapter(place: Path) -> AdapterFile:
    """The adapter in a file; LlmError, in one line, where there is none."""
    try:
        content = read_regular(place, most_bytes=MOST_BYTES, follow=True)
    except (OSError, ValueError):
        raise LlmError(
            f"--adapter {place} cannot be read; give the adapter.safetensors that"
            " scripts/train_designer.py wrote, or none"
        ) from None
    head = adapter_head(content)
    if head is None:
        raise LlmError(
            f"--adapter {place} is damaged or no adapter of se-rl; give the adapter.safetensors"
            " that scripts/train_designer.py wrote, or none"
        )
    return AdapterFile(place, head, hashlib.sha256(content).hexdigest(), content)


def chosen_adapter(named: str, model: str, *, free: bool = False) -> AdapterFile | None:
    """The adapter that `--adapter NAMED` means for a model; None for the untouched model.

    `shipped` is the package's own for this model, where it has one. It has learned to choose under
    a grammar, so it is none for `free` Python.
    """
    if named == NONE or (named == SHIPPED and free):
        return None
    place = SHIPPED_FOLDER / f"{model}.safetensors" if named == SHIPPED else Path(named)
    if named == SHIPPED and (model not in KNOWN or not place.exists()):
        return None
    if not abilities_of(model).learns:
        raise LlmError(f"{model} takes no adapter, its weights are elsewhere; use --adapter none")
    found = read_adapter(place)
    ours = resolve(model).base_sha256()
    if found.head.base_sha256 != ours:
        raise LlmError(
            f"--adapter {named} was trained on {found.head.base} {found.head.base_sha256[:12]}, not"
            f" on {model} {ours[:12]}; use that model, or --adapter none"
        )
    return found
