"""A trained policy and its scores as bytes: the same bytes for the same numbers."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.rl.sandboxed_training import TrainedDesign

Arrays = Mapping[str, npt.NDArray[Any]]


def array_bytes(arrays: Arrays) -> bytes:
    """Arrays as npz, sorted by name."""
    sink = io.BytesIO()
    named = {name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}
    np.savez(sink, allow_pickle=False, **named)
    return sink.getvalue()


def arrays_from_bytes(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """The inverse of `array_bytes`."""
    with np.load(io.BytesIO(content)) as stored:
        return {name: stored[name] for name in stored.files}


def training_bytes(trained: TrainedDesign) -> bytes:
    """Weights and shape of a trained policy; its sources stand beside it in the archive."""
    about = {"shape": trained.shape, "action_map": trained.action_map, "work": trained.work}
    text = np.frombuffer(json.dumps(about, sort_keys=True).encode(), np.uint8)
    return array_bytes({"about": text, **(trained.weights or {})})


def training_from_bytes(content: bytes, sources: Mapping[str, str]) -> TrainedDesign:
    """The inverse of `training_bytes`."""
    weights = arrays_from_bytes(content)
    about = json.loads(weights.pop("about").tobytes())
    return TrainedDesign(
        sources,
        "ok",
        None,
        "",
        0.0,
        work=about["work"],
        shape=about["shape"],
        action_map=about["action_map"],
        weights=weights,
    )
