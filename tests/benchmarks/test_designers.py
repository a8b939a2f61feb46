"""Designers side by side: skills of a tiny model, its edits as jobs, and gains over the parent."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from se_rl.modules.kinds import KINDS
from se_rl_benchmarks.designers import _changes, main
from se_rl_benchmarks.preferences import preferences
from se_rl_benchmarks.real_edits import (
    RealEdit,
    RealReading,
    differences,
    first_edits,
    gains_of,
    jobs_of,
    name_of,
    read_edits,
    read_readings,
)

sys.path.append(str(Path(__file__).resolve().parents[1] / "core"))
TINY: Any = import_module("tiny_run")
REWARDS = KINDS["reward"].contract.examples


def edit(designer: str, place: int) -> RealEdit:
    return RealEdit(designer, "reward", "default", {}, REWARDS[place], 0.1)


def test_every_designer_edits_the_same_parents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    TINY.make_model(tmp_path / "tiny")
    words = ["--model", str(tmp_path / "tiny"), "--parents", "2", "--edits", "2"]
    assert main([*words, "--wishes", "1", "--out", str(tmp_path)]) == 0
    told = json.loads((tmp_path / "designers.json").read_text())
    assert list(told["one_step"]) == list(told["wishes"]) == ["random", "untouched"]
    assert (tmp_path / "designers.md").read_text().count("| untouched |") == 1 + len(
        told["wishes"]["random"]
    )
    assert set(told) >= {"valid", "one_step", "search"} and told["against"] == "surrogate"
    kept = (tmp_path / "wishes_1_2_0.jsonl").read_text().splitlines()
    assert [list(json.loads(line)) for line in kept] == [["random"], ["untouched"]]
    for one in told["one_step"].values():
        assert one["n"] == 4 and one["ci95"][0] <= one["mean_gain"] <= one["ci95"][1]
    assert "| untouched | 4 |" in capsys.readouterr().out
    pairs = read_edits(tmp_path / "pairs.jsonl")
    assert {one.parent for one in pairs[:4]} == {one.parent for one in pairs[4:]}
    jobs = list(jobs_of(pairs, [], work=2.0))
    assert len({(job.design, job.seed) for job in jobs}) == len(jobs)
    assert {job.work for job in jobs} == {2.0} and {job.rung for job in jobs} == {2}


def test_parents_are_trained_once_and_what_is_done_is_left_out() -> None:
    edits = [edit("random", 0), edit("model", 1), edit("model", 0)]
    jobs = list(jobs_of(edits, [], work=1.0))
    default, first, second = name_of({}), *(name_of(edits[i].child_sources) for i in (0, 1))
    assert [(job.design, job.seed) for job in jobs] == [
        (name, seed) for seed in (2, 4) for name in (default, first, second)
    ]
    done = [RealReading(default, 2, 0.5, 1.0), RealReading(first, 2, None, 1.0, "broke")]
    assert len(list(jobs_of(edits, done, work=1.0))) == 4


def test_a_gain_is_over_the_parent_of_the_same_seed(tmp_path: Path) -> None:
    one = edit("random", 0)
    parent, child = one.key
    readings = [
        RealReading(parent, 2, 0.5, 1.0),
        RealReading(child, 2, 0.9, 1.0),
        RealReading(child, 4, 9.0, 1.0),
    ]
    assert gains_of([one], readings) == {one.key: pytest.approx(0.4)}
    both = gains_of([one], [*readings, RealReading(parent, 4, 8.8, 1.0)])
    assert both == {one.key: pytest.approx(0.3)}
    assert gains_of([one], readings[:1]) == {}
    place = tmp_path / "trainings.jsonl"
    place.write_text('{"design": "a", "seed": 2, "score": 0.1, "seconds": 1.0}\n{"design": "b"')
    assert read_readings(place) == [RealReading("a", 2, 0.1, 1.0)]


def test_designers_are_compared_parent_by_parent() -> None:
    parents = [{"reward": REWARDS[0]}, {"reward": REWARDS[1]}, {}]
    edits = []
    gains = {}
    for place, parent in enumerate(parents):
        for designer, gain in (("random", -0.1 * place), ("model", 0.2)):
            for turn in range(2):
                source = f"# {designer} {turn}\n{REWARDS[0]}"
                one = RealEdit(designer, "imagination", str(place), parent, source, 0.0)
                edits.append(one)
                gains[one.key] = gain + (turn - 0.5) * 0.02
    [(name, told)] = differences(edits, gains).items()
    assert name == "model - random" and told["parents"] == 3
    assert told["mean"] == pytest.approx(0.3)
    assert told["ci95"] == (pytest.approx(0.3 - 0.2484, abs=1e-3), pytest.approx(0.5484, abs=1e-3))
    assert len(first_edits(edits, 1)) == 6 and first_edits(edits, 2) == edits
    assert differences(edits[:2], gains) == {}


def test_edits_change_as_many_choices_as_in_a_run() -> None:
    calls = _changes(160)
    assert [calls.count(n) for n in (1, 2, 3)] == [10, 6, 4] and _changes(1) == [1]


def test_preferences_are_those_in_which_designers_differ() -> None:
    usual = KINDS["network"].default_source
    assert "epochs = 3\n" in usual
    few, many = (usual.replace("epochs = 3\n", f"epochs = {n}\n") for n in (2, 6))
    edits = [RealEdit("untouched", "network", "default", {}, few, 0.0)]
    edits += [RealEdit("edits@1", "network", "default", {}, many, 0.0)] * 3
    told = preferences(edits, {edits[1].key: 0.5})
    assert told[0]["made"] == {"edits@1": 3} and told[0]["mean_gain"] == 0.5
    assert "epochs" in str(told[0]["change"]) and told[0]["trained"] == 3
    assert told[-1]["mean_gain"] is None and told[-1]["made"] == {"untouched": 1}
