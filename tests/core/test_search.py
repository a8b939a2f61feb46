"""The search with a designer that follows a script and trainings whose outcome is planted: Algorithm 1 and its arms."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from se_rl.config import ConfigError
from se_rl.core import proposer
from se_rl.core.budget import Budget
from se_rl.core.designers import ADAPTED, UNTOUCHED, Designers
from se_rl.core.iteration_summary import iteration_counts, what_moved
from se_rl.core.operators import ADDED, Proposed, new_design
from se_rl.core.proposer import FAILURE_REWARD, search_rng
from se_rl.core.run import make_kit
from se_rl.core.search import NOTHING_USABLE, PLATEAU, Search
from se_rl.core.stopping import PATIENCE
from se_rl.core.training_loop import evolve
from se_rl.llm.backends import Abilities, Proposal, Request
from se_rl.llm.code_validator import ValidationResult
from se_rl.llm.ledger import Ledger
from se_rl.llm.prompts import default_micro
from se_rl.modules.edits import changes_between
from se_rl.modules.kinds import KINDS
from se_rl.records.archive import Archive
from se_rl.records.entries import Evaluation, ModelCall, design_id
from se_rl.records.settings import RunConfig, preset

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
gate = import_module("gate")

SMALL = gate.World(
    days=(6, 6, 6, 6), orders_per_day=4, episodes=12, own_sd=0.3, own_day_sd=0.0, seed_sd=0.05
)
TEXTS = {
    "reward": "def reward(step):\n    worth = {}\n    return worth * step.traded_share\n",
    "network": "class Network(nn.Module):\n    worth = {}\n",
    "imagination": "def imagine(bars, generator):\n    worth = {}\n    return bars\n",
}
Answer = Callable[[str, int, int], str]
"""What a script writes: for a module, in its call of this number, as the answer of this number."""


def by_chance(module: str, call: int, place: int) -> str:
    """Designs that are all different, and better the later they come."""
    return TEXTS[module].format(round(1.0 + 0.2 * call + 0.05 * place, 3))


class Script:
    """A designer that writes what it is told to, and mends nothing.

    Each call costs 10 tokens in, 5 out per answer, and a quarter dollar.
    """

    abilities = Abilities(metered=True)
    failures = ()

    def __init__(self, answer: Answer = by_chance, name: str = "scripted") -> None:
        self.name, self._answer, self.asked, self.ledger = name, answer, list[Request](), Ledger()
        self.designs = 0

    def propose(self, request: Request, n: int) -> list[Proposal]:
        self.asked.append(request)
        self.ledger.book(
            "h", self.ledger.open("h"), outcome="ok", tokens_in=10, tokens_out=5 * n, cost_usd=0.25
        )
        if len(request.messages) > 2:  # asked to mend something: it insists
            return [self._proposal(request.messages[-2]["content"], request)]
        module = self._module(request)
        self.designs += module is not None
        advice = "Prefer smaller steps. Punish risk late."
        texts = [self._answer(module, self.designs, i) if module else advice for i in range(n)]
        return [self._proposal(text, request) for text in texts]

    def _module(self, request: Request) -> str | None:
        words = request.messages[-1]["content"]
        for name in TEXTS:
            if request.grammar == KINDS[name].lark_grammar or (
                not request.grammar and f"`{KINDS[name].contract.signature}`" in words
            ):
                return name
        return None

    def _proposal(self, text: str, request: Request) -> Proposal:
        return Proposal(text, 10, output_tokens=5, model=self.name, request=request)

    def update(
        self, proposals: Sequence[Proposal], advantages: Sequence[float], **settings: Any
    ) -> dict[str, float]:
        raise AssertionError("nobody said that it can learn")


class Learner(Script):
    """The same with weights: one number, moved by what its answers gained."""

    abilities = Abilities(learns=True, metered=True)
    adapter: str | None = None
    steps = 0

    def _proposal(self, text: str, request: Request) -> Proposal:
        return Proposal(
            text, 10, (1, 2), -1.0, None, "stop", self.name, self.adapter, 0.0, (0,), 5, request
        )

    def new_adapter(self, label: str, **settings: Any) -> Learner:
        made = Learner(self._answer, self.name)
        made.asked, made.adapter = self.asked, f"{label}@0"
        return made

    def update(
        self, proposals: Sequence[Proposal], advantages: Sequence[float], **settings: Any
    ) -> dict[str, float]:
        assert len(proposals) == len(advantages) > 1 and abs(sum(advantages)) < 1e-6
        self.steps += 1
        self.adapter = f"lle@{self.steps}"
        return {"kl": 0.01}

    def adapter_bytes(self) -> bytes:
        return f"weights {self.adapter}".encode()


class Shop(gate.PlantedTrainingPool):  # type: ignore[name-defined]
    """Trains at no cost: a design is worth what its modules say; 'broken' ones give no policy, 'invalid' ones are refused."""

    def __init__(self, archive: Archive, *, seconds: float = 1.0) -> None:
        super().__init__({}, seed=0, world=SMALL)
        self.archive, self.seconds, self.trained = archive, seconds, Counter[tuple[str, int]]()

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
        fine = "invalid" not in code
        return ValidationResult(
            fine, "passed" if fine else "static", "" if fine else "there is no such name"
        )

    def evaluate(self, jobs: Sequence[Any]) -> Iterator[tuple[Any, Evaluation, bool]]:
        for job in jobs:
            name, text = job.candidate.id, "".join(self.archive.sources(job.candidate).values())
            worth = (
                sum(map(float, re.findall(r"worth = (\S+)", text)))
                if "worth" in text
                else 0.4 * bool(text)
            )
            self.effects[name] = (worth,) * 3
            self.trained[name, job.rung.index] += 1
            status, place = (
                "failed" if "broken" in text else "ok",
                f"{name} {job.rung.index} {job.seed}",
            )
            reason = "loss is not finite" if status == "failed" else ""
            made = Evaluation(
                name,
                job.rung.index,
                job.seed,
                status,
                reason,
                arrays=place,
                work=1.0,
                seconds=self.seconds,
            )
            yield job, made, False


@dataclass
class Bench:
    """A search on a bench, and what it did."""

    search: Search
    shop: Shop
    script: Script
    budget: Budget
    events: list[tuple[str, Mapping[str, Any], bool]]
    outcomes: list[Any]
    brought: list[dict[str, Any]]

    def run(self) -> str:
        return evolve(self.search, after=lambda _, brought: self.brought.append(dict(brought)))

    @property
    def designs(self) -> list[Proposed]:
        return [one for brought in self.brought for one in brought["designs"]]

    def payloads(self, kind: str) -> list[Mapping[str, Any]]:
        return [payload for name, payload, _ in self.events if name == kind]


Start = Callable[..., Bench]
LITTLE = {
    "iterations": 3,
    "parents": 2,
    "siblings": 3,
    "promoted": 2,
    "seeds": (1, 1, 1),
    "imagine": False,
    "scan": False,
}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Sets a search up, in the archive of a name: the same name goes on with the same archive."""
    opened: list[Archive] = []

    def make(
        script: Script | None = None, *, at: str = "a", seconds: float = 1.0, **changes: Any
    ) -> Bench:
        config: RunConfig = preset("quick", **{**LITTLE, **changes})
        (tmp_path / at).mkdir(exist_ok=True)
        archive = Archive.open(tmp_path / at / "archive.sqlite")
        opened.append(archive)
        script, shop = script or Script(), Shop(archive, seconds=seconds)
        designers = Designers(
            script.name, archive, cast(Any, shop), seed=config.seed, designer=cast(Any, script)
        )
        kit, events, outcomes = make_kit(config), list[Any](), list[Any]()
        inner = kit.enhance

        def enhance(seen: Sequence[Any], *rest: Any, **more: Any) -> Any:
            outcomes.extend(seen)
            return inner(seen, *rest, **more)

        cast(Any, kit).enhance = enhance
        search = Search(
            config,
            archive,
            cast(Any, shop),
            designers,
            kit,
            spent=lambda: bench.budget.spent(),
            on_event=lambda kind, payload, *, stored: events.append((kind, payload, stored)),
        )
        bench = Bench(
            search, shop, script, Budget(config, archive, search, workers=1), events, outcomes, []
        )
        return bench

    yield make
    for archive in opened:
        archive.close()


def test_an_iteration_begins_with_designs_of_other_searches(start: Start) -> None:
    bench = start(iterations=2)
    source = TEXTS["reward"].format(9.0)
    parents = (bench.search.default.id,)
    migrant = new_design({"reward": source}, "migrant", parents, "", 2, place=0)
    newcomer = Proposed(migrant, {"reward": source}, {})
    bench.search._newcomers = lambda iteration: [newcomer] if iteration == 2 else []
    bench.run()
    proposed = [c for c in bench.search.archive.candidates() if c.iteration == 2]
    assert proposed[0] == migrant and bench.search.best == migrant.id
    assert bench.search.proposed == bench.search.config.budget_designs


def test_the_steps_of_algorithm_1(start: Start) -> None:
    bench = start(iterations=2)
    assert bench.run() == "budget: 2 outer iterations"
    search, kinds = bench.search, [kind for kind, *_ in bench.events]
    assert kinds[:2] == ["proposed", "evaluated"]  # the default comes first
    assert bench.events[0][1]["operator"] == "default" and bench.events[1][1]["score"] == 0.0
    steps = ["proposed", "evaluated", "promoted", "credit"]
    for iteration in (1, 2):
        mine = [
            i
            for i, (kind, payload, _) in enumerate(bench.events)
            if kind == "proposed" and payload["iteration"] == iteration
        ]
        following = kinds[mine[0] :]
        firsts = [following.index(step) for step in steps]
        assert len(mine) == 6 and firsts == sorted(firsts)
    assert search.proposed == 12 == search.counts()["scored"] and len(bench.brought) == 2
    assert [len(b["designs"]) for b in bench.brought] == [6, 6] and set(
        bench.brought[0]["gains"]
    ) == {one.candidate.id for one in bench.brought[0]["designs"]}
    best = max(bench.designs, key=lambda one: bench.shop.effects[one.candidate.id][0]).candidate.id
    leader = search.ladder.longest(search.best)
    assert (
        leader is not None
        and leader.score > 1.0
        and bench.shop.effects[best][0] - leader.score < 0.7
    )
    for c in search.archive.candidates()[1:]:
        assert (
            c.parents[0] in search.designs.candidates
            and bool(c.call) == bool(c.prompt) == (c.operator != "crossover")
            and c.model == ("scripted" if c.call else "")
        )
        assert search.archive.sources(c) == search.designs.sources[c.id]
    assert search.progress.ema is not None and search.progress.calm <= 1


def test_the_gain_is_over_the_parent(start: Start) -> None:
    bench = start()
    bench.run()
    ladder = bench.search.ladder
    for brought in bench.brought:
        for one in brought["designs"]:
            name, parent = one.candidate.id, one.candidate.parents[0]
            assert (parent, 1) in ladder.standings  # none is a parent that did not race
            rung = int((name, 1) in ladder.standings)
            gain = ladder.standings[name, rung].score - ladder.standings[parent, rung].score
            assert brought["gains"][name] == pytest.approx(gain, abs=0.05)
    assert any(one.candidate.parents[0] != bench.search.default.id for one in bench.designs)
    told = {outcome.proposal.text: outcome for outcome in bench.outcomes}
    asked = [one for one in bench.designs if one.proposal is not None]
    assert len(told) == len(asked) and all(
        outcome.gain is not None and not outcome.repeated for outcome in told.values()
    )


@pytest.mark.parametrize(
    ("changes", "reason", "proposed"),
    [
        ({"max_designs": 4}, "budget: 4 designs", 4),
        ({"max_tokens": 50}, "budget: 50 tokens", 6),
        ({"max_usd": 1.0, "usd_in": 1.0}, "budget: 1 usd", 12),
        ({"max_minutes": 2.0}, "budget: 2 minutes", 6),
        ({"iterations": 2, "max_designs": 90}, "budget: 2 outer iterations", 12),
    ],
)
def test_budgets(start: Start, changes: dict[str, Any], reason: str, proposed: int) -> None:
    bench = start(seconds=20.0, hle=False, imagine=True, **changes)
    cast(Any, bench.search.proposer).is_possible = lambda choice, parent: (
        choice["operator"] == "draft" and choice["model"] == UNTOUCHED
    )
    bench.search.archive.add_call(
        ModelCall("k", "m", "", 1, 10**6, 10**6, 99.0, 1e6, "r")
    )  # of another passage
    assert bench.run() == reason
    assert bench.search.proposed == proposed == bench.search.counts()["proposed"]
    used = bench.budget.usage()
    totals = bench.script.ledger.totals
    assert (used.calls, used.tokens_in, used.tokens_out, used.usd) == (
        len(bench.script.asked),
        totals.tokens_in,
        totals.tokens_out,
        totals.cost_usd,
    )
    assert used.minutes == pytest.approx(20.0 * sum(bench.shop.trained.values()) / 60.0, abs=0.2)


def test_estimates(start: Start) -> None:
    bench = start(seconds=60.0, max_minutes=2.0)
    assert bench.budget.seconds_left() == 0.0
    bench.search.begin()
    with pytest.raises(ConfigError, match="max_minutes is 2; 3 designs take about"):
        bench.budget.estimate()
    bench = start(at="b", seconds=1.0)
    bench.search.begin()
    c = bench.search.config
    last = c.finalists + 2  # the default and the naive one, too
    planned = (
        18 * c.rungs.screen.work + 6 * c.rungs.search.work + last * c.rungs.last.work
    )  # the default has had its screen and its race
    assert bench.budget.estimate().seconds == round(planned + 3.0 * 18)
    assert "18 designs" in bench.budget.estimate().text


def test_it_converges_when_nothing_moves(start: Start) -> None:
    bench = start(
        Script(lambda module, call, i: TEXTS[module].format(-2.0 - 0.1 * call - 0.01 * i)),
        iterations=50,
        epsilon=0.1,
    )
    assert bench.run() == (
        "converged: the smoothed score moved less than 0.1 bps in each of 5 iterations, "
        "with no new leader in 10 iterations"
    )
    assert (
        len(bench.brought) == PATIENCE
        and bench.search.best == bench.search.default.id
        and bench.search.progress.ema == 0.0
    )
    reasons = Counter(payload["reason"] for payload in bench.payloads("dropped"))
    assert set(reasons) == {"behind the default beyond doubt"} and not bench.payloads("promoted")


def test_a_plateau_leads_to_drafts_from_the_default(start: Start) -> None:
    def once_good(module: str, call: int, place: int) -> str:
        return TEXTS[module].format(
            3.0 + place if call <= 2 else -2.0 - 0.01 * call - 0.001 * place
        )

    bench = start(Script(once_good), iterations=9, epsilon=1e-6)
    bench.run()
    search, by_turn = bench.search, [b["designs"] for b in bench.brought]
    found = search.designs.candidates[search.best].iteration
    fresh = found + 1 + PLATEAU  # when so many iterations brought nothing better
    for turn, designs in enumerate(by_turn, 1):
        drafts = {(one.candidate.operator, one.candidate.parents[0]) for one in designs}
        assert (drafts == {("draft", search.default.id)}) == (turn == fresh), (turn, drafts)
    assert search.stale_iterations == len(by_turn) - fresh  # it starts to count again


def test_repeats_are_counted_and_not_trained_twice(start: Start) -> None:
    bench = start(Script(lambda module, *_: TEXTS[module].format(1.0)), at="same", lle=True)
    cast(Any, bench.search.proposer).is_possible = lambda choice, parent: (
        choice["operator"] == "draft" and choice["model"] == UNTOUCHED
    )
    bench.run()
    counts = bench.search.counts()
    assert (
        counts["proposed"] == 18
        and counts["scored"] + counts["repeated"] == 18
        and counts["repeated"] >= 14
    )
    assert max(bench.shop.trained.values()) == 1  # one seed at each rung, each design once
    assert (
        len(bench.payloads("repeated"))
        == counts["repeated"]
        == len(bench.search.archive.events("repeated"))
    )
    assert len(bench.search.archive.candidates()) == counts["scored"] + 1
    for payload in bench.payloads("repeated"):
        assert payload["twin"] == payload["id"] in bench.search.designs.candidates
    for outcome in bench.outcomes:  # it gained what its twin did, and is no second try
        assert outcome.gain is not None and (outcome.tried is None) == outcome.repeated
    assert (
        bench.search.proposer.bandit.expected(
            {"module": "reward", "operator": "draft", "model": UNTOUCHED}
        )
        < 0.1
    )
    for brought in bench.brought:
        told = iteration_counts(brought["designs"], brought["gains"])
        assert told.proposed == 6 == told.repeated + told.valid + told.failed


def test_counts_add_up(start: Start) -> None:
    def mixed(module: str, call: int, place: int) -> str:
        worth = (f"{call}.5", "1\n    invalid = 1", "1\n    broken = 1", "0.5")[(call + place) % 4]
        return TEXTS[module].format(worth)

    bench = start(Script(mixed, name="http://localhost#scripted"), iterations=4)
    bench.run()
    counts, search = bench.search.counts(), bench.search
    assert (
        counts["proposed"]
        == counts["scored"] + counts["failed"] + counts["repeated"]
        == search.proposed
        == 24
    )
    refused = sum(bool(c.reason) for c in search.designs.candidates.values())
    assert (
        counts["valid"]
        == counts["scored"] + counts["failed"] - refused
        == len(search.designs.candidates) - 1 - refused
    )
    assert min(counts.values()) > 0 and refused > 0 and search.ladder.failures
    assert set(search.ladder.failures.values()) == {"loss is not finite"}
    totals: Counter[str] = Counter()
    for brought in bench.brought:
        told = iteration_counts(brought["designs"], brought["gains"])
        assert told.proposed == len(brought["gains"]) + told.failed + told.repeated
        assert sum(told.modules.values()) == told.proposed and 0 < told.distinct <= 1
        totals.update(
            {name: getattr(told, name) for name in ("proposed", "valid", "failed", "repeated")}
        )
        assert "gained" in what_moved(
            search, brought["designs"], gains=brought["gains"], step=brought["changed"]
        )
    assert dict(totals) == {name: counts[name] for name in totals}
    assert all(
        one.candidate.id not in bench.shop.effects for one in bench.designs if one.candidate.reason
    )


def test_nothing_scored_is_said(start: Start) -> None:
    bench = start(Script(lambda module, *_: "invalid " + TEXTS[module]), iterations=1)
    bench.run()
    (brought,) = bench.brought
    assert (
        what_moved(
            bench.search, brought["designs"], gains=brought["gains"], step=brought["changed"]
        )
        == "no new design could be scored"
    )
    told = iteration_counts(brought["designs"], brought["gains"])
    assert (
        math.isnan(told.mean_gain)
        and told.valid == 0
        and bench.search.best == bench.search.default.id
    )


def test_what_the_bandit_learns_from(start: Start) -> None:
    bench = start(iterations=1)
    seen: list[tuple[Mapping[str, str], float]] = []
    cast(Any, bench.search.proposer.bandit).observe = lambda choice, reward: seen.append(
        (choice, reward)
    )
    bench.run()
    gains = bench.brought[0]["gains"]
    assert [reward for _, reward in seen] == [gains[one.candidate.id] for one in bench.designs]
    bad = start(
        Script(lambda module, *_: TEXTS[module].format("1\n    invalid = 1")), at="b", iterations=1
    )
    seen.clear()
    cast(Any, bad.search.proposer.bandit).observe = lambda choice, reward: seen.append(
        (choice, reward)
    )
    bad.run()
    assert [reward for _, reward in seen] == [FAILURE_REWARD] * 6


@pytest.mark.parametrize("arm", ["full", "local", "frozen", "best-of-n", "random"])
def test_arms_have_the_same_budget_and_do_what_they_say(start: Start, arm: Any) -> None:
    bench = start(Learner(), arm=arm, iterations=4, imagine=True, seed=3)
    assert bench.run() == "budget: 4 outer iterations"
    search, archive = bench.search, bench.search.archive
    trained = Counter(rung for (_, rung), n in bench.shop.trained.items() for _ in range(n))
    assert search.counts()["proposed"] == 24 and trained == {0: 25, 1: 9}
    made = [one.candidate for one in bench.designs]
    learns = arm == "full"
    assert bool(archive.adapters()) == learns == (ADAPTED in search.designers.versions)
    new = [i for i in archive.instructions() if i.operator != "default"]
    assert bool(new) == learns
    if arm in ("local", "random"):
        assert not bench.script.asked and not bench.outcomes
    if arm == "random":
        assert {c.operator for c in made} == {"random"}
    if arm in ("random", "best-of-n"):
        assert {c.parents for c in made} == {(search.default.id,)}
    if arm == "best-of-n":
        assert {c.operator for c in made} == {"draft"}
        assert [c.module for c in made[::3]] == ["reward", "network", "imagination"] * 2 + [
            "reward",
            "network",
        ]
        assert (
            len({request.messages[1]["content"] for request in bench.script.asked}) == 3
        )  # one prompt per module
        assert all(
            "Earlier designs" not in request.messages[1]["content"]
            for request in bench.script.asked
        )
    if arm in ("full", "local", "frozen"):
        assert "edit" in {c.operator for c in made} <= {"edit", "crossover"}
        assert len({c.parents for c in made}) > 1


def test_a_search_begins_with_a_scan_of_single_choices(start: Start) -> None:
    arms = {}
    for arm in ("full", "local"):
        bench = start(at=arm, arm=arm, scan=True, bank_prior=False, iterations=2, imagine=True)
        bench.run()
        first = bench.brought[0]["designs"]
        assert {one.candidate.operator for one in first} == {"scan"}
        assert len({one.candidate.id for one in first}) == 6
        assert [one.candidate.module for one in first] == ["reward", "network", "imagination"] * 2
        for one in first:
            (module, source), *others = one.sources.items()
            usual = KINDS[module].default_source
            assert not others and len(changes_between(usual, source, module) or ()) == 1
        arms[arm] = [one.candidate.id for one in first]
    assert arms["full"] == arms["local"]  # only who edits differs between them


def test_with_the_bank_half_of_the_first_prompts_have_chains(start: Start) -> None:
    bench = start(arm="local", scan=True, bank_prior=True, iterations=2, imagine=True)
    bench.run()
    first = bench.brought[0]["designs"]
    assert [one.candidate.operator for one in first] == ["scan"] * 3 + ["chain"] * 3
    for one in first[3:]:
        assert one.candidate.parents == (bench.search.default.id,)
        assert one.candidate.module in ("", *one.sources)
        assert (one.candidate.id, 0) in bench.search.ladder.standings


def test_the_second_iteration_puts_the_best_of_the_scan_together(start: Start) -> None:
    bench = start(arm="local", scan=True, bank_prior=False, iterations=2)
    bench.run()
    ladder, found = bench.search.ladder, bench.search.designs
    scanned = [one.candidate for one in bench.brought[0]["designs"]]
    together = [one for one in bench.brought[1]["designs"] if one.candidate.operator == "combine"]
    assert len(together) == bench.search.config.siblings
    best = max(scanned, key=lambda one: ladder.standings[one.id, 0].score)
    assert any(best.id in one.candidate.parents for one in together)
    for one in together:
        mine, theirs = (found.sources[name] for name in one.candidate.parents)
        for module, source in one.sources.items():
            usual = KINDS[module].default_source
            new = {change.slot for change in changes_between(usual, source, module) or ()}
            for part in (mine, theirs):
                if module in part:
                    assert new & {
                        c.slot for c in changes_between(usual, part[module], module) or ()
                    }


def test_each_later_iteration_begins_with_combinations(start: Start) -> None:
    bench = start(arm="local", scan=True, bank_prior=False, iterations=4)
    bench.run()
    for brought in bench.brought[1:]:
        together = [one for one in brought["designs"] if one.candidate.operator == "combine"]
        assert len(together) == bench.search.config.siblings
    operators = {
        bench.search.designs.candidates[name].operator
        for one in together
        for name in one.candidate.parents
    }
    assert operators - {"scan"}  # and builds on what earlier ones found


def test_of_many_written_edits_those_are_trained_that_the_bank_expects_most_of(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gain(sources: Mapping[str, str], weights: Mapping[str, float]) -> float:
        return float(sources["reward"])

    monkeypatch.setattr(proposer, "expected", gain)
    bench = start()
    choice = {"module": "reward", "operator": "edit", "model": UNTOUCHED}
    written = []
    for place, (text, reason) in enumerate(
        [("1", ""), ("9", "refused"), ("5", ""), ("5", ""), ("7", "")]
    ):
        sources = {"reward": text}
        made = new_design(sources, "edit", (bench.search.default.id,), "reward", 2, place=place)
        written.append(Proposed(replace(made, reason=reason), sources, choice))
    chosen = bench.search.proposer._most_promising(written, 3)
    assert [one.sources["reward"] for one in chosen] == ["1", "5", "7"]  # nothing twice
    assert [one.candidate.place for one in chosen] == [0, 1, 2]
    assert len(bench.search.proposer._most_promising(written, 5)) == 5  # the budget is kept


def test_what_ablations_leave_out(start: Start) -> None:
    without_words = start(Learner(), at="a", hle=False)
    without_words.run()
    archive = without_words.search.archive
    assert {i.operator for i in archive.instructions()} == {"default"} and archive.adapters()
    asked = [
        r.messages[-1]["content"]
        for r in without_words.script.asked
        if f"`{KINDS['reward'].contract.signature}`" in r.messages[-1]["content"]
    ]
    assert asked and all(default_micro("reward") in words for words in asked)
    without_weights = start(Learner(), at="b", lle=False)
    without_weights.run()
    assert (
        not without_weights.search.archive.adapters()
        and without_weights.search.designers.versions == (UNTOUCHED,)
    )
    assert {i.operator for i in without_weights.search.archive.instructions()} > {"default"}
    assert without_words.search.proposed == without_weights.search.proposed == 18


def test_crossovers_make_new_designs_only(start: Start) -> None:
    bench = start(iterations=8, parents=3, seed=1)
    bench.run()
    crossed = [one for one in bench.designs if one.candidate.operator == "crossover"]
    assert crossed and not any(one.candidate.twin for one in crossed)
    for one in crossed:
        parent, donor = (bench.search.designs.candidates[name] for name in one.candidate.parents)
        assert one.candidate.modules == {
            **parent.modules,
            one.candidate.module: donor.modules[one.candidate.module],
        }
        assert one.candidate.id not in (parent.id, donor.id) and one.proposal is None
    assert bench.search.proposed == 72  # none of the budget is left out
    search = bench.search
    for module in search.config.modules:
        donors = search.proposer.donors(search.default, module)
        assert len({c.modules[module] for c in donors}) == len(donors)
        assert all(
            design_id({module: c.modules[module]}) not in search.designs.candidates for c in donors
        )
    parent, module = next(
        (c, m)
        for c in search.designs.candidates.values()
        for m in search.config.modules
        if len(search.proposer.donors(c, m)) > 1
    )
    crossing = {"module": module, "operator": "crossover", "model": UNTOUCHED}
    for more, possible in (
        (0, True),
        (1, False),
    ):  # a donor for each sibling, or none of the budget would be used
        proposer = search.proposer
        siblings = len(proposer.donors(parent, module)) + more
        proposer.config = replace(proposer.config, siblings=siblings)
        assert search.proposer.is_possible(crossing, parent) == possible


def test_repair_shows_only_what_is_python(start: Start) -> None:
    def prose_then_faults(module: str, call: int, place: int) -> str:
        return (
            "I would rather not."
            if place == 0
            else TEXTS[module].format(f"{call}.{place}\n    invalid = 1")
        )

    bench = start(Script(prose_then_faults, name="http://localhost#scripted"), lle=False)
    search = bench.search
    search.begin()
    search.design(1)
    assert (
        not search.designers.constrained
        and search.counts()["failed"] + search.counts()["repeated"] == 6
    )
    assert {"no", "static:"} <= {
        word for c in search.designs.candidates.values() for word in c.reason.split()[:1]
    }
    shown = [pair for module in search.config.modules for pair in search.proposer.failures(module)]
    assert shown and all(
        "invalid" in text and "there is no such name" in reason for text, reason in shown
    )
    cast(Any, search.proposer).is_possible = lambda choice, parent: (
        choice["operator"] == "repair"
        and bool(search.proposer.failures(choice["module"]))
        and choice["model"] == UNTOUCHED
    )
    before = len(bench.script.asked)
    search.design(2)
    opening = ADDED["repair"].split("(")[0]
    assert all(opening in request.messages[1]["content"] for request in bench.script.asked[before:])
    assert len(bench.script.asked) > before


def test_a_design_that_trains_to_nothing_can_be_mended_too(start: Start) -> None:
    bench = start(
        Script(lambda module, call, i: TEXTS[module].format(f"{call}.{i}\n    broken = 1")),
        iterations=1,
    )
    bench.run()
    assert bench.search.counts() == {
        "proposed": 6,
        "valid": 6,
        "scored": 0,
        "failed": 6,
        "repeated": 0,
    }
    shown = [
        reason
        for module in bench.search.config.modules
        for _, reason in bench.search.proposer.failures(module)
    ]
    assert shown == ["loss is not finite"] * 6 and bench.search.best == bench.search.default.id


def test_the_same_again_whether_asked_or_looked_up(start: Start) -> None:
    def told(bench: Bench) -> list[Any]:
        kinds = ("proposed", "dropped", "promoted", "credit", "instruction", "repeated")
        return [(kind, payload) for kind, payload, _ in bench.events if kind in kinds]

    first, other, later = (
        start(Learner(), at="a"),
        start(Learner(), at="b"),
        start(Learner(), at="c", seed=1),
    )
    reasons = [bench.run() for bench in (first, other, later)]
    assert told(first) == told(other) != told(later) and reasons[0] == reasons[1]
    again = start(Learner(lambda *_: "never"), at="a")
    assert again.run() == reasons[0] and told(again) == told(first)
    assert not again.script.asked  # everything stood in the archive
    shared = np.random.default_rng(
        np.random.SeedSequence([0, 1, 1])
    )  # what the kit would draw from
    assert search_rng(0, 1, 1).random() == search_rng(0, 1, 1).random() != shared.random()
    assert all(stored for kind, _, stored in again.events if kind != "evaluated")
    assert (
        again.search.counts() == first.search.counts()
        and again.budget.usage().calls == first.budget.usage().calls
    )


def test_without_a_default_there_is_no_search(start: Start) -> None:
    bench = start()
    evaluate = bench.shop.evaluate

    def broken(jobs: Sequence[Any]) -> Iterator[Any]:
        for job, made, stored in evaluate(jobs):
            yield (
                job,
                Evaluation(made.candidate, made.rung, made.seed, "failed", "out of memory"),
                stored,
            )

    cast(Any, bench.shop).evaluate = broken
    with pytest.raises(ConfigError, match="the default design gave no score"):
        bench.run()
    assert np.isfinite(bench.budget.seconds_left())


@pytest.mark.parametrize("scan", [False, True])
def test_a_model_that_writes_nothing_usable_ends_the_search(start: Start, scan: bool) -> None:
    answers = Script(lambda *_: "I would rather not.")
    bench = start(answers, iterations=9, scan=scan, bank_prior=False)
    reason = bench.run()
    asked = next(
        i for i, one in enumerate(bench.brought, 1) if any(d.proposal for d in one["designs"])
    )
    assert reason.startswith(f"{NOTHING_USABLE} in iteration {asked} (first: ")
    assert len(bench.brought) == asked and (asked > 1) == scan  # a scan asks nobody
    search = bench.search
    assert search.model_failed and search.champion(list(search.ladder.climbed)) == search.default.id
    assert search.finals([]) == [], "nobody races for a place that is not given"


def test_a_silent_model_ends_the_search_and_one_valid_design_keeps_it_going(start: Start) -> None:
    class Silent(Script):
        def propose(self, request: Request, n: int) -> list[Proposal]:
            super().propose(request, n)
            return []

    reason = start(Silent(), at="b").run()
    assert reason == f"{NOTHING_USABLE} in iteration 1 (first: no answer from scripted)"

    def once(module: str, call: int, place: int) -> str:
        return by_chance(module, call, place) if (call, place) == (1, 0) else "no"

    bench = start(Script(once), at="c", iterations=2)
    assert bench.run() == "budget: 2 outer iterations" and not bench.search.model_failed
