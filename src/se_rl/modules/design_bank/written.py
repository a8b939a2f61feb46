"""The bank's edits as a model would write them, and what they are worth: texts to learn from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from se_rl.modules.design_bank.storage import DesignBank
from se_rl.modules.design_bank.surrogate import Examples, Surrogate
from se_rl.modules.design_bank.words import design_words
from se_rl.modules.edits import changes_between, edit_text


class WrittenEdit(NamedTuple):
    """An edit of the default, or a whole module, as text; `worth` is its rank from -1 to 1."""

    text: str
    worth: float


def written_edits(bank: DesignBank, weights: Mapping[str, float]) -> list[WrittenEdit]:
    """Every version of a module in the bank once, by what it alone is expected to gain at the end.

    Modules that are edits of the default are told as the edit, others whole.
    """
    texts: dict[str, Mapping[str, str]] = {}
    for one in bank.designs:
        for module, source in one.design.sources.items():
            changes = changes_between(bank.head.default[module], source, module)
            is_edit = bool(changes) and all(change.slot != "module" for change in changes or ())
            text = edit_text(changes or ()) if is_edit else source
            texts.setdefault(text, {module: source})
    surrogate = Surrogate(Examples.of(bank), bank.default.words)
    words = []
    for sources in texts.values():
        words.append(design_words({**bank.head.default, **sources}, bank.head.modules))
    expected = surrogate.predict(words).score(weights)
    place = np.argsort(np.argsort(expected, kind="stable"), kind="stable")
    worth = 2.0 * place / max(1, len(place) - 1) - 1.0
    return [WrittenEdit(text, float(one)) for text, one in zip(texts, worth, strict=True)]
