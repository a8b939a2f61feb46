"""Edits: what is drawn or written changes a module in a few choices and stays in its grammar."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.modules.derivation import derivation
from se_rl.modules.edits import (
    MOST_CHANGES,
    Change,
    EditLanguage,
    changes_between,
    drawn_edit,
    merged,
    single_edits,
)
from se_rl.modules.grammar import draw
from se_rl.modules.kinds import KINDS
from se_rl.modules.static_check import check_source

code_types = pytest.mark.parametrize("code_type", KINDS)
parents = st.tuples(
    st.sampled_from(list(KINDS)), st.sampled_from(["start", "default"]), st.integers(0, 2**32 - 1)
)


def _drawn(parent: tuple[str, str, int]) -> tuple[str, str, np.random.Generator]:
    code_type, family, seed = parent
    rng = np.random.default_rng(seed)
    return code_type, draw(KINDS[code_type].all_rules, rng, start=family), rng


@given(parents, st.integers(1, MOST_CHANGES))
@settings(max_examples=200, deadline=None)
def test_a_drawn_edit_is_another_sentence_of_the_grammar(
    parent: tuple[str, str, int], changes: int
) -> None:
    code_type, source, rng = _drawn(parent)
    after = drawn_edit(source, code_type, rng, changes=changes)
    if after is not None:  # two changes may undo each other
        assert after != source
        assert derivation(after, code_type) is not None
        assert changes_between(source, after, code_type)


@given(parents, st.integers(1, MOST_CHANGES))
@settings(max_examples=200, deadline=None)
def test_every_sentence_of_the_language_is_a_change_that_is_read_back(
    parent: tuple[str, str, int], changes: int
) -> None:
    code_type, source, rng = _drawn(parent)
    language = EditLanguage(source, code_type, changes=changes)
    answer = draw(language.rules, rng)
    after = language.applied(answer)
    assert after is not None and derivation(after, code_type) is not None
    written = language.written(after)
    if written is not None:
        assert language.applied(written) == after


@code_types
def test_single_edits_of_the_default_are_valid_modules(code_type: str) -> None:
    source = KINDS[code_type].default_source
    edits = single_edits(source, code_type, np.random.default_rng(0))
    assert len(edits) == len(set(edits)) > 2
    assert source not in edits
    for after in edits:
        assert check_source(after, code_type) is None


def test_numbers_move_to_a_neighbour_most_of_the_time() -> None:
    rng = np.random.default_rng(1)
    before = KINDS["network"].default_source  # with 3 epochs
    near = 0
    far = 0
    for _ in range(2000):
        after = drawn_edit(before, "network", rng)
        for change in changes_between(before, after or before, "network") or ():
            if change.slot == "set_epochs":
                is_near = change.after in ("    epochs = 2\n", "")  # nothing means 4
                near += is_near
                far += not is_near
    assert near + far > 50
    assert near > far


def _with_epochs(line: str) -> str:
    source = KINDS["network"].default_source
    assert "    epochs = 3\n" in source
    return source.replace("    epochs = 3\n", line)


def test_a_change_is_told_in_words() -> None:
    before = _with_epochs("    epochs = 3\n")
    after = _with_epochs("    epochs = 6\n")
    found = changes_between(before, after, "network")
    assert found is not None
    assert list(map(str, found)) == ["set_epochs: epochs = 3 -> epochs = 6"]
    assert str(Change("epochs", "3", "4")) == "epochs: 3 -> 4"
    assert str(Change("own_term", "", "    own = own\n")) == "own_term: nothing -> own = own"


def test_the_language_has_no_sentence_that_changes_nothing() -> None:
    before = KINDS["network"].default_source
    language = EditLanguage(before, "network")
    assert language.applied("set_epochs:     epochs = 3\n\n") is None
    assert language.applied("set_epochs:     epochs = 5\n\n") is None
    assert language.applied("") is None
    assert language.applied("set_epochs:     epochs = 6\n\n") == before.replace("= 3", "= 6")
    assert language.applied("set_epochs: nothing\n") == _with_epochs("")


def test_the_first_of_two_changes_of_a_slot_counts() -> None:
    language = EditLanguage(KINDS["network"].default_source, "network", changes=2)
    two = language.applied("set_epochs: nothing\nset_epochs:     epochs = 2\n\n")
    assert two == _with_epochs("")


def test_a_module_outside_of_the_grammar_has_no_edits() -> None:
    source = "def reward(step):\n    return 3.0 * step.traded_share\n"
    assert drawn_edit(source, "reward", np.random.default_rng(0)) is None
    assert single_edits(source, "reward", np.random.default_rng(0)) == []
    assert changes_between(source, KINDS["reward"].default_source, "reward") is None
    with pytest.raises(ValueError, match="no choices"):
        EditLanguage(source, "reward")


def test_choices_of_two_modules_come_together() -> None:
    base = KINDS["network"].default_source
    assert "action_scale = 2.0\n    batch = 0.25" in base
    one = base.replace("action_scale = 2.0", "action_scale = 1.5")
    other = base.replace("batch = 0.25", "batch = 0.5").replace("= 64", "= 48")
    both = merged(base, one, other, "network")
    assert both is not None and "action_scale = 1.5\n    batch = 0.5" in both and "= 48" in both
    assert merged(base, other, one, "network") == both
    rival = base.replace("batch = 0.25", "batch = 2.0")
    assert merged(base, rival, other, "network") == other.replace("batch = 0.5", "batch = 2.0")
    assert merged(base, base, other, "network") == merged(base, other, base, "network") == other
    assert merged(base, "x = 1", other, "network") is None


@pytest.mark.parametrize("module", ["reward", "network", "imagination"])
def test_any_two_single_edits_come_together(module: str) -> None:
    rng = np.random.default_rng(0)
    base = KINDS[module].default_source
    edits = single_edits(base, module, rng)
    for one in edits:
        other = edits[int(rng.integers(len(edits)))]
        both = merged(base, one, other, module)
        assert both is not None and derivation(both, module) is not None
        if len(changes_between(base, both, module) or ()) == 2:
            assert merged(base, other, one, module) == both
