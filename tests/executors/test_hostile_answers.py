"""Hostile answers of trainings through executor, pool, archive, `show` and the page of a run."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from rich.console import Console

sys.path.append(str(Path(__file__).parents[1] / "rl"))
sys.path.append(str(Path(__file__).parents[1] / "report"))
from hostile_answers import Answer, Hostile, hostile, real_answer
from run_fixture import make_run

from se_rl.executors.protocol import FinishedTask, TrainingInputs, TrainingTask
from se_rl.executors.registry import EXECUTORS
from se_rl.executors.training_pool import TrainingPool
from se_rl.executors.training_settings import train_config, training_worlds_of
from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, Candidate, design_id
from se_rl.records.jobs import TrainingJob
from se_rl.records.settings import preset
from se_rl.report.run_page import run_page
from se_rl.report.show_design import print_design, show_design
from se_rl.report.show_run import print_run, show_run
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.sandbox.calls import Result

EXAMPLES = int(os.environ.get("SE_RL_FUZZ", "300"))
CONFIG = preset("tiny")
RUNG = CONFIG.rungs.screen
DESIGN = Candidate(design_id({}), {}, DEFAULT)
SEEDS = count(1000)


class HostileExecutor:
    """Ends every task with the answer that it is given."""

    answer: Answer

    def __init__(self, *_: Any, workers: int) -> None:
        self.tasks: list[TrainingTask] = []

    def submit(self, task: TrainingTask) -> int:
        self.tasks.append(task)
        return 0

    def poll(self, timeout_seconds: float) -> Sequence[FinishedTask]:
        task = self.tasks.pop()
        result = Result("ok", self.answer, "", 1.0, "strong")
        return [FinishedTask(0, TrainedDesign.of(result, task.sources, task.expected))]

    def cancel(self, handle: int) -> None: ...

    def capacity(self) -> int:
        return 1

    def close(self) -> None: ...


class OneScore:
    """Validation that gives every policy the same scores."""

    markets_digest = ""

    def score(self, *_: Any) -> dict[str, Any]:
        gains = np.ones(4)
        return {"static": gains, "static_total": gains, "static_day": np.arange(4.0)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def pool(folder: Path) -> Iterator[TrainingPool]:
    with pytest.MonkeyPatch.context() as patch, Archive.open(folder / "archive.sqlite") as archive:
        patch.setitem(EXECUTORS, "hostile", HostileExecutor)
        archive.add_candidate(DESIGN, {})
        yield TrainingPool(
            CONFIG,
            archive,
            cast(Any, OneScore()),
            inputs=TrainingInputs(None, cast(Any, None), dict),
            neutral=dict,
            basis="bars",
            executor="hostile",
        )


REAL = real_answer(training_worlds_of(CONFIG), train_config(CONFIG, RUNG))


def evaluated(pool: TrainingPool, answer: Answer) -> None:
    """One training with this answer: stored, and found again by a run that resumes."""
    cast(HostileExecutor, pool.executor).answer = answer
    job = TrainingJob(DESIGN, RUNG, next(SEEDS))
    [(_, evaluation, stored)] = pool.evaluate([job])
    assert not stored and np.isfinite(evaluation.work) and evaluation.work >= 0.0
    assert evaluation.ok or (evaluation.reason.isprintable() and len(evaluation.reason) <= 600)
    [(_, again, stored)] = pool.evaluate([job])
    assert stored and again == evaluation
    if evaluation.ok:
        assert pool.policy(DESIGN, again).weights


@pytest.mark.timeout(300 + EXAMPLES)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(hostile(REAL))
def test_hostile_answers_are_results_that_a_resume_finds(pool: TrainingPool, made: Hostile) -> None:
    evaluated(pool, made.answer)


@pytest.mark.timeout(300 + EXAMPLES)
def test_show_and_page_survive_whatever_was_stored(pool: TrainingPool, folder: Path) -> None:
    evaluated(pool, REAL)
    console = Console(file=io.StringIO(), width=120)
    print_run(show_run(folder), console=console)
    print_design(show_design(folder, DESIGN.id), console=console)
    assert "\x1b" not in console.file.getvalue()  # type: ignore[attr-defined]
    assert "onerror=alert(1)>" not in run_page(folder)
