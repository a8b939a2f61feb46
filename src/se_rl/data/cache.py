"""A cache of finished MarketData: one file per entry, checksummed, memory-mapped, never trusted
unread.

Layout: magic, CRC-32 of all that follows, header length, a JSON header, then the raw arrays. No
pickle: a file that somebody else put there can at worst be refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import struct
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.data.calendar import SessionGrid
from se_rl.data.market_data import MarketData, Provenance, SplitDates

CACHE_VERSION = 3
"""Raise it whenever a reader gives other numbers for the same file: older entries are then never
found."""

_PREFIX = struct.Struct("<8sIQ")  # magic, CRC-32, header length
_MAGIC = b"se-rl\x00md"
_ALIGNMENT = 64


def cache_folder() -> Path:
    """Where entries live: the environment variable SE_RL_CACHE, else `~/.cache/se-rl`."""
    told = os.environ.get("SE_RL_CACHE")
    return Path(told) if told else Path.home() / ".cache" / "se-rl"


def cached(key: str, build: Callable[[], MarketData]) -> MarketData:
    """The entry of this key, or what `build` makes, stored for the next time; its arrays are
    read-only either way.

    A damaged entry is rebuilt; where the folder cannot be written there is simply no cache.
    """
    path: Path | None = None
    with contextlib.suppress(RuntimeError):  # nobody's home folder can be found: no cache
        path = cache_folder() / (
            hashlib.sha256(f"{CACHE_VERSION}:{key}".encode()).hexdigest() + ".bars"
        )
    stored = None if path is None else _load(path)
    if stored is not None:
        return stored
    data = build()
    if path is not None:
        with contextlib.suppress(OSError):
            _store(path, data)
    for array in _arrays(data).values():
        array.setflags(write=False)
    return data


def _arrays(data: MarketData) -> dict[str, np.ndarray]:
    return {
        f.name: value
        for f in fields(data)
        if isinstance(value := getattr(data, f.name), np.ndarray)
    }


def _store(path: Path, data: MarketData) -> None:
    """Write to a temporary file beside the entry, flush it to the disk, then rename: readers see
    all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            chunks = _chunks(data)
            check = 0
            for chunk in chunks[1:]:
                check = zlib.crc32(chunk, check)
            magic, _, length = _PREFIX.unpack(chunks[0])
            file.write(_PREFIX.pack(magic, check, length))
            file.writelines(chunks[1:])
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _chunks(data: MarketData) -> list[Any]:
    """The prefix (its checksum still 0), the header and the padded arrays, as buffers."""
    layout, body, offset = [], [], 0
    for name, value in _arrays(data).items():
        array = np.ascontiguousarray(value)
        layout.append(
            {"name": name, "dtype": array.dtype.str, "shape": array.shape, "offset": offset}
        )
        body += [array.reshape(-1).view(np.uint8).data, bytes(-array.nbytes % _ALIGNMENT)]
        offset += array.nbytes + -array.nbytes % _ALIGNMENT
    meta = {
        "symbols": data.symbols,
        "grid": asdict(data.grid),
        "provenance": asdict(data.provenance),
        "arrays": layout,
    }
    header = json.dumps(meta).encode()
    header += b" " * (-(_PREFIX.size + len(header)) % _ALIGNMENT)
    return [_PREFIX.pack(_MAGIC, 0, len(header)), header, *body]


def _load(path: Path) -> MarketData | None:
    """The entry, or None if it is absent, cut short, changed, or fails MarketData's own checks."""
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, check, length = _PREFIX.unpack_from(mapped)
        if magic != _MAGIC or zlib.crc32(memoryview(mapped)[_PREFIX.size :]) != check:
            return None
        return _unpack(mapped, length)
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def _unpack(mapped: mmap.mmap, header_length: int) -> MarketData:
    start = _PREFIX.size + header_length
    meta = json.loads(mapped[_PREFIX.size : start])
    arrays = {}
    for entry in meta["arrays"]:
        count = int(np.prod(entry["shape"]))
        flat = np.frombuffer(mapped, np.dtype(entry["dtype"]), count, start + entry["offset"])
        arrays[entry["name"]] = flat.reshape(entry["shape"])
    grid = SessionGrid(**{**meta["grid"], "minutes": tuple(meta["grid"]["minutes"])})
    source = meta["provenance"]
    split = SplitDates(**source["split"]) if source["split"] else None
    provenance = Provenance(**{**source, "notes": tuple(source["notes"]), "split": split})
    return MarketData(symbols=tuple(meta["symbols"]), grid=grid, provenance=provenance, **arrays)
