"""Records as plain data and back: nothing is lost, and what does not fit is named."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from se_rl.records.plain import RecordError, from_plain, to_plain


@dataclass(frozen=True)
class Part:
    name: str
    value: float = math.nan
    extra: float | None = None


@dataclass(frozen=True)
class Whole:
    parts: Mapping[str, Part]
    pair: tuple[int, float]
    days: tuple[int | float, ...] = ()
    maybe: Part | None = None
    free: Mapping[str, Any] = field(default_factory=dict)


WHOLE = Whole({"a": Part("a", 1.5, math.nan), "b": Part("b")}, (1, 2.0), (20240102, 0.5))


def test_a_record_comes_back_as_it_was() -> None:
    plain = json.loads(json.dumps(to_plain(WHOLE), allow_nan=False))
    back = from_plain(Whole, plain)
    assert to_plain(back) == plain and back.pair == (1, 2.0) and back.days == (20240102, 0.5)
    assert isinstance(back.days[0], int), "a date stays a whole number"


def test_undefined_is_null_and_absent_is_left_out() -> None:
    plain = to_plain(WHOLE)
    assert plain["parts"]["a"]["extra"] is None, "undefined"
    assert "extra" not in plain["parts"]["b"] and "maybe" not in plain, "absent"
    back = from_plain(Whole, plain)
    extra = back.parts["a"].extra
    assert extra is not None and math.isnan(extra) and back.parts["b"].extra is None


def test_keys_that_are_not_known_are_passed_over() -> None:
    assert from_plain(Part, {"name": "a", "value": 1, "later": {}}) == Part("a", 1.0)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"pair": [1, 2]}, "parts is missing"),
        ({"parts": {"a": {}}, "pair": [1, 2]}, "parts.a.name is missing"),
        ({"parts": {"a": {"name": 3}}, "pair": [1, 2]}, "parts.a.name is 3, not str"),
        ({"parts": {}, "pair": [1]}, "pair has 1 parts, not 2"),
        ({"parts": {}, "pair": 4}, "pair is int, not a list"),
        ({"parts": [], "pair": [1, 2]}, "parts is list, not a mapping"),
        ({"parts": {}, "pair": [1, "x"]}, "pair is 'x', not float"),
        ({"parts": {}, "pair": [1, True]}, "pair is True, not float"),
        ([], "the record is list, not a mapping"),
    ],
)
def test_what_does_not_fit_is_named(raw: Any, said: str) -> None:
    with pytest.raises(RecordError, match=said):
        from_plain(Whole, raw)
