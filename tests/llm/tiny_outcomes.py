"""Designs of the tiny model, what they do, and what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tiny_model import GRAMMAR, MESSAGES

from se_rl.llm.backends import Proposal, Request
from se_rl.llm.low_level_enhancement import DesignOutcome

FIELDS = ("fill_price", "time_left", "volatility")
PROMPTS: tuple[Any, ...] = (MESSAGES, "Write a reward.", "Improve this reward.")


def drawn(designer: Any, seed: int, *, n: int = 8) -> list[Proposal]:
    """n designs for each of three prompts."""
    return [
        p
        for prompt in PROMPTS
        for p in designer.propose(Request(prompt, GRAMMAR, 120, 1.0, seed), n)
    ]


def behaviour(text: str) -> tuple[float, ...]:
    """What a design of the tiny grammar does: the weight it gives to each field."""
    terms = [term.split(" * ") for term in text.split("return ")[1].split(" + ")]
    weights = dict.fromkeys(FIELDS, 0.0)
    for term in terms:
        weights[term[-1].removeprefix("step.")] += float(term[0]) if len(term) == 2 else 1.0
    return tuple(weights.values())


def outcomes_of(proposals: Sequence[Proposal], *, field: str = "volatility") -> list[DesignOutcome]:
    """Pays for the use of one field."""
    return [DesignOutcome(p, float(field in p.text), behaviour(p.text)) for p in proposals]


def share(designer: Any, *, field: str = "volatility", seed: int = 900) -> float:
    return float(np.mean([field in p.text for p in drawn(designer, seed, n=40)]))
