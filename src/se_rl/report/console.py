"""What all printed tables share: the console, the warning of synthetic data, and text that may be
hostile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from se_rl.report.numbers import DASH
from se_rl.sandbox.calls import printable

PIPED_WIDTH = 140
SYNTHETIC = " SYNTHETIC DATA: no market ever printed these prices "


def stdout_console(piped_width: int = PIPED_WIDTH) -> Console:
    """Standard output, as wide as the terminal, or of a fixed width when piped."""
    return Console(width=None if sys.stdout.isatty() else piped_width)


def warn_synthetic(console: Console, *, synthetic: bool) -> None:
    """Say loudly that the prices are made up, where they are."""
    if synthetic:
        console.print(Text(SYNTHETIC, style="black on yellow"))


def say(console: Console, text: Any, *, style: str = "") -> None:
    """One line of text that may be hostile; nothing where there is none."""
    if text:
        console.print(Text(printable(text, 2000), style=style), soft_wrap=True)


def heading(console: Console, text: str) -> None:
    """A line that begins something new."""
    console.print(Text(f"\n{printable(text)}", style="bold underline"))


def text_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, strong: str = "\0"
) -> Table:
    """A table of plain cells, numbers to the right; rows whose name begins with
    `strong` stand out.
    """
    table = Table(title=Text(printable(title)), title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", overflow="fold")
    for row in rows:
        cells = [Text(DASH if cell is None else printable(cell, 300)) for cell in row]
        table.add_row(*cells, style="bold" if str(row[0]).startswith(strong) else None)
    return table


def source(console: Console, text: str, language: str) -> None:
    """Source in colours, or as it is when piped; characters that cannot be printed are shown as
    such.
    """
    safe = "".join(map(_visible, text))
    if not console.is_terminal:
        print(safe, file=console.file)
        return
    theme = Syntax(safe, language, theme="ansi_dark", background_color="default", word_wrap=True)
    console.print(theme)


def _visible(character: str) -> str:
    is_fine = character.isprintable() or character in "\n\t"
    return character if is_fine else "\N{REPLACEMENT CHARACTER}"
