"""A policy behind the lock: right answers come through, and whatever is not an answer ends the evaluation."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from typing import Any, cast

import numpy as np
import pytest
from process_checks import children, eventually

from se_rl.sandbox.lockdown import SandboxError
from se_rl.sandbox.policy_server import SECONDS_PER_ANSWER, PolicyServer, WaitAllowance
from se_rl.sandbox.server import Sandbox

F = "sandbox_functions"
OBS = np.random.default_rng(0).random((16, 4), np.float32)


def test_actions_are_those_of_the_policy(plain_sandbox: Sandbox) -> None:
    weights = np.linspace(-1, 1, 4, dtype=np.float32)
    with PolicyServer(
        plain_sandbox, f"{F}:linear", {"weights": weights}, rows=16, obs_shape=(4,)
    ) as server:
        assert server.isolation == "standard"
        for rows in (16, 1, 7):
            actions = server.act(OBS[:rows])
            assert (
                actions.dtype == np.float32
                and actions.tobytes() == (OBS[:rows] @ weights).tobytes()
            )
    assert eventually(lambda: not children(plain_sandbox.pid))


def test_reset_reaches_the_policy(plain_sandbox: Sandbox) -> None:
    with PolicyServer(
        plain_sandbox, f"{F}:counter", rows=4, obs_shape=(4,), action_shape=(2,)
    ) as server:
        assert [server.act(OBS[:3]).tolist() for _ in range(2)] == [
            [[n, n]] * 3 for n in (1.0, 2.0)
        ]
        server.reset()
        assert server.act(OBS[:1]).tolist() == [[1.0, 1.0]]


def test_the_callers_observations_stay_as_they_are(plain_sandbox: Sandbox) -> None:
    before = OBS.copy()
    with PolicyServer(
        plain_sandbox, f"{F}:bad_policy", {"how": "mutate"}, rows=16, obs_shape=(4,)
    ) as server:
        assert server.act(OBS).tolist() == [7.0] * 16
    assert np.array_equal(OBS, before)


@pytest.mark.parametrize(
    "how, said",
    [
        ("nan", "not finite"),
        ("shape", r"failed, ValueError: actions have shape \(16, 4\), expected \(16,\)"),
        ("raise", "failed, ZeroDivisionError"),
        ("stall", "no answer within 0.5 s"),
        ("silent", "16 of 16 action numbers are not finite"),
        ("ring", "not its turn"),
        ("hang up", "it hung up and runs on"),
        ("leave", "it ended: invalid"),
    ],
)
def test_what_is_no_answer_ends_it(plain_sandbox: Sandbox, how: str, said: str) -> None:
    stall = 0.5 if how in ("stall", "hang up") else 20.0
    server = PolicyServer(
        plain_sandbox, f"{F}:bad_policy", {"how": how}, rows=16, obs_shape=(4,), stall_seconds=stall
    )
    with pytest.raises(SandboxError, match=said):
        server.act(OBS)
    with pytest.raises(SandboxError):
        server.act(OBS)
    assert eventually(lambda: not children(plain_sandbox.pid))


def test_a_policy_that_cannot_be_made_says_so(plain_sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match="failed, RuntimeError: no policy today"):
        PolicyServer(plain_sandbox, f"{F}:bad_maker", rows=4, obs_shape=(4,))


@pytest.mark.parametrize("obs", [OBS[:0], OBS[:, :3], np.zeros((17, 4)), np.zeros(4)])
def test_observations_of_another_shape_are_the_callers_mistake(
    plain_sandbox: Sandbox, obs: np.ndarray
) -> None:
    with (
        PolicyServer(
            plain_sandbox, f"{F}:counter", rows=16, obs_shape=(4,), action_shape=(2,)
        ) as server,
        pytest.raises(ValueError, match="observations have shape"),
    ):
        server.act(obs)


def test_it_serves_from_a_warm_room(sandbox: Sandbox) -> None:
    with PolicyServer(
        sandbox, "se_rl_benchmarks.sandbox_payloads:linear_policy", rows=8, obs_shape=(32,)
    ) as server:
        obs = np.ones((8, 32), np.float32)
        assert np.allclose(server.act(obs), 0.0, atol=1e-5)


class SlowPolicy:
    """Stands for a sandbox: a thread answers every ring after a while, each time in time."""

    level = "none"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def _start(self, request: Any, payload: int, *, files: list[int], **_: Any) -> SlowPolicy:
        self.bell = socket.socket(fileno=files[0])
        for file in (payload, files[1]):
            os.close(file)
        threading.Thread(target=self._answer, daemon=True).start()
        return self

    def _answer(self) -> None:
        with self.bell, contextlib.suppress(OSError):  # the caller may have gone
            while ring := self.bell.recv(1):
                time.sleep(self.seconds)
                self.bell.send(ring)

    def wait_locked(self) -> None: ...

    def close(self) -> None: ...


def test_a_policy_that_is_always_just_in_time_ends_at_its_total() -> None:
    allowance = WaitAllowance()
    server = PolicyServer(
        cast(Any, SlowPolicy(0.15)), "", rows=16, obs_shape=(4,), allowance=allowance
    )
    assert 0.1 < allowance.waited < allowance.allowed and allowance.answers == 1
    before = allowance.allowed
    server.reset()
    assert allowance.allowed - before == pytest.approx(SECONDS_PER_ANSWER)
    allowance.allowed = allowance.waited + 0.01
    with pytest.raises(SandboxError, match=r"3 answers took .* s; .* s are allowed in all") as seen:
        server.reset()
    assert seen.value.hopeless
