"""Edits that a model writes: blocks that are applied exactly, or a reason in one line."""

from __future__ import annotations

import pytest

from se_rl.llm.editing import BlockEdits, ChoiceEdits, EditTask, TriedEdit
from se_rl.modules.kinds import KINDS

SOURCE = "def reward(step):\n    a = step.news\n    b = step.news\n    return a - 0.5 * b\n"


def block(search: str, replacement: str) -> str:
    return f"<<<<<<< SEARCH\n{search}=======\n{replacement}>>>>>>> REPLACE\n"


def read(answer: str) -> tuple[str | None, str]:
    found = BlockEdits(SOURCE, "reward").read(answer)
    return found.source, found.reason


def test_blocks_are_replaced_where_their_lines_stand() -> None:
    one = block("    return a - 0.5 * b\n", "    return a - 0.7 * b\n")
    two = block("    a = step.news\n", "    a = step.imbalance\n")
    source, _ = read(f"I would try this:\n{one}and\r\n{two}")
    assert source == SOURCE.replace("0.5", "0.7").replace("a = step.news", "a = step.imbalance")


def test_an_empty_replacement_removes_lines() -> None:
    source, _ = read(block("    b = step.news\n", ""))
    assert source == SOURCE.replace("    b = step.news\n", "")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("no idea", "no SEARCH/REPLACE block"),
        (block("    c = 1\n", ""), "occurs 0 times"),
        (block("step.news\n", "step.imbalance\n"), "occurs 2 times"),
        (block("", "x = 1\n"), "occurs 0 times"),
        (block("    a = step.news\n", "    a = step.news\n"), "change nothing"),
        (4 * block("    a = step.news\n", "    a = step.imbalance\n"), "4 blocks"),
    ],
)
def test_what_cannot_be_applied_has_a_reason(answer: str, reason: str) -> None:
    source, told = read(answer)
    assert source is None and reason in told and "\n" not in told


def test_a_whole_module_counts_as_it_stands() -> None:
    source, _ = read("```python\ndef reward(step):\n    return step.news\n```")
    assert source == "def reward(step):\n    return step.news\n"


def test_the_choices_of_a_module_are_shown_on_one_line_each() -> None:
    form = ChoiceEdits(KINDS["network"].default_source, "network", changes=1)
    assert len(form.choices) > 5
    assert all("\n" not in text and text for _, text in form.choices)
    assert form.read("nonsense\n").source is None


def test_a_tried_edit_tells_gain_and_error() -> None:
    assert str(TriedEdit("epochs: 4 -> 6", -0.2)) == "-0.20  epochs: 4 -> 6"
    assert str(TriedEdit("epochs: 4 -> 6", 0.2, 0.11)) == "+0.20 +- 0.11  epochs: 4 -> 6"


def test_free_edits_leave_the_rest_as_it_is_letter_by_letter() -> None:
    source = 'def reward(step):\n    # pays\n    return torch.einsum("BT,BT->BT", step.news, 1.0)\n'
    task = EditTask("reward", source)
    [_, asked] = task.request(constrained=False, seed=0).messages
    assert source in asked["content"]
    answer = "<<<<<<< SEARCH\n    # pays\n=======\n    # more\n>>>>>>> REPLACE\n"
    found = task.form(constrained=False).read(answer).source
    assert found == source.replace("pays", "more")
