"""The header of a policy file, which somebody else may have written: judged before memory is taken.

A header may claim any shape; what is allocated is bounded by the bytes that the file really has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from se_rl.bounded_reading import plain_json, shown
from se_rl.modules.agent_interface import USUAL_ACTIONS, USUAL_INTERFACE, AgentInterface
from se_rl.records.plain import from_plain
from se_rl.rl.policy import ActionMap, Neutral
from se_rl.rl.policy_origin import PolicyOrigin

MOST_BYTES = 1 << 30
"""The longest policy file that is read."""
MOST_HEADER_BYTES = 16 << 20
MOST_TENSORS = 10_000
MOST_NAME = 300
MOST_SOURCE = 1 << 20
"""Letters of a module's source."""
ITEM_BYTES = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "I16": 2,
    "I32": 4,
    "I64": 8,
    "F16": 2,
    "BF16": 2,
    "F32": 4,
    "F64": 8,
}
"""Bytes of one number by its type."""
SHAPE_LIMITS = {
    "observation_size": (1, 4096),
    "actions": (1, 16),
    "agents": (1, 64),
    "message_size": (0, 64),
    "worlds": (1, 2),
}
"""The least and the most of each size that a policy is made for.

A policy that does not say for how many worlds it has heads has one set of them.
"""

Facts = dict[str, Any]
"""What a file says about its policy, as JSON."""


def header_of(content: bytes) -> Facts:
    """The header as JSON; a `ValueError` where there is none of a bearable length."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > MOST_HEADER_BYTES or 8 + length > len(content):
        raise ValueError("the header is longer than the file")
    header = plain_json(content[8 : 8 + length])
    if not isinstance(header, dict) or not isinstance(header.get("__metadata__"), dict):
        raise ValueError("the header is no mapping")
    return header


def check_tensors(content: bytes) -> None:
    """Raise a `ValueError` unless the named tensors fill the file's data exactly, without overlap."""
    header = header_of(content)
    start = 8 + int.from_bytes(content[:8], "little")
    spans = []
    for name, entry in header.items():
        if name != "__metadata__":
            spans.append(_span(name, entry))
    if len(spans) > MOST_TENSORS:
        raise ValueError(f"more than {MOST_TENSORS} tensors")
    end = 0
    for first, last in sorted(spans):
        if first != end:
            raise ValueError("tensors overlap or leave a gap")
        end = last
    if start + end != len(content):
        raise ValueError("tensors do not fill the file")


def _span(name: str, entry: Any) -> tuple[int, int]:
    """Where a tensor's bytes begin and end, which its shape and type must account for."""
    if len(name) > MOST_NAME or not name.isprintable() or not isinstance(entry, dict):
        raise ValueError("a tensor without a usable name")
    shape = entry["shape"]
    span = entry["data_offsets"]
    if not _are_counts(shape) or len(shape) > 8 or not _are_counts(span) or len(span) != 2:
        raise ValueError(f"{name} has no usable shape")
    if not isinstance(entry["dtype"], str):
        raise ValueError(f"{name} has no usable type")
    size = math.prod(shape) * ITEM_BYTES[entry["dtype"]]
    if span[1] - span[0] != size:
        raise ValueError(f"{name} does not have the bytes that its shape needs")
    return span[0], span[1]


def _are_counts(values: Any) -> bool:
    if not isinstance(values, list):
        return False
    return all(type(value) is int and 0 <= value <= MOST_BYTES for value in values)


def policy_text(header: Facts) -> Facts:
    """The facts in a header; a `ValueError` unless they are a mapping."""
    facts = plain_json(header["__metadata__"]["facts"])
    if not isinstance(facts, dict):
        raise ValueError("the facts are no mapping")
    return facts


def facts_fault(facts: Facts) -> str:
    """What is wrong with the facts of a trained policy; "" if nothing is."""
    for name in ("shape", "action_map", "neutral", "work", "seed"):
        if name not in facts:
            return f"it lacks {name}"
    if fault := _shape_fault(facts["shape"]):
        return fault
    if not _are_numbers(facts["action_map"], ActionMap):
        return f"action_map is {shown(facts['action_map'])}"
    neutral = facts["neutral"]
    if not isinstance(neutral, dict) or len(neutral) > 16:
        return f"neutral is {shown(neutral)}"
    for schedule in neutral.values():
        if not _are_numbers(schedule, Neutral):
            return f"neutral holds {shown(schedule)}"
    if not _is_number(facts["work"]) or facts["work"] < 0:
        return f"work is {shown(facts['work'])}"
    seed = facts["seed"]
    if seed is not None and (type(seed) is not int or abs(seed) >= 2**63):
        return f"seed is {shown(seed)}"
    return (
        _interface_fault(facts)
        or _design_fault(facts.get("design", {}))
        or _origin_fault(facts.get("origin"))
    )


def _shape_fault(shape: Any) -> str:
    if not isinstance(shape, dict) or {*shape, "worlds"} != set(SHAPE_LIMITS):
        return f"shape is {shown(shape)}"
    for name, size in shape.items():
        least, most = SHAPE_LIMITS[name]
        if type(size) is not int or not least <= size <= most:
            return f"{name} is {shown(size)}, not a whole number from {least} to {most}"
    return ""


def interface_facts(interface: AgentInterface) -> Facts:
    """What a file says of an interface: nothing where it is the usual one."""
    return {} if interface == USUAL_INTERFACE else asdict(interface)


def interface_from(facts: Facts) -> AgentInterface:
    """What a file's policy asks for; a ValueError where there is no such thing."""
    return AgentInterface.checked(facts.get("inputs", ()), facts.get("actions", USUAL_ACTIONS))


def _interface_fault(facts: Facts) -> str:
    try:
        interface_from(facts)
    except ValueError as error:
        return str(error)
    return ""


def _design_fault(design: Any) -> str:
    if not isinstance(design, dict) or len(design) > 16:
        return f"design is {shown(design)}"
    for source in design.values():
        if not isinstance(source, str) or len(source) > MOST_SOURCE:
            return f"design holds {shown(source)}"
    return ""


def _origin_fault(origin: Any) -> str:
    """What is wrong with what a file says of its training; a file may say nothing of it."""
    if origin is None:
        return ""
    try:
        from_plain(PolicyOrigin, origin, where="origin")
    except ValueError as error:
        return str(error)
    return ""


def _are_numbers(values: Any, kind: type) -> bool:
    """Whether a mapping gives finite numbers to fields of this record, and to nothing else."""
    if not isinstance(values, Mapping):
        return False
    known = {field.name for field in fields(kind)}
    return set(values) <= known and all(map(_is_number, values.values()))


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63
