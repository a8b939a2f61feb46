"""A design as words, one for each of its choices: what the surrogate reads.

A word has the module, the slot and the alternative's text. A number has a word for every step up to
it as well, so that neighbours share most of theirs. Slots are named by the rule around them, not by
their number in the module: a term means the same wherever it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from se_rl.modules.derivation import Tree, derivation, tree_of
from se_rl.modules.edits import is_ordered
from se_rl.modules.kinds import KINDS
from se_rl.modules.kinds.kind import FAMILIES


def design_words(sources: Mapping[str, str], modules: Sequence[str]) -> Counter[str]:
    """The words of a design's modules; those without a source are the default's.

    A module that the grammar does not have is one word: that it is free.
    """
    words: Counter[str] = Counter()
    for module in modules:
        words.update(module_words(sources.get(module) or KINDS[module].default_source, module))
    return words


@lru_cache(maxsize=65536)
def module_words(source: str, module: str) -> tuple[str, ...]:
    """The words of one module."""
    choices = derivation(source, module)
    if choices is None:
        return (f"{module}: free",)
    tree = tree_of(choices, KINDS[module].all_rules)
    return tuple(f"{module}.{word}" for word in _words(tree))


def _words(tree: Tree) -> Iterator[str]:
    if tree.rule in FAMILIES:
        yield f"family: {tree.rule}"
    seen: Counter[str] = Counter()
    for child in tree.children:
        seen[child.rule] += 1
        outer = "" if tree.rule in FAMILIES else f"{tree.rule}/"
        again = f" {seen[child.rule]}" if seen[child.rule] > 1 else ""
        yield from _choice_words(child, f"{outer}{child.rule}{again}")
        yield from _words(child)


def _choice_words(tree: Tree, slot: str) -> Iterator[str]:
    """The alternative that a slot has, and of numbers every step up to it."""
    texts = tree.rules[tree.rule]
    if len(texts) < 2:
        return
    yield f"{slot}: {_shown(texts[tree.alternative])}"
    if is_ordered(texts):
        for text in texts[: tree.alternative]:
            yield f"{slot} above {_shown(text)}"


def _shown(text: str) -> str:
    return " ".join(text.split()) or "nothing"
