"""Keys of services: what looks like one never reaches a record, a log or a page.

An endpoint may echo the key that it was sent, in an answer or in an error.
"""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache

HIDDEN = "***"
LEAST_KEY = 8
"""Shorter values of a key's variable are placeholders such as `none`, and may stand in any text."""
_LOOKS = re.compile(
    r"\b(?:sk|pk|rk|xai|gsk|glpat)-[A-Za-z0-9_-]{16,}"
    r"|\b(?:hf|ghp|gho|ghs|gsk)_[A-Za-z0-9]{20,}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|\bAIza[0-9A-Za-z_-]{30,}"
    r"|\b[Bb]earer\s{1,4}[A-Za-z0-9._~+/=-]{16,}"
)
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
"""Letters of no width, which an answer may hold anywhere."""
_UNSEEN = rf"(?:[{INVISIBLE}]|\\u(?:200[bcd]|2060|feff)){{0,8}}"
"""Some of them, as they are or in JSON."""
_VARIABLES = ("API_KEY", "_TOKEN", "_SECRET", "PASSWORD")
_GIVEN: set[str] = set()
"""Keys and passwords that came with an address."""


def hide(key: str) -> None:
    """Never let this key reach a record, a log or a page."""
    _GIVEN.add(key)


def scrub(text: str, *keys: str) -> str:
    """The text without these keys, those given or in the environment, and what looks like one."""
    for key in (*keys, *_GIVEN, *environment_keys()):
        if len(key) >= LEAST_KEY:
            text = _spelled(key).sub(HIDDEN, text)
    return _LOOKS.sub(_hidden, text)


@lru_cache
def _spelled(key: str) -> re.Pattern[str]:
    """A key as it may stand in text or in JSON, letters that nobody sees between its own."""
    letters = []
    for letter in key:
        spellings = {json.dumps(letter)[1:-1], letter}
        letters.append(f"(?:{'|'.join(map(re.escape, sorted(spellings)))})")
    return re.compile(_UNSEEN.join(letters))


def looks_like_key(text: str) -> bool:
    """Whether a text holds a key, or something that looks like one."""
    return scrub(text) != text


def environment_keys() -> tuple[str, ...]:
    """The values of this process's variables that are named as keys are."""
    found = []
    for name, value in os.environ.items():
        if name.upper().endswith(_VARIABLES) and len(value.strip()) >= LEAST_KEY:
            found.append(value.strip())
    return tuple(found)


def check_address(address: str) -> str:
    """Why an address may not be stored or printed; "" if it may."""
    place = address.partition("#")[0]
    if "@" in place or "?" in place or looks_like_key(address):
        return "carries a name, a key or a query"
    return ""


def model_fault(name: str) -> str:
    """Why the name of a model may not be stored or printed; "" if it may."""
    if "://" in name and (fault := check_address(name)):
        return f"is an address that {fault}"
    return "holds a key" if looks_like_key(name) else ""


def _hidden(found: re.Match[str]) -> str:
    """Keys have digits; long words with hyphens have none and stay."""
    text = found[0]
    return HIDDEN if any(letter.isdigit() for letter in text) else text
