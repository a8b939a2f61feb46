"""Edits written by a language model: choices under a grammar, or search/replace blocks in Python.

Either way the answer is short and the rest of the parent stays as it is, so that a gain can be
blamed on something.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

from se_rl.llm.backends import Request
from se_rl.llm.extraction import Extraction, extract
from se_rl.llm.generator import (
    FREE_TEMPERATURE,
    FREE_TOKENS,
    REASON_TOKENS,
    Attempt,
    DesignGenerator,
)
from se_rl.llm.prompts import Scored, build_edit_prompt
from se_rl.modules.edits import MOST_CHANGES, EditLanguage
from se_rl.modules.grammar import longest

SHOWN_EDITS = 8
"""Earlier edits that a prompt tells of."""
CHANGES = (0.5, 0.3, 0.2)
"""How often an edit makes one, two or three choices anew."""
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


@dataclass(frozen=True)
class EditTask:
    """What a model is asked when it edits a module: the one place where such prompts are made.

    `score` is the parent's over the default, in bps. Under a grammar `changes` choices are made
    anew. `macro` and `micro` are instructions (None: the defaults), `tried` what earlier edits of
    this module gained.
    """

    code_type: str
    source: str
    score: float = 0.0
    changes: int = 1
    macro: str | None = None
    micro: str | None = None
    tried: Sequence[TriedEdit] = ()

    @cached_property
    def choices(self) -> ChoiceEdits:
        """The form of an answer under a grammar."""
        return ChoiceEdits(self.source, self.code_type, changes=self.changes)

    def form(self, *, constrained: bool) -> ChoiceEdits | BlockEdits:
        """What reads the answer: choices under a grammar, or blocks in free Python."""
        return self.choices if constrained else BlockEdits(self.source, self.code_type)

    def request(self, *, constrained: bool, seed: int, chain_of_thought: bool = False) -> Request:
        """The prompt, with how it is to be answered."""
        messages = build_edit_prompt(
            self.code_type,
            choices=self.choices.choices if constrained else None,
            changes=self.changes,
            parent=Scored(self.source, {"score_bps": self.score}),
            macro=self.macro,
            micro=self.micro,
            tried=[str(one) for one in self.tried],
            chain_of_thought=chain_of_thought,
        )
        form = self.form(constrained=constrained)
        heat = 1.0 if constrained else FREE_TEMPERATURE
        most = form.most_tokens + REASON_TOKENS * chain_of_thought
        return Request(messages, form.grammar, most, heat, seed)


def shown_edits(tried: Sequence[TriedEdit]) -> list[TriedEdit]:
    """The edits that a prompt tells of: half of them the best, half the worst, worst first."""
    found = sorted(tried, key=lambda one: one.gain)
    half = SHOWN_EDITS // 2
    return found if len(found) <= SHOWN_EDITS else found[:half] + found[half - SHOWN_EDITS :]


def write_edits(
    generator: DesignGenerator,
    task: EditTask,
    n: int,
    *,
    seed: int = 0,
    avoid: Collection[str] = (),
) -> list[Attempt]:
    """n edits, the failed ones included. Same seed, same edits.

    Edits that lead to a source in `avoid` are drawn again.
    """
    form = task.form(constrained=generator.constrained)
    request = task.request(
        constrained=generator.constrained,
        seed=seed,
        chain_of_thought=generator.chain_of_thought,
    )
    proposals = generator.distinct(request, n, [*avoid, task.source], read=form.read)
    attempts = []
    for proposal in proposals:
        attempts.append(generator.judged(task.code_type, proposal, read=form.read))
    if len(attempts) < n:
        attempts += [Attempt(task.code_type, faults=(generator.silence(),))] * (n - len(attempts))
    return attempts
