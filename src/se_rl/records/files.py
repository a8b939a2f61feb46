"""Files that are whole or not there: written beside their place, flushed to disk, then renamed into
it.
"""

from __future__ import annotations

import errno
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""What a system says when a file finds no room."""
_PART = ".part"


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically: a crash leaves the old file or the new one, never
    half of it.
    """
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write any file atomically, and make the renaming itself last."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_PART)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def sweep(folder: Path) -> None:
    """Remove what killed processes left half written below a folder that nobody else writes to."""
    for path in folder.rglob(f".*{_PART}"):
        path.unlink(missing_ok=True)


def write_parquet(path: Path, columns: dict[str, Any]) -> None:
    """Write equally long columns as one parquet file, atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    write_bytes(path, sink.getvalue().to_pybytes())


def to_json(value: Any) -> str:
    """JSON that every parser reads: NaN and infinities become null."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
