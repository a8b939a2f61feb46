"""Faults of a run, in this process: a crash at every commit, a full disk, damaged files, changed settings, data and code.

Trainings are made up, cheaply and always the same, and come back in an order of their own each time; all else is real.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tiny_run import make_data, make_model, tiny_config

from se_rl.config import ConfigError
from se_rl.core import final_tables, preparation, run
from se_rl.core.final_tables import TestTable
from se_rl.executors.stored_policy import array_bytes, training_bytes
from se_rl.executors.training_pool import TrainingPool
from se_rl.llm.code_validator import ValidationResult
from se_rl.main import main
from se_rl.modules.static_check import check_source
from se_rl.records.archive import Archive, ArchiveError
from se_rl.records.entries import Evaluation, key_of
from se_rl.records.jobs import TrainingJob
from se_rl.records.method_rows import MethodRow
from se_rl.records.plain import to_plain
from se_rl.records.results import Gain, RunResults, RunTimes
from se_rl.records.run_folder import RunFolder
from se_rl.report.design_rows import SHORT
from se_rl.report.live import LiveRun
from se_rl.report.numbers import with_error
from se_rl.report.page_numbers import interval, signed
from se_rl.report.run_page import run_page
from se_rl.report.show_design import show_design
from se_rl.report.show_run import show_run
from se_rl.rl.policy_file import read_weights
from se_rl.rl.sandboxed_training import TrainedDesign
from se_rl.scoring import statistics
from se_rl.scoring.execution import ConstantSchedule
from se_rl.scoring.play import Open

QUICK = {"worlds": "static", "horizons": (60,), "promoted": 2}
ORDERS = np.random.default_rng(0)
"""Of completion: drawn anew at every start, so that nothing may depend on it."""


class CheapTrainingPool(TrainingPool):
    """Trainings that take no time: how a design does is drawn from its name."""

    def _train(self, jobs: Iterable[TrainingJob]) -> Iterator[tuple[TrainingJob, Evaluation, bool]]:
        for job in ORDERS.permutation(np.array([*jobs], dtype=object)):
            evaluation = self._made_up(job)
            self.archive.add_evaluation(evaluation, key=self.key(job))
            yield job, evaluation, False

    def _made_up(self, job: TrainingJob) -> Evaluation:
        rng = np.random.default_rng(int(key_of(job.candidate.id, job.rung.index, job.seed)[:8], 16))
        orders = len(self.validation.regimes(job.rung)["calm"])
        day = np.arange(orders) * 4.0 // orders
        arrays = {name: rng.normal(size=orders) for name in ("static", "static_total")} | {
            "static_day": day
        }
        trained = TrainedDesign(
            {}, "ok", None, "made up", 0.0, 1.0, weights={"weight:w": rng.random(4)}
        )
        blobs = [
            array_bytes(arrays),
            training_bytes(trained),
            json.dumps([{"work": rng.random()}]).encode(),
        ]
        files: dict[str, Any] = dict(
            zip(("arrays", "policy", "curve"), map(self.archive.put_blob, blobs), strict=True)
        )
        scores = {
            name: float(values.mean()) for name, values in arrays.items() if name != "static_day"
        }
        made_up = Evaluation(
            job.candidate.id,
            job.rung.index,
            job.seed,
            "ok",
            scores=scores,
            work=1.0,
            isolation="made up",
        )
        return replace(made_up, **files)

    def opened(self, trained: TrainedDesign) -> Open:
        assert trained.weights is not None
        multiple = 0.5 + float(trained.weights["weight:w"][0])
        return lambda *_: ConstantSchedule(multiple)

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
        problem = check_source(code, code_type)
        behaviour = np.random.default_rng(int(key_of(code)[:8], 16)).random(16).astype(np.float32)
        return ValidationResult(
            problem is None, "static", problem.message if problem else "", behaviour=behaviour
        )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    make_data(folder)
    return folder


@pytest.fixture
def start(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunResults]:
    """Starts, or goes on with, a run of made-up trainings in a folder of that name."""
    monkeypatch.setenv("SE_RL_HOME", str(home))
    monkeypatch.setattr(preparation, "TrainingPool", CheapTrainingPool)
    monkeypatch.setattr(run, "run_page", lambda path: f"the page of {path.name}")
    monkeypatch.setattr(final_tables, "history_table", _test_table)
    monkeypatch.setattr(
        statistics,
        "spa_p_value",
        lambda benchmark, table: float((table - benchmark[:, None]).mean()),
    )
    return lambda name, **changes: run.run_search(tiny_config(**(QUICK | changes)), tmp_path / name)


def _test_table(_: Any, policies: final_tables.Policies, **__: Any) -> TestTable:
    """The table of the test days, from what the policies do."""
    gain, rows, scores = Gain(0.0, ci95=(-1.0, 1.0)), {}, {}
    for name, seeds in policies.items():
        level = sum(seed("static", 9, 1).multiple for seed in seeds)  # type: ignore[attr-defined]
        metrics = dict.fromkeys(("PA", "PA_std", "WR", "GLR", "AFI"), level)
        gains = dict.fromkeys(("ours_over", "ours_over_specific", "over_TWAP"), gain)
        rows[name] = MethodRow(**metrics, **gains, over_TWAP_specific=Gain(level))
        scores[name] = tuple(_scores(seed("static", 9, 1)) for seed in seeds)
    return TestTable(rows, days=4, orders=4, checks=(), by_day={}, paths={}, scores=scores)


def _scores(policy: Any) -> dict[str, Any]:
    """What a policy earned on four test days."""
    days = np.arange(4.0)
    gains = policy.multiple * np.array([1.0, -1.0, 2.0, 0.0])
    return {"static": gains, "static_total": gains, "static_day": days}


def table(results: RunResults) -> str:
    """All that two runs with the same settings must have in common."""
    return json.dumps(to_plain(replace(results, times=RunTimes())))


def stored(folder: Path) -> Counter[tuple[str, str]]:
    with Archive.open(folder / "archive.sqlite", read_only=True) as archive:
        return Counter((event.kind, event.key) for event in archive.events())


class Crash(BaseException):
    """A process that dies: nothing may catch it."""


@contextmanager
def crash(at: Callable[[Archive, str, str], bool]) -> Iterator[None]:
    """Die instead of making the commit that `at` tells of its archive, kind and key."""
    write = Archive._write

    def dies(self: Archive, kind: str, key: str, *rest: Any) -> bool:
        if at(self, kind, key):
            raise Crash
        return write(self, kind, key, *rest)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Archive, "_write", dies)
        yield


def test_a_crash_at_every_commit_changes_nothing(start: Any, tmp_path: Path) -> None:
    expected, events = table(start("alone")), stored(tmp_path / "alone")
    for _ in range(len(events) - 1):
        one = iter([True])  # new commit, and the next is death

        def second_new(archive: Archive, _: str, key: str, one: Iterator[bool] = one) -> bool:
            return archive.find(key) is None and not next(one, False)

        with pytest.raises(Crash), crash(second_new):
            start("crashed")
    assert len(events) > 40
    assert table(start("crashed")) == expected
    assert stored(tmp_path / "crashed") == events


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return make_model(tmp_path_factory.mktemp("model"))


def test_a_model_is_asked_nothing_twice_and_learns_as_if_nothing_had_happened(
    start: Any, tmp_path: Path, model: dict[str, Any]
) -> None:
    expected = table(start("alone", **model))
    for kind in ("model_call", "validation", "learnt", "adapter", "iteration"):

        def first_new(archive: Archive, of: str, key: str, kind: str = kind) -> bool:
            return of == kind and archive.find(key) is None

        with pytest.raises(Crash), crash(first_new):
            start("crashed", **model)
    assert table(start("crashed", **model)) == expected
    assert stored(tmp_path / "crashed") == stored(tmp_path / "alone")
    with Archive.open(tmp_path / "alone" / "archive.sqlite", read_only=True) as archive:
        assert len(archive.adapters()) == 2 <= len(archive.calls())
        weights = [adapter.weights for adapter in archive.adapters()]
        damage(tmp_path / "alone", [*weights, *(call.reply for call in archive.calls())])
        assert table(start("alone", **model)) == expected
        assert all(map(archive.has_blob, weights))


def damage(folder: Path, hashes: Iterable[str]) -> None:
    """Flip one byte of each of these files."""
    for sha in hashes:
        path = folder / "blobs" / sha[:2] / sha[2:]
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)


def test_damaged_files_are_made_again(start: Any, tmp_path: Path) -> None:
    expected = table(start("run"))
    with Archive.open(tmp_path / "run" / "archive.sqlite", read_only=True) as archive:
        done = archive.evaluations()
        files = [[getattr(e, name) for e in done] for name in ("arrays", "policy", "curve")]
        files.append(sorted({sha for c in archive.candidates() for sha in c.modules.values()}))
        for kind in files:
            damage(tmp_path / "run", kind)
            assert not any(map(archive.has_blob, kind))
            assert table(start("run")) == expected
            assert all(map(archive.has_blob, kind))


def test_a_finished_run_changes_nothing_when_it_is_started_again(
    start: Any, tmp_path: Path
) -> None:
    def files() -> dict[str, Any]:
        found = {path.name: path for path in (tmp_path / "run").rglob("*") if path.is_file()}
        weights, facts = read_weights(found.pop("best.policy"))
        database = {"archive.sqlite": stored(tmp_path / "run")}
        policy = {name: tensor.tolist() for name, tensor in weights.items()}
        return (
            {name: path.read_bytes() for name, path in found.items()}
            | database
            | {"best.policy": (policy, facts)}
        )

    start("run")
    before = files()
    start("run")
    assert files() == before


@contextmanager
def full_disk(name: str, n: int = 1) -> Iterator[None]:
    """There is no room for the n-th new file whose path has this name in it, nor for any after it."""
    sync, seen = os.fsync, Counter[str]()

    def fails(descriptor: int) -> None:
        seen.update([name] if name in str(Path(f"/proc/self/fd/{descriptor}").readlink()) else [])
        if seen[name] >= n:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        yield


def test_a_full_disk_is_one_line_and_the_run_goes_on_later(start: Any, tmp_path: Path) -> None:
    expected = table(start("alone"))
    blobs, files = (
        (("/blobs/", n) for n in (1, 2, 9, 20)),
        ("report.html", "best.policy", "results.json"),
    )
    for name, n in [("config.yaml", 1), *blobs, *((name, 1) for name in files)]:
        with pytest.raises(ArchiveError, match="no room left on") as caught, full_disk(name, n):
            start("full")
        assert "\n" not in str(caught.value)
        assert not list((tmp_path / "full").rglob(".*"))
    assert table(start("full")) == expected
    assert stored(tmp_path / "full") == stored(tmp_path / "alone")


def test_what_a_killed_process_left_half_written_goes(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run") as folder:
        folder.bind({"seed": 1})
        half, own = folder.blobs / "ab" / ".cdef.x1y2z3.part", folder.path / ".note"
        for path in (half, own):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    with RunFolder(tmp_path / "run") as folder:
        assert not half.exists() and own.exists() and folder.config.exists()


def test_a_user_reads_one_line(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Crash), crash(lambda _, kind, __: kind == "iteration"):
        start("run")
    events, folder = stored(tmp_path / "run"), tmp_path / "run"
    resume = ["run", "--config", str(folder / "config.yaml"), "--out", str(folder)]

    def line(*more: str) -> tuple[int, str]:
        capsys.readouterr()
        code, said = main([*resume, *more]), capsys.readouterr().err.strip().split("\n")[-1]
        assert said.startswith("se-rl: ")
        assert stored(folder) >= events
        return code, said

    with RunFolder(folder):
        assert line() == (
            2,
            f"se-rl: {folder} is in use by process {os.getpid()}; wait for it or choose another --out",
        )
    code, said = line("--seed", "7")
    assert code == 2 and "began with seed 0 and is now given 7" in said
    with monkeypatch.context() as patched:
        patched.setattr(run, "code_hash", lambda: "abc")
        code, said = line()
        assert code == 2 and "was begun with other code (" in said and "this is abc)" in said
    facts = preparation.data_facts
    with monkeypatch.context() as patched:
        patched.setattr(preparation, "data_facts", lambda data: facts(data) | {"sha256": "abc"})
        code, said = line()
        assert code == 2 and "(abc), which holds something else; use the same data" in said
    with full_disk("report.html"):
        code, said = line()
        assert code == 1 and "no room left" in said


@pytest.mark.parametrize("name", ["archive.sqlite", "config.yaml"])
def test_a_run_whose_record_is_damaged_says_so(start: Any, tmp_path: Path, name: str) -> None:
    with pytest.raises(Crash), crash(lambda _, kind, __: kind == "iteration"):
        start("run")
    (tmp_path / "run" / name).write_bytes(b"\x00garbage" * 1000)
    with pytest.raises((ArchiveError, ConfigError), match=f"{name} is damaged"):
        start("run")


def test_log_show_and_page_state_the_same_score_and_error(start: Any, tmp_path: Path) -> None:
    folder, stream = tmp_path / "run", io.StringIO()
    with LiveRun(console=Console(file=stream, force_terminal=False)) as live:
        run.run_search(tiny_config(**QUICK), folder, tell=live.event)
    page, shown, log = run_page(folder), show_run(folder), stream.getvalue()
    scored = [row for row in shown.designs if row.is_scored and row.iteration]
    assert len(scored) >= 3
    for row in scored:
        score = with_error(row.score, row.se)
        name = row.id[:SHORT]
        said = re.findall(rf"(?:design {name}.*, |\b{name} )(\S+ ± \S+?)(?: bps|,|$)", log, re.M)
        assert said[-1] == score, "the log's last word on it"
        design = show_design(folder, row.id)
        assert (design.row.score, design.row.se) == (row.score, row.se)
        rung = design.rungs[str(row.rung)]
        assert (rung.mean, rung.se) == (row.score, row.se)
        assert score_of(page, row.id) == f"{signed(row.score)} {interval(rung.ci95)} bps"


def score_of(page: str, name: str) -> str:
    """What the page's panel of a design says over the default."""
    marker = '<script type="application/json" id="designs">'
    panels = json.loads(page.partition(marker)[2].partition("</script>")[0])
    panel = next(panel for panel in panels["designs"] if panel["id"] == name)
    return dict(panel["facts"])["over the default"]
