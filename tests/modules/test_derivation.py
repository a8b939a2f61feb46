"""Designs as choices: every sentence of a grammar is read back and spelled again exactly."""

from __future__ import annotations

import time

import numpy as np
import pytest
from contract_runs import RUNS
from hypothesis import given, settings
from hypothesis import strategies as st
from zoo import ZOO

from se_rl.modules.default_sources import naive_reward_source
from se_rl.modules.derivation import Choice, derivation, spell
from se_rl.modules.grammar import draw
from se_rl.modules.kinds import KINDS
from se_rl.modules.loading import load_module
from se_rl.modules.static_check import check_source

code_types = pytest.mark.parametrize("code_type", KINDS)
designs = st.tuples(
    st.sampled_from(list(KINDS)), st.sampled_from(["start", "default"]), st.integers(0, 2**32 - 1)
)


@given(designs)
@settings(max_examples=400, deadline=None)
def test_derivation_and_spelling_are_inverses(design: tuple[str, str, int]) -> None:
    code_type, family, seed = design
    rng = np.random.default_rng(seed)
    source = draw(KINDS[code_type].all_rules, rng, start=family)
    choices = derivation(source, code_type)
    assert choices is not None and choices[0].rule == family
    assert spell(choices, code_type) == source
    assert derivation(spell(choices, code_type), code_type) == choices


@given(st.sampled_from(list(KINDS)), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_what_is_drawn_for_a_search_has_a_derivation(code_type: str, seed: int) -> None:
    source = KINDS[code_type].random_source(np.random.default_rng(seed))
    choices = derivation(source, code_type)
    assert choices is not None and spell(choices, code_type) == source


@code_types
def test_every_default_is_a_sentence_of_its_own_grammar(code_type: str) -> None:
    source = KINDS[code_type].default_source
    choices = derivation(source, code_type)
    assert choices is not None and choices[0] == Choice("default", 0)
    assert spell(choices, code_type) == source


@code_types
def test_relatives_of_the_default_are_valid_and_many(code_type: str) -> None:
    rng = np.random.default_rng(8)
    samples = {draw(KINDS[code_type].all_rules, rng, start="default") for _ in range(40)}
    for source in samples:
        assert check_source(source, code_type) is None
        RUNS[code_type](load_module(source, code_type))
    assert len(samples) >= 15


@code_types
def test_each_choice_of_the_default_can_be_changed(code_type: str) -> None:
    kind = KINDS[code_type]
    choices = derivation(kind.default_source, code_type)
    assert choices is not None
    changed = set()
    for place, choice in enumerate(choices):
        texts = kind.all_rules[choice.rule]
        if "<" in texts[choice.alternative]:
            continue
        for number, text in enumerate(texts):
            if number != choice.alternative and "<" not in text:
                edited = [*choices[:place], Choice(choice.rule, number), *choices[place + 1 :]]
                changed.add(spell(edited, code_type))
    assert len(changed) >= 3 and kind.default_source not in changed
    for source in changed:
        assert derivation(source, code_type) is not None


@code_types
def test_modules_written_by_hand_have_none(code_type: str) -> None:
    for source in ZOO[code_type].values():
        assert derivation(source, code_type) is None
    for example in KINDS[code_type].contract.examples:
        assert derivation(example, code_type) is None
    assert derivation("", code_type) is None
    assert derivation(KINDS[code_type].default_source + "\n", code_type) is None


def test_the_naive_reward_has_none() -> None:
    assert derivation(naive_reward_source(), "reward") is None


def test_the_first_slots_are_filled() -> None:
    rules = KINDS["reward"].rules
    line = "    value = value - 0.1 * step.volatility * step.forced_share\n"
    head = "def reward(step):\n    value = step.traded_share * (step.fill_price - 1.0)\n"
    choices = derivation(f"{head}{line}    return value\n", "reward")
    assert choices is not None
    terms = [choice.alternative for choice in choices if choice.rule == "term"]
    assert [rules["term"][number] != "" for number in terms] == [True, False, False]


@code_types
def test_it_is_fast(code_type: str) -> None:
    kind = KINDS[code_type]
    rng = np.random.default_rng(2)
    sources = [kind.default_source, *(kind.random_source(rng) for _ in range(19))]
    started = time.process_time()
    for source in sources:
        derivation(source, code_type)
    assert time.process_time() - started < 5e-3 * len(sources)


@pytest.mark.parametrize(
    "choices, words",
    [
        ([], "begins with one of start, default"),
        ([Choice("term", 0)], "begins with one of start, default"),
        ([Choice("start", 0)], "nothing where the rule reference stands"),
        ([Choice("start", 0), Choice("term", 0)], "term where the rule reference stands"),
        ([Choice("start", 1)], "the rule start has 1 alternatives, no number 1"),
    ],
)
def test_what_is_no_derivation_says_why(choices: list[Choice], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        spell(choices, "reward")


def test_a_choice_too_many_is_told() -> None:
    choices = derivation(KINDS["reward"].default_source, "reward")
    assert choices is not None
    with pytest.raises(ValueError, match="complete before the choice of term"):
        spell([*choices, Choice("term", 0)], "reward")
