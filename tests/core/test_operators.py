"""New designs: what each operator's prompt says, how designs are named, crossovers, and draws from the grammar."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from se_rl.core.model_free_operators import draw_edits, drawn, swap
from se_rl.core.operators import ADDED, OPERATORS, Plan, ask, hashes, prompt_words, proposed
from se_rl.llm.backends import Proposal, Request
from se_rl.llm.code_validator import ValidationResult
from se_rl.llm.editing import TriedEdit
from se_rl.llm.generator import Attempt, DesignGenerator
from se_rl.llm.prompts import Scored, anonymous, build_prompt, default_micro, module_text
from se_rl.modules.kinds import KINDS
from se_rl.modules.static_check import check_source
from se_rl.records.entries import DEFAULT, Candidate, Instruction, design_id, sha256
from se_rl.records.settings import MULTI

PARENT = "def reward(step):\n    return 7.0 * step.traded_share\n"
BROKEN = "def reward(step):\n    return 3.0 * step.nwes\n"
NEW = "def reward(step):\n    return 9.0 * step.news\n"
TRIED = [
    Scored(f"def reward(step):\n    return {i}.5 * step.news\n", {"score_bps": float(i)})
    for i in range(6)
]
MACRO = Instruction("macro1", "macro", "Design for wild days.", "mutation")
MICRO = Instruction("micro1", "reward", "Punish risk.", "reflection")
MOTHER = Candidate(design_id(hashes({"reward": PARENT})), hashes({"reward": PARENT}), "draft")


def plan(operator: str, **changes: Any) -> Plan:
    choice = {"module": "reward", "operator": operator, "model": "untouched"}
    base = Plan(3, choice, MOTHER, {"reward": PARENT}, MACRO, MICRO, tuple(TRIED), 1.25)
    return replace(base, **changes)


def chat(operator: str, *, constrained: bool, **changes: Any) -> tuple[str, str]:
    """What the model is told and asked."""
    words = prompt_words(plan(operator, **changes))
    system, user = build_prompt("reward", constrained=constrained, **words)
    return system["content"], user["content"]


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("operator", ("draft", "rewrite", "repair"))
def test_a_prompt_says_what_its_operator_is(operator: str, constrained: bool) -> None:
    failed = (BROKEN, "static: there is no step.nwes") if operator == "repair" else None
    history = TRIED[:2] if constrained else TRIED  # as many as there is room for
    system, user = chat(operator, constrained=constrained, failed=failed, history=history)
    assert MACRO.text in system and MICRO.text in user
    body = module_text(PARENT, imports=False).split("\n")[1].strip()
    start = "Improve this design" if constrained else "# Your starting point"
    base = module_text(BROKEN, imports=False) if operator == "repair" else None
    assert (start in user) == (base is not None)
    if base is not None:
        assert base.strip() in user.split(start)[1]
    # a draft and a repair do without the parent
    assert (body in user) == (operator == "rewrite")
    assert ("score_bps +1.25" in user) == (operator == "rewrite")
    assert ("static: there is no step.nwes" in user) == (operator == "repair")
    for name, text in ADDED.items():
        assert (text.split("(")[0] in user) == (name == operator)


def test_a_rewrite_shows_its_parent_once_however_much_was_tried() -> None:
    for constrained in (True, False):
        for history in (
            [],
            TRIED[:1],
            TRIED[:2],
            [Scored(PARENT, {"score_bps": 1.25}), *TRIED[:5]],
            TRIED,
        ):
            if constrained and len(history) > 2:
                continue
            middle = (
                0.5 if constrained else 2.5
            )  # neither the best nor the worst, which are shown anyway
            _, user = chat("rewrite", constrained=constrained, history=history, score=middle)
            assert user.count("7.0 * step.traded_share") == 1


def test_a_default_parent_is_shown_as_its_source_and_default_words_are_used() -> None:
    bare = plan("rewrite", parent_sources={}, macro=None, micro=None, history=())
    words = prompt_words(bare)
    assert words["history"][0].source == KINDS["reward"].default_source == bare.shown
    assert words["macro"] is None and words["micro"].startswith(default_micro("reward"))


@pytest.mark.parametrize("operator", ADDED)
def test_added_words_survive_being_made_anonymous(operator: str) -> None:
    told = ADDED[operator].format(reason="static: line 3, there is no step.nwes")
    assert anonymous(told) == told


def test_a_reason_with_braces_and_of_any_length_can_be_told() -> None:
    words = prompt_words(plan("repair", failed=(BROKEN, "{0} {name} " + "x" * 900)))
    assert (
        "{0} {name}" in words["micro"]
        and words["micro"].count("x") < 250
        and words["parent"].source == BROKEN
    )


def attempt(
    source: str | None = NEW, *, valid: bool = True, text: str = "", faults: tuple[str, ...] = ()
) -> Attempt:
    proposal = Proposal(text or source or "", model="m", adapter="a1", request=Request("Write."))
    verdict = ValidationResult(
        valid, "passed" if valid else "static", "", behaviour=np.array([0.1, 1 / 3], np.float32)
    )
    return Attempt("reward", source, proposal, verdict if source else None, faults)


def test_a_written_design_is_named_by_its_modules() -> None:
    sources = {"reward": PARENT, "network": "class Network: pass\n"}
    mother = replace(MOTHER, id="mother", modules=hashes(sources))
    one = proposed(
        plan("edit", parent=mother, parent_sources=sources), attempt(), place=2, operator="edit"
    )
    assert one.sources == {**sources, "reward": NEW} and one.trainable
    assert one.candidate.modules == {"network": sha256(sources["network"]), "reward": sha256(NEW)}
    assert one.candidate.id == design_id(one.candidate.modules) == design_id(hashes(one.sources))
    assert one.candidate == Candidate(
        one.candidate.id,
        one.candidate.modules,
        "edit",
        ("mother",),
        "reward",
        3,
        place=2,
        macro="macro1",
        micro="micro1",
        model="m",
        adapter="a1",
        behaviour=(0.1, 0.33333),
    )
    assert json.loads(one.prompt) == [{"role": "user", "content": "Write."}]
    same = proposed(
        plan("draft", iteration=9, parent=mother, parent_sources=sources),
        attempt(),
        place=0,
        operator="draft",
    )
    assert same.candidate.id == one.candidate.id  # the way there does not matter


def test_what_failed_is_a_design_with_a_reason() -> None:
    refused = proposed(
        plan("draft"),
        attempt(valid=False, faults=("first", "static: bad")),
        place=0,
        operator="draft",
    )
    wordy = proposed(
        plan("draft"),
        attempt(None, text="I cannot.", faults=("no `reward`",)),
        place=0,
        operator="draft",
    )
    silent = proposed(plan("draft"), Attempt("reward"), place=0, operator="draft")
    assert [one.candidate.reason for one in (refused, wordy, silent)] == [
        "static: bad",
        "no `reward`",
        "no answer",
    ]
    assert [one.sources["reward"] for one in (refused, wordy, silent)] == [NEW, "I cannot.", ""]
    assert not any(one.trainable for one in (refused, wordy, silent)) and silent.prompt == ""
    assert len({one.candidate.id for one in (refused, wordy, silent)}) == 3


class Scripted:
    """Writes the module it was told to, and remembers the request."""

    name = "scripted"

    def propose(self, request: Request, n: int) -> list[Proposal]:
        self.asked = request
        return [
            Proposal(NEW.replace("9", str(i)), model=self.name, request=request)
            for i in range(1, n + 1)
        ]

    def update(self, *_: Any, **__: Any) -> dict[str, float]:
        return {}


class Static:
    """The first stage of validation alone."""

    def validate(self, code: str, code_type: str = "reward") -> ValidationResult:
        problem = check_source(code, code_type)
        return ValidationResult(
            problem is None, "static" if problem else "passed", problem.message if problem else ""
        )


def test_a_model_is_asked_for_siblings() -> None:
    designer = Scripted()
    made = ask(plan("rewrite"), DesignGenerator(designer, Static()), 3, seed=5)
    assert [one.candidate.place for one in made] == [0, 1, 2] and all(one.trainable for one in made)
    assert {one.prompt for one in made} == {
        json.dumps(designer.asked.messages)
    } and designer.asked.seed == 5
    assert {one.candidate.operator for one in made} == {"rewrite"} and made[0].proposal is not None
    assert ADDED["rewrite"] in designer.asked.messages[1]["content"]


def test_edits_are_asked_for_with_what_earlier_ones_gained() -> None:
    designer = Blocks()
    tried = TriedEdit("epochs: 4 -> 6", 0.31, 0.1)
    made = ask(plan("edit", edits=(tried,)), DesignGenerator(designer, Static()), 1, seed=5)
    assert made[0].sources["reward"] == "def reward(step):\n    return 8.0 * step.traded_share\n"
    assert made[0].trainable and made[0].candidate.operator == "edit"
    asked = designer.asked.messages[1]["content"]
    assert "+0.31 +- 0.10  epochs: 4 -> 6" in asked and PARENT in asked and MICRO.text in asked


class Blocks(Scripted):
    """A model that writes search/replace blocks."""

    def propose(self, request: Request, n: int) -> list[Proposal]:
        self.asked = request
        block = "<<<<<<< SEARCH\n    return 7.0 * step.traded_share\n=======\n"
        block += "    return 8.0 * step.traded_share\n>>>>>>> REPLACE\n"
        return [Proposal(block, request=request) for _ in range(n)]


def test_edits_drawn_without_a_model_are_new_and_differ() -> None:
    usual = KINDS["reward"].default_source
    local = plan("edit", parent_sources={}, changes=2)
    made = draw_edits(local, 8, rng=np.random.default_rng(3), avoid=[usual])
    sources = [one.sources["reward"] for one in made]
    assert len(set(sources)) == 8 and usual not in sources
    assert all(one.trainable and one.proposal is None for one in made)
    again = draw_edits(local, 8, rng=np.random.default_rng(3), avoid=sources)
    assert not {one.sources["reward"] for one in again} & set(sources)
    # what the grammar does not have cannot be edited by its choices
    assert draw_edits(plan("edit"), 2, rng=np.random.default_rng(3)) == []


def test_a_crossover_swaps_one_module_and_asks_nobody() -> None:
    theirs = {"reward": NEW, "network": "class Network: pass\n"}
    donor = Candidate("donor", hashes(theirs), "draft")
    mine = {"reward": PARENT, "imagination": "def imagine(): ..."}
    crossing = plan("crossover", parent_sources=mine, parent=replace(MOTHER, modules=hashes(mine)))
    (one,) = swap(crossing, [(donor, theirs)])
    assert (
        one.sources == {"imagination": mine["imagination"], "reward": NEW} and one.proposal is None
    )
    assert (
        one.candidate.parents == (MOTHER.id, "donor")
        and one.candidate.operator == "crossover" in OPERATORS
    )
    assert one.candidate.id == design_id(hashes(one.sources)) and one.trainable and one.prompt == ""
    (bare,) = swap(crossing, [(Candidate("bare", {}, DEFAULT), {})])
    assert bare.sources == {"imagination": mine["imagination"]}


def test_random_designs_are_valid_and_depend_on_the_seed_alone() -> None:
    default = Candidate(design_id({}), {}, DEFAULT)

    def draws(seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [drawn(MULTI, default, 1, i, rng) for i in range(25)]

    first = draws(0)
    assert [one.candidate for one in first] == [one.candidate for one in draws(0)]
    assert {one.candidate.id for one in first} != {one.candidate.id for one in draws(1)}
    for one in first:
        assert (
            one.sources
            and one.trainable
            and one.candidate.operator == "random"
            and one.proposal is None
        )
        assert one.candidate.parents == (default.id,) and one.candidate.id == design_id(
            hashes(one.sources)
        )
        assert [
            problem for name, text in one.sources.items() if (problem := check_source(text, name))
        ] == []
        assert one.candidate.module == (next(iter(one.sources)) if len(one.sources) == 1 else "")
    assert {name for one in first for name in one.sources} == set(MULTI)
    assert len({one.candidate.id for one in first}) > 20
