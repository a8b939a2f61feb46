"""Edits: a module changed in one to three of its choices.

A slot is a place in a module where its grammar has alternatives; an edit puts others there and
leaves the rest as it is. Edits are drawn without a model (`drawn_edit`), or written by one as lines
`slot: text` under a grammar of their own (`EditLanguage`). What two modules differ by is read from
their sources (`changes_between`), so that nothing about an edit needs to be stored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from se_rl.modules.derivation import Tree, derivation, parsed, spell, tree_of
from se_rl.modules.grammar import Rules, lark_text, parts
from se_rl.modules.kinds import KINDS
from se_rl.modules.kinds.kind import FAMILIES

MOST_CHANGES = 3
"""Changes in one edit, at most."""
NEAR = 0.7
"""How often a drawn number is one of the neighbours of the one that was there."""


_NUMBER = re.compile(r"(\s*\w+ = )?-?[\d.]+( \* )?\n?|")
"""A number, a setting of one, a factor, or nothing in the place of the default."""


class Slot(NamedTuple):
    """A choice of a module that can be made otherwise: its name there and its subtree."""

    name: str
    tree: Tree


class Change(NamedTuple):
    """One slot, what stood there, and what stands there now."""

    slot: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.slot}: {_shown(self.before)} -> {_shown(self.after)}"


def _shown(text: str) -> str:
    return " ".join(text.split()) or "nothing"


def slots_of(tree: Tree, code_type: str) -> list[Slot]:
    """The slots of a module, outermost first; a rule that occurs again is numbered."""
    rules = KINDS[code_type].all_rules
    found = []
    seen: dict[str, int] = {}
    for node in tree.walk():
        seen[node.rule] = seen.get(node.rule, 0) + 1
        if len(rules[node.rule]) > 1 and node.rule not in FAMILIES:
            again = seen[node.rule]
            found.append(Slot(node.rule if again == 1 else f"{node.rule}_{again}", node))
    return found


def drawn_edit(
    source: str, code_type: str, rng: np.random.Generator, *, changes: int = 1
) -> str | None:
    """A module with this many slots changed at random; None for one that the grammar has not.

    Of numbers a neighbour is the likely choice. What a new alternative needs is kept from the old
    one where that has it, and drawn where not.
    """
    tree = _tree(source, code_type)
    if tree is None:
        return None
    for _ in range(changes):
        slots = slots_of(tree, code_type)
        if not slots:
            return None
        slot = slots[int(rng.integers(len(slots)))]
        tree = tree.replaced(slot.tree, _drawn_other(slot.tree, code_type, rng))
    text = spell(tree.choices(), code_type)
    return None if text == source else text


def single_edits(source: str, code_type: str, rng: np.random.Generator) -> list[str]:
    """Every module one choice away, inner choices of new alternatives drawn: the designed scan.

    Of numbers the neighbours alone.
    """
    tree = _tree(source, code_type)
    if tree is None:
        return []
    found: dict[str, None] = {}
    for slot in slots_of(tree, code_type):
        for alternative in _others(slot.tree, code_type, near=True):
            new = _with_alternative(slot.tree, alternative, code_type, rng)
            found[spell(tree.replaced(slot.tree, new).choices(), code_type)] = None
    return list(found)


def changes_between(before: str, after: str, code_type: str) -> tuple[Change, ...] | None:
    """What was changed from one module to the other; None where one is outside of the grammar."""
    old, new = _tree(before, code_type), _tree(after, code_type)
    if old is None or new is None:
        return None
    if old.rule != new.rule:
        return (Change("module", old.rule, new.rule),)
    names = {id(slot.tree): slot.name for slot in slots_of(old, code_type)}
    return tuple(_differences(old, new, names))


def merged(base: str, one: str, other: str, code_type: str) -> str | None:
    """A module with the choices in which `one` or `other` differ from `base`.

    Where both do, the first one's stand. None where one is outside of the grammar, or of another
    family.
    """
    trees = [_tree(source, code_type) for source in (base, one, other)]
    if trees[0] is None or trees[1] is None or trees[2] is None:
        return None
    if len({tree.rule for tree in trees if tree is not None}) > 1:
        return None
    return spell(_merged(trees[0], trees[1], trees[2]).choices(), code_type)


def _merged(base: Tree, one: Tree, other: Tree) -> Tree:
    if one.alternative != base.alternative:
        return one
    if other.alternative != base.alternative:
        return other
    children = []
    for old, mine, theirs in zip(base.children, one.children, other.children, strict=True):
        children.append(_merged(old, mine, theirs))
    return Tree(base.rule, base.alternative, tuple(children), base.rules)


def _differences(old: Tree, new: Tree, names: dict[int, str]) -> list[Change]:
    if old.alternative != new.alternative:
        return [Change(names[id(old)], old.text(), new.text())]
    found = []
    for mine, theirs in zip(old.children, new.children, strict=True):
        found.extend(_differences(mine, theirs, names))
    return found


class EditLanguage:
    """How a model writes edits of one module: a line for each change, the slot's name and its text.

    A sentence has as many lines as there are `changes`. A slot's present alternative is not in the
    language, so every sentence changes something.
    """

    def __init__(self, source: str, code_type: str, *, changes: int = 1) -> None:
        tree = _tree(source, code_type)
        if tree is None:
            raise ValueError(f"this {code_type} is not in its grammar; it has no choices to edit")
        self.source = source
        self.code_type = code_type
        self.changes = changes
        self._tree = tree
        self.slots = slots_of(tree, code_type)

    @cached_property
    def rules(self) -> Rules:
        """Lines, each with a slot and another of its alternatives."""
        known = KINDS[self.code_type].all_rules
        rules: Rules = {
            "start": ("<one_change>" * self.changes,),
            "one_change": tuple(f"{slot.name}: <slot_{slot.name}>\n" for slot in self.slots),
        }
        for slot in self.slots:
            texts = known[slot.tree.rule]
            others = [text for place, text in enumerate(texts) if place != slot.tree.alternative]
            rules[f"slot_{slot.name}"] = tuple(text or "nothing" for text in others)
        for name, texts in known.items():
            if name not in FAMILIES:
                rules[name] = texts
        return rules

    @cached_property
    def lark_grammar(self) -> str:
        """The language as Lark text for constrained decoding."""
        return lark_text(self.rules)

    def applied(self, answer: str) -> str | None:
        """The module after the answer's changes; None for what is no sentence of the language.

        Of several changes of one slot, or inside of another one's, the first counts.
        """
        found = parsed(answer, self.rules, "start")
        if found is None:
            return None
        tree = self._tree
        known = KINDS[self.code_type].all_rules
        for change in tree_of(found, self.rules).children:
            slot = self.slots[change.alternative]
            wanted = change.children[0]
            place = wanted.alternative + (wanted.alternative >= slot.tree.alternative)
            new = Tree(slot.tree.rule, place, wanted.children, known)
            tree = tree.replaced(slot.tree, new)
        return spell(tree.choices(), self.code_type)

    def written(self, after: str) -> str | None:
        """The sentence that leads to another module; None where none does in as many changes."""
        old, new = self._tree, _tree(after, self.code_type)
        if new is None or new.rule != old.rule:
            return None
        names = {id(slot.tree): slot.name for slot in self.slots}
        changes = _differences(old, new, names)
        if len(changes) != self.changes:
            return None
        return edit_text(changes)


def edit_text(changes: Sequence[Change]) -> str:
    """Changes as a model writes them: a line for each, the slot's name and its new text."""
    return "".join(f"{one.slot}: {one.after or 'nothing'}\n" for one in changes)


def is_ordered(texts: Sequence[str]) -> bool:
    """Whether alternatives are numbers, which grammars list in their order."""
    return all(map(_NUMBER.fullmatch, texts))


def _tree(source: str, code_type: str) -> Tree | None:
    choices = derivation(source, code_type)
    return None if choices is None else tree_of(choices, KINDS[code_type].all_rules)


def _drawn_other(old: Tree, code_type: str, rng: np.random.Generator) -> Tree:
    near = _others(old, code_type, near=True)
    far = _others(old, code_type, near=False)
    pool = near if rng.random() < NEAR else far
    return _with_alternative(old, pool[int(rng.integers(len(pool)))], code_type, rng)


def _others(old: Tree, code_type: str, *, near: bool) -> list[int]:
    """Other alternatives of a slot; `near` leaves of numbers the two neighbours alone."""
    texts = KINDS[code_type].all_rules[old.rule]
    others = [place for place in range(len(texts)) if place != old.alternative]
    if near and is_ordered(texts):
        return [place for place in others if abs(place - old.alternative) == 1]
    return others


def _with_alternative(
    old: Tree, alternative: int, code_type: str, rng: np.random.Generator
) -> Tree:
    """The same slot with another alternative; inner choices of the old one are kept by rule."""
    rules = KINDS[code_type].all_rules
    spare = list(old.children)
    children = []
    for part in parts(rules[old.rule][alternative]):
        if not part.is_rule:
            continue
        kept = next((child for child in spare if child.rule == part.text), None)
        if kept is not None:
            spare.remove(kept)
        children.append(kept or _drawn_tree(part.text, rules, rng))
    return Tree(old.rule, alternative, tuple(children), rules)


def _drawn_tree(rule: str, rules: Rules, rng: np.random.Generator) -> Tree:
    alternative = int(rng.integers(len(rules[rule])))
    children = []
    for part in parts(rules[rule][alternative]):
        if part.is_rule:
            children.append(_drawn_tree(part.text, rules, rng))
    return Tree(rule, alternative, tuple(children), rules)
