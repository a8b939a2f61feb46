"""What an instruction may say, and how its text changes.

There are grammars of advice, edits by sentence, and requests that ask a model for better advice.
The grammars are for models that cannot write freely: two or three complete sentences in the words
of a contract, which stand in `templates/reflect_advice.txt`. Numbers are those of the module's own
grammar, so whatever is advised can be written. A model chooses which advice to give, and the scores
of what follows it decide whether it helped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, nan
from pathlib import Path

import numpy as np

from se_rl.llm.backends import Request
from se_rl.llm.prompts import Scored, anonymous, default_macro, module_text
from se_rl.market.profile import PROFILE_RANGES, MarketProfile
from se_rl.modules.grammar import Rules, draw, lark_text, longest
from se_rl.modules.kinds import KINDS as MODULE_KINDS

MACRO = "macro"
KINDS: tuple[str, ...] = (MACRO, *MODULE_KINDS)
"""What an instruction can be about: "macro" for the whole task, or one module."""
MOST_WORDS = 60
"""An instruction's length, without the sentence on the task that opens every macro instruction."""
MOST_LETTERS = 8_000
"""Of an answer that is read as advice: many times what is asked for."""
FREE_TOKENS, FREE_HEAT = 400, 0.8
"""How long and how freely advice without a grammar is written."""
SHARPER = "Above all, "
"""How a sentence begins that was put first."""

_RULE = re.compile(r"<(\w+)>")
_CODE = re.compile(
    r"```|~~~|^\s*(?:def \w+\(|class \w+[(:]|import \w|from [\w.]+ import |return [\w.]+[.(*]"
    r"|[\w.]+ = |[\w.]+\([^)]*\)\s*$)",
    re.MULTILINE,
)
_ITEM = re.compile(r"^\s*(?:[-*#>\u2022]+|\d+[.)])\s+", re.MULTILINE)
_MARKS = re.compile(r"<\|.*?\|>|\*\*|`")


def template(name: str) -> str:
    """The wording under this name."""
    return (Path(__file__).parent / "templates" / f"{name}.txt").read_text().strip()


def _worded() -> dict[str, Rules]:
    """The rules in the file of advice: `name = text | text` under each [kind].

    More lines of one name add to it.
    """
    found: dict[str, Rules] = {}
    for line in filter(None, template("reflect_advice").splitlines()):
        if line.startswith("["):
            rules = found.setdefault(line.strip("[]"), {})
            continue
        name, _, texts = line.partition(" = ")
        rules[name] = (*rules.get(name, ()), *texts.split(" | "))
    return found


def _profiling() -> Rules:
    """One number of each third of the profile, moved away from its default."""
    usual, values = MarketProfile(), MODULE_KINDS["profiling"].rules
    thirds = np.array_split(list(PROFILE_RANGES), 3)
    rules: Rules = {}
    for topic, names in zip(("first", "second", "third"), thirds, strict=True):
        rules[topic] = tuple(f"Set {name} to <{name}>." for name in names)
    for name in PROFILE_RANGES:
        default = getattr(usual, name)
        rules[name] = tuple(value for value in values[name] if float(value) != default)
    return rules


def _complete(kind: str, rules: Rules) -> Rules:
    """Rules that take two or three sentences, at most one of a topic.

    Values that no line of the file words are the module's own.
    """
    start = "<first> <second>", "<first> <third>", "<second> <third>", "<first> <second> <third>"
    found: Rules = {"start": start} | rules
    for texts in rules.values():
        for name in _RULE.findall(" ".join(texts)):
            if name not in found:
                found[name] = MODULE_KINDS[kind].rules[name]
    return found


_WORDED = {**_worded(), "profiling": _profiling()}
ADVICE: dict[str, Rules] = {
    kind: _complete(kind, _WORDED.get(kind, _WORDED[MACRO])) for kind in KINDS
}
"""The rules of advice of each kind, written as the modules' grammars are."""


def instruction_grammar(kind: str) -> str:
    """Advice of this kind ("macro" or a code_type) as Lark text."""
    return lark_text(ADVICE[kind])


def random_advice(kind: str, rng: np.random.Generator) -> str:
    """Advice drawn without a model: at every choice all alternatives are equally likely."""
    return draw(ADVICE[kind], rng)


ADVICE_BYTES: dict[str, int] = {kind: longest(rules) for kind, rules in ADVICE.items()}
"""The longest advice of each kind; as a cap on new tokens it cuts no tokeniser's sample."""


def normalised(text: str) -> str:
    """Equal for texts that differ only in case, blanks and punctuation."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def mutated(kind: str, text: str, *, rng: np.random.Generator) -> str:
    """The text with one sentence dropped, put first and sharpened, or replaced from the grammar.

    A text of one sentence gains one where another would lose it.
    """
    parts = _body(kind, text)
    fresh = _sentences(random_advice(kind, rng))[0]
    edit, place = int(rng.integers(3)), int(rng.integers(max(1, len(parts))))
    before, after = parts[:place], parts[place + 1 :]
    chosen = parts[place : place + 1]
    if edit == 0:
        return _composed(kind, before + after or [*chosen, fresh])
    if edit == 1 and chosen:
        return _composed(kind, [_sharpened(chosen[0]), *before, *after])
    return _composed(kind, [*before, fresh, *after])


def crossed(kind: str, texts: Sequence[str], *, rng: np.random.Generator) -> str:
    """Sentences of two or more texts, each kept with chance one half; "" for a lone text.

    At least one of every text is kept.
    """
    kept: list[str] = []
    for text in texts:
        parts = _body(kind, text)
        kept += [part for part in parts if rng.random() < 0.5] or parts[:1]
    return _composed(kind, kept) if len(texts) > 1 else ""


@dataclass(frozen=True)
class Tried:
    """A module that was tried: its score (bps over TWAP) and gain over its parent.

    `reason` says why there is none. `seeds` is how many trainings the score is the mean of.
    """

    candidate: str
    code_type: str
    source: str
    score: float = nan
    gain: float = nan
    instruction_text: str = ""
    reason: str = ""
    seeds: int = 1

    @property
    def ok(self) -> bool:
        """Whether there is a score."""
        return isfinite(self.score) and not self.reason

    def outcome(self, most: int) -> str:
        """One line on it: what it gained or why it failed, and `most` characters of its code."""
        number = f"{self.gain:+.2f}" if isfinite(self.gain) else f"scored {self.score:+.2f}"
        verdict = number if self.ok else f"failed, {anonymous(self.reason)[:most]}"
        code = " ".join(module_text(self.source, imports=False).split())
        return f"{verdict}: {code[:most]}"

    def lesson(self) -> Scored:
        """The same for the next prompt; a failure adds its reason to the instruction."""
        if self.ok:
            return Scored(self.source, {"score_bps": self.score}, self.instruction_text)
        asked = f"{self.instruction_text[:120]} Failed: {self.reason}".strip()
        return Scored(self.source, {}, asked)


def reflection(
    kind: str,
    advice: str,
    *,
    modules: Sequence[str],
    tried: Sequence[Tried],
    seed: int,
    constrained: bool,
) -> Request:
    """Asks a model for better advice, from the best so far and from what it brought.

    `constrained` has it answer under the grammar.
    """
    prompt = template("reflect_compact" if constrained else "reflect_free").format(
        task=" ".join(MODULE_KINDS[name].contract.task for name in modules),
        instruction=advice,
        tried="\n".join(one.outcome(120 if constrained else 600) for one in tried),
        words=MOST_WORDS,
    )
    if constrained:
        return Request(prompt, instruction_grammar(kind), ADVICE_BYTES[kind], 1.0, seed)
    return Request(prompt, None, FREE_TOKENS, FREE_HEAT, seed)


def cleaned(kind: str, answer: str) -> str:
    """A model's answer as the text of an instruction, without thoughts, marks, symbols and dates.

    It is "" if that leaves nothing or the answer is code.
    """
    told = answer.rpartition("</think>")[2].partition("<think>")[0].strip()[:MOST_LETTERS]
    # blank lines in their thousands would be tried again from each of them
    told = "\n".join(line.strip() for line in told.splitlines() if line.strip())
    if _CODE.search(told):
        return ""
    told = "".join(sign for sign in _MARKS.sub("", told) if sign.isprintable() or sign.isspace())
    if len(re.findall(r"[a-z]{2,}", told.lower())) < 3:
        return ""
    parts: list[str] = []
    for item in _ITEM.split(told):
        parts += _sentences(item)
    return _composed(kind, parts)


def _sentences(text: str) -> list[str]:
    found = re.split(r"(?<=[.!?])\s+(?=[^a-z\s])", " ".join(text.split()))
    return [part if part[-1] in ".!?" else f"{part}." for part in found if part]


@lru_cache
def _opening(kind: str) -> tuple[str, ...]:
    """The sentence on the task, which opens every macro instruction and never changes."""
    return tuple(_sentences(default_macro())[:1]) if kind == MACRO else ()


def _body(kind: str, text: str) -> list[str]:
    return [part for part in _sentences(text) if part not in _opening(kind)]


def _sharpened(sentence: str) -> str:
    plain = sentence.removeprefix(SHARPER)
    if not plain[1:2].isupper():  # terms such as TWAP stay
        plain = plain[0].lower() + plain[1:]
    return SHARPER + plain


def _composed(kind: str, parts: list[str]) -> str:
    """Sentences as an instruction, up to its length limit.

    Of those that begin alike, and may contradict each other, the first stays.
    """
    by_opening: dict[str, str] = {}
    for part in parts:
        words = re.findall(r"\w+", part.lower().removeprefix(SHARPER.lower()))
        by_opening.setdefault(" ".join(words[:3]), part)
    kept: list[str] = []
    for part in by_opening.values():
        if part in _opening(kind):
            continue
        words_left = MOST_WORDS - len(" ".join(kept).split())
        words = part.split()
        if len(words) <= words_left:
            kept.append(part)
        elif not kept:
            kept.append(" ".join(words[:words_left]).rstrip(".,;:") + ".")
    return anonymous(" ".join([*_opening(kind), *kept])) if kept else ""
