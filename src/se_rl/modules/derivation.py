"""A design as choices: which alternative of which rule, read from its source and spelled again.

`derivation` and `spell` are inverses on every module that a kind's grammar has, be it drawn or a
relative of the default. Later edits change choices instead of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from se_rl.modules.grammar import Part, Parts, Rules, parts
from se_rl.modules.kinds import KINDS
from se_rl.modules.kinds.kind import FAMILIES


class Choice(NamedTuple):
    """One alternative of one rule, by its place among the rule's alternatives."""

    rule: str
    alternative: int


Choices = tuple[Choice, ...]


@dataclass(frozen=True, eq=False)
class Tree:
    """Choices as a tree: an alternative of a rule, and below it those of the rules in its text."""

    rule: str
    alternative: int
    children: tuple[Tree, ...]
    rules: Rules = field(repr=False)

    def walk(self) -> Iterator[Tree]:
        """This one and all below, outermost first and left to right."""
        yield self
        for child in self.children:
            yield from child.walk()

    def choices(self) -> list[Choice]:
        """As a list, in the order of `derivation`."""
        return [Choice(node.rule, node.alternative) for node in self.walk()]

    def text(self) -> str:
        """What it spells."""
        below = iter(self.children)
        texts = []
        for part in parts(self.rules[self.rule][self.alternative]):
            texts.append(next(below).text() if part.is_rule else part.text)
        return "".join(texts)

    def replaced(self, old: Tree, new: Tree) -> Tree:
        """The tree with `new` where `old` stands; as it is where `old` does not stand in it."""
        if self is old:
            return new
        children = tuple(child.replaced(old, new) for child in self.children)
        same = all(mine is theirs for mine, theirs in zip(children, self.children, strict=True))
        return self if same else replace(self, children=children)


def derivation(source: str, code_type: str) -> list[Choice] | None:
    """The choices that spell a module, outermost first and left to right; None for a module that
    the grammar does not have.

    Where several derivations spell one text (of three optional terms, any one may be the one that
    is there), the first slots are filled.
    """
    for family in FAMILIES:
        found = parsed(source, KINDS[code_type].all_rules, family)
        if found is not None:
            return found
    return None


def parsed(source: str, rules: Rules, start: str) -> list[Choice] | None:
    """The choices that spell a text from one rule; None where no choices do."""
    found = _Parser(rules, source).ends(start, 0).get(len(source))
    return None if found is None else list(found)


def tree_of(choices: Sequence[Choice], rules: Rules) -> Tree:
    """The tree of a derivation."""
    left = iter(choices)

    def grow() -> Tree:
        rule, alternative = next(left)
        inner = [part for part in parts(rules[rule][alternative]) if part.is_rule]
        return Tree(rule, alternative, tuple(grow() for _ in inner), rules)

    return grow()


def spell(choices: Sequence[Choice], code_type: str) -> str:
    """The module that these choices spell; ValueError where they are no derivation."""
    if not choices or choices[0].rule not in FAMILIES:
        raise ValueError(f"a derivation begins with one of {', '.join(FAMILIES)}")
    left = iter(choices)
    text = _spelled(Part(choices[0].rule, is_rule=True), left, rules=KINDS[code_type].all_rules)
    if (extra := next(left, None)) is not None:
        raise ValueError(f"the module is complete before the choice of {extra.rule}; leave it out")
    return text


def _spelled(part: Part, left: Iterator[Choice], *, rules: Rules) -> str:
    if not part.is_rule:
        return part.text
    choice = next(left, None)
    if choice is None or choice.rule != part.text:
        seen = "nothing" if choice is None else choice.rule
        raise ValueError(f"the choices give {seen} where the rule {part.text} stands")
    texts = rules[choice.rule]
    if not 0 <= choice.alternative < len(texts):
        raise ValueError(
            f"the rule {choice.rule} has {len(texts)} alternatives, no number {choice.alternative}"
        )
    inner = parts(texts[choice.alternative])
    return "".join(_spelled(piece, left, rules=rules) for piece in inner)


class _Parser:
    """All ways through one text. Each rule is tried once at each place; rules are not recursive."""

    def __init__(self, rules: Rules, source: str) -> None:
        self._rules = rules
        self._source = source
        self._known: dict[tuple[str, int], dict[int, Choices]] = {}

    def ends(self, rule: str, place: int) -> dict[int, Choices]:
        """Where a rule that begins at this place can end, with the choices that lead there."""
        if (rule, place) in self._known:
            return self._known[rule, place]
        found: dict[int, Choices] = {}
        texts = self._rules[rule]
        # an alternative that takes no text comes last, so that slots fill from the first
        for number in sorted(range(len(texts)), key=lambda number: not texts[number]):
            for end, inner in self._through(parts(texts[number]), place).items():
                found.setdefault(end, (Choice(rule, number), *inner))
        self._known[rule, place] = found
        return found

    def _through(self, pieces: Parts, place: int) -> dict[int, Choices]:
        """Where a sequence of parts that begins at this place can end."""
        frontier: dict[int, Choices] = {place: ()}
        for part in pieces:
            reached: dict[int, Choices] = {}
            for start, chosen in frontier.items():
                for end, inner in self._over(part, start).items():
                    reached.setdefault(end, chosen + inner)
            if not reached:
                return {}
            frontier = reached
        return frontier

    def _over(self, part: Part, place: int) -> dict[int, Choices]:
        if part.is_rule:
            return self.ends(part.text, place)
        if self._source.startswith(part.text, place):
            return {place + len(part.text): ()}
        return {}
