"""The message format: what goes in comes out; what is not exactly a message is refused and never anything else."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.sandbox import memory, message
from se_rl.sandbox.message import DTYPES, HEAD, MessageError, decode, encode

NAMES = st.text(max_size=20).filter(lambda name: name.isprintable())
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def arrays(draw: Any) -> np.ndarray:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    size = math.prod(shape) * dtype.itemsize
    raw = draw(st.binary(min_size=size, max_size=size))
    raw = bytes(byte % 2 for byte in raw) if dtype.kind == "b" else raw
    return np.frombuffer(raw, dtype).reshape(shape)


MESSAGES = st.dictionaries(NAMES, PLAIN | arrays() | st.binary(max_size=20), max_size=5)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return (left.dtype, left.shape, left.tobytes()) == (
            right.dtype,
            right.shape,
            right.tobytes(),
        )
    return type(left) is type(right) and left == right


@given(MESSAGES, st.booleans())
def test_round_trip(sent: dict[str, Any], copy: bool) -> None:
    received = decode(encode(sent), copy=copy)
    assert received.keys() == sent.keys()
    assert all(same(received[name], value) for name, value in sent.items())


@given(MESSAGES, st.data())
def test_a_changed_byte_is_always_detected(sent: dict[str, Any], data: st.DataObject) -> None:
    frame = bytearray(encode(sent))
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(MessageError):
        decode(bytes(frame))


@given(MESSAGES, st.data())
def test_short_and_long_frames_are_refused(sent: dict[str, Any], data: st.DataObject) -> None:
    frame = encode(sent)
    with pytest.raises(MessageError):
        decode(frame[: data.draw(st.integers(0, len(frame) - 1))])
    with pytest.raises(MessageError):
        decode(frame + data.draw(st.binary(min_size=1, max_size=100)))


@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(MessageError):
        decode(noise)


def framed(header: bytes, body: bytes = b"") -> bytes:
    """A frame with a right checksum around any header, as a hostile process would make it."""
    return b"".join(message._framed(header, [memoryview(body)] if body else []))


@settings(max_examples=200)
@given(st.binary(max_size=60) | PLAIN.map(lambda value: json.dumps(value).encode()))
def test_any_header_gives_a_message_or_is_refused(header: bytes) -> None:
    try:
        decode(framed(header))
    except MessageError:
        return
    assert json.loads(header)[1] == []


@pytest.mark.parametrize(
    "header",
    [
        b'[{},[["a","<f4",[-4]]]]',
        b'[{},[["a","<f4",[true]]]]',
        b'[{},[["a","<f4",[4.0]]]]',
        b'[{},[["a","<f4",[99999999999999]]]]',
        b'[{},[["a","<f4",[0,1099511627775,1099511627775,1099511627775]]]]',
        b'[{},[["a","<f4",[1,1,1,1,1,1,1,1,1]]]]',
        b'[{},[["a","|O",[1]]]]',
        b'[{},[["a","<c16",[1]]]]',
        b'[{},[["a",">f4",[1]]]]',
        b'[{},[["a","bytes",[2,2]]]]',
        b'[{},[["a","|b1",[4]]]]',
        b'[{},[["a","<f4",[1]],["a","<f4",[0]]]]',
        b'[{"a":1},[["a","<f4",[1]]]]',
        b'[{"a":1,"a":2},[]]',
        b'[{"a":"\\ud800"},[]]',
        b'[{"a": 1},[]]',
        b"[{},[]",
        b"[{},[],[]]",
        b"[[],{}]",
        b"{}",
        b"[" * 100_000,
        b'[{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"},[]]",
        b'[{"a":' + b"9" * 10_000 + b"},[]]",
        b'[{"' + b"n" * 300 + b'":1},[]]',
        b'[{},[["' + b"n" * 300 + b'","<f4",[1]]]]',
        b"\xff\xfe",
    ],
    ids=lambda header: header[:40].decode("latin1"),
)
def test_hostile_headers_are_refused(header: bytes) -> None:
    with pytest.raises(MessageError) as caught:
        decode(framed(header, b"\x02\x02\x02\x02"))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_a_header_too_long_to_parse_is_refused() -> None:
    with pytest.raises(MessageError, match="does not fit"):
        decode(framed(b" " * (message.MOST_HEADER + 1)))


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, np.array([object()]), np.zeros(2, complex), "\ud800"]
)
def test_what_has_no_place_is_refused(value: Any) -> None:
    with pytest.raises(MessageError):
        encode({"value": value})


def test_long_text_is_sent_as_bytes() -> None:
    with pytest.raises(MessageError, match="send long text as bytes"):
        encode({"text": "x" * (message.MOST_HEADER + 1)})
    assert decode(encode({"text": b"x" * (message.MOST_HEADER + 1)}))["text"][:2] == b"xx"


def test_numpy_scalars_become_plain_and_views_are_read_only() -> None:
    received = decode(encode({"n": np.int64(3), "x": np.arange(3)[::-1]}), copy=False)
    assert received["n"] == 3 and received["x"].tolist() == [2, 1, 0]
    with pytest.raises(ValueError):
        received["x"][0] = 1


def test_reading_a_memory_file_keeps_to_the_limit() -> None:
    frame = encode({"x": np.arange(100)})
    file = memory.sealed([frame])
    try:
        assert message.read(file, len(frame))["x"].tolist() == list(range(100))
        with pytest.raises(MessageError, match=f"{len(frame)} bytes, at most {len(frame) - 1}"):
            message.read(file, len(frame) - 1)
    finally:
        os.close(file)


def test_sealed_memory_cannot_be_written() -> None:
    file = memory.sealed([b"abc"])
    try:
        with pytest.raises(PermissionError):
            os.pwrite(file, b"x", 0)
        with pytest.raises(PermissionError):
            os.ftruncate(file, 0)
    finally:
        os.close(file)


def test_the_head_has_no_holes() -> None:
    assert HEAD.size == 24
