"""The ladder among designs whose truth is planted: who climbs, who is stopped, and that luck is not sold as skill."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from se_rl.records.archive import Archive
from se_rl.records.entries import DEFAULT, Candidate, design_id
from se_rl.records.rungs import REFERENCE_SEEDS
from se_rl.records.settings import RunConfig, preset
from se_rl.scoring.ladder import Ladder
from se_rl.scoring.standing import GUESS, pooled_seed_spread

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY / "benchmarks"))
gate = import_module("gate")

CONFIG = preset("quick", promoted=3, finalists=2, seeds=(1, 2, 3))
SCREEN, SEARCH, LAST = (rung.index for rung in CONFIG.rungs)
DEFAULT_DESIGN = Candidate(design_id({}), {}, DEFAULT)


class TrainingPool(gate.PlantedTrainingPool):  # type: ignore[name-defined]
    """The planted one, which finishes in the order of `shuffle` and fails at (design, rung, seed)."""

    def __init__(
        self, effects: Any, *, shuffle: int | None = None, fails: Sequence[Any] = (), **more: Any
    ) -> None:
        super().__init__({DEFAULT_DESIGN.id: (0.0, 0.0, 0.0), **effects}, seed=0, **more)
        self.shuffle, self.fails = shuffle, set(fails)
        self.done: list[tuple[str, int, int]] = []

    def evaluate(self, jobs: Sequence[Any]) -> Iterator[Any]:
        order = (
            np.arange(len(jobs))
            if self.shuffle is None
            else np.random.default_rng(self.shuffle).permutation(len(jobs))
        )
        for job, evaluation, stored in super().evaluate([jobs[i] for i in order]):
            place = (job.candidate.id, job.rung.index, job.seed)
            self.done.append(place)
            failed = replace(evaluation, status="failed", reason=f"seed {job.seed} broke")
            yield job, failed if place in self.fails else evaluation, stored


def designs(effects: dict[str, Any]) -> list[Candidate]:
    return [Candidate(name, {"reward": name}, "draft", (DEFAULT_DESIGN.id,)) for name in effects]


def ladder_of(
    training_pool: TrainingPool, config: RunConfig = CONFIG
) -> tuple[Ladder, list[tuple[str, Any]]]:
    events: list[tuple[str, Any]] = []

    def on_event(kind: str, payload: Mapping[str, Any], *, stored: bool = False) -> None:
        events.append((kind, payload))

    ladder = Ladder(config, gate.Journal(), training_pool, DEFAULT_DESIGN, on_event=on_event)
    return ladder, events


EFFECTS = {
    "bad": (-3.0,) * 3,
    "fast": (0.8, 0.8, 0.0),
    "none": (0.0,) * 3,
    "slow": (1.4, 1.4, 2.0),
    "good": (1.5,) * 3,
}


def climbed(
    config: RunConfig = CONFIG, **how: Any
) -> tuple[Ladder, TrainingPool, list[tuple[str, Any]], list[str]]:
    training_pool = TrainingPool(EFFECTS, **how)
    ladder, events = ladder_of(training_pool, config)
    ladder.run(designs(EFFECTS), config.rungs.screen)
    ladder.promote(list(EFFECTS))
    return ladder, training_pool, events, ladder.finals()


def test_the_right_ones_climb_and_the_best_at_the_end_wins() -> None:
    ladder, training_pool, events, finalists = climbed()
    assert {name for name, rung in ladder.standings if rung == SCREEN} == {
        *EFFECTS,
        DEFAULT_DESIGN.id,
    }
    promoted = {
        rung: [p["candidate"] for kind, p in events if kind == "promoted" and p["rung"] == rung]
        for rung in (1, 2)
    }
    assert set(promoted[SEARCH]) == {"fast", "slow", "good"}
    assert sorted(finalists) == sorted(promoted[LAST]) == ["good", "slow"]
    assert ladder.champion(finalists) == "slow"
    reasons = {p["candidate"]: p["reason"] for kind, p in events if kind == "dropped"}
    assert reasons == {
        "bad": "behind the default beyond doubt",
        "none": "not among the best of its batch",
    }
    planned = [6 * 1, 4 * 2, 3 * 3]
    assert training_pool.trainings == planned and len(set(training_pool.done)) == sum(
        planned
    )  # nothing is trained twice
    at_last = [ladder.standings[name, LAST] for name in finalists]
    assert (
        {one.spread for one in at_last} == {pooled_seed_spread(at_last)} != {GUESS}
    )  # what trainings differ by here
    for name, truth in EFFECTS.items():
        found = ladder.standings[name, SCREEN]
        assert abs(found.score - truth[0]) < 4 * found.se
    none, *_, good = designs(EFFECTS)[2:]
    assert ladder.gain(none) == ladder.standings["none", SCREEN].score
    assert ladder.gain(good) == ladder.standings["good", LAST].score  # as far up as both stand


class Lucky(TrainingPool):
    """Every design's first training is far better than it is, that of `lucky` by most."""

    def scores(self, name: str, rung: int, seed: int, *, block: int) -> Any:
        found = super().scores(name, rung, seed, block=block)
        luck = (3.0 if name == "lucky" else 1.0) * (seed == 0) * (name != DEFAULT_DESIGN.id)
        return found | {
            world: found[world] + luck for world in ("static", "static_total", "dynamic")
        }


def test_a_lucky_screen_is_found_out_by_the_race() -> None:
    """Promoted designs are trained again with other seeds, and nobody leads by a screen alone."""
    effects = {"lucky": (0.0,) * 3, "good": (1.5,) * 3, "fair": (0.5,) * 3}
    ladder, _ = ladder_of(training_pool := Lucky(effects), replace(CONFIG, promoted=2))
    ladder.run(designs(effects), CONFIG.rungs.screen)
    screened = {name: ladder.standings[name, SCREEN] for name in effects}
    assert max(screened, key=lambda name: screened[name].score) == "lucky"
    assert ladder.ranking() == {} and ladder.leader() == DEFAULT_DESIGN.id
    assert ladder.promote(list(effects)) == ["lucky", "good"]
    assert set(ladder.ranking()) == {"lucky", "good"} and ladder.leader() == "good"
    raced = ladder.standings["lucky", SEARCH]
    assert raced.training_seeds == (0, 1, 2) and raced.by_seed[0] == pytest.approx(
        screened["lucky"].score
    )
    assert raced.score == pytest.approx(np.mean(raced.by_seed))
    assert raced.score < screened["lucky"].score - 1.0
    made = {place[1:] for place in training_pool.done if place[0] == "lucky"}
    assert made == {(SCREEN, 0), (SEARCH, 1), (SEARCH, 2)}  # stored where it was made, once
    assert len(list(ladder.trainings)) == len(set(training_pool.done)) == len(training_pool.done)


def test_a_race_counts_screens_that_are_like_it() -> None:
    """A screen on other orders says nothing that could be averaged with the race."""
    few = CONFIG.episodes[0] // 2
    for episodes, seeds in ((CONFIG.episodes, (0, 1, 2)), ((few, *CONFIG.episodes[1:]), (1, 2))):
        ladder, training_pool, *_ = climbed(replace(CONFIG, episodes=episodes))
        assert ladder.standings["good", SEARCH].training_seeds == seeds
        assert tuple(ladder.trainings.at("good", ladder.rungs.search)) == seeds
        assert not ladder.trainings.at("none", ladder.rungs.search)  # it did not race
        assert training_pool.trainings == [6 * 1, 4 * 2, 3 * 3]


def test_no_rung_shares_seeds_with_another() -> None:
    rungs = replace(CONFIG, seeds=(2, 3, 4)).rungs
    assert [[*rung.training_seeds] for rung in rungs] == [[0, 1], [2, 3, 4], [5, 6, 7, 8]]
    assert rungs.alike(rungs.screen) == rungs[:2] and rungs.alike(rungs.last) == rungs[2:]


def test_screens_know_what_seeds_differ_by_from_the_races() -> None:
    """With one training each nothing is known of the seeds' luck, until designs of an earlier batch raced."""
    many = {f"design {i}": (1.0,) * 3 for i in range(8)}
    ladder, _ = ladder_of(TrainingPool(many), replace(CONFIG, promoted=4))
    first, second = designs(many)[:4], designs(many)[4:]
    ladder.run(first, CONFIG.rungs.screen)
    assert ladder.standings["design 0", SCREEN].spread.sd == GUESS.sd
    ladder.promote([one.id for one in first])
    ladder.run(second, CONFIG.rungs.screen)
    raced = [ladder.standings[one.id, SEARCH] for one in first]
    assert ladder.standings["design 7", SCREEN].spread == pooled_seed_spread(raced) != GUESS


def test_gains_are_over_the_parent() -> None:
    training_pool = TrainingPool({"a": (1.0,) * 3, "b": (1.5,) * 3})
    ladder, events = ladder_of(training_pool)
    child = Candidate("b", {}, "tweak", ("a",))
    assert ladder.gain(child) is None
    ladder.run([Candidate("a", {}, "draft", (DEFAULT_DESIGN.id,))], CONFIG.rungs.screen, [0])
    ladder.run([child], CONFIG.rungs.screen, [0])
    a, b = (ladder.standings[name, SCREEN].score for name in "ab")
    readings = [payload for kind, payload in events if kind == "evaluated"]
    assert ladder.gain(child) == pytest.approx(b - a) == readings[-1]["gain"]
    assert ladder.longest("b") is ladder.standings["b", SCREEN] and ladder.longest("c") is None


def test_a_standing_is_stored_once_and_again_when_it_changed(tmp_path: Path) -> None:
    """What people read is what the search goes by: score, error and gain, of the latest comparison."""
    config = replace(CONFIG, seeds=(2, 2, 3))
    training_pool = TrainingPool({"a": (1.0,) * 3, "b": (1.5,) * 3})
    parent = Candidate("a", {"reward": "a"}, "draft", (DEFAULT_DESIGN.id,))
    child = Candidate("b", {"reward": "b"}, "tweak", ("a",))
    told: list[tuple[str, bool]] = []

    def on_event(kind: str, payload: Mapping[str, Any], *, stored: bool = False) -> None:
        if kind == "standing":
            told.append((payload["candidate"], stored))

    with Archive.open(tmp_path / "archive.sqlite") as archive:
        for again in (False, True):
            ladder = Ladder(config, archive, training_pool, DEFAULT_DESIGN, on_event=on_event)
            ladder.run([parent], config.rungs.screen)
            first = ladder.stored_standing("a", config.rungs.screen)
            ladder.run([child], config.rungs.screen)
            names = [DEFAULT_DESIGN.id, "a", DEFAULT_DESIGN.id, "a", "b"]
            # the default stands at 0 for certain, so it never changes; a's error is pooled with b's seeds
            stored = [again, again, True, again, again]
            assert told == list(zip(names, stored, strict=True))
            told.clear()
        standings = archive.standings()
    assert set(standings) == {(DEFAULT_DESIGN.id, 0), ("a", 0), ("b", 0)}
    default, a, b = (standings[name, 0] for name in (DEFAULT_DESIGN.id, "a", "b"))
    assert (default.score, default.se, default.gain) == (0.0, 0.0, None)
    assert a != first and a.score == first.score and a.se != first.se
    own = ladder.standings["b", 0]
    assert (b.score, b.se, b.ci95, b.by_seed) == (own.score, own.se, own.ci95, own.by_seed)
    assert b.seeds == 2 and dict(b.by_world) == dict(own.by_world)
    assert a.gain == a.score and a.gain_se == pytest.approx(a.se)  # its parent is the default
    assert b.gain == ladder.gain(child) and b.gain_se is not None and 0.0 < b.gain_se < 2 * b.se


def test_the_order_of_completion_changes_nothing() -> None:
    fails = [("none", SCREEN, 0), ("none", SCREEN, 1)]
    config = replace(CONFIG, seeds=(2, 3, 4))
    first = climbed(config, fails=fails)
    for shuffle in range(4):
        other = climbed(config, fails=fails, shuffle=shuffle)
        assert other[1].done != first[1].done and other[3] == first[3]
        assert list(other[0].standings.items()) == list(
            first[0].standings.items()
        )  # to the last bit, and in order
        assert other[0].failures == first[0].failures == {"none": "seed 0 broke"}
        assert other[0].ranking() == first[0].ranking()
        rungs = config.rungs
        seeds = [list(other[0].trainings.at(name, rung)) for name in EFFECTS for rung in rungs]
        assert seeds == [sorted(each) for each in seeds]


def test_futility_stops_a_finalist_and_success_never_does() -> None:
    """After three trainings one that is far behind is out; the leader trains to the end, however far ahead."""
    effects = {"good": (3.0,) * 3, "fades": (2.5, 2.5, -2.0)}
    config = replace(CONFIG, seeds=(1, 2, 5))
    ladder, events = ladder_of(training_pool := TrainingPool(effects), config)
    ladder.run(designs(effects), CONFIG.rungs.screen, range(1))
    ladder.promote(list(effects))
    finalists = ladder.finals()
    assert finalists == ["good"] and ladder.champion(finalists) == "good"
    trained = {
        name: sum(place[:2] == (name, LAST) for place in training_pool.done)
        for name in (*effects, DEFAULT_DESIGN.id)
    }
    assert trained == {"good": 5, "fades": 3, DEFAULT_DESIGN.id: 5}
    assert (
        "dropped",
        {"candidate": "fades", "rung": LAST, "reason": "futile after 3 trainings"},
    ) in events


def test_a_design_that_breaks_later_is_out_of_the_running() -> None:
    ladder, *_, finalists = climbed(fails=[("good", SEARCH, 1), ("slow", LAST, 5)])
    assert ladder.failures == {"good": "seed 1 broke", "slow": "seed 5 broke"}
    assert ("good", SCREEN) in ladder.standings and ("good", SEARCH) not in ladder.standings
    assert "good" not in ladder.ranking() and "good" not in finalists and "slow" not in finalists
    assert ladder.leader() != "good"
    assert ladder.champion([]) == DEFAULT_DESIGN.id


def test_without_the_default_nothing_is_compared() -> None:
    ladder, *_ = climbed(replace(CONFIG, seeds=(1, 1, 1)), fails=[(DEFAULT_DESIGN.id, SCREEN, 0)])
    assert not [name for name, rung in ladder.standings if rung == SCREEN]
    assert (
        ladder.failures == {DEFAULT_DESIGN.id: "seed 0 broke"}
        and ladder.leader() == DEFAULT_DESIGN.id
    )


def test_scores_that_cannot_be_compared_are_a_failure() -> None:
    class Void(TrainingPool):
        def arrays(self, evaluation: Any) -> Any:
            found = super().arrays(evaluation)
            return (
                found | {"dynamic": np.full_like(found["dynamic"], np.nan)}
                if evaluation.candidate == "a"
                else found
            )

    ladder, _ = ladder_of(Void({"a": (9.0,) * 3, "b": (1.0,) * 3}))
    ladder.run(designs({"a": 0, "b": 0}), CONFIG.rungs.screen, [0])
    assert ladder.failures == {"a": "too few of its orders can be compared"}
    assert {name for name, _ in ladder.standings} == {DEFAULT_DESIGN.id, "b"}


def test_extra_designs_are_trained_at_the_last_rung_but_cannot_win() -> None:
    effects = {**EFFECTS, "extra": (9.0,) * 3}
    ladder, _ = ladder_of(TrainingPool(effects))
    ladder.run(designs(EFFECTS), CONFIG.rungs.screen, range(1))
    ladder.promote(list(EFFECTS))
    finalists = ladder.finals([Candidate("extra", {}, "naive default")])
    assert "extra" not in finalists and ladder.standings["extra", LAST].score > 8.0
    trained = {
        name: len(ladder.trainings.at(name, CONFIG.rungs.last)) for name in ("extra", "slow")
    }
    assert trained == {"extra": REFERENCE_SEEDS, "slow": CONFIG.rungs.last.seeds}
    assert ladder.champion(finalists) == "slow"


def test_the_gate_holds_in_small() -> None:
    """The campaign of benchmarks/gate.py on few designs: few false successes, the default mostly stays, truths are found."""
    found = gate.campaign(preset("quick"), searches=30, designs=18)
    null, planted = found["null"], found["planted"]
    assert (
        null["success"] <= 0.05 + 3 * 0.04 and null["default"] > 0.5
    )  # 3 standard errors of 30 searches
    assert abs(null["test"]) < 0.2 and null["truth"] == null["regret"] == 0.0
    assert planted["truth"] > 0.2 and planted["regret"] < 0.35
    assert planted["success"] > 5 * null["success"] and found["half"]["success"] > 0.2
    assert planted["cost"] < 1 / 3
    lines = gate.table(found).splitlines()
    assert len(lines) == 2 + len(gate.ROWS) and all(line.count("|") == 6 for line in lines)


def test_the_gate_is_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", ["gate.py", "--searches", "1", "--designs", "4", "--json"])
        gate.main()
        said.append(capsys.readouterr().out)
    found = json.loads(said[0])
    assert (
        said[0] == said[1]
        and set(found) == {"world", "null", "half", "planted"}
        and found["null"]["truth"] == 0.0
    )
