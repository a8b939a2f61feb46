"""Prompts made from the contracts: instructions, contract, examples, earlier designs with scores.

The wording stands in `templates/*.txt`. A model sees numbers, module text and instructions, never
what was traded or when: instructions and strings lose whatever looks like a symbol or a date,
module text loses its comments and docstrings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from se_rl.modules.contracts import Contract
from se_rl.modules.kinds import KINDS
from se_rl.modules.static_check.reading import UNREADABLE, syntax_tree

Messages = list[dict[str, str]]
NO_ROOM = (
    "a grammar leaves no room for a chain of thought; set constrained or chain_of_thought to False"
)
HIDDEN = "***"
"""What stands for a symbol, a date or a time."""

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"(?<![\w.])(?:\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?:[T ]\d{1,2}:\d\d\S*)?"
    r"|\d{1,2}:\d\d(?::\d\d)?|(?:19|20)\d\d(?:[-/]\d\d)?"
    rf"|\d{{8}}|(?:\d{{1,2}} )?{_MONTH},? \d{{1,4}}(?:,? \d{{4}})?)(?!\w)",
    re.IGNORECASE,
)
_SYMBOL = re.compile(
    r"(?<![\w.])(?:(?:[A-Za-z]{2}\.?)?\d{5,6}(?:\.[A-Za-z]{2,4})?"
    r"|[A-Z][A-Z0-9]+(?:[.\-/&][A-Z]{1,4})?|[A-Z][.\-/&][A-Z]{1,4})(?!\w)"
)
_TERMS = "TWAP VWAP PPO GAE EMA OHLC CNN MLP GRU LSTM RNN GELU ELU KL PA NO NOT AND OR ALL ONE"


@dataclass(frozen=True)
class Scored:
    """A design that was tried: its source, its scores and what its writer was asked.

    The first score counts.
    """

    source: str
    scores: Mapping[str, float] = field(default_factory=dict)
    instruction: str = ""

    @property
    def rank(self) -> float:
        """The number it is ordered by; a failure comes last."""
        first = next(iter(self.scores.values()), -float("inf"))
        return first if isfinite(first) else -float("inf")


def anonymous(text: str) -> str:
    """The text on one line without symbols, dates and times; terms of the trade stay."""
    line = _DATE.sub(HIDDEN, " ".join(text.split()))
    return _SYMBOL.sub(_hidden, line)


def _hidden(found: re.Match[str]) -> str:
    word = found.group()
    return word if word in _public_words() else HIDDEN


def module_text(source: str, *, imports: bool = True) -> str:
    """A module's code without comments and docstrings, its strings anonymous.

    It is "" for what is not Python.
    """
    try:
        tree = syntax_tree(source)
        if not imports:
            tree.body = [node for node in tree.body if not _is_import(node)]
        for node in ast.walk(tree):
            _strip_docstring(node)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                node.value = anonymous(node.value)
        return ast.unparse(tree) + "\n"
    except UNREADABLE:
        return ""


def default_macro() -> str:
    """The instruction on the whole task that a search starts from."""
    return _read("macro")


def default_micro(code_type: str) -> str:
    """The instruction on one module that a search starts from."""
    contract = _contract(code_type)
    try:
        return _read(f"micro_{contract.code_type}")
    except FileNotFoundError:  # a kind without a wording of its own
        return contract.task


def build_prompt(
    code_type: str,
    *,
    macro: str | None = None,
    micro: str | None = None,
    parent: Scored | None = None,
    history: Sequence[Scored] = (),
    few_shot: bool = True,
    chain_of_thought: bool = False,
    constrained: bool = False,
) -> Messages:
    """The chat that asks for one module.

    `macro` and `micro` are instructions (None: the defaults); of `history` the best and the worst
    are shown, `few_shot` adds examples, `chain_of_thought` asks for reasons first. `constrained` is
    the short form for small models under a grammar, which cannot give reasons.
    """
    contract = _contract(code_type)
    if constrained and chain_of_thought:
        raise ValueError(NO_ROOM)
    examples = contract.examples if few_shot else ()
    if constrained:
        examples = examples[:1] if parent is None else ()
    words: dict[str, Any] = {
        "contract": contract,
        "macro": anonymous(macro) if macro is not None else default_macro(),
        "micro": anonymous(micro) if micro is not None else default_micro(code_type),
        "examples": [module_text(example, imports=not constrained) for example in examples],
        "history": [_told(item, constrained) for item in _ends(history, 2 if constrained else 6)],
        "parent": None if parent is None else _shown(parent, constrained),
        "chain_of_thought": chain_of_thought,
        "constrained": constrained,
    }
    user = "compact" if constrained else "free"
    return [
        {"role": "system", "content": _render("system", **words)},
        {"role": "user", "content": _render(user, **words)},
    ]


def build_edit_prompt(
    code_type: str,
    *,
    choices: Sequence[tuple[str, str]] | None,
    changes: int,
    parent: Scored,
    macro: str | None = None,
    micro: str | None = None,
    tried: Sequence[str] = (),
    chain_of_thought: bool = False,
) -> Messages:
    """The chat that asks for an edit of `parent`.

    With `choices` (slots and what stands there) the answer is lines under a grammar, without them
    search/replace blocks, after its reasons with `chain_of_thought`. `tried` tells what earlier
    edits gained.
    """
    contract = _contract(code_type)
    constrained = choices is not None
    if constrained and chain_of_thought:
        raise ValueError(NO_ROOM)
    words: Mapping[str, Any] = {
        "contract": contract,
        "macro": anonymous(macro) if macro is not None else default_macro(),
        "micro": anonymous(micro) if micro is not None else default_micro(code_type),
        "tried": tried,
        "scores": _numbers(parent.scores),
        "choices": choices,
        "count": ("one", "two", "three")[changes - 1],
        "source": parent.source,
        "chain_of_thought": chain_of_thought,
        "constrained": constrained,
    }
    return [
        {"role": "system", "content": words["macro"]},
        {"role": "user", "content": _render("edit" if constrained else "edit_free", **words)},
    ]


def repair_prompt(messages: Messages, answer: str, message: str) -> Messages:
    """The chat continued: the model's answer, and why its module was refused."""
    asked = {"role": "user", "content": _render("repair", message=message)}
    return [*messages, {"role": "assistant", "content": answer}, asked]


def _contract(code_type: str) -> Contract:
    if code_type not in KINDS:
        raise ValueError(f"there is no module {code_type!r}; use one of {', '.join(KINDS)}")
    return KINDS[code_type].contract


def _ends(history: Sequence[Scored], most: int) -> list[Scored]:
    """At most so many readable designs, half the worst and half the best, worst first."""
    readable = [item for item in history if module_text(item.source)]
    ordered = sorted(readable, key=lambda item: item.rank)
    if len(ordered) <= most:
        return ordered
    return ordered[: most // 2] + ordered[-(most - most // 2) :]


def _told(item: Scored, short: bool) -> dict[str, str]:
    """One earlier design as a prompt shows it: scores, instruction, digest."""
    text = module_text(item.source, imports=not short)
    digest = _cut(" ".join(text.split()), 120) if short else _cut(text, 900)
    asked = _cut(anonymous(item.instruction), 60 if short else 300)
    return {"scores": _numbers(item.scores), "instruction": asked, "digest": digest}


def _shown(parent: Scored, short: bool) -> dict[str, str]:
    """The design to start from as a prompt shows it; one that is not Python is refused."""
    text = module_text(parent.source, imports=not short)
    if not text:
        raise ValueError("the parent's source is not Python; give a design that was validated")
    return {"source": text, "scores": _numbers(parent.scores)}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 5] + " ...\n"


def _numbers(scores: Mapping[str, float]) -> str:
    shown: list[str] = []
    for name, score in scores.items():
        if isfinite(score):
            words = re.sub("[^a-z_ ]", "", anonymous(name).lower())
            shown.append(f"{words} {score:+.3g}")
    return ", ".join(shown) or "failed"


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _strip_docstring(node: ast.AST) -> None:
    if not isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
        return
    if ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or ([] if isinstance(node, ast.Module) else [ast.Pass()])


@lru_cache
def _public_words() -> frozenset[str]:
    """Words in capitals that are no secret: terms of the trade and those of the contracts."""
    told = [_TERMS]
    for kind in KINDS.values():
        contract = kind.contract
        told += [contract.task, *contract.rules, *contract.glossary, *contract.examples]
    return frozenset(match.group() for match in _SYMBOL.finditer(" ".join(told)))


@lru_cache
def _read(name: str) -> str:
    return (Path(__file__).parent / "templates" / f"{name}.txt").read_text().strip()


@lru_cache
def _template(name: str) -> Any:
    from jinja2 import Environment, StrictUndefined

    return Environment(undefined=StrictUndefined, autoescape=False).from_string(_read(name))


def _render(name: str, **words: Any) -> str:
    return _template(name).render(**words).strip()
