"""Forged results of every kind that a locked process may send: invalid with one line, nothing kept.

`test_training_answer.py` changes one field at a time and fuzzes; here are ideas: results that are
right in form and wrong in what they say, and frames that are right in their sums and wrong inside.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))
from hostile_answers import Answer, real_answer

from se_rl.llm.code_validator import _judged
from se_rl.modules.kinds.kind import BEHAVIOUR
from se_rl.rl.expected_answer import ExpectedAnswer
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.rl.trainer import TrainConfig
from se_rl.rl.training_worlds import TrainingWorldsConfig
from se_rl.sandbox import memory, message
from se_rl.sandbox.calls import Result, _outcome
from se_rl.sandbox.message import MessageError

CONFIG = TrainConfig(budget=0.01, samples=256)
BOTH = TrainingWorldsConfig(horizons=(8,), dynamic_horizons=(4,), bank=16)
REAL = real_answer(BOTH, CONFIG)
EXPECTED = ExpectedAnswer.of(BOTH, CONFIG)
LEAST = EXPECTED.least_work("static")


class Number(float):
    """A number that answers differently each time it is asked."""

    def __le__(self, other: object) -> bool:
        return True


class Text(str):
    """A text that is another one when it is shown."""

    def __str__(self) -> str:
        return "\x1b[2J" * 100_000


def curve(**changes: Callable[[float, int], Any]) -> list[Any]:
    """The real curve with columns recomputed from their number and place."""
    rows = []
    for place, row in enumerate(REAL["curve"]):
        changed = {name: change(row[name], place) for name, change in changes.items()}
        rows.append(dict(row) | changed)
    return rows


def renamed(old: str, new: str) -> Answer:
    return {new if name == old else name: value for name, value in REAL.items()}


FORGED: dict[str, Callable[[], Answer]] = {
    "work of nobody": lambda: {**REAL, "curve": [], "work": 0.0},
    "work that shrinks": lambda: {**REAL, "curve": curve(work=lambda w, i: w / (1 + i))},
    "work by the thousand": lambda: {**REAL, "curve": curve(work=lambda w, i: (i + 1) * 1e-9)},
    "work of another run": lambda: {**REAL, "work": 1e6, "curve": curve(work=lambda w, i: w * 1e6)},
    "the budget to the letter": lambda: {**REAL, "work": CONFIG.budget * 0.999, "curve": []},
    "a number of its own class": lambda: {**REAL, "work": Number(REAL["work"])},
    "a truth for a number": lambda: {**REAL, "curve": curve(alpha=lambda *_: True)},
    "a text of its own class": lambda: {**REAL, "reason": Text("fine")},
    "an array for a number": lambda: {**REAL, "work": np.float64(REAL["work"])},
    "an array for a row": lambda: {**REAL, "curve": [np.zeros(9)] * 3},
    "a curve of another phase": lambda: {**REAL, "curve": curve(phase=lambda *_: "warm-up")},
    "a phase of joint worlds": lambda: {**REAL, "curve": curve(phase=lambda *_: "joint")},
    "a share of two": lambda: {**REAL, "curve": curve(alpha=lambda *_: 2.0)},
    "a reward beyond reason": lambda: {**REAL, "curve": [REAL["curve"][0] | {"reward_static": 1e9}]},
    "a reason and weights": lambda: {**REAL, "reason": "all is well", "work": -0.0, "curve": [{}]},
    "weights that are nobody's": lambda: renamed("weight:log_std", "weight:log_std2"),
    "weights under a path": lambda: renamed("weight:heads.bias", "weight:../../heads.bias"),
    "weights under a blank name": lambda: renamed("weight:heads.bias", "weight:"),
    "weights of another order": lambda: {
        **REAL,
        "weight:heads.weight": np.asfortranarray(REAL["weight:heads.weight"]).T,
    },
    "weights of double width": lambda: {
        **REAL,
        "weight:heads.bias": REAL["weight:heads.bias"].astype("f8"),
    },
    "weights of the other order of bytes": lambda: {
        **REAL,
        "weight:heads.bias": REAL["weight:heads.bias"].astype(">f4"),
    },
    "weights that are records": lambda: {**REAL, "weight:network.x": np.zeros(3, "i4,f4")},
    "weights that are objects": lambda: {**REAL, "weight:network.x": np.array([print])},
    "weights that are times": lambda: {**REAL, "weight:network.x": np.zeros(2, "M8[s]")},
    "weights that are masked": lambda: {**REAL, "weight:network.x": np.ma.zeros(2)},
    "weights of another class": lambda: {**REAL, "weight:network.x": np.zeros(2).view(np.recarray)},
    "one weight that is no number": lambda: {
        **REAL,
        "weight:heads.weight": REAL["weight:heads.weight"] * np.float32("nan"),
    },
    "an action map with more": lambda: {**REAL, "action_map": REAL["action_map"] | {"price": 1.0}},
    "an action map of texts": lambda: {**REAL, "action_map": dict.fromkeys(REAL["action_map"], "1")},
    "a shape of more agents": lambda: {**REAL, "shape": REAL["shape"] | {"agents": 2}},
    "a shape of truths": lambda: {**REAL, "shape": dict.fromkeys(REAL["shape"], True)},
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_training_is_invalid_in_one_line(name: str) -> None:
    result = Result("ok", FORGED[name](), "", 1.0, "strong")
    trained = TrainedDesign.of(result, {}, EXPECTED)
    if name == "a text of its own class":  # a reason is a reason; what it shows is printable
        assert not trained.ok
    else:
        assert trained.status == "invalid" and trained.work == 0.0
    assert trained.weights is None and not trained.ok
    assert trained.reason and trained.reason.isprintable() and len(trained.reason) <= 600


def frame(header: bytes, body: bytes = b"") -> bytes:
    return b"".join(message._framed(header, [memoryview(body)] if body else []))


FRAMES: dict[str, bytes] = {
    "nothing": b"",
    "zeros": bytes(200),
    "a head alone": frame(b"[{},[]]")[: message.HEAD.size],
    "a frame within a frame": frame(frame(b"[{},[]]")),
    "a sparse terabyte": b'SERM\x01\x00\x00\x00' + bytes(4) + (8).to_bytes(4, "little") + (1 << 40).to_bytes(8, "little"),
    "a million names": frame(b'[{' + b",".join(b'"%d":1' % i for i in range(90_000)) + b"},[1]]"),
    "an array in an array": frame(b'[{},[["a","<f4",[[1]]]]]', b"\0\0\0\0"),
    "an array without a name": frame(b'[{},[["","<f4",[2]]]]', b"\0\0\0\0"),
    "numbers that are no numbers": frame(b'[{"work":NaNN},[]]'),
    "a list that eats itself": frame(b'[{"a":' + b"[" * 900 + b"]" * 900 + b'},[["x"]]]'),
    "text that is no text": frame(b'[{"a":"\xff"},[]]'),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_a_forged_frame_is_invalid_in_one_line(name: str) -> None:
    file = memory.blank(max(1, len(FRAMES[name])))
    os.pwrite(file, FRAMES[name], 0)
    try:
        with pytest.raises(MessageError):
            message.read(file, 1 << 20)
        for code in (0, 1):
            status, value, error = _outcome(code, "", file, 1 << 20)
            assert value == {} and status in ("invalid", "failed", "crashed")
            assert error.isprintable() and len(error) <= 700
    finally:
        os.close(file)


FINE = {
    "error": "",
    "fingerprint": "0" * 64,
    "behaviour": np.zeros(BEHAVIOUR, np.float32),
    "warnings": [],
}
VERDICTS: dict[str, dict[str, Any]] = {
    "a fingerprint of a path": {"fingerprint": "../" * 21 + "x"},
    "a fingerprint of bytes": {"fingerprint": b"0" * 64},
    "a behaviour that is no number": {"behaviour": np.full(BEHAVIOUR, np.nan, np.float32)},
    "a behaviour too long": {"behaviour": np.zeros(BEHAVIOUR + 1, np.float32)},
    "a behaviour of objects": {"behaviour": np.array([None] * BEHAVIOUR)},
    "an error that is a number": {"error": 7},
    "an error that is silent": {"error": "\x00\x1b"},
    "no verdict at all": {"error": None, "fingerprint": None, "behaviour": None, "warnings": None},
}


@pytest.mark.parametrize("name", VERDICTS)
def test_a_forged_verdict_admits_nothing(name: str) -> None:
    """Both processes are the design's: they agree on what they forge."""
    forged = Result("ok", FINE | VERDICTS[name], "", 1.0, "strong")
    judged = _judged(forged, forged, seconds=1.0, deadline=20.0)
    assert not judged.is_valid and judged.error_message.isprintable()
    assert 0 < len(judged.error_message) <= 500
