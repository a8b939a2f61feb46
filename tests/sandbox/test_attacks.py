"""The attack corpus against the sandbox: each attack works unprotected, and none behind the lock.

A part of the corpus runs by default; SE_RL_ALL_ATTACKS=1 runs all of it, each attack in a process of its own.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attack_sandbox import ORACLES, kind_of
from attacks import BEHAVIOUR, CORPUS
from attacks.canaries import NAME

from se_rl.modules.static_check import check_source
from se_rl.sandbox.lockdown import LAYERS

ALL = os.environ.get("SE_RL_ALL_ATTACKS") == "1"
NOBODY = 65534
HERE = Path(__file__).parent
PATH = os.pathsep.join(
    [
        str(HERE),
        str(HERE.parents[1] / "src"),
        *(entry for entry in sys.path if "site-packages" in entry),
    ]
)
MAIN = "from attacks.campaign import main; main()"
DUDS = (
    "NameError",
    "UnboundLocalError",
    "SyntaxError",
    "IndentationError",
    "ModuleNotFoundError",
    "ImportError",
    "LookupError",
)
"""Errors that would mean that an attack never came to the lock."""
MAY_BE_DUDS = ("imports", "parser bombs", "numba")
"""Categories that end in such errors because reading a module's file, or the source itself, is what fails."""
Pair = tuple[str, str]

pytestmark = pytest.mark.timeout(1800)


def everything() -> list[Pair]:
    return [(category, name) for category, attacks in CORPUS.items() for name in attacks]


def some(every: int) -> list[Pair]:
    """Each category's share, evenly spread; all of it where asked for."""
    return (
        everything()
        if ALL
        else [(c, n) for c, a in CORPUS.items() for n in list(a)[len(c) % every % len(a) :: every]]
    )


def passes_static(pair: Pair) -> bool:
    source, _ = CORPUS[pair[0]][pair[1]]
    return check_source(source, kind_of(source)) is None


def campaign(
    *, user: int | None = None, python: str = sys.executable, **words: Any
) -> dict[str, Any]:
    """Run attacks in a process of their own, which holds a secret of its own."""
    answer = run(
        MAIN, json.dumps({"together": 1 if ALL else 24, **words}), user=user, python=python
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    return json.loads(answer.stdout.splitlines()[-1])


def run(
    script: str, *arguments: str, user: int | None = None, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    secret = f"SERLCANARY-{secrets.token_hex(16)}"
    environment = {
        "PYTHONPATH": PATH,
        NAME: secret,
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
    }
    as_user = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    command = [python, "-P", "-c", script, *arguments]
    return subprocess.run(
        command,
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        start_new_session=True,
        **as_user,
    )  # type: ignore[call-overload]


def runs_as_nobody(python: str) -> bool:
    try:
        return run("import torch, attack_sandbox", user=NOBODY, python=python).returncode == 0
    except OSError:
        return False


def test_the_corpus_is_large_and_uses_every_oracle() -> None:
    assert len(everything()) >= 200 and min(map(len, CORPUS.values())) >= 5
    assert {oracle for attacks in CORPUS.values() for _, oracle in attacks.values()} == set(ORACLES)
    assert len(
        {source for attacks in CORPUS.values() for source, _ in attacks.values()}
    ) >= 0.99 * len(everything())


def test_attacks_work_unprotected_and_a_harmless_design_does_nothing() -> None:
    """The positive control: an oracle that never fires would prove nothing, nor would one that always does."""
    pairs, quiet = some(5), [("quiet", oracle) for oracle in ORACLES]
    rows = campaign(control=[*pairs, *quiet])["control"]
    assert len(rows) == len(pairs) + len(quiet) > 100
    assert [row for row in rows if row[2] == (row[0] == "quiet")] == []


def test_without_a_lock_the_room_would_see_them_succeed() -> None:
    """The same path as below with every layer off: what is reported there as held would be reported as lost."""
    pairs = [
        ("writing files", name)
        for name in CORPUS["writing files"]
        if name != "descriptor of the parent"
    ][::3]
    pairs += [("processes", "fork"), ("reading files", "open")]
    report = campaign(
        bare=pairs, layers=[], unsafe=True, together=1
    )  # descriptors are closed even then
    assert report["level"] == "none"
    assert [row for row in report["bare"] if not row[2]] == []


def test_none_gets_through() -> None:
    """Without the static stage all of them run; behind it, those that it lets through."""
    report = campaign(
        bare=everything(), guarded=[pair for pair in everything() if passes_static(pair)]
    )
    assert report["level"] in ("strong", "standard") and len(report["bare"]) == len(everything())
    assert [row for row in report["bare"] + report["guarded"] if row[2]] == []
    duds = [
        row for row in report["bare"] if row[4].split(":")[0] in DUDS and row[0] not in MAY_BE_DUDS
    ]
    assert duds == [], "these failed before they came to the lock"


def test_none_gets_through_without_namespaces() -> None:
    report = campaign(bare=some(6), layers=[name for name in LAYERS if name != "namespaces"])
    assert report["level"] == "standard"
    assert [row for row in report["bare"] if row[2]] == []


def test_none_gets_through_as_an_ordinary_user() -> None:
    if os.getuid() != 0:
        pytest.skip("this whole suite runs as an ordinary user")
    candidates = (
        sys.executable,
        f"/usr/bin/python3.{sys.version_info[1]}",
        "/usr/local/bin/python3",
    )
    python = next(filter(runs_as_nobody, candidates), None)
    if python is None:
        pytest.skip(
            f"an ordinary user cannot read an interpreter that has these packages ({sys.executable})"
        )
    report = campaign(bare=some(6), user=NOBODY, python=python)
    assert report["level"] in ("strong", "standard")
    assert [row for row in report["bare"] if row[2]] == []


def test_the_static_stage_alone_stops_nearly_all() -> None:
    code = [pair for pair in everything() if pair[0] not in BEHAVIOUR]
    through = [pair for pair in code if passes_static(pair)]
    assert len(code) >= 200 and len(through) <= 0.05 * len(code), through
