"""A trained policy and its scores as bytes: the same bytes for the same numbers."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from se_rl.bounded_reading import shown
from se_rl.records.schema import ArchiveError
from se_rl.rl.policy_header import interface_facts, interface_from
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
    try:
        _check_sizes(content)
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (ValueError, KeyError, EOFError, OSError, SyntaxError, zipfile.BadZipFile) as error:
        raise ArchiveError(
            f"stored arrays cannot be read ({shown(str(error))}); restore the run from a copy"
        ) from None


def _check_sizes(content: bytes) -> None:
    """Raise a `ValueError` for arrays that would take more memory than the file has bytes."""
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        for member in members.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(content):
                raise ValueError(f"{member.filename} is packed")
            with members.open(member) as stream:
                _check_array(stream, member)


def _check_array(stream: IO[bytes], member: zipfile.ZipInfo) -> None:
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"{member.filename} has a header of version {version}")
    shape, _, kind = np.lib.format.read_array_header_1_0(stream)
    if math.prod(shape) * kind.itemsize > member.file_size or min(shape, default=0) < 0:
        raise ValueError(f"{member.filename} is larger than the file")


def training_bytes(trained: TrainedDesign) -> bytes:
    """Weights and shape of a trained policy; its sources stand beside it in the archive."""
    about = {
        "shape": trained.shape,
        "action_map": trained.action_map,
        "work": trained.work,
        **interface_facts(trained.interface),
    }
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
        interface=interface_from(about),
    )
