"""The lock's levels, and that nothing runs below the one that is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from se_rl.sandbox import landlock
from se_rl.sandbox.lockdown import (
    LAYERS,
    UNSAFE,
    Isolation,
    SandboxError,
    isolation_level,
    level_of,
    refusal,
)
from se_rl.sandbox.server import Sandbox

NOBODY = 65534
WEAK = ("rlimits",)
SCRIPT = """
import json, os
from se_rl.sandbox.lockdown import LAYERS, isolation_level
from se_rl.sandbox.server import Sandbox
answers = [os.getuid()]
for layers in (LAYERS, LAYERS[1:]):
    with Sandbox("se_rl.sandbox.worker", layers=layers) as sandbox:
        result = sandbox.call("sandbox_functions:attempts", seconds=20)
        answers.append([result.isolation, result.status, sorted(set(result.value.values()))])
        endless = sandbox.call("se_rl_benchmarks.sandbox_payloads:python_loop", seconds=0.2)
        answers.append(endless.status)
print(json.dumps(answers))
"""


@pytest.mark.parametrize(
    "layers, level",
    [
        (LAYERS, "strong"),
        (("landlock", "rlimits", "seccomp"), "standard"),
        (("namespaces", "rlimits", "seccomp"), "weak"),
        (("namespaces", "landlock", "rlimits"), "weak"),
        (("namespaces", "landlock", "seccomp"), "none"),
        ((), "none"),
    ],
)
def test_levels(layers: tuple[str, ...], level: str) -> None:
    assert level_of(layers) == level
    assert Isolation(level, layers).enough == (level in ("strong", "standard"))


def test_this_machine_locks() -> None:
    found = isolation_level()
    assert found.enough, found.why
    without = isolation_level(LAYERS[1:])
    assert (without.level, without.layers) == ("standard", LAYERS[1:])
    assert without.why == "namespaces: switched off"
    assert isolation_level(WEAK).level == "weak"


def test_the_refusal_is_one_line_that_says_what_to_do() -> None:
    text = str(refusal(Isolation("weak", WEAK, "landlock: Function not implemented")))
    assert (
        "weak" in text
        and "landlock: Function not implemented" in text
        and "--unsafe-no-sandbox" in text
    )
    assert "\n" not in text


def test_no_room_below_standard() -> None:
    with pytest.raises(SandboxError, match="--unsafe-no-sandbox"):
        Sandbox("se_rl.sandbox.worker", layers=[name for name in LAYERS if name != "landlock"])


def test_unsafe_runs_and_is_recorded() -> None:
    with Sandbox("se_rl.sandbox.worker", layers=(), unsafe=True) as sandbox:
        assert sandbox.isolation.level == "none"
        result = sandbox.call("sandbox_functions:look", seconds=20)
        assert (result.status, result.isolation) == ("ok", UNSAFE)
        assert set(result.value.values()) == {"worked"}  # so the lock is what stops them elsewhere
        assert (
            sandbox.call("sandbox_functions:sleep", {"seconds": 60}, seconds=0.2).status
            == "timeout"
        )


def test_landlock_forbids_all_that_each_version_knows() -> None:
    assert [len(landlock.rights(version)) for version in (1, 3, 4, 5, 6, 9)] == [1, 1, 2, 2, 3, 3]
    assert [landlock.rights(version)[0].bit_count() for version in (1, 2, 3, 4, 5, 6)] == [
        13,
        14,
        15,
        15,
        16,
        16,
    ]


def test_ordinary_user() -> None:
    if os.getuid() != 0:
        pytest.skip("this whole suite runs as an ordinary user")
    tree = Path(__file__).parents[2]
    path = [entry for entry in sys.path if "site-packages" in entry or entry.startswith(str(tree))]
    environment = {
        "PYTHONPATH": os.pathsep.join([*path, str(tree / "src"), str(Path(__file__).parent)])
    }
    for python in (
        sys.executable,
        f"/usr/bin/python3.{sys.version_info[1]}",
        "/usr/local/bin/python3",
    ):
        if _runs_as_nobody(python, environment):
            break
    else:
        pytest.skip(
            f"an ordinary user cannot read an interpreter that has these packages ({sys.executable})"
        )
    answer = _as_nobody(python, SCRIPT, environment)
    assert answer.returncode == 0, answer.stderr[-2000:]
    uid, strong, hung, standard, hung_too = json.loads(answer.stdout)
    assert uid == NOBODY and hung == hung_too == "timeout"
    assert strong[0] in ("strong", "standard") and standard[0] == "standard"
    assert strong[1] == standard[1] == "ok" and "worked" not in strong[2] + standard[2]


def _as_nobody(
    python: str, script: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-P", "-c", script],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
    )


def _runs_as_nobody(python: str, environment: dict[str, str]) -> bool:
    try:
        return _as_nobody(python, "import numpy, se_rl.sandbox.server", environment).returncode == 0
    except OSError:
        return False
