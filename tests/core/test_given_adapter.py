"""A run that begins with an adapter: three versions to choose from, and the given one stays as it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from se_rl.config import ConfigError
from se_rl.core.beginning import adapter_of
from se_rl.core.designers import ADAPTED, GIVEN, UNTOUCHED, Designers
from se_rl.core.proposer import Proposer
from se_rl.llm.adapter_file import AdapterFile, chosen_adapter, read_adapter
from se_rl.llm.adapters import LoraSettings
from se_rl.llm.backends import LlmError, Request
from se_rl.llm.design_outcomes import DesignOutcome
from se_rl.llm.enhancement_kit import DualLevelEnhancementKit
from se_rl.llm.local import LocalDesigner
from se_rl.llm.low_level_enhancement import LowLevelEnhancement
from se_rl.main import main
from se_rl.records.archive import Archive
from se_rl.records.settings import RunConfig, preset

sys.path.append(str(Path(__file__).resolve().parents[1] / "llm"))
MODEL: Any = import_module("tiny_model")
REQUEST = Request(MODEL.MESSAGES, MODEL.GRAMMAR, 60, seed=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return MODEL.build_model(tmp_path_factory.mktemp("models") / "tiny", sharpness=2.0)


@pytest.fixture(scope="module")
def place(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    base = LocalDesigner(folder, threads=1)
    learner = base.new_adapter("edits", settings=LoraSettings(2, 4, ("q_proj",)), seed=1)
    for _ in range(3):
        learner.update(base.propose(REQUEST, 2), [1.0, -1.0], learning_rate=1e-2)
    found = tmp_path_factory.mktemp("adapters") / "adapter.safetensors"
    found.write_bytes(learner.adapter_bytes(to_ship=True))
    return found


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with Archive.open(tmp_path / "archive.sqlite", blobs=tmp_path / "blobs") as found:
        yield found


def designers_of(folder: Path, archive: Archive, given: AdapterFile | None) -> Designers:
    judge: Any = None
    return Designers(str(folder), archive, judge, seed=0, given=given)


def outcomes(designers: Designers, version: str) -> list[DesignOutcome]:
    proposals = designers.writer(version).designer.propose(REQUEST, 4)
    return [DesignOutcome(p, float(i), prompt="one") for i, p in enumerate(proposals)]


def test_the_given_adapter_stays_and_the_runs_own_learns_on_from_it(
    folder: Path, place: Path, archive: Archive
) -> None:
    designers = designers_of(folder, archive, read_adapter(place))
    assert designers.versions == (UNTOUCHED, GIVEN) and designers.adapter == "edits@3"
    before = designers.writer(GIVEN).designer.propose(REQUEST, 3)
    assert before[0].adapter == "edits@3"
    assert designers.writer(UNTOUCHED).designer.propose(REQUEST, 1)[0].adapter is None
    kit = DualLevelEnhancementKit(None, LowLevelEnhancement())
    step = designers.enhance(kit, outcomes(designers, GIVEN), 1)
    assert step.weights is not None and step.weights.moved
    assert designers.versions == (UNTOUCHED, GIVEN, ADAPTED) and designers.adapter == "edits@4"
    [stored] = archive.adapters()
    assert (stored.id, stored.parent) == ("edits@4", "edits@3")
    given = designers._begun
    again = given.propose(REQUEST, 3)
    assert [(p.text, p.log_prob) for p in again] == [(p.text, p.log_prob) for p in before]
    own = designers._adapted()
    assert own.adapter == "edits@4" and own is not given
    assert designers.writer(ADAPTED).designer.propose(REQUEST, 1)[0].adapter == "edits@4"


@pytest.mark.parametrize("is_given", [True, False])
def test_the_bandit_chooses_among_the_versions_that_there_are(
    folder: Path, place: Path, archive: Archive, is_given: bool
) -> None:
    designers = designers_of(folder, archive, read_adapter(place) if is_given else None)
    ladder: Any = type("Ladder", (), {"default": type("Default", (), {"id": "d"})})
    others: Any = None
    found = Proposer(preset("quick"), others, ladder, designers, others).bandit.factors["model"]
    assert found == ((UNTOUCHED, GIVEN, ADAPTED) if is_given else (UNTOUCHED, ADAPTED))


def test_the_given_adapter_is_asked_for_edits_alone(
    folder: Path, place: Path, archive: Archive
) -> None:
    designers = designers_of(folder, archive, read_adapter(place))
    ladder: Any = type("Ladder", (), {"default": type("Default", (), {"id": "d"})})
    others: Any = None
    proposer = Proposer(preset("quick"), others, ladder, designers, others)
    for operator in ("draft", "rewrite", "crossover", "repair"):
        choice = {"module": "reward", "operator": operator, "model": GIVEN}
        assert not proposer.is_possible(choice, others)


def test_a_run_goes_on_with_the_adapter_it_began_with(
    folder: Path, place: Path, archive: Archive, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes(place.read_bytes())
    config = RunConfig(llm=str(folder), adapter=str(mine))
    assert adapter_of(config, archive) is not None
    archive.append("run_started", "run_started", {})
    assert adapter_of(config, archive) is not None
    learner = LocalDesigner(folder, threads=1).with_adapter_bytes(mine.read_bytes())
    proposals = learner.propose(REQUEST, 2)
    learner.update(proposals, [1.0, -1.0])
    mine.write_bytes(learner.adapter_bytes(to_ship=True))
    with pytest.raises(ConfigError, match=r"began with the adapter edits@3 .* now given edits@4"):
        adapter_of(config, archive)
    assert adapter_of(RunConfig(llm=str(folder), arm="random"), archive) is None
    mine.unlink()
    with pytest.raises(LlmError, match="cannot be read"):
        adapter_of(config, archive)


def test_free_python_does_without_a_grammar_and_what_was_learned_under_one(
    folder: Path, archive: Archive
) -> None:
    judge: Any = None
    assert Designers(str(folder), archive, judge, seed=0).constrained
    assert not Designers(str(folder), archive, judge, seed=0, free=True).constrained
    assert chosen_adapter("shipped", "smollm2", free=True) is None


def test_a_wrong_adapter_is_one_line_before_anything_is_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = ["run", "--llm", str(folder), "--adapter", str(tmp_path / "nobody"), "--out", str(out)]
    assert main([*words, "--json"]) != 0
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "nobody cannot be read; give the adapter.safetensors" in line and not out.exists()
