"""What a training may answer: the schema of everything that leaves its locked process.

Whoever runs behind the lock can write any answer. Here it either becomes a `TrainingAnswer`, whose
every type, range and size follows from the run's settings and the contracts, or is refused with one
printable line. Nothing else of it is looked at, stored or shown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from se_rl.modules.agent_interface import USUAL_INTERFACE, AgentInterface
from se_rl.modules.contracts import LIMITS, NETWORK_CONSTANTS
from se_rl.rl.expected_answer import ExpectedAnswer
from se_rl.rl.locked_training import WEIGHT
from se_rl.rl.policy import ActionMap
from se_rl.rl.ppo import UpdateStats
from se_rl.sandbox.calls import printable
from se_rl.sandbox.message import DTYPES

Weights = dict[str, npt.NDArray[Any]]
Row = Mapping[str, float | str]

ANSWER_FIELDS = {"reason", "work", "shape", "action_map", "inputs", "actions", "curve"}
"""What a training answers besides weights."""
MOST_TENSORS = 1_000
MOST_BUFFERS = 1 << 16
"""Numbers that a module may keep beside its parameters."""
MOST_NAME = 190
LARGEST = 3.5e38
"""No number of a training is larger than float32 can hold."""
ROUNDING = 1e-9
"""Relative error of sums of work."""
_NAME = re.compile(r"(network|communication)(\.[\w\- ]+)+")


class AnswerError(ValueError):
    """An answer that is not what was agreed; one printable line."""


@dataclass(frozen=True, eq=False)
class TrainingAnswer:
    """An answer in its agreed form; without weights where `reason` says why there is no policy."""

    reason: str | None
    work: float
    curve: tuple[Row, ...]
    action_map: Mapping[str, float] | None = None
    weights: Weights | None = None
    interface: AgentInterface = USUAL_INTERFACE


def checked(answer: Mapping[str, Any], expected: ExpectedAnswer) -> TrainingAnswer:
    """The answer, if it is one that this training can have given; AnswerError otherwise."""
    weights: dict[str, object] = {}
    plain: dict[str, object] = {}
    for name, value in answer.items():
        (weights if name.startswith(WEIGHT) else plain)[name] = value
    if set(plain) != ANSWER_FIELDS:
        wrong = min(set(plain) ^ ANSWER_FIELDS)
        raise AnswerError(f"field {printable(wrong, 50)!r} is missing or was not agreed")
    reason = _reason(plain["reason"])
    curve = _curve(plain["curve"], expected)
    work = _work(plain["work"], curve, expected, ended_early=reason is not None)
    if reason is not None:
        return TrainingAnswer(reason, work, curve)
    interface = _interface(plain["inputs"], plain["actions"])
    shape = expected.shape_of(interface)
    _check_shape(plain["shape"], shape)
    action_map = _action_map(plain["action_map"])
    return TrainingAnswer(None, work, curve, action_map, _weights(weights, shape), interface)


def _interface(inputs: object, actions: object) -> AgentInterface:
    """What the network asked for, out of the catalogues."""
    try:
        return AgentInterface.checked(inputs, actions)
    except ValueError as error:
        raise AnswerError(printable(error)) from None


def _check_shape(value: object, shape: Mapping[str, int]) -> None:
    """The sizes follow from the settings; who states others has built something else."""
    if not isinstance(value, dict) or set(value) != set(shape):
        raise AnswerError(f"the policy's shape does not name {', '.join(shape)}")
    for name, size in shape.items():
        _number(value[name], size, size, what=f"{name} of the policy")


def _reason(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise AnswerError(f"the reason is {_seen(value)}, not text")
    return printable(value) or "it ended early without a reason"


def _curve(value: object, expected: ExpectedAnswer) -> tuple[Row, ...]:
    """Rows of known names and numbers whose work grows as the phases' updates make it grow."""
    if not isinstance(value, list):
        raise AnswerError(f"the curve is {_seen(value)}, not a list")
    least = min(map(expected.least_work, expected.phases))
    most_rows = int(expected.budget / least) + 2
    if len(value) > most_rows:
        raise AnswerError(f"the curve has {len(value)} rows; the budget pays {most_rows}")
    rows = []
    before = 0.0
    for i, row in enumerate(value):
        rows.append(_row(row, i, expected, before=before))
        before = float(rows[-1]["work"])
    return tuple(rows)


def _row(row: object, place: int, expected: ExpectedAnswer, *, before: float) -> Row:
    """One update's row; `before` is the work of the row before it."""
    where = f"row {place} of the curve"
    phase = row.get("phase") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(phase, str) or phase not in expected.phases:
        raise AnswerError(f"{where} has no known phase")
    worlds = expected.phases[phase]
    ranges = _ranges(worlds, expected.longest)
    if set(row) - {"phase"} != set(ranges):
        raise AnswerError(f"{where} has other columns than a {phase} update")
    numbers = {}
    for name in row:  # the order of the row is kept: it is the order in which it is stored
        if name != "phase":
            low, high = ranges[name]
            # where every market of a batch broke, where nothing was held back
            maybe_nan = name.startswith("reward_") or name == "held_back"
            numbers[name] = _number(
                row[name], low, high, what=f"{name} in {where}", maybe_nan=maybe_nan
            )
    if before >= expected.budget * (1.0 + ROUNDING):
        raise AnswerError(f"{where} begins after the budget was spent")
    spent = numbers["work"] - before
    slack = ROUNDING * max(1.0, numbers["work"])
    if not expected.least_work(phase) - slack <= spent <= expected.most_work(phase) + slack:
        raise AnswerError(f"{where} claims work {spent:.3g}, which a {phase} update cannot cost")
    return {"phase": phase, **numbers}


def _ranges(worlds: tuple[str, ...], longest: int) -> dict[str, tuple[float, float]]:
    """The columns of an update in these worlds and where their numbers may lie."""
    reward = LIMITS.reward_magnitude * longest
    ranges = {f"reward_{world}": (-reward, reward) for world in worlds}
    for field in fields(UpdateStats):
        if field.name != "losses":
            ranges[field.name] = (-LARGEST, LARGEST)
    for i in range(len(worlds)):
        ranges[f"loss_{i}"] = (-LARGEST, LARGEST)
    share = (0.0, 1.0)
    ranges["held_back"] = (-LARGEST, LARGEST)
    return ranges | {"clipped": share, "alpha": share, "beta": share, "work": (0.0, LARGEST)}


def _work(
    value: object, curve: tuple[Row, ...], expected: ExpectedAnswer, *, ended_early: bool
) -> float:
    """The work, held against the curve: the sum of its updates, and all of the budget."""
    in_curve = float(curve[-1]["work"]) if curve else 0.0
    most = in_curve
    if ended_early:  # in an update that has no row
        most += max(map(expected.most_work, expected.phases))
    work = _number(value, 0.0, most * (1.0 + ROUNDING), what="work")
    if work < in_curve * (1.0 - ROUNDING):
        raise AnswerError(f"work is {work:.6g}, its curve counts {in_curve:.6g}")
    if not ended_early and work < expected.budget * (1.0 - ROUNDING):
        raise AnswerError(
            f"work is {work:.6g} of a budget of {expected.budget:g}, without a reason"
        )
    return work


def _action_map(value: object) -> dict[str, float]:
    """The constants that a network may set, in their ranges; the rest is the framework's."""
    if not isinstance(value, dict):
        raise AnswerError(f"the action map is {_seen(value)}, not names with numbers")
    known = asdict(ActionMap())
    if set(value) != set(known):
        raise AnswerError(f"the action map has other names than {', '.join(known)}")
    for name in ("zero", "scale"):
        constant = NETWORK_CONSTANTS[f"action_{name}"]
        known[name] = _number(value[name], constant.low, constant.high, what=f"action_{name}")
    _number(value["price_scale"], known["price_scale"], known["price_scale"], what="price_scale")
    return known


def _weights(named: Mapping[str, object], policy_shape: Mapping[str, int]) -> Weights:
    """The framework's heads in their shapes, and the modules' own tensors within their limits."""
    if len(named) > MOST_TENSORS:
        raise AnswerError(f"there are {len(named)} weights; at most {MOST_TENSORS} are allowed")
    weights = {}
    for name, value in named.items():
        weights[name.removeprefix(WEIGHT)] = _array(value, name)
    heads = _heads(weights, policy_shape)
    numbers = {"network": 0, "communication": 0}
    for name, array in weights.items():
        if name in heads:
            continue
        found = _NAME.fullmatch(name) if len(name) <= MOST_NAME else None
        if found is None:
            raise AnswerError(f"weight {printable(name, 50)!r} was not agreed")
        numbers[found[1]] += array.size
    most = LIMITS.parameters + MOST_BUFFERS
    if max(numbers.values()) > most:
        raise AnswerError(f"a module has {max(numbers.values()):,} numbers; {most:,} are allowed")
    if numbers["communication"] and not policy_shape["message_size"]:
        raise AnswerError("there are weights of a communication that nobody uses")
    return {WEIGHT + name: array for name, array in weights.items()}


def _heads(weights: Mapping[str, npt.NDArray[Any]], policy_shape: Mapping[str, int]) -> set[str]:
    """The names of the framework's own weights, which are all there in their shapes."""
    worlds = policy_shape["worlds"]
    outputs = worlds * (policy_shape["actions"] + 1)
    said = policy_shape["message_size"]
    first = weights.get("heads.weight")
    if first is None or first.ndim != 2 or not 1 <= first.shape[1] <= LIMITS.feature_dim:
        raise AnswerError(f"heads.weight is not [{outputs}, 1 to {LIMITS.feature_dim}]")
    width = first.shape[1]
    shapes: dict[str, tuple[int, ...]] = {
        "heads.weight": (outputs, width),
        "heads.bias": (outputs,),
        "log_std": (outputs - worlds,),
    }
    if said:
        shapes |= {"speak.weight": (said, width), "speak.bias": (said,)}
    for name, shape in shapes.items():
        array = weights.get(name)
        if array is None or array.shape != shape or array.dtype != np.float32:
            raise AnswerError(f"{name} is not float32 {list(shape)}")
    return set(shapes)


def _array(value: object, name: str) -> npt.NDArray[Any]:
    """An array of finite numbers."""
    short = printable(name, 50)
    if type(value) is not np.ndarray or value.dtype.str not in DTYPES:
        raise AnswerError(f"{short!r} is {_seen(value)}, not an array of numbers")
    if not np.isfinite(value).all():
        raise AnswerError(f"{short!r} has numbers that are not finite")
    return value


def _number(value: object, low: float, high: float, *, what: str, maybe_nan: bool = False) -> float:
    """A plain number within its range."""
    if type(value) is not int and type(value) is not float:
        raise AnswerError(f"{what} is {_seen(value)}, not a number")
    if maybe_nan and type(value) is float and math.isnan(value):
        return math.nan
    if not low <= value <= high:
        raise AnswerError(f"{what} is {_seen(value)}; it must lie from {low:g} to {high:g}")
    return float(value)


def _seen(value: object) -> str:
    """A value in few words."""
    if type(value) is float or (type(value) is int and value.bit_length() < 64):
        return f"{value:g}"
    return f"of type {printable(type(value).__name__, 50)}"
