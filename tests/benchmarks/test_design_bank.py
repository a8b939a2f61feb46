"""The design bank: what it holds, in which order it is trained, and that it can be gone on with."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from se_rl.modules.derivation import derivation
from se_rl.modules.design_bank.readings import BankLine
from se_rl.modules.design_bank.storage import load_bank, write_bank
from se_rl.modules.kinds import KINDS
from se_rl.records.settings import SINGLE, preset
from se_rl.scoring.score import ScoreRule
from se_rl_benchmarks import design_bank
from se_rl_benchmarks.bank_lines import bank_score, line_text, read_lines, write_lines
from se_rl_benchmarks.bank_plan import (
    DEFAULT_DESIGN,
    LEADING,
    Chains,
    accepted,
    chain_designs,
    named,
    near_today,
    planned,
)
from se_rl_benchmarks.design_bank import (
    LAST,
    LAST_AGAIN,
    OTHERS,
    SEARCH,
    Bank,
    GrowingBank,
    head_of,
    searched_champions,
)
from se_rl_benchmarks.many_trainings import Job, Outcome, run_jobs
from se_rl_benchmarks.search_results import Champion

CONFIG = preset("tiny")
DESIGNS = 20


class PretendedWorkshop:
    """Scores that follow from the design's name and the seed; nothing is trained."""

    config = CONFIG
    cells = ("one", "two")

    def prepare(self) -> None:
        """Nothing to prepare."""

    def outcome(self, job: Job) -> Outcome:
        """The pretended training."""
        if "broken" in job.sources:
            raise ValueError("a design that raises")
        rng = np.random.default_rng([int(job.design, 16) % 2**32, job.seed])
        scores = {
            "static": rng.normal(size=12),
            "static_total": rng.normal(size=12),
            "static_day": np.repeat(np.arange(4.0), 3),
            "dynamic": rng.normal(size=8),
            "dynamic_cell": np.tile([0.0, 1.0], 4),
        }
        return Outcome(job, scores, 1.0, ())


WORKSHOP: Any = PretendedWorkshop()


def filled(lines: list[BankLine], most: int | None = None) -> tuple[Bank, list[Job], str]:
    """A bank after its jobs, or the first of them; the jobs, and what was written."""
    file = io.StringIO()
    bank = Bank(WORKSHOP, lines, file, designs=DESIGNS)
    done = []
    for job in bank.jobs():
        if len(done) == most:
            break
        done.append(job)
        bank.keep(WORKSHOP.outcome(job))
    return bank, done, file.getvalue()


def test_designs_are_new_and_of_the_grammar() -> None:
    made = planned(SINGLE, 60, seed=0)
    assert len({one.id for one in made} | {DEFAULT_DESIGN.id}) == len(made) + 1
    assert {one.kind for one in made} == {"scan", "edit", "near", "random"}
    assert {one.steps for one in made if one.kind == "edit"} == {2, 3, 4, 5, 6}
    assert {one.steps for one in made if one.kind == "near"} == {0, 1, 2, 3}
    leading = next(one for one in made if one.kind == "near" and one.steps == 0)
    assert leading.sources == LEADING
    for one in made:
        for module, source in one.sources.items():
            assert derivation(source, module) is not None
    assert [one.id for one in planned(SINGLE, 60, seed=0)] == [one.id for one in made]


def test_known_designs_stay_and_what_is_missing_is_drawn() -> None:
    champion = accepted({"network": KINDS["network"].random_source(np.random.default_rng(5))})
    known = [*planned(SINGLE, 60, seed=1)[:40], champion, DEFAULT_DESIGN]
    made = planned(SINGLE, 60, seed=0, known=known)
    assert {one.id for one in known} - {one.id for one in made} == {DEFAULT_DESIGN.id}
    assert len(made) == len({one.id for one in made}) == 60 - chain_designs(60)


def test_champions_of_the_same_set_are_trained(tmp_path: Path) -> None:
    place = tmp_path / "champions.jsonl"
    with place.open("w") as file:
        for data, sources in (("nasdaq100", LEADING), ("other", {})):
            file.write(json.dumps(asdict(Champion(data, "tiny", "full", 0, "", sources))) + "\n")
    (one,) = searched_champions(place, "nasdaq100")
    assert (one.kind, one.sources) == ("accepted", LEADING)
    bank = Bank(WORKSHOP, [], io.StringIO(), designs=DESIGNS, champions=[one])
    assert one.id in {job.design for job in bank.jobs() if job.seed == SEARCH.seed}
    assert searched_champions(None, "nasdaq100") == []


def test_chains_go_on_from_their_best() -> None:
    rng = np.random.default_rng(0)
    first = planned(SINGLE, 20, seed=0)
    chains = Chains(SINGLE, 2, known=[one.id for one in first])
    for place, one in enumerate(first):
        chains.book(one, float(place))
    best, second = first[-1].id, first[-2].id
    steps = [chains.step(rng) for _ in range(2)]
    assert [one.parent for one in steps if one] == [best, second]
    better = steps[0]
    assert better is not None and better.chain == best
    chains.book(better, 100.0)
    third = chains.step(rng)
    assert third is not None and (third.parent, third.chain) == (better.id, best)
    assert third.id not in {better.id, *(one.id for one in first)}


def test_a_design_gains_nothing_over_itself_and_its_parts_add_up() -> None:
    rule = ScoreRule.of(CONFIG)
    scores = WORKSHOP.outcome(Job("1", 1.0, 0)).scores
    found = bank_score(scores, scores, rule, cells=WORKSHOP.cells)
    assert found is not None
    assert (found.gain, found.gain_se) == (0.0, 0.0)
    assert found.score == pytest.approx(0.5 * found.history + 0.5 * found.simulated)
    by_day = scores["static"].reshape(4, 3).mean(axis=1)
    whole = scores["static_total"].reshape(4, 3).mean(axis=1)
    assert found.risk == pytest.approx(-CONFIG.risk / 2.0 * whole.var(ddof=1))
    assert found.history == pytest.approx(by_day.mean() + found.risk)


def test_void_orders_leave_no_score() -> None:
    scores = WORKSHOP.outcome(Job("1", 1.0, 0)).scores
    void = scores | {"dynamic": np.full(8, np.nan)}
    assert bank_score(void, scores, ScoreRule.of(CONFIG), cells=WORKSHOP.cells) is None


def test_all_are_trained_once_and_a_third_in_every_way() -> None:
    bank, jobs, written = filled([])
    searched = [job for job in jobs if job.seed == SEARCH.seed]
    assert len(searched) == len({job.design for job in searched}) == DESIGNS + 1
    again = {}
    for way in (*OTHERS, LAST_AGAIN):
        again[way.seed] = {job.design for job in jobs if job.seed == way.seed}
    single = {one.id for one in bank.planned if one.kind == "scan"}
    second, short = again[OTHERS[0].seed], again[OTHERS[2].seed]
    assert second == short and len(second) == 1 + -(-DESIGNS // 3)
    assert again[LAST.seed] == second | single
    assert len(second & single) == 4  # of seven: two, the best, one, and so on
    rest = [line for line in bank.done.values() if line.seed == SEARCH.seed]
    rest = [one for one in rest if one.design.kind not in ("default", "scan")]
    best = max(rest, key=lambda line: line.score.gain if line.score else -1.0)
    assert best.design.id in second
    assert again[LAST_AGAIN.seed] == again[LAST.seed]
    last = next(job for job in jobs if job.seed == LAST.seed)
    assert (last.rung, last.work) == (2, CONFIG.rungs.last.work)
    assert len(written.splitlines()) == len(jobs) == len(bank.done)
    assert sum(line.design.kind == "chain" for line in bank.done.values()) >= 2


def test_a_bank_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    half, jobs, written = filled([], most=15)
    place = tmp_path / "bank.jsonl"
    write_lines(place, head_of(CONFIG, "tiny"), [])
    with place.open("a") as file:
        file.write(written + '{"design": {"id": "cut o')
    head, lines = read_lines(place)
    assert head == head_of(CONFIG, "tiny")
    assert lines == list(half.done.values())
    packed = tmp_path / "bank.parquet"
    write_bank(packed, head, lines)
    again, packed_lines = read_lines(packed)
    assert again == head and [one.design for one in packed_lines] == [one.design for one in lines]
    bank, more, _ = filled(lines)
    default = [job for job in more if job.design == DEFAULT_DESIGN.id]
    assert len(default) == 5  # its orders are not stored
    keys = [(job.design, job.seed) for job in [*jobs, *more] if job not in default]
    assert len(keys) == len(set(keys))
    assert len(bank.done) == len(filled([])[0].done)


def test_readings_wait_for_the_default_of_their_seed() -> None:
    file = io.StringIO()
    bank = Bank(WORKSHOP, [], file, designs=DESIGNS)
    jobs = bank.jobs()
    default = next(jobs)
    other = next(job for job in jobs if job.design != default.design and job.seed == default.seed)
    bank.keep(WORKSHOP.outcome(other))
    assert file.getvalue() == ""
    bank.keep(WORKSHOP.outcome(default))
    assert len(file.getvalue().splitlines()) == 2


def test_a_bank_of_other_settings_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "bank.jsonl"
    write_lines(place, head_of(replace(CONFIG, work=1.0), "tiny"), [])
    with pytest.raises(SystemExit, match="begin a new bank"):
        design_bank.main(["--preset", "tiny", "--resume", str(place), "--out", str(place)])
    with pytest.raises(SystemExit, match="exists"):
        design_bank.main(["--preset", "tiny", "--out", str(place)])
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(ValueError, match="no lines"):
        read_lines(empty)


def test_a_failed_training_is_kept_without_a_score(tmp_path: Path) -> None:
    design = named("scan", {}, parent=DEFAULT_DESIGN.id)
    line = BankLine(design, 1, 0.1, 0, 1.0, reason="it diverged")
    place = tmp_path / "bank.jsonl"
    write_lines(place, head_of(CONFIG, "tiny"), [line])
    assert read_lines(place)[1] == [line]
    assert "NaN" not in line_text(line)


def test_jobs_are_asked_for_when_a_process_is_free() -> None:
    kept: list[Outcome] = []
    seen = []

    def jobs() -> Iterator[Job]:
        for number in range(5):
            seen.append(len(kept))
            yield Job(str(number), 1.0, 0, {"broken": ""} if number == 3 else {})

    count = run_jobs(cast(Any, WORKSHOP), jobs(), kept.append, seconds=60.0, workers=1)
    assert count == 5 and seen == [0, 1, 2, 3, 4]
    assert kept[3].reason == "ValueError: a design that raises"
    assert not any(one.reason for one in kept if one.job.design != "3")
    assert run_jobs(SimpleNamespace(prepare=lambda: None), jobs(), kept.append, seconds=0.0) == 0  # type: ignore[arg-type]


def test_a_bank_grows_around_the_default_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = load_bank()
    other = LEADING["network"].replace("batch = 0.25", "batch = 0.5")
    begun_with = {**shipped.head.default, "network": other}
    known = replace(shipped, head=replace(shipped.head, default=begun_with))
    monkeypatch.setattr(design_bank, "load_bank", lambda: known)
    near = near_today(known.head, 120, seed=0)
    assert len(near) == 121 == len({one.id for one in near})
    assert known.sources(near[0]) == {} and near[0].steps == 0, "the default itself"
    for one in near[1:]:
        changed = known.sources(one)
        assert changed and all(derivation(text, name) for name, text in changed.items())
    file = io.StringIO()
    workshop = PretendedWorkshop()
    bank = GrowingBank(cast(Any, workshop), list(known.lines), file, more=120)
    jobs = list(bank.jobs())
    assert jobs[0].design == DEFAULT_DESIGN.id
    network = known.head.default["network"]
    assert jobs[0].sources == {"network": network} != KINDS["network"].default_source
    assert jobs[3].sources["network"] == KINDS["network"].default_source
    for job in jobs[:6]:
        bank.keep(workshop.outcome(job))
    lines = [json.loads(text) for text in file.getvalue().splitlines()]
    assert len(lines) == 3, "the bank's own default is in it already"
    assert {line["design"]["kind"] for line in lines} == {"near"}
