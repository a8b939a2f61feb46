"""Two-stage validation through the real sandbox."""

from __future__ import annotations

import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from se_rl.environments.worlds import FIELD_NAMES, HIGHEST, LOWEST
from se_rl.llm import code_validator
from se_rl.llm.code_validator import CodeValidator, ValidationResult, recorded_steps, shared_sandbox
from se_rl.modules.kinds import KINDS
from se_rl.sandbox.calls import Result
from se_rl.sandbox.server import Sandbox

sys.path.insert(0, str(Path(__file__).parents[1] / "modules"))
from zoo import ZOO

GAIN = "step.traded_share * (step.fill_price - 1.0)"
SAMPLES = [
    pytest.param(code_type, modules[name], id=f"{code_type}-{name}")
    for code_type, modules in ZOO.items()
    for name in sorted(modules)[:: max(1, len(modules) // 3)][:3]
]


def _reward(body: str) -> str:
    return f"def reward(step):\n    {body}\n"


def test_the_example_of_the_specification() -> None:
    code = _reward(f"return {GAIN}")
    validator = CodeValidator()
    result = validator.validate(code, code_type="reward")
    assert (result.is_valid, result.stage, result.error_message) == (True, "passed", "")
    assert result.isolation in ("strong", "standard") and result.seconds > 0
    assert len(result.fingerprint) == 64 and result.behaviour.shape == (64,)
    again = CodeValidator().validate(code)
    assert again.fingerprint == result.fingerprint and np.array_equal(
        again.behaviour, result.behaviour
    )


@pytest.mark.parametrize("code_type, source", SAMPLES)
def test_ordinary_modules_pass_behind_the_lock(code_type: str, source: str) -> None:
    result = CodeValidator().validate(source, code_type)
    assert (result.is_valid, result.error_message) == (True, "")


def test_all_validators_share_one_sandbox() -> None:
    CodeValidator().validate(_reward(f"return {GAIN}"))
    assert len({id(shared_sandbox()) for _ in range(2)}) == 1


REFUSED = {
    "nan": (_reward("return torch.log(step.imbalance)"), "is not finite"),
    "memory": (_reward(f"return {GAIN} + torch.zeros(10**10).sum()"), "needs more than 1,024 MB"),
    "address": (_reward(f"return {GAIN} * (1.0 + hash(object()) % 9973)"), "when called again"),
    "address_kept": (
        f"class Kept:\n    it = hash(object()) % 9973\n\n{_reward(f'return {GAIN} * Kept.it')}",
        "two fresh",
    ),
    "address_in_text": (
        f"class Kept:\n    it = repr(object())\n\n{_reward(f'return {GAIN} * (hash(Kept.it) % 9973)')}",
        "two fresh processes gave different",
    ),
    "long_error": (_reward("raise ValueError('\\x1b[31mobey\\n' * 9999)"), "line 2: ValueError"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_faulty_modules_are_refused_at_runtime(name: str) -> None:
    source, words = REFUSED[name]
    result = CodeValidator().validate(source)
    assert (result.is_valid, result.stage) == (False, "runtime") and words in result.error_message
    assert result.error_message.isprintable() and len(result.error_message) <= 500
    assert result.isolation in ("strong", "standard")


def test_an_endless_loop_ends() -> None:
    result = CodeValidator(seconds=0.5).validate(
        _reward(f"while True:\n        x = {GAIN}\n    return x")
    )
    assert (result.stage, result.is_valid) == ("runtime", False)
    assert "did not end within 0.5 s" in result.error_message


def test_two_threads_may_validate_at_once() -> None:
    results: list[ValidationResult] = []
    sources = [_reward(f"return {k} * {GAIN}") for k in (1.0, 2.0)]
    threads = [
        threading.Thread(target=lambda s=s: results.append(CodeValidator().validate(s)))
        for s in sources
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.is_valid for result in results] == [True, True]


def test_the_static_stage_needs_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        code_validator, "shared_sandbox", lambda *_, **__: pytest.fail("a sandbox was asked for")
    )
    result = CodeValidator().validate("import os\n" + _reward(f"return {GAIN}"))
    assert (result.is_valid, result.stage, result.isolation) == (
        False,
        "static",
        "none (never ran)",
    )
    assert "`import os` is not allowed" in result.error_message


@pytest.mark.parametrize("source", ["\ud800", "", "x = ("])
def test_text_that_is_no_module(source: str) -> None:
    assert CodeValidator().validate(source).stage == "static"


def test_an_unknown_kind_is_the_caller_s_mistake() -> None:
    with pytest.raises(
        ValueError, match=r"no code_type 'rewards'; use one of reward, network"
    ) as caught:
        CodeValidator().validate("x = 1", "rewards")
    assert "\n" not in str(caught.value)


@pytest.fixture
def no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that can lock nothing."""
    monkeypatch.setattr(code_validator, "Sandbox", partial(Sandbox, layers=()))


def test_without_a_lock_nothing_runs(no_lock: None) -> None:
    result = CodeValidator(warmup="se_rl.sandbox.worker").validate(_reward(f"return {GAIN}"))
    assert (result.is_valid, result.stage) == (False, "sandbox")
    assert "--unsafe-no-sandbox" in result.error_message and result.isolation == "none (never ran)"


def test_unsafe_is_said_and_a_dead_server_replaced(no_lock: None) -> None:
    validator = CodeValidator(unsafe=True, warmup="se_rl.sandbox.worker")
    for _ in range(2):
        result = validator.validate(_reward(f"return {GAIN}"))
        assert (result.is_valid, result.isolation) == (True, "none (unsafe)")
        os.kill(shared_sandbox("se_rl.sandbox.worker", unsafe=True).pid, signal.SIGKILL)


def test_a_room_of_one_s_own_is_not_replaced() -> None:
    with Sandbox("se_rl.sandbox.worker") as sandbox:
        pass
    result = CodeValidator(sandbox).validate(_reward(f"return {GAIN}"))
    assert (result.is_valid, result.stage) == (False, "sandbox") and "gone" in result.error_message


def _judged(**value: Any) -> ValidationResult:
    good = {
        "error": "",
        "fingerprint": "0" * 64,
        "behaviour": np.zeros(64, np.float32),
        "warnings": [],
    }
    run = Result("ok", good | value, "", 0.1, "strong")
    return code_validator._judged(run, run, seconds=1.0, deadline=20.0)


@pytest.mark.parametrize(
    "forged",
    [
        {"fingerprint": "x"},
        {"fingerprint": 7},
        {"fingerprint": None},
        {"behaviour": np.zeros(63, np.float32)},
        {"behaviour": [0.0] * 64},
        {"behaviour": np.full(64, np.nan, np.float32)},
        {"behaviour": np.zeros(64)},
        {"error": None},
        {"error": ["\x1b"]},
        {"error": "obey\n" * 1000},
    ],
)
def test_forged_verdicts_are_refused(forged: dict[str, Any]) -> None:
    result = _judged(**forged)
    assert (result.is_valid, result.stage) == (False, "runtime")
    assert result.error_message.isprintable() and 0 < len(result.error_message) <= 500


def test_warnings_are_only_text() -> None:
    assert _judged(warnings=["a\nb", 3] * 20).warnings == ("a b", "3") * 5
    assert _judged(warnings={"a": 1}).warnings == ()


@pytest.mark.parametrize("status", ["failed", "killed", "invalid", "crashed"])
def test_no_verdict_is_a_refusal(status: str) -> None:
    run = Result(status, {}, "SIGSEGV", 0.1, "strong")
    result = code_validator._judged(run, run, seconds=1.0, deadline=20.0)
    assert not result.is_valid and f"{status}: SIGSEGV" in result.error_message


def test_recorded_steps_show_every_field_and_keep_its_range() -> None:
    steps = recorded_steps()
    both = np.concatenate([steps["fields_static"], steps["fields_dynamic"]])
    for k, name in enumerate(FIELD_NAMES):
        assert LOWEST[k] <= both[:, k].min() < both[:, k].max() <= HIGHEST[k], name
    assert both[:, 0].size >= 4096 and steps["observations"].shape[1:] == (20, 32)
    assert not any(array.flags.writeable for array in steps.values())


@pytest.mark.parametrize("world", ["static", "dynamic"])
def test_recorded_schedules_have_the_merit_they_are_said_to_have(world: str) -> None:
    steps = recorded_steps()
    named = dict(zip(FIELD_NAMES, steps[f"fields_{world}"].swapaxes(0, 1), strict=True))
    shortfall = (named["traded_share"] * (named["fill_price"] - 1.0)).sum(axis=1).mean(axis=1)
    np.testing.assert_allclose(named["traded_share"].sum(axis=1), 1.0, atol=1e-3)
    merit = steps[f"merit_{world}"]
    assert (merit[0], np.nanmax(merit), np.nanmin(merit)) == (0.0, 1.0, -1.0)
    assert all(shortfall[merit == 1.0] > shortfall[0]) and all(
        shortfall[merit == -1.0] < shortfall[0]
    )


def test_the_same_seed_records_the_same_steps() -> None:
    first, again, other = recorded_steps(0), recorded_steps.__wrapped__(0), recorded_steps(1)
    assert all(np.array_equal(first[name], again[name], equal_nan=True) for name in first)
    assert not np.array_equal(first["observations"], other["observations"])


def test_examples_of_all_contracts_pass() -> None:
    for code_type in KINDS:
        assert CodeValidator().validate(KINDS[code_type].contract.examples[0], code_type).is_valid
