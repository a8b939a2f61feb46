"""Grammars as rules: name -> alternatives, each a text with `<name>` where another rule stands.

The Lark text for constrained decoding, the sampler without a model, and the bounds on length are
all derived from the rules. No rule reaches itself, so every sample ends; most of the text is
forced, so a model chooses little and decodes fast.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

Rules = dict[str, tuple[str, ...]]


class Part(NamedTuple):
    """A piece of an alternative: the name of another rule, or text as it stands."""

    text: str
    is_rule: bool


Parts = tuple[Part, ...]


def one_of(values: str) -> tuple[str, ...]:
    """Alternatives without blanks, written as one text."""
    return tuple(values.split())


@lru_cache
def parts(text: str) -> Parts:
    """An alternative cut at the rules in it."""
    found = []
    for place, piece in enumerate(re.split(r"<(\w+)>", text)):
        if piece:
            found.append(Part(piece, is_rule=bool(place % 2)))
    return tuple(found)


def lark_text(rules: Rules) -> str:
    """The rules as Lark text for llguidance.

    Its lexer takes the longest lexeme and never turns back, so texts are cut into words and single
    signs: no lexeme then begins another that could stand in the same place.
    """
    lines = []
    for name, texts in rules.items():
        alternatives = " | ".join(map(_lark_alternative, texts))
        lines.append(f"{name}: {alternatives}\n")
    return "".join(lines)


def _lark_alternative(text: str) -> str:
    lexemes: list[str] = []
    for part in parts(text):
        if part.is_rule:
            lexemes.append(part.text)
        else:
            lexemes.extend(map(json.dumps, re.findall(r"\w+|\W", part.text)))
    return " ".join(lexemes) or '""'


def draw(rules: Rules, rng: np.random.Generator, *, start: str = "start") -> str:
    """A sentence drawn without a model: at every choice the alternatives are equally likely."""
    texts = rules[start]
    chosen = texts[int(rng.integers(len(texts)))]
    pieces = []
    for part in parts(chosen):
        pieces.append(draw(rules, rng, start=part.text) if part.is_rule else part.text)
    return "".join(pieces)


def longest(rules: Rules, *, start: str = "start") -> int:
    """The length of the longest sentence, in characters."""
    most = 0
    for text in rules[start]:
        length = 0
        for part in parts(text):
            length += longest(rules, start=part.text) if part.is_rule else len(part.text)
        most = max(most, length)
    return most


def most_choices(rules: Rules) -> int:
    """The most bytes of one sentence at which more than one byte is possible."""

    @lru_cache
    def most(stack: Parts) -> int:
        openings = list(_openings(rules, stack))
        texts = [text for text, _ in openings]
        counts = []
        for text, rest in openings:
            counts.append(_forks(text, texts) + (most(rest) if rest else 0))
        return max(counts)

    return most((Part("start", is_rule=True),))


def _openings(rules: Rules, stack: Parts) -> Iterator[tuple[str, Parts]]:
    """The texts that can come next, each up to the next rule, with what follows it."""
    if not stack:
        yield "", ()
    elif stack[0].is_rule:
        for text in rules[stack[0].text]:
            yield from _openings(rules, (*parts(text), *stack[1:]))
    else:
        count = next((i for i, part in enumerate(stack) if part.is_rule), len(stack))
        yield "".join(part.text for part in stack[:count]), stack[count:]


def _forks(text: str, texts: list[str]) -> int:
    """The places of a text at which another of the texts goes on differently."""
    count = 0
    for place in range(len(text) + 1):
        following = {other[place : place + 1] for other in texts if other.startswith(text[:place])}
        count += len(following) > 1
    return count
