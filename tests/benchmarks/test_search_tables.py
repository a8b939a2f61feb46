"""Tables of searches: what is refused without a lock, what is kept, and what the deadline ends."""

from __future__ import annotations

import json
import math
import threading
import time
from dataclasses import asdict, replace
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from se_rl.llm.backends import Abilities, Proposal, Request
from se_rl.modules.kinds import KINDS
from se_rl.records.code_hash import PACKAGE
from se_rl.records.entries import DEFAULT, Candidate
from se_rl.records.settings import preset
from se_rl_benchmarks import forked_searches, search_tables, shared_trainings
from se_rl_benchmarks.forked_searches import (
    ForkedEvaluator,
    GrammaticalValidator,
    TakenInTurns,
)
from se_rl_benchmarks.many_trainings import Job, Outcome
from se_rl_benchmarks.search_page import CarriedRow, SearchRow, differences, page, told_of
from se_rl_benchmarks.search_results import Champion, Results, champions_of
from se_rl_benchmarks.shared_trainings import (
    EXCEPT,
    OF_SEARCHES,
    TRAININGS_DEPEND_ON,
    SharedTrainings,
    TimeIsOver,
    made_by,
)


def row(arm: str, seed: int, gain: float) -> SearchRow:
    champion = "abc" if gain else ""
    halves = {"history": gain - 0.1, "simulated": gain + 0.1, "history_half": 0.2}
    return SearchRow(arm, seed, 8, 30, champion, gain, gain, (0.0, 1.0), 9.0, **halves)  # type: ignore[arg-type]


def test_nothing_but_the_grammars_modules_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("it was run")

    monkeypatch.setattr(forked_searches, "probe", never)
    verdict = GrammaticalValidator().validate("def reward(step):\n    return 0\n", "reward")
    assert not verdict.is_valid and verdict.stage == "static"
    assert "the grammar spells no such reward" in verdict.error_message


def test_a_grammatical_module_has_a_fingerprint_and_a_behaviour() -> None:
    source = KINDS["reward"].default_source
    verdict = GrammaticalValidator().validate(source, "reward")
    assert verdict.is_valid, verdict.error_message
    assert len(verdict.fingerprint) == 64 and verdict.behaviour.any()
    assert GrammaticalValidator().validate(source, "reward").fingerprint == verdict.fingerprint


class Busy:
    """A model that notes how many write at once."""

    name = "busy"
    abilities = Abilities(constrained=True, free_python=False, learns=True)
    adapter = None

    def __init__(self) -> None:
        self.writing = self.most = 0

    def propose(self, request: Request, n: int) -> list[Proposal]:
        self.writing += 1
        self.most = max(self.most, self.writing)
        time.sleep(0.02)
        self.writing -= 1
        return [Proposal("x")] * n

    def new_adapter(self, label: str, **_: object) -> Busy:
        return self


def test_one_search_at_a_time_has_the_model() -> None:
    busy = Busy()
    shared = TakenInTurns(cast(Any, busy))
    adapted = shared.new_adapter("one")
    threads = []
    for one in (shared, adapted, shared, adapted):
        threads.append(threading.Thread(target=one.propose, args=(Request("hello"), 2)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert busy.most == 1


def test_the_deadline_ends_a_batch_and_an_error_is_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def done(job: Job) -> Outcome:
        if job.design == "broken":
            raise ValueError("no such layer")
        time.sleep(0.0 if job.design == "quick" else 0.3)
        return Outcome(job, {}, 0.0, ())

    monkeypatch.setattr(shared_trainings, "outcome_of", done)
    with ThreadPool(1) as pool:
        trainings = SharedTrainings(pool)
        found = list(trainings.outcomes([Job("broken", 1.0, 0), Job("quick", 1.0, 1)]))
        assert "no such layer" in found[0].reason and not found[1].reason
        with pytest.raises(TimeIsOver):
            list(trainings.outcomes([Job("slow", 1.0, 2)], time.monotonic() + 0.05))
    late = ForkedEvaluator(cast(Any, None), cast(Any, None), cast(Any, None), deadline=-math.inf)
    with pytest.raises(TimeIsOver):
        list(late.evaluate([]))


def test_a_training_is_made_once_and_kept_for_later_calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = []

    def done(job: Job) -> Outcome:
        made.append(job)
        return Outcome(job, {"history": np.arange(3.0)}, 2.5, (0.5, 0.25), "")

    monkeypatch.setattr(shared_trainings, "outcome_of", done)
    jobs = [Job("one", 1.0, 0, {"reward": "text"}), Job("other name", 1.0, 0, {"reward": "text"})]
    unlike = [Job("one", 1.0, 1), Job("one", 2.0, 1), Job("one", 1.0, 1, rung=-1)]
    with ThreadPool(2) as pool:
        first = SharedTrainings(pool, tmp_path, config=preset("tiny"))
        list(first.outcomes(jobs))
        assert len(made) == 1
        list(first.outcomes(unlike))
        assert len(made) == 4
        (again,) = SharedTrainings(pool, tmp_path, config=preset("tiny")).outcomes(jobs[:1])
        assert len(made) == 4 and again.scores["history"].tolist() == [0.0, 1.0, 2.0]
        assert (again.seconds, again.alpha, again.reason) == (2.5, (0.5, 0.25), "")
        list(SharedTrainings(pool, tmp_path, config=preset("quick")).outcomes(jobs[:1]))
        assert len(made) == 5


def test_what_is_kept_serves_searches_that_train_alike() -> None:
    settings = preset("standard")
    key = made_by(settings)
    for change in ({"arm": "local"}, {"seeds": (1, 2, 3)}, {"finalists": 2}, {"adapter": "none"}):
        assert made_by(replace(settings, **change)) == key
    for change in ({"risk": 0.01}, {"episodes": (9, 9, 9)}, {"data": "csi100"}, {"work": 1.0}):
        assert made_by(replace(settings, **change)) != key
    named = {*asdict(settings)}
    assert named.issuperset(OF_SEARCHES)
    for name in (*TRAININGS_DEPEND_ON, *EXCEPT):
        assert (PACKAGE / name).exists(), name


def test_searches_that_are_late_are_counted() -> None:
    done = []

    def late() -> None:
        raise TimeIsOver

    assert search_tables.until_over([lambda: done.append(1), late, late], 2) == 2
    assert done == [1]


def test_an_arm_is_a_variation_of_the_settings() -> None:
    config = preset("tiny")
    assert search_tables.varied(config, "no-dek", 3).levels == (False, False)
    both = search_tables.varied(config, "local+static-only", 3)
    assert (both.arm, both.worlds, both.seed) == ("local", "static", 3)
    with pytest.raises(SystemExit, match="arm 'fast' is unknown"):
        search_tables.varied(config, "fast", 0)


def test_the_descent_of_a_champion_names_operators_and_writers() -> None:
    designs = [
        Candidate("d", {}, DEFAULT),
        Candidate("a", {}, "scan", ("d",)),
        Candidate("b", {}, "edit", ("a",), model="small", adapter="small@2"),
        Candidate("c", {}, "crossover", ("b", "a")),
    ]
    known = {one.id: one for one in designs}
    assert search_tables.descent(known, "a") == "scan"
    assert search_tables.descent(known, "b") == "edit by small@2 of (scan)"
    assert search_tables.descent(known, "c") == "crossover of (edit by small@2 of (scan), scan)"


def test_differences_are_paired_by_seed() -> None:
    rows = [row("full", 0, 0.5), row("full", 1, 0.3), row("local", 1, 0.2), row("local", 0, 0.1)]
    found = differences([*rows, row("random", 1, 0.0), row("no-hle", 1, 0.1)])
    assert found["full - no-hle"].by_seed == pytest.approx((0.2,))
    assert found["full - local"].by_seed == pytest.approx((0.4, 0.1))
    half = 12.7062 * 0.15  # Student's t with one degree of freedom
    assert found["full - local"].ci95 == pytest.approx((0.25 - half, 0.25 + half), abs=1e-3)
    assert found["local - random"].by_seed == pytest.approx((0.2,))
    assert math.isnan(found["local - random"].ci95[0])


def test_variations_are_held_against_the_same_ones_without_a_model() -> None:
    rows = [row("full+no-bank", 0, 0.5), row("local+no-bank", 0, 0.2), row("full+ste", 0, 0.4)]
    found = differences(rows)
    assert list(found) == ["full+no-bank - local+no-bank"]
    assert found["full+no-bank - local+no-bank"].by_seed == pytest.approx((0.3,))


def test_results_add_up_over_calls(tmp_path: Path) -> None:
    first = Results(tmp_path, "here", "tiny", resume=False)
    first.planned = 3
    first.add(row("full", 0, 0.5), {"reward": "text"})
    first.add(row("local", 0, 0.0), {})
    again = Results(tmp_path, "here", "tiny", resume=True)
    assert again.rows == first.rows
    again.planned = 3
    again.add_carried(CarriedRow("there", "full", 0, "before", 0.1, (0.0, 0.2)))
    again.add_carried(CarriedRow("there", "full", 0, "abc", math.nan, (math.nan, math.nan)))
    assert [one.champion for one in again.carried] == ["abc"], "the search has another champion now"
    again.keep_carried([Champion("elsewhere", "tiny", "full", 0, "abc", {})])
    assert again.carried
    again.keep_carried([Champion("there", "tiny", "full", 1, "abc", {})])
    assert not again.carried, "the search has no champion now"
    again.add_carried(CarriedRow("there", "full", 0, "abc", math.nan, (math.nan, math.nan)))
    assert Results(tmp_path, "here", "tiny", resume=True).rows == first.rows
    told = json.loads((tmp_path / "search.json").read_text())["sets"]["here"]
    assert told["not_finished"] == 1 and told["carried"][0]["over_default"] is None
    assert "Not finished when the time was over: 1 searches" in (tmp_path / "search.md").read_text()
    kept = champions_of(tmp_path / "champions.jsonl")
    assert [(one.arm, one.sources) for one in kept] == [("full", {"reward": "text"})]
    with pytest.raises(SystemExit, match="give --preset tiny"):
        Results(tmp_path, "here", "standard", resume=True)
    Results(tmp_path, "here", "tiny", resume=False)
    assert not champions_of(tmp_path / "champions.jsonl")


def test_a_table_of_another_name_leaves_the_usual_one_alone(tmp_path: Path) -> None:
    usual = Results(tmp_path, "here", "tiny", resume=False)
    usual.add(row("full", 0, 0.5), {"reward": "text"})
    before = (tmp_path / "search.json").read_bytes()
    other = Results(tmp_path, "here", "tiny", resume=False, name="ablations")
    other.add(row("no-hle", 0, 0.4), {"reward": "other"})
    assert (tmp_path / "search.json").read_bytes() == before
    assert [one.arm for one in champions_of(tmp_path / "champions.jsonl")] == ["full"]
    assert [one.arm for one in champions_of(tmp_path / "ablations_champions.jsonl")] == ["no-hle"]
    assert "no-hle" in (tmp_path / "ablations.md").read_text()


def test_the_page_says_which_code_made_an_arm() -> None:
    rows = [replace(row("full", 0, 0.5), code="c0de"), replace(row("full", 1, 0.4), code="c0de")]
    rows += [row("random", 0, 0.1), replace(row("random", 1, 0.2), code="c0de")]
    told = json.loads(json.dumps(told_of(rows, [], preset="tiny", planned=4)))
    arms = [
        line for line in page({"set": told}).splitlines() if line.startswith(("| full |", "| r"))
    ]
    assert [line.split(" | ")[-1] for line in arms] == ["c0de |", "earlier, c0de |"]
