"""The static stage: reads a module's source without running it, and says in one line what to write.

It is a quality filter with messages that a language model can act on. It is not the wall: that is
the locked process in which the source later runs. Whatever is not known to be needed is refused:
node types, imports, attributes of modules.
"""

from __future__ import annotations

from dataclasses import dataclass

from se_rl.modules.errors import SourceRefused
from se_rl.modules.kinds import KINDS
from se_rl.modules.static_check.entry import check_entry, check_top_level
from se_rl.modules.static_check.objects import ObjectRules
from se_rl.modules.static_check.reading import read_source
from se_rl.modules.static_check.walk import SourceWalk


@dataclass(frozen=True)
class Problem:
    """Why a module is refused: at which stage, and one line on where, what, and what instead."""

    stage: str
    message: str


def check_source(source: str | bytes, code_type: str) -> Problem | None:
    """What is wrong with a module's source, or None; nothing of it is run."""
    kind = KINDS[code_type]
    try:
        tree = read_source(source)
        walk = SourceWalk(tree, kind)
        check_top_level(tree)
        walk.visit(tree)
        ObjectRules(tree, walk.library_name).check()
        check_entry(tree, kind)
    except SourceRefused as refused:
        return Problem("static", str(refused))
    return None
