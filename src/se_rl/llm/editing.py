"""Edits written by a language model: choices under a grammar, or search/replace blocks in Python.

Either way the answer is short and the rest of the parent stays as it is, so that a gain can be
blamed on something.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import isfinite

from se_rl.llm.backends import Request
from se_rl.llm.extraction import Extraction, extract
from se_rl.llm.generator import FREE_TEMPERATURE, FREE_TOKENS, Attempt, DesignGenerator
from se_rl.llm.prompts import Scored, build_edit_prompt
from se_rl.modules.edits import MOST_CHANGES, EditLanguage
from se_rl.modules.grammar import longest

SHORTEST_SHOWN = 80
"""Letters of a choice that a prompt shows."""
_SEARCH = re.compile(r"<{5,9} ?SEARCH *\n?")
_MIDDLE = re.compile(r"={5,9} *\n?")
_END = re.compile(r">{5,9} ?REPLACE *\n?")


@dataclass(frozen=True)
class TriedEdit:
    """An edit that was trained: what it changed, its gain over the parent in bps, and the error."""

    changes: str
    gain: float
    se: float = float("nan")

    def __str__(self) -> str:
        error = f" +- {self.se:.2f}" if isfinite(self.se) else ""
        return f"{self.gain:+.2f}{error}  {self.changes}"


class ChoiceEdits:
    """Lines `slot: text` under the grammar of a module's own choices, this many of them."""

    def __init__(self, source: str, code_type: str, *, changes: int) -> None:
        self._language = EditLanguage(source, code_type, changes=changes)
        self.grammar: str | None = self._language.lark_grammar
        self.most_tokens = longest(self._language.rules)

    @property
    def choices(self) -> list[tuple[str, str]]:
        """Every slot and what stands there, as a prompt shows it."""
        shown = []
        for slot in self._language.slots:
            text = " ".join(slot.tree.text().split()) or "nothing"
            shown.append((slot.name, text[:SHORTEST_SHOWN]))
        return shown

    def read(self, answer: str) -> Extraction:
        """The module after the answer's changes."""
        after = self._language.applied(answer)
        if after is None:
            return Extraction(None, "the answer is no edit; write lines `slot: text`")
        return Extraction(after)


class BlockEdits:
    """Search/replace blocks in free Python."""

    grammar: str | None = None
    most_tokens = FREE_TOKENS

    def __init__(self, source: str, code_type: str) -> None:
        self._source = source
        self._code_type = code_type

    def read(self, answer: str) -> Extraction:
        """The parent with every block replaced; a whole module counts as it stands."""
        blocks = blocks_of(answer.replace("\r\n", "\n"))
        if not blocks:
            whole = extract(answer, self._code_type)
            return whole if whole.source else Extraction(None, "no SEARCH/REPLACE block in it")
        if len(blocks) > MOST_CHANGES:
            return Extraction(None, f"{len(blocks)} blocks; change {MOST_CHANGES} places at most")
        source = self._source
        for place, (search, replacement) in enumerate(blocks, 1):
            count = source.count(search) if search else 0
            if count != 1:
                return Extraction(
                    None,
                    f"the SEARCH of block {place} occurs {count} times in the design; "
                    "repeat lines that occur once, exactly",
                )
            source = source.replace(search, replacement)
        if source == self._source:
            return Extraction(None, "the blocks change nothing; replace something")
        return Extraction(source)


def blocks_of(text: str) -> list[tuple[str, str]]:
    """What each complete block searches for and puts there, in one pass over the lines."""
    found: list[tuple[str, str]] = []
    search: list[str] | None = None
    replacement: list[str] | None = None
    for line in text.splitlines(keepends=True):
        if _SEARCH.fullmatch(line):
            search, replacement = [], None
        elif search is not None and replacement is None and _MIDDLE.fullmatch(line):
            replacement = []
        elif search is not None and replacement is not None and _END.fullmatch(line):
            found.append(("".join(search), "".join(replacement)))
            search = replacement = None
        elif replacement is not None:
            replacement.append(line)
        elif search is not None:
            search.append(line)
    return found


def write_edits(
    generator: DesignGenerator,
    code_type: str,
    parent: Scored,
    n: int,
    *,
    changes: int = 1,
    seed: int = 0,
    avoid: Collection[str] = (),
    macro: str | None = None,
    micro: str | None = None,
    tried: Sequence[TriedEdit] = (),
) -> list[Attempt]:
    """n edits of a parent's module, the failed ones included. Same seed, same edits.

    Under a grammar `changes` choices of it are made anew, else up to three blocks replaced. Edits
    that lead to a source in `avoid` are drawn again. `macro` and `micro` are instructions, `tried`
    what earlier edits gained.
    """
    form: ChoiceEdits | BlockEdits
    choices = None
    if generator.constrained:
        form = ChoiceEdits(parent.source, code_type, changes=changes)
        choices = form.choices
    else:
        form = BlockEdits(parent.source, code_type)
    messages = build_edit_prompt(
        code_type,
        choices=choices,
        changes=changes,
        parent=parent,
        macro=macro,
        micro=micro,
        tried=[str(one) for one in tried],
    )
    heat = 1.0 if generator.constrained else FREE_TEMPERATURE
    request = Request(messages, form.grammar, form.most_tokens, heat, seed)
    proposals = generator.distinct(request, n, [*avoid, parent.source], read=form.read)
    attempts = []
    for proposal in proposals:
        attempts.append(generator.judged(code_type, proposal, read=form.read))
    if len(attempts) < n:
        attempts += [Attempt(code_type, faults=(generator.silence(),))] * (n - len(attempts))
    return attempts
