"""What leaves a training: real answers pass, every other one is refused with one printable line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

sys.path.append(str(Path(__file__).parent))
from hostile_answers import ESCAPES, Answer, Hostile, deep, hostile, real_answer

from se_rl.rl.expected_answer import ExpectedAnswer
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.rl.trainer import TrainConfig
from se_rl.rl.training_worlds import TrainingWorldsConfig
from se_rl.sandbox.calls import Result

EXAMPLES = int(os.environ.get("SE_RL_FUZZ", "300"))
CONFIG = TrainConfig(budget=0.01, samples=256)
BOTH = TrainingWorldsConfig(horizons=(8,), dynamic_horizons=(4,), bank=16)
REAL = real_answer(BOTH, CONFIG)
EXPECTED = ExpectedAnswer.of(BOTH, CONFIG)
GRU = """
class Network(nn.Module):
    history = 4
    action_zero = 4.0

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 16
        self.gru = nn.GRU(obs_dim, 16, batch_first=True)
        self.register_buffer("steps", torch.arange(history))

    def forward(self, obs):
        return self.gru(obs)[0][:, -1]
"""
NAN = "def reward(step):\n    return step.traded_share * torch.nan\n"


def outcome(answer: Answer, expected: ExpectedAnswer = EXPECTED) -> TrainedDesign:
    return TrainedDesign.of(Result("ok", answer, "", 1.0, "strong"), {}, expected)


@pytest.mark.parametrize(
    ("worlds", "sources"),
    [
        (BOTH, {}),
        (TrainingWorldsConfig(worlds="static", horizons=(8,)), {"network": GRU}),
        (TrainingWorldsConfig(worlds="dynamic", dynamic_horizons=(4,), bank=16, agents=2), {}),
        (
            TrainingWorldsConfig(dynamic_horizons=(4,), horizons=(8,), bank=16, takes_price=False),
            {},
        ),
    ],
)
def test_what_a_training_really_answers_passes(
    worlds: TrainingWorldsConfig, sources: dict[str, str]
) -> None:
    answer = real_answer(worlds, CONFIG, sources)
    expected = ExpectedAnswer.of(worlds, CONFIG)
    trained = outcome(answer, expected)
    assert trained.ok, trained.reason
    assert trained.shape == answer["shape"] and trained.action_map == answer["action_map"]
    assert list(map(list, trained.curve)) == list(map(list, answer["curve"]))
    assert list(trained.curve) == answer["curve"] and trained.work == answer["work"]
    assert trained.weights is not None
    assert set(trained.weights) == {name for name in answer if name.startswith("weight:")}


def test_a_training_that_ended_early_keeps_its_reason() -> None:
    trained = outcome(real_answer(BOTH, CONFIG, {"reward": NAN}))
    assert trained.status == "ok" and not trained.ok
    assert "not finite" in str(trained.reason) and trained.weights is None and trained.work > 0


def changed(**parts: Any) -> Answer:
    return {**REAL, **parts}


def with_row(**parts: Any) -> Answer:
    return changed(curve=[{**REAL["curve"][0], **parts}, *REAL["curve"][1:]])


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (changed(work=float("nan")), "work is nan"),
        (changed(work=-1.0), "work is -1"),
        (changed(work=10**5000), "work is of type int"),
        (changed(work="much"), "work is of type str"),
        (changed(work=np.zeros(3)), "work is of type ndarray"),
        (changed(work=REAL["work"] * 2), "work is"),
        (changed(work=REAL["work"] / 2), "its curve counts"),
        (changed(curve=[], work=0.0), "of a budget of 0.01, without a reason"),
        (changed(curve=REAL["curve"] * 900), "the budget pays"),
        (changed(curve={}), "the curve is of type dict"),
        (changed(curve=[deep()]), "row 0 of the curve has no known phase"),
        (with_row(phase=["joint"]), "row 0 of the curve has no known phase"),
        (with_row(more=1.0), "has other columns than a static update"),
        (with_row(kl=float("inf")), "kl in row 0 of the curve is inf"),
        (with_row(reward_static=1e300), "reward_static in row 0"),
        (with_row(work=1e-9), "which a static update cannot cost"),
        (changed(reason=7), "the reason is 7, not text"),
        (changed(shape={**REAL["shape"], "agents": 10**9}), "agents of the policy is 1e+09"),
        (changed(shape=[]), "the policy's shape does not name observation_size"),
        (changed(action_map={**REAL["action_map"], "zero": 400.0}), "action_zero is 400"),
        (changed(action_map={**REAL["action_map"], "price_scale": 20.0}), "price_scale is 20"),
        (changed(action_map=None), "the action map is of type NoneType"),
        (changed(more=1), "field 'more' is missing or was not agreed"),
        (changed(**{"weight:heads.bias": np.zeros(3)}), "heads.bias is not float32 [6]"),
        (changed(**{"weight:log_std": np.full(2, np.nan, "f4")}), "not finite"),
        (changed(**{"weight:network.x": np.zeros(3, object)}), "not an array of numbers"),
        (changed(**{"weight:network.x": np.zeros(2**19, "f4")}), "numbers; 365,536 are allowed"),
        (changed(**{"weight:../x": np.zeros(3)}), "weight '../x' was not agreed"),
        (changed(**{"weight:communication.x": np.zeros(3)}), "that nobody uses"),
        (changed(**{f"weight:network.{i}": np.zeros(1) for i in range(2000)}), "at most 1000"),
        ({}, "is missing or was not agreed"),
    ],
)
def test_a_forged_answer_is_refused_with_the_value_seen(answer: Answer, line: str) -> None:
    trained = outcome(answer)
    assert trained.status == "invalid" and not trained.ok and trained.weights is None
    assert line in str(trained.reason) and trained.work == 0.0


def test_a_reason_becomes_one_printable_line() -> None:
    trained = outcome(changed(reason=ESCAPES + "x" * 300_000))
    assert trained.reason is not None and trained.reason.isprintable()
    assert len(trained.reason) <= 500


@pytest.mark.timeout(300 + EXAMPLES)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(hostile(REAL))
def test_no_answer_is_an_exception(made: Hostile) -> None:
    trained = outcome(made.answer)
    if trained.ok:
        assert trained.weights is not None and all(map(_is_finite, trained.weights.values()))
    else:
        assert trained.weights is None and trained.reason
        assert trained.reason.isprintable() and len(trained.reason) <= 600
    assert 0.0 <= trained.work < 2000.0


def _is_finite(array: Any) -> bool:
    return bool(np.isfinite(array).all())
