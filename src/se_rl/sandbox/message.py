"""The one format in which payloads and results travel: names with plain JSON values, raw arrays or
bytes. No pickle.

    magic | version | 0 | crc of all that follows | header bytes | frame bytes | header | padding |
    array | padding | ...

The header is canonical JSON: [{name: plain value}, [[name, dtype, shape], ...]]; each array starts
at a multiple of 64 bytes. What a locked process sends is hostile: whatever is not exactly as it
should be is a `MessageError`.
"""

from __future__ import annotations

import json
import math
import os
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

MAGIC, VERSION = b"SERM", 1
HEAD = struct.Struct("<4sHHIIQ")
CRC_END = 12
ALIGN, MOST_HEADER, MOST_NAME, MOST_DIMENSIONS = 64, 1 << 20, 200, 8
DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")
RAW = "bytes"

Message = Mapping[str, Any]
"""Names with arrays (numbers or bool), bytes, or plain JSON values (str, int, float, bool, None,
lists, dicts)."""


Content = dict[str, Any]
"""What a message holds once it is unpacked."""


class MessageError(ValueError):
    """Bytes that are no message, or a value that cannot become one; one line."""


def pack(message: Message) -> list[bytes | memoryview]:
    """The message's frame in pieces, arrays not copied; MessageError where a value has no place in
    the format."""
    plain, arrays, buffers = {}, [], []
    for name, value in message.items():
        if not isinstance(name, str) or len(name) > MOST_NAME:
            raise MessageError(
                f"a name must be text of at most {MOST_NAME} characters, not {str(name)[:50]!r}"
            )
        if isinstance(value, np.ndarray):
            array = np.asarray(value, dtype=value.dtype.newbyteorder("<"), order="C")
            arrays.append([name, _known(array.dtype.str, name), list(array.shape)])
            buffers.append(array.reshape(-1).view(np.uint8).data)
        elif isinstance(value, bytes | bytearray | memoryview):
            arrays.append([name, RAW, [len(bytes(value))]])
            buffers.append(memoryview(bytes(value)))
        else:
            plain[name] = value
    header = _dumps([plain, arrays])
    if len(header) > MOST_HEADER:
        raise MessageError(
            f"plain values take {len(header)} bytes, at most {MOST_HEADER}; send long text as bytes"
        )
    return _framed(header, buffers)


def encode(message: Message) -> bytes:
    """The message's frame."""
    return b"".join(pack(message))


def decode(frame: bytes | memoryview | Any, *, copy: bool = True) -> Content:
    """The message in a frame, exactly; MessageError for anything else. Without copy, arrays are
    read-only views."""
    view = memoryview(frame).cast("B")
    header_bytes, total = _read_head(bytes(view[: HEAD.size]))
    if len(view) != total:
        raise MessageError(f"the frame has {len(view)} bytes and declares {total}")
    if zlib.crc32(view[CRC_END:]) != int.from_bytes(view[CRC_END - 4 : CRC_END], "little"):
        raise MessageError("the checksum does not match")
    body = HEAD.size + header_bytes
    plain, arrays = _read_header(bytes(view[HEAD.size : body]))
    values = dict(plain)
    for name, dtype, shape in arrays:
        start = body + -body % ALIGN
        body = start + _size(dtype, shape)
        if body > total or name in values:
            raise MessageError(
                f"array {name!r} stands twice" if name in values else f"array {name!r} is cut short"
            )
        values[name] = _array(view[start:body], dtype, shape, copy)
    if body != total:
        raise MessageError(f"{total - body} bytes trail the last array")
    return values


def read(file: int, limit: int) -> Content:
    """The message at the start of a memory file that a locked process wrote, of at most `limit`
    bytes."""
    _, total = _read_head(os.pread(file, HEAD.size, 0))
    if total > limit:
        raise MessageError(f"the message has {total} bytes, at most {limit} are allowed")
    return decode(os.pread(file, total, 0))


def _framed(header: bytes, buffers: list[memoryview]) -> list[bytes | memoryview]:
    pieces, total = [header], HEAD.size + len(header)
    for buffer in buffers:
        padding = -total % ALIGN
        pieces += [bytes(padding), buffer]  # type: ignore[list-item]
        total += padding + len(buffer)
    lengths = HEAD.pack(MAGIC, VERSION, 0, 0, len(header), total)[CRC_END:]
    crc = zlib.crc32(lengths)
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    return [HEAD.pack(MAGIC, VERSION, 0, crc, len(header), total), *pieces]


def _read_head(head: bytes) -> tuple[int, int]:
    """Bytes of the header and of the whole frame."""
    if len(head) < HEAD.size:
        raise MessageError(f"{len(head)} bytes are too few for a message")
    magic, version, zero, _, header_bytes, total = HEAD.unpack(head)
    if magic != MAGIC or version != VERSION or zero:
        raise MessageError("no message: magic or version is wrong")
    if header_bytes > MOST_HEADER or HEAD.size + header_bytes > total:
        raise MessageError(f"a header of {header_bytes} bytes does not fit a frame of {total}")
    return header_bytes, total


def _read_header(text: bytes) -> tuple[Content, list[tuple[str, str, tuple[int, ...]]]]:
    try:
        header = json.loads(text)
        canonical = _dumps(header) == text  # also ends duplicate keys and lone surrogates
    except (ValueError, RecursionError):
        raise MessageError("the header is not JSON") from None
    if (
        not canonical
        or not isinstance(header, list)
        or [type(part) for part in header] != [dict, list]
    ):
        raise MessageError("the header is not of the form [plain values, arrays]")
    if any(len(name) > MOST_NAME for name in header[0]):
        raise MessageError(f"a name has more than {MOST_NAME} characters")
    return header[0], [_entry(entry) for entry in header[1]]


def _entry(entry: Any) -> tuple[str, str, tuple[int, ...]]:
    """One array's declaration, checked."""
    if not isinstance(entry, list) or [type(part) for part in entry] != [str, str, list]:
        raise MessageError("an array is not declared as [name, dtype, shape]")
    name, dtype, shape = entry
    if (
        len(name) > MOST_NAME
        or len(shape) > MOST_DIMENSIONS
        or not all(type(n) is int and 0 <= n < 1 << 40 for n in shape)
    ):
        raise MessageError(f"the shape or name of array {name[:50]!r} is out of bounds")
    if dtype == RAW and len(shape) != 1:
        raise MessageError(f"bytes {name!r} have a shape of {len(shape)} numbers")
    return name, _known(dtype, name), tuple(shape)


def _known(dtype: str, name: str) -> str:
    if dtype not in DTYPES and dtype != RAW:
        raise MessageError(f"array {name!r} has dtype {dtype[:50]!r}; known: {', '.join(DTYPES)}")
    return dtype


def _size(dtype: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * (1 if dtype == RAW else np.dtype(dtype).itemsize)


def _array(raw: memoryview, dtype: str, shape: tuple[int, ...], copy: bool) -> Any:
    if dtype == RAW:
        return bytes(raw)
    if dtype == "|b1" and (np.frombuffer(raw, np.uint8) > 1).any():
        raise MessageError("a bool array holds bytes other than 0 and 1")
    try:
        array = np.frombuffer(raw, dtype).reshape(shape)
    except ValueError:  # an empty array whose other sides multiply to more than there can be
        raise MessageError("the shape of an array is out of bounds") from None
    array.flags.writeable = False
    return array.copy() if copy else array


def _dumps(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"a value has no place in a message: {str(error)[:100]}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is neither plain, an array nor bytes")
