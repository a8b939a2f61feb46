"""The answer parser: the blocks of ordinary answers as ever, hostile ones in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.llm import extraction
from se_rl.llm.extraction import extract, fenced_blocks

OLD = re.compile(
    r"(`{3,}|~{3,})[ \t]*([\w+-]*)[ \t]*(?:\n|(?=def |class |import |from ))(.*?)"
    r"(?:\1[ \t]*(?=\n|\Z)|\Z)",
    re.DOTALL,
)
"""What fences were found with before: quadratic, but right."""
WORDS = [
    "```",
    "````",
    "~~~",
    "`",
    "~",
    "python",
    "prose",
    "def",
    "class",
    "@",
    "<think>",
    "</think>",
]
LINES = ["def reward(step):", "    return step.news", "import torch", "from ", "x = 1"]
PIECES = st.sampled_from([*WORDS, *LINES, " ", "\t", "\n", "\n", "\n"])


@given(st.lists(PIECES, max_size=30).map("".join))
@settings(max_examples=3000, deadline=None)
def test_blocks_are_those_of_the_pattern(answer: str) -> None:
    assert list(fenced_blocks(answer)) == [found.group(3) for found in OLD.finditer(answer)]


@given(st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join))
@settings(max_examples=2000, deadline=None)
def test_hostile_answers_end_in_a_source_or_a_line(answer: str) -> None:
    found = extract(answer, "reward")
    assert found.source or (found.reason and "\n" not in found.reason)


@pytest.mark.parametrize("unit", ["`", "```\n", "``` ", "```x!", "~~~`", "``` \t", "```py ~~~\n"])
def test_steps_grow_with_the_length_only(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in letters looked at, not in seconds."""
    looked = 0
    plain = extraction._skip

    def counted(text: str, place: int, skipped: object) -> int:
        nonlocal looked
        end = plain(text, place, skipped)  # type: ignore[arg-type]
        looked += end - place + 1
        return end

    monkeypatch.setattr(extraction, "_skip", counted)
    for size in (2_000, 4_000, 16_000):
        text = unit * (size // len(unit)) + " " * size
        looked = 0
        list(fenced_blocks(text))
        assert looked <= 4 * len(text)


def test_constants_made_by_calls_stay_and_samples_of_use_go() -> None:
    module = "ACT = nn.Tanh()\nTERMS = [lambda x: x, torch.tanh]\n\ndef reward(step):\n"
    module += "    return ACT(TERMS[0](step.news))\n"
    sample = "\nvalue = reward(1)\nshown = torch.tanh(value)\nprint(shown)\n"
    found = extract(f"```python\n{module}{sample}```", "reward")
    assert found.source is not None and "nn.Tanh()" in found.source and "lambda" in found.source
    assert "value" not in found.source and "shown" not in found.source
