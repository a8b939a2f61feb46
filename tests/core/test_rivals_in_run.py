"""Rivals in a run: trained as its finalists are, stored, and looked up where the run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from se_rl.config import ConfigError
from se_rl.core.rivals import RivalPolicies, rival_policies
from se_rl.core.run import run_search
from se_rl.data.features import OBSERVATION_FIELDS, FeatureScales
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.records.archive import Archive
from se_rl.rl.policy import Neutral

TINY: Any = import_module("tiny_run")
CONFIG = TINY.tiny_config(horizons=(20, 10), rivals=("macmic",), seeds=(1, 1, 2))


class Killed(Exception):
    """The run ends here."""


class Resumed:
    """As much of a run as its rivals need; killed after so many trainings."""

    def __init__(self, archive: Archive, *, most: int = 99, library: tuple[Archive, ...] = ()):
        data = synthetic_market(SyntheticConfig(symbols=3, sessions=4))
        inputs = SimpleNamespace(data=data, scales=FeatureScales.fit(data), banks=dict)
        self.config = CONFIG
        self.archive, self.library, self.basis = archive, library, "data and code"
        self.markets = SimpleNamespace(neutral=lambda: {"dynamic": Neutral(1.5, 1.0)})
        self.training_pool = SimpleNamespace(sandbox=SimpleNamespace(inputs=inputs))
        self.trained: list[str] = []
        self.stored: list[tuple[str, int, bool]] = []
        self._most = most

    def say(self, text: str) -> None:
        self.trained.append(text)

    def store_event(self, kind: str, key: str, payload: Mapping[str, Any]) -> None:
        is_new = self.archive.append(kind, key, payload)
        self.stored.append((payload["world"], payload["seed"], is_new))
        assert payload["work"] >= CONFIG.rungs.last.work / 2, "a world has half of the budget"
        if len(self.stored) == self._most:
            raise Killed


def answers(found: RivalPolicies, world: str) -> list[list[float]]:
    """What the first seed's policy does in a few states."""
    actor = found.policies["MacMic"][0](world, 10, 8)
    rows = np.random.default_rng(0).normal(size=(8, len(OBSERVATION_FIELDS)))
    actor.start(8, 10)
    return [part.tolist() for part in actor.act(rows.astype(np.float32))]


def test_a_run_that_goes_on_trains_no_rival_twice(tmp_path: Path) -> None:
    with Archive.open(tmp_path / "one.sqlite") as archive:
        with pytest.raises(Killed):
            rival_policies(Resumed(archive, most=2))  # type: ignore[arg-type]
        again = Resumed(archive)
        found = rival_policies(again)  # type: ignore[arg-type]
        last = CONFIG.rungs.last.training_seeds
        jobs = [(world, seed) for seed in last for world in ("static", "dynamic")]
        assert [one[:2] for one in again.stored] == jobs
        assert [one[2] for one in again.stored] == [False, False, True, True]
        assert again.trained == [f"training MacMic in the {w} world, seed {s}" for w, s in jobs[2:]]
        assert {name: len(own) for name, own in found.policies.items()} == {"MacMic": 2}
        assert found.notes == ()
        ratio, offset = answers(found, "dynamic")
        assert set(answers(found, "static")[1]) == {0.0} and set(offset) != {0.0}
        with Archive.open(tmp_path / "two.sqlite") as other:
            reusing = Resumed(other, library=(archive,))
            same = rival_policies(reusing)  # type: ignore[arg-type]
            assert reusing.trained == [] and answers(same, "dynamic") == [ratio, offset]


def test_an_unknown_rival_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rival 'SARSA' is unknown; known are DDQN, OPD"):
        run_search(TINY.tiny_config(rivals=("SARSA",)), tmp_path / "run")
