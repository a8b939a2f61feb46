"""Frauds through a real training, the policy server and `se-rl replay`: each is called what it is.

SE_RL_FRAUDS=1 trains all of them; `python benchmarks/frauds.py --trained` prints the table.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "core"))

from frauds import CORPUS
from frauds.takeovers import FORGED, TAKEOVERS
from frauds.trained import CARRIER, SINGLE, TALKING, played
from tiny_run import make_data, tiny_config

from se_rl.sandbox.lockdown import isolation_level

pytestmark = [
    pytest.mark.skipif(
        not isolation_level().enough, reason="no sandbox is to be had on this machine"
    ),
    pytest.mark.timeout(1800),
]
WHOLE = bool(os.environ.get("SE_RL_FRAUDS"))
FAILS, ACTS = "fails in use", "acts on other orders"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SE_RL_HOME", str(tmp_path))
    make_data(tmp_path)
    return tmp_path


def test_each_is_trained_checked_and_replayed(home: Path) -> None:
    by_name = CORPUS | {fraud.name: fraud for fraud in (*TAKEOVERS, CARRIER)}
    some = ("batch: batch mean", "training: half the work", "takes over: counts its answers")
    names = (*SINGLE, CARRIER.name, *(fraud.name for fraud in TAKEOVERS)) if WHOLE else some
    config = tiny_config(seeds=(1, 1, 1), worlds="both" if WHOLE else "static")
    found = played(home / "run", config, [by_name[name] for name in names], replays=WHOLE)
    for row in found:
        if row.kind == FORGED:
            assert row.training != "scored" and "\n" not in row.training
        elif row.training == "scored":
            assert row.check in (ACTS, FAILS), row
            assert row.replay.endswith(row.check) or not WHOLE, row
        else:
            assert "policy failed in use" in row.training, row


@pytest.mark.skipif(not WHOLE, reason="SE_RL_FRAUDS=1 runs it")
def test_those_that_talk_are_named_too(home: Path) -> None:
    config = tiny_config(seeds=(1, 1, 1), scenario="multi")
    for row in played(home / "run", config, [CORPUS[name] for name in TALKING]):
        assert row.check == ACTS and row.replay == ACTS, row
