"""Texts that once took minutes to read, and their relatives: all of them end within seconds.

What is bounded is the CPU time of this process; most take less than a tenth of what is allowed.
Slow policies and trainings are in tests/sandbox, views in place of tables in tests/test_strangers.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from se_rl.llm.backends import Request
from se_rl.llm.editing import BlockEdits
from se_rl.llm.extraction import extract, normal_form
from se_rl.llm.instruction_grammar import cleaned
from se_rl.llm.ledger import read_answer, tokens_used
from se_rl.llm.prompts import anonymous
from se_rl.modules.static_check import check_source
from se_rl.records.secrets import scrub
from se_rl.sandbox.calls import printable

MOST_SECONDS = 5.0
ANSWER, SOURCE, LONG = 250_000, 60_000, 2_000_000
"""Letters of an answer that is still read, of a source that is, and of all that an endpoint sends."""
BODY = "def reward(step):\n    "


def filled(unit: str, letters: int) -> str:
    return unit * (letters // len(unit))


def answers(text: str) -> None:
    found = extract(text, "reward")
    assert found.source or (found.reason and "\n" not in found.reason)


def sources(text: str) -> None:
    problem = check_source(text, "reward")
    assert problem is None or (len(problem.message) <= 400 and "\n" not in problem.message)


def advice(text: str) -> None:
    told = cleaned("reward", text)
    assert len(told.split()) <= 100


def bodies(text: str) -> None:
    request = Request([{"role": "user", "content": "a"}], None, 10, 1.0, 0)
    assert tokens_used(text.encode(), request, n=1).tokens_out >= 0
    assert read_answer(text.encode()).choices == ()


def blocks(text: str) -> None:
    found = BlockEdits(BODY + "return step.news\n", "reward").read(text)
    assert found.source is None and "\n" not in found.reason


def lines(text: str) -> None:
    assert len(printable(text)) <= 500 and isinstance(scrub(text), str)


def forms(text: str) -> None:
    assert normal_form(text) and isinstance(anonymous(text[:100_000]), str)


SLOW: dict[str, tuple[Callable[[str], None], str]] = {
    "dotted import": (answers, f"import {filled('a.', ANSWER)}a\n{BODY}pass"),
    "dotted import over lines": (answers, f"import {filled('a.' + chr(92) + chr(10), ANSWER)}a\n"),
    "dotted import with blanks": (answers, f"import {filled('a . ', ANSWER)}a\n{BODY}pass"),
    "dotted import for the static stage": (sources, f"import {filled('a.', SOURCE)}a\n{BODY}pass"),
    "dotted import again and again": (sources, filled(f"import {'a.' * 40}a\n", SOURCE)),
    "dotted name to be compared": (forms, f"from {filled('a.', LONG)}a import b\n"),
    "stores on one name": (sources, BODY + filled("n = nn.Linear(1, 1)\n    n.bias = 1\n    ", SOURCE)),
    "a chain of targets": (sources, f"{BODY}{filled('a = ', SOURCE)}nn.Linear(1, 1)\n    a.bias = 1\n"),
    "a chain of targets on self": (
        sources,
        f"class A:\n    def f(self):\n        {filled('self.x = ', SOURCE)}nn.Linear(1, 1)\n"
        f"        self.x.bias = 1\n\n{BODY}pass\n",
    ),
    "classes that are called": (
        sources,
        filled("class A:\n    def __call__(self):\n        pass\n", SOURCE) + BODY + "pass\n",
    ),
    "lines of prose": (answers, "def reward(step) x\n" + filled("a b\n", SOURCE)),
    "a text that never ends": (answers, f"{BODY}'''" + filled("a\n", SOURCE)),
    "fences by the thousand": (answers, filled("```python\ndef reward(step) pass\n", ANSWER)),
    "tabs": (answers, filled("\t", ANSWER) + BODY + "pass"),
    "thoughts in thoughts": (answers, filled("<think>", ANSWER) + BODY + "pass"),
    "brackets in a with": (answers, f"{BODY}with " + "(" * 190),
    "brackets in a call": (answers, f"{BODY}return {'f(' * 150}1 2{')' * 150}"),
    "advice of blank lines": (advice, "aa bb cc " + filled("\n", LONG) + "x"),
    "advice of marks": (advice, "aa bb cc " + filled("<|", LONG)),
    "advice of brackets": (advice, "aa bb cc " + filled("\nf(", LONG)),
    "advice of bullets": (advice, "aa bb cc " + filled("\n- ", LONG)),
    "usage by the thousand": (bodies, filled('"prompt_tokens" ', LONG)),
    "blocks that never end": (blocks, filled("<<<<<<< SEARCH\na\n=======\n", LONG)),
    "a block that is everywhere": (blocks, f"<<<<<<< SEARCH\n{filled('a', LONG)}\n=======\n"),
    "a key's first letters": (lines, filled("aaaaaaaaa", ANSWER)),
    "letters of no width": (lines, filled("a\u200b", ANSWER)),
    "bearers": (lines, filled("Bearer ", LONG)),
    "dates": (forms, filled("2020-01-01T10:00", LONG)),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOW)
def test_it_is_read_within_seconds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "aaaaaaaaaaaaaaaaaaaaaaaaaaab")
    read, text = SLOW[name]
    check_source(f"{BODY}return step.news\n", "reward")  # what is loaded once is loaded now
    started = time.process_time()
    read(text)
    assert time.process_time() - started < MOST_SECONDS
