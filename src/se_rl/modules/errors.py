"""Why a module cannot be used, as one line that a language model can act on."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable

LINE_LENGTH = 400
"""The longest line of an error, in characters."""


class ModuleError(ValueError):
    """A module cannot be used; the message is one line that a language model can act on."""


class SourceRefused(Exception):
    """The static check refuses a source; the message is one line, with the place in the source."""

    def __init__(self, line: int | None, message: str) -> None:
        where = f"line {line}: " if line else ""
        super().__init__(" ".join(f"{where}{message}".split())[:LINE_LENGTH])


def need(fine: object, message: str) -> None:
    """Refuse the module with this line unless all is fine."""
    if not fine:
        raise ModuleError(message)


def one_line(error: BaseException, code_type: str) -> str:
    """An error of a module as one printable line: where in its source, what kind, what it said."""
    line = getattr(error, "lineno", None)
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == f"<{code_type}>":
            line = frame.lineno
    where = f"line {line}: " if line else ""
    said = "".join(c if c.isprintable() else " " for c in str(error))
    return " ".join(f"{where}{type(error).__name__}: {said}".split())[:LINE_LENGTH]


def instead(name: str, known: Iterable[str]) -> str:
    """The end of a message on an unknown name: the known names that look like it."""
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.75)
    return f"; perhaps {' or '.join(close)}" if close else "; use only what the contract names"
