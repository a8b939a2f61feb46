"""Answers of trainings: those that a training really gives, and hostile ones made from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from se_rl.data.features import FeatureScales
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.rl import locked_training
from se_rl.rl.trainer import TrainConfig
from se_rl.rl.training_worlds import TrainingWorldsConfig, data_arrays

Answer = dict[str, Any]
ESCAPES = "\x1b[2J\x1b]0;mine\x07</script><img src=x onerror=alert(1)>\u202e\u2028\ud800\x00[/bold]"


def real_answer(
    worlds: TrainingWorldsConfig, config: TrainConfig, sources: dict[str, str] | None = None
) -> Answer:
    """What the locked process answers, made in this one."""
    from se_rl.config import to_dict

    data = synthetic_market(SyntheticConfig(symbols=5, sessions=2))
    arrays = data_arrays(data, FeatureScales.fit(data))
    payload = {
        "sources": sources or {},
        "worlds": to_dict(worlds),
        "train": to_dict(config),
        "seed": 0,
        "neutral": {},
    }
    return locked_training._train(payload, arrays)


def _arrays() -> st.SearchStrategy[Any]:
    dtypes = ["f2", "f4", "f8", "i8", "u1", "?", "c8", "O", "U5", "S3", "M8[s]", "i4,f4", ">f4"]
    shapes = [(), (0,), (3,), (3, 0), (3, 64), (2,), (1, 1, 1), (700, 700)]

    def made(dtype: str, shape: tuple[int, ...], fill: float) -> Any:
        array = np.zeros(shape, dtype)
        if array.dtype.kind == "f" and array.size:
            array.flat[0] = fill
        return array

    fills = st.sampled_from([0.0, np.nan, np.inf, -np.inf, 1.0, 6e4])
    return st.builds(made, st.sampled_from(dtypes), st.sampled_from(shapes), fills)


def deep() -> Any:
    """A list in a list in a list, deeper than Python's stack."""
    nested: Any = []
    for _ in range(5000):
        nested = [nested]
    return nested


def huge(sign: int) -> int:
    """More digits than Python writes out."""
    return sign * 10**5000


NUMBERS = st.one_of(
    st.floats(),
    st.integers(),
    st.builds(huge, st.sampled_from([1, -1])),
    st.sampled_from([-1, 0, -0.0, 1e300, -1e-300, 10**400, True, 2**63]),
)
TEXTS = st.one_of(
    st.text(max_size=30), st.sampled_from(["", ESCAPES, "x" * 300_000, "\n" * 5000, ESCAPES * 900])
)
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, st.binary(max_size=20), _arrays())
NAMES = st.one_of(
    TEXTS,
    st.sampled_from(
        ["weight:", "weight:network.x", "weight:heads.bias", "weight:../../etc/passwd"]
    ),
    st.sampled_from(["weight:network." + "a" * 5000, "weight:about", "about", "reason", "work"]),
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3), st.builds(deep)
    ),
    max_leaves=6,
)


class Hostile:
    """An answer that can be printed whatever it holds: numbers of 5,000 digits cannot."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def __repr__(self) -> str:
        return (
            f"Hostile({[(name[:50], type(value).__name__) for name, value in self.answer.items()]})"
        )


def hostile(real: Answer) -> st.SearchStrategy[Hostile]:
    """Hostile answers, most of them made from a real one."""
    return _hostile(Hostile(real)).map(Hostile)


@st.composite
def _hostile(draw: st.DrawFn, source: Hostile) -> Answer:
    """A real answer with some of its parts replaced, dropped or added; or anything at all."""
    real = source.answer
    if draw(st.integers(0, 9)) == 0:
        return draw(st.dictionaries(NAMES, VALUES, max_size=6))
    answer = dict(real)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.one_of(st.sampled_from(sorted(real)), NAMES))
        kind = draw(st.sampled_from(["replace", "drop", "inside"]))
        if kind == "drop":
            answer.pop(name, None)
        elif kind == "inside" and isinstance(answer.get(name), dict | list):
            answer[name] = _changed(draw, answer[name])
        else:
            answer[name] = draw(VALUES)
    return answer


def _changed(draw: st.DrawFn, value: Any) -> Any:
    """A list or mapping with one part of it changed, at any depth."""
    if isinstance(value, dict):
        name = draw(st.one_of(st.sampled_from(sorted(value, key=str) or [""]), NAMES))
        if draw(st.booleans()) and name in value:
            return {other: part for other, part in value.items() if other != name}
        return value | {name: draw(VALUES)}
    place = draw(st.integers(0, len(value)))
    if place < len(value) and isinstance(value[place], dict | list) and draw(st.booleans()):
        return [*value[:place], _changed(draw, value[place]), *value[place + 1 :]]
    repeated = [draw(VALUES)] * draw(st.sampled_from([1, 1, 2, 5000]))
    return [*value[:place], *repeated, *value[place + draw(st.integers(0, 1)) :]]
