"""The walk "add a rival algorithm" of CONTRIBUTING.md: a file and a line, and the row is in the table."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest

from se_rl.baselines import registry, task
from se_rl.baselines.classical import Planning
from se_rl.baselines.registry import LearnedRival, PlannedRival
from se_rl.baselines.settings import BaselinesConfig, LearnedConfig
from se_rl.baselines.table import run_baselines
from se_rl.data.catalog import DataSet
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.worlds import World
from se_rl.main import main
from se_rl.report.baselines_page import baselines_page
from se_rl.rl.policy import Neutral
from se_rl.scoring.checks import CheckError
from se_rl.scoring.execution import ConstantSchedule

# --- 1. The new file: for a classical rival, one function ----------------------------------------


def plan_front_loaded(planning: Planning) -> np.ndarray:
    """Linearly falling slices: twice as much in the first step as in the middle one."""
    orders = planning.task.orders
    falling = np.arange(orders.horizon, 0, -1.0)  # [step]
    return np.tile(falling / falling.sum(), (len(orders), 1))


# --- ... and for a learned one, a function that trains and what it returns -----------------------


@dataclass(frozen=True)
class TrainedMultiple:
    """The multiple of the TWAP slice that cost the least in training."""

    multiple: float
    seed: int
    reason: str | None = None

    def runner(self, world: str) -> ConstantSchedule:
        return ConstantSchedule(self.multiple)


def train_multiple(
    worlds: Mapping[str, World], *, budget: float, seed: int, neutral: Mapping[str, Neutral]
) -> TrainedMultiple:
    """Draw one of two multiples: enough of a learner for a table."""
    return TrainedMultiple(float(np.random.default_rng(seed).choice([1.0, 1.5])), seed)


@pytest.fixture
def dataset(monkeypatch: pytest.MonkeyPatch) -> DataSet:
    data = DataSet(synthetic_market(SyntheticConfig(symbols=6, sessions=8, seed=1)))
    monkeypatch.setattr(task, "load_dataset", lambda _, **__: data)
    return data


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """2. The line in registry.PLANNED."""
    line = PlannedRival("front-loaded", plan_front_loaded)
    monkeypatch.setattr(registry, "PLANNED", (*registry.PLANNED, line))


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """2. The line in registry.LEARNED."""
    module = ModuleType("se_rl.baselines.best_multiple")
    monkeypatch.setattr(module, "train", train_multiple, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    line = LearnedRival("best multiple", "se_rl.baselines.best_multiple:train")
    monkeypatch.setattr(registry, "LEARNED", (line,))


def test_a_planned_rival_is_a_row_of_the_table_and_of_the_page(
    dataset: DataSet, planned: None, capsys: pytest.CaptureFixture[str]
) -> None:
    results = run_baselines(BaselinesConfig(horizon=60))
    row = results["methods"]["front-loaded"]
    assert list(results["methods"])[-2:] == ["front-loaded", "foresight bound"]
    assert {"PA", "over_TWAP", "ci95", "by_side"} <= set(row)
    checks = [check["name"] for check in results["checks"] if "front-loaded" in check["name"]]
    assert len(checks) == 4 and "front-loaded: buy and sell mirror each other" in checks
    assert "front-loaded" in baselines_page(results)
    assert main(["baselines", "--horizon", "60", "--json"]) == 0
    assert "front-loaded" in json.loads(capsys.readouterr().out)["methods"]
    assert main(["baselines", "--horizon", "60"]) == 0
    assert "front-loaded" in capsys.readouterr().out


def test_a_rival_that_looks_at_the_side_must_say_so(
    dataset: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_side(planning: Planning) -> np.ndarray:
        weights = plan_front_loaded(planning)
        sells = planning.task.orders.side > 0
        weights[sells] = weights[sells, ::-1]
        return weights

    config = BaselinesConfig(horizon=60)
    known = registry.PLANNED
    monkeypatch.setattr(registry, "PLANNED", (*known, PlannedRival("by side", by_side)))
    with pytest.raises(CheckError, match="by side: buy and sell mirror each other"):
        run_baselines(config)
    line = PlannedRival("by side", by_side, side_blind=False)
    monkeypatch.setattr(registry, "PLANNED", (*known, line))
    assert "by side" in run_baselines(config)["methods"]


def test_a_learned_rival_is_trained_with_every_seed_in_both_worlds(
    dataset: DataSet, learned: None
) -> None:
    small = LearnedConfig(seeds=2, fresh_orders=32, dynamic_horizon=6)
    results = run_baselines(BaselinesConfig(horizon=60), learned=small)
    assert len(results["methods"]["best multiple"]["over_TWAP_by_seed"]) == 2
    for table in results["dynamic"].values():
        assert list(table) == ["TWAP", "grid constant", "best multiple"]


def test_names_are_unique_and_every_source_can_be_loaded() -> None:
    names = [rival.name for rival in (*registry.PLANNED, *registry.LEARNED)]
    assert len(set(names)) == len(names) and names[0] == registry.TWAP
    assert all(callable(rival.load()) for rival in registry.LEARNED)
