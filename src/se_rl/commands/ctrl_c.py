"""Ctrl-C that cannot get lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any, Self


class CtrlC:
    """While it is entered: Ctrl-C interrupts at once, and where that was swallowed, at the next
    `heeding` call.

    Python drops an exception that falls into a finaliser or into a callback of foreign code; in
    hours of trainings it does.
    """

    def __init__(self) -> None:
        self._pressed = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if (
            threading.current_thread() is threading.main_thread()
        ):  # no other may set a handler, or hears the signal
            self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def heeding(self, call: Callable[..., None]) -> Callable[..., None]:
        """The same function, which interrupts where Ctrl-C was pressed before."""

        def heeds(*words: Any, **named: Any) -> None:
            if self._pressed:
                raise KeyboardInterrupt
            call(*words, **named)

        return heeds

    def _press(self, *_: object) -> None:
        self._pressed = True
        raise KeyboardInterrupt
