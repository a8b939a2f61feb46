"""Records as plain data and back: the one place where JSON becomes a frozen dataclass.

A number that is undefined is NaN in memory and null in JSON. A field that defaults to None is a
part that some records do not have: it is left out of the JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from se_rl.bounded_reading import shown

Record = TypeVar("Record")


class RecordError(ValueError):
    """Plain data that does not make the record asked for; one line that names the key."""


def to_plain(value: Any) -> Any:
    """A record as JSON holds it: dictionaries, lists, and null for what is undefined."""
    if is_dataclass(value) and not isinstance(value, type):
        return _record_to_plain(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def from_plain(kind: type[Record], raw: Mapping[str, Any], *, where: str = "") -> Record:
    """The record of this kind in plain data; keys that it does not know are passed over.

    `where` names the place in messages.
    """
    if not isinstance(raw, Mapping):
        raise RecordError(f"{where or 'the record'} is {type(raw).__name__}, not a mapping")
    hints = _hints(kind)  # type: ignore[arg-type]
    given = {}
    for field in fields(kind):  # type: ignore[arg-type]
        place = f"{where}.{field.name}" if where else field.name
        if field.name in raw:
            given[field.name] = _value(hints[field.name], raw[field.name], place)
        elif _is_required(field):
            raise RecordError(f"{place} is missing")
    return kind(**given)


def _record_to_plain(record: Any) -> Mapping[str, Any]:
    plain = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if value is None and field.default is None:
            continue
        plain[field.name] = to_plain(value)
    return plain


@lru_cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _value(hint: Any, raw: Any, where: str) -> Any:
    """Plain data as the type that a field states."""
    if hint is Any:
        return raw
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _optional(hint, raw, where)
    if is_dataclass(hint):
        return from_plain(hint, raw, where=where)  # type: ignore[arg-type]
    if origin is tuple:
        return _tuple(get_args(hint), raw, where)
    if origin is not None:  # a mapping by name
        return _mapping(get_args(hint)[1], raw, where)
    return _scalar(hint, raw, where)


def _optional(hint: Any, raw: Any, where: str) -> Any:
    """A value of the one type beside None; a number that stands as null was undefined, not left
    out.
    """
    others = [kind for kind in get_args(hint) if kind is not NoneType]
    if raw is None and float not in others:
        return None
    if int in others and isinstance(raw, int):
        return raw
    return _value(float if float in others else others[0], raw, where)


def _tuple(kinds: Sequence[Any], raw: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(raw, list | tuple):
        raise RecordError(f"{where} is {type(raw).__name__}, not a list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_value(kinds[0], item, where) for item in raw)
    if len(raw) != len(kinds):
        raise RecordError(f"{where} has {len(raw)} parts, not {len(kinds)}")
    return tuple(_value(kind, item, where) for kind, item in zip(kinds, raw, strict=True))


def _mapping(kind: Any, raw: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise RecordError(f"{where} is {type(raw).__name__}, not a mapping")
    return {str(key): _value(kind, item, f"{where}.{key}") for key, item in raw.items()}


def _scalar(kind: type, raw: Any, where: str) -> Any:
    if kind is float:
        if raw is None:
            return math.nan
        if isinstance(raw, int | float) and not isinstance(raw, bool):
            return _float(raw, where)
    elif isinstance(raw, kind):
        return raw
    raise RecordError(f"{where} is {shown(raw)}, not {kind.__name__}")


def _float(raw: float, where: str) -> float:
    try:
        return float(raw)
    except OverflowError:
        raise RecordError(f"{where} is beyond every float") from None
