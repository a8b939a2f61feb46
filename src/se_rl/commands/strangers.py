"""Commands on what somebody else made: a record that cannot be used is one line, never a traceback."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from se_rl.config import ConfigError

READING = ("show", "report", "serve", "compare", "replay", "score", "evaluate", "suite")
"""Verbs that begin with the folder or the policy file of a run."""
TRACEBACK = "SE_RL_TRACEBACK"
"""The environment variable that shows where in the code a record was refused."""
_UNUSABLE = (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RecursionError)
_OWN = ("ConfigError", "DataError")


@contextmanager
def one_line_errors(options: argparse.Namespace) -> Iterator[None]:
    """Say in one line what a hostile or damaged record did to a command that reads it."""
    if options.verb not in READING or os.environ.get(TRACEBACK):
        yield
        return
    try:
        yield
    except BrokenPipeError:
        raise
    except (*_UNUSABLE, TypeError, ValueError) as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if kinds & set(_OWN):
            raise
        what = f"{type(error).__name__}: {error}"[:200]
        raise ConfigError(
            f"{_place(options)} holds what this se-rl cannot use ({what}); restore it from a copy, "
            f"or set {TRACEBACK}=1 to see where it stopped"
        ) from error


def write_page(page: Path, text: str) -> None:
    """Write a page; where that is not possible, say where else it can go."""
    from se_rl.records.files import write_text

    try:
        write_text(page, text)
    except OSError as error:
        raise ConfigError(
            f"{page} cannot be written: {error.strerror}; give another place by --out PAGE"
        ) from None


def _place(options: argparse.Namespace) -> str:
    given = vars(options)
    if several := given.get("folders") or given.get("designs"):
        return ", ".join(map(str, several))
    return str(given.get("folder") or given.get("policy"))
