"""the sandbox: what comes back, what is stopped, what is left behind (nothing)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from process_checks import alive, children, eventually

from se_rl.sandbox import message
from se_rl.sandbox.lockdown import SandboxError
from se_rl.sandbox.server import Sandbox

F = "sandbox_functions"
BENCH = "se_rl_benchmarks.sandbox_payloads"


def test_payload_and_result_travel(sandbox: Sandbox) -> None:
    sent: dict[str, Any] = {
        "x": np.arange(6, dtype=np.float32).reshape(2, 3),
        "text": "π",
        "raw": b"\0\1",
        "list": [1, None],
    }
    result = sandbox.call(f"{F}:echo", sent, seconds=20)
    assert (result.status, result.ok, result.error) == ("ok", True, "")
    assert result.isolation == sandbox.isolation.level in ("strong", "standard")
    assert result.value.keys() == sent.keys() and np.array_equal(
        result.value.pop("x"), sent.pop("x")
    )
    assert result.value == sent
    assert 0 < result.lock_seconds < 20 and 0 < result.seconds < 20


def test_bytes_alone_are_a_payload(plain_sandbox: Sandbox) -> None:
    assert plain_sandbox.call(f"{F}:echo", b"source", seconds=20).value == {"bytes": b"source"}


def test_without_namespaces_it_is_standard(plain_sandbox: Sandbox) -> None:
    assert plain_sandbox.isolation.level == "standard"


@pytest.mark.parametrize("which", ["sandbox", "plain_sandbox"])
def test_nothing_gets_out(which: str, request: pytest.FixtureRequest) -> None:
    result = request.getfixturevalue(which).call(f"{F}:attempts", seconds=20)
    assert result.ok, result
    assert "worked" not in result.value.values(), result.value


@pytest.mark.parametrize("which", ["sandbox", "plain_sandbox"])
def test_nothing_is_to_be_found(which: str, request: pytest.FixtureRequest) -> None:
    result = request.getfixturevalue(which).call(f"{F}:surroundings", seconds=20)
    assert result.value == {"environment": {}, "descriptors": [0, 1, 2]}


def test_keys_never_reach_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    with Sandbox("se_rl.sandbox.worker") as sandbox:
        environment = Path(f"/proc/{sandbox.pid}/environ").read_bytes()
    assert b"PYTHONPATH" in environment and b"secret" not in environment


def test_code_made_at_run_time_may_run(plain_sandbox: Sandbox) -> None:
    assert plain_sandbox.call(f"{F}:anonymous_code", seconds=20).value == {"bytes": 4096}


def test_an_error_becomes_one_printable_line(plain_sandbox: Sandbox) -> None:
    result = plain_sandbox.call(
        f"{F}:fail", {"text": "line\nline\x1b[31m" + "é" * 1000}, seconds=20
    )
    assert result.status == "failed" and result.error.startswith("ValueError: line line [31mé")
    assert result.error.isprintable() and len(result.error) == len("ValueError: ") + 500


def test_a_hostile_error_is_tamed(plain_sandbox: Sandbox) -> None:
    result = plain_sandbox.call(f"{F}:fail_strangely", seconds=20)
    assert (
        result.status == "failed"
        and result.error.startswith("Error: ")
        and result.error.isprintable()
    )


def test_sys_exit_is_a_failure(plain_sandbox: Sandbox) -> None:
    assert plain_sandbox.call(f"{F}:quit_python", seconds=20).error == "SystemExit: 0"


def test_a_value_without_a_place_is_a_failure(plain_sandbox: Sandbox) -> None:
    assert plain_sandbox.call(f"{F}:answer_with_object", seconds=20).status == "failed"


@pytest.mark.parametrize("code", [1, 7, 13, 255])
def test_leaving_is_a_crash(plain_sandbox: Sandbox, code: int) -> None:
    result = plain_sandbox.call(f"{F}:leave", {"code": code}, seconds=20)
    assert (result.status, result.error) == ("crashed", f"ended with exit code {code}")


@pytest.mark.parametrize("code", [0, 11])
def test_leaving_without_a_message_is_invalid(plain_sandbox: Sandbox, code: int) -> None:
    assert plain_sandbox.call(f"{F}:leave", {"code": code}, seconds=20).status == "invalid"


def test_a_crash_in_c_is_reported_by_its_signal(plain_sandbox: Sandbox) -> None:
    result = plain_sandbox.call(f"{F}:segfault", seconds=20)
    assert (result.status, result.error) == ("killed", "SIGSEGV")


@pytest.mark.parametrize(
    "forged, status",
    [
        (
            message.encode({"score": 1e9}),
            "ok",
        ),  # a result is untrusted: it may say anything, in the format
        (message.encode({"score": 1e9})[:-1], "invalid"),
        (b"SERM" + b"\xff" * 100, "invalid"),
        (b"\x80\x04cos\nsystem\n", "invalid"),
        (b"".join(message._framed(b'[{},[["a","|O",[1]]]]', [memoryview(bytes(8))])), "invalid"),
    ],
)
def test_forged_answers_are_only_messages_or_invalid(
    plain_sandbox: Sandbox, forged: bytes, status: str
) -> None:
    assert plain_sandbox.call(f"{F}:forge", forged, seconds=20).status == status


@pytest.mark.parametrize("function", ["python_loop", "c_loop", "deaf_loop", "print_flood"])
def test_what_does_not_end_is_ended(plain_sandbox: Sandbox, function: str) -> None:
    result = plain_sandbox.call(f"{BENCH}:{function}", seconds=0.3)
    assert (result.status, result.value) == ("timeout", {}) and result.seconds >= 0.3
    assert eventually(lambda: not children(plain_sandbox.pid))


def test_memory_is_bounded(sandbox: Sandbox) -> None:
    assert (
        sandbox.call(f"{BENCH}:memory_bomb", seconds=60, memory_bytes=64 << 20).status == "memory"
    )
    assert sandbox.call(f"{F}:torch_bomb", seconds=60).status == "memory"


def test_memory_is_bounded_by_the_watch_too() -> None:
    with Sandbox(
        "se_rl.sandbox.worker", layers=(), unsafe=True
    ) as sandbox:  # without the limit on address space
        result = sandbox.call(f"{BENCH}:memory_bomb", seconds=60, memory_bytes=64 << 20)
        assert (result.status, result.error) == ("memory", "over its memory")


def test_a_fork_bomb_makes_nothing(plain_sandbox: Sandbox) -> None:
    assert plain_sandbox.call(f"{BENCH}:fork_bomb", seconds=20).value == {"tried": 1000, "made": 0}


def test_a_result_over_the_cap_is_invalid(plain_sandbox: Sandbox) -> None:
    result = plain_sandbox.call(f"{BENCH}:large_result", seconds=20, result_bytes=1000)
    assert (
        result.status == "invalid"
        and result.error == "the message has 8388672 bytes, at most 1000 are allowed"
    )


def test_training_inside_is_bit_equal(sandbox: Sandbox) -> None:
    import torch

    from se_rl_benchmarks.sandbox_payloads import train_small

    torch.set_num_threads(1)  # as inside; other tests may have changed it
    inside = sandbox.call(f"{BENCH}:train_small", {"steps": 5}, seconds=60)
    assert inside.ok, inside
    assert inside.value["loss"].tobytes() == train_small({"steps": 5})["loss"].tobytes()


def test_compiled_kernels_run_and_new_ones_cannot_be_made(sandbox: Sandbox) -> None:
    assert sandbox.call(f"{F}:kernel", {"x": 2.5}, seconds=20).value == {"double": 5.0}
    assert sandbox.call(f"{F}:kernel", {"x": "text"}, seconds=20).status == "failed"


def test_the_server_has_one_task(sandbox: Sandbox) -> None:
    sandbox.call(f"{BENCH}:train_small", {"steps": 1}, seconds=60)
    assert len(list(Path(f"/proc/{sandbox.pid}/task").iterdir())) == 1


def test_a_server_with_threads_is_refused() -> None:
    with pytest.raises(SandboxError, match="has 2 threads and must have one"):
        Sandbox("thread_starter")


def test_a_warm_up_that_fails_says_so() -> None:
    with pytest.raises(
        SandboxError, match="warm-up of 'no_such_module' failed: ModuleNotFoundError"
    ):
        Sandbox("no_such_module")


def test_an_unknown_function_is_the_callers_mistake(plain_sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match="AttributeError"):
        plain_sandbox.call(f"{F}:no_such_function", seconds=20)


def test_shared_data_is_seen_by_all_and_changed_by_none(plain_sandbox: Sandbox) -> None:
    values = np.arange(100_000, dtype=np.float64)
    plain_sandbox.share("data", {"values": values})
    assert values.flags.writeable
    seen = plain_sandbox.call(f"{F}:shared_sum", {"name": "data"}, seconds=20)
    expected = {"sum": float(values.sum()), "writeable": False, "aligned": 0}
    assert seen.value == expected
    polite = plain_sandbox.call(
        f"{F}:shared_overwrite", {"force": False, "crash": False}, seconds=20
    )
    assert polite.value == {"refused": ["ValueError", "ValueError"], "first": "0.0"}
    forced = plain_sandbox.call(
        f"{F}:shared_overwrite", {"force": True, "crash": False}, seconds=20
    )
    assert forced.value["first"] == "nan"  # its own copy
    crashed = plain_sandbox.call(
        f"{F}:shared_overwrite", {"force": False, "crash": True}, seconds=20
    )
    assert (crashed.status, crashed.error) == ("killed", "SIGSEGV")
    assert plain_sandbox.call(f"{F}:shared_sum", {"name": "data"}, seconds=20).value == expected


def test_sharing_again_replaces(plain_sandbox: Sandbox) -> None:
    for value in (1.0, 2.0):
        plain_sandbox.share("again", {"values": np.full(10, value)})
        assert (
            plain_sandbox.call(f"{F}:shared_sum", {"name": "again"}, seconds=20).value["sum"]
            == 10 * value
        )


def test_calls_side_by_side(plain_sandbox: Sandbox) -> None:
    calls = [plain_sandbox.start(f"{F}:sleep", {"seconds": 0.3}, seconds=20) for _ in range(3)]
    assert [call.poll() for call in calls] == [None] * 3
    assert eventually(lambda: len(children(plain_sandbox.pid)) == 3)
    assert [call.wait().value for call in calls] == [{"slept": 0.3}] * 3
    assert calls[0].poll() is calls[0].wait()


def test_calls_from_threads(plain_sandbox: Sandbox) -> None:
    answers: dict[int, Any] = {}

    def ask(number: int) -> None:
        answers[number] = plain_sandbox.call(f"{F}:echo", {"number": number}, seconds=60).value[
            "number"
        ]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: number for number in range(8)}


def test_a_call_can_be_killed(plain_sandbox: Sandbox) -> None:
    call = plain_sandbox.start(f"{BENCH}:deaf_loop", seconds=60)
    call.wait_locked()
    assert call.isolation is not None and call.isolation.level == "standard"
    call.kill()
    assert call.wait().status == "killed"


def test_a_call_killed_from_outside_is_a_result(plain_sandbox: Sandbox) -> None:
    call = plain_sandbox.start(f"{BENCH}:python_loop", seconds=60)
    call.wait_locked()
    os.kill(children(plain_sandbox.pid)[0], signal.SIGKILL)
    assert (call.wait().status, call.wait().error) == ("killed", "SIGKILL")


def test_a_dropped_call_is_killed(plain_sandbox: Sandbox) -> None:
    call = plain_sandbox.start(f"{BENCH}:python_loop", seconds=60)
    call.wait_locked()
    call.close()
    assert eventually(lambda: not children(plain_sandbox.pid))
    with pytest.raises(SandboxError, match="closed"):
        call.poll()


def test_calls_dropped_at_any_moment_do_not_hurt_the_server(plain_sandbox: Sandbox) -> None:
    for milliseconds in range(12):
        call = plain_sandbox.start(f"{BENCH}:python_loop", seconds=60)
        time.sleep(milliseconds / 1000)
        call.close()
    assert eventually(lambda: not children(plain_sandbox.pid))
    assert plain_sandbox.call(f"{F}:echo", seconds=20).ok


def test_no_descriptor_or_process_is_left(plain_sandbox: Sandbox) -> None:
    def ours() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def theirs() -> int:
        return len(list(Path(f"/proc/{plain_sandbox.pid}/fd").iterdir()))

    def use() -> None:
        plain_sandbox.call(f"{F}:echo", seconds=20)
        plain_sandbox.call(f"{F}:leave", {"code": 3}, seconds=20)
        plain_sandbox.share("small", {"values": np.zeros(3)})
        with pytest.raises(SandboxError):
            plain_sandbox.call(f"{F}:no_such_function", seconds=20)

    use()
    before = (
        ours(),
        theirs(),
    )  # the server may still hold two of the last call, so a leak must show in many
    for _ in range(5):
        use()
    assert eventually(lambda: ours() <= before[0] and theirs() <= before[1])
    assert not children(plain_sandbox.pid)


def test_stop_ends_everything() -> None:
    sandbox = Sandbox("se_rl.sandbox.worker")
    call = sandbox.start(f"{BENCH}:deaf_loop", seconds=60)
    call.wait_locked()
    everybody = [sandbox.pid, *children(sandbox.pid)]
    assert len(everybody) == 2
    sandbox.stop()
    assert not any(alive(pid) for pid in everybody)
    assert call.wait().status == "killed"
    sandbox.stop()
    with pytest.raises(SandboxError, match="gone"):
        sandbox.call(f"{F}:echo", seconds=20)


def test_the_servers_death_ends_its_workers() -> None:
    with Sandbox("se_rl.sandbox.worker") as sandbox:
        call = sandbox.start(f"{BENCH}:deaf_loop", seconds=60)
        call.wait_locked()
        (worker,) = children(sandbox.pid)
        os.kill(sandbox.pid, signal.SIGKILL)
        with pytest.raises(SandboxError, match="gone"):
            call.wait()
        assert eventually(lambda: not alive(worker))


def test_the_parents_death_ends_all() -> None:
    script = f"""
import json, os, sys
from process_checks import children
from se_rl.sandbox.server import Sandbox
sandbox = Sandbox("se_rl.sandbox.worker")
call = sandbox.start("{BENCH}:deaf_loop", seconds=60)
call.wait_locked()
print(json.dumps([sandbox.pid, *children(sandbox.pid)]), flush=True)
os.kill(os.getpid(), 9)
"""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    ended = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": path}, capture_output=True, text=True
    )
    everybody = json.loads(ended.stdout)
    assert ended.returncode == -signal.SIGKILL and len(everybody) == 2
    assert eventually(lambda: not any(alive(pid) for pid in everybody))


def test_a_room_outlives_the_thread_that_made_it() -> None:
    sandboxes: list[Sandbox] = []
    thread = threading.Thread(target=lambda: sandboxes.append(Sandbox("se_rl.sandbox.worker")))
    thread.start()
    thread.join()
    with sandboxes[0] as sandbox:
        assert sandbox.call(f"{F}:echo", {"still": "here"}, seconds=20).value == {"still": "here"}
