"""What is being done now, and for how long."""

from __future__ import annotations

import time

from rich.text import Text

from se_rl.sandbox.calls import printable


class Stage:
    """A line that is made anew each time it is drawn: it never shows an old time."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self._since = time.monotonic()

    def begin(self, text: str) -> None:
        """Something else is being done from now on; the same text goes on."""
        if text != self.text:
            self.text = text
            self._since = time.monotonic()

    def __str__(self) -> str:
        if not self.text:
            return ""
        return f"{printable(self.text, 2000)} ({time.monotonic() - self._since:.0f} s)"

    def __rich__(self) -> Text:
        return Text(str(self))
